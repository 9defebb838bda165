"""The case: one question in full, the same object for the page, the command line and Python."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, field_serializer, model_validator

from advisor.errors import refusal
from advisor.foundation.names import HubId, Name, PathOrContent
from advisor.foundation.noun import Noun
from advisor.nouns.host import Host
from advisor.nouns.inputs import Declared, Input, asked, declared
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.money import Owning, Renting
from advisor.nouns.workload import Workload


def _shape(told: str, flag: str, label: str) -> Input:
    return Input(told, flag, label, advanced=False, blank="Assumed")


MAX_LAYERS: Final = 10_000
MAX_HIDDEN: Final = 1_000_000
MAX_INTERMEDIATE: Final = 10_000_000
"""Far beyond every published model, and near enough that each question stays small."""


class AssumedShape(Noun):
    """Fields of the shape that a parameter count does not tell; None leaves them assumed."""

    like: Annotated[Name, Field(min_length=1, max_length=40)] | None = asked(
        "published model whose shape is scaled: llama-3.1-8b; the nearest by size",
        "--shape-like",
        label="Scaled from",
        advanced=False,
        blank="The nearest by size",
    )
    num_hidden_layers: Annotated[
        Annotated[int, Field(ge=1, le=MAX_LAYERS)] | None, _shape("layers", "--layers", "Layers")
    ] = None
    hidden_size: Annotated[
        Annotated[int, Field(ge=8, le=MAX_HIDDEN, multiple_of=8)] | None,
        _shape("width between layers", "--hidden-size", "Hidden size"),
    ] = None
    num_attention_heads: Annotated[
        Annotated[int, Field(ge=1, le=65_536)] | None, _shape("attention heads", "--heads", "Heads")
    ] = None
    num_key_value_heads: Annotated[
        Annotated[int, Field(ge=1, le=65_536)] | None,
        _shape("heads of keys and values", "--kv-heads", "Key-value heads"),
    ] = None
    intermediate_size: Annotated[
        Annotated[int, Field(ge=1, le=MAX_INTERMEDIATE)] | None,
        _shape("feed-forward width", "--intermediate-size", "Feed-forward width"),
    ] = None
    vocab_size: Annotated[
        Annotated[int, Field(ge=1, le=100_000_000)] | None,
        _shape("entries of the vocabulary", "--vocabulary-size", "Vocabulary"),
    ] = None


ALLOWED: Final = {
    ("limits", True): "max_tpot_ms, max_ttft_ms or budget_usd",
    ("limits", False): "deadline_hours or budget_usd",
    ("layout", True): "data (replicas), tensor, pipeline, expert, gpu_layers, cpu_expert_layers",
    ("layout", False): "the degrees and what is kept; gpu_layers and cpu_expert_layers are served",
    ("host", False): "pcie_lanes; training states what it offloads by layout.offload",
}
"""What a section offers serving, or training."""
SOURCES: Final = ("preset", "config", "hub", "parameters", "stack")


class ModelSource(Noun):
    """Where the model's shape comes from, exactly one of five fields; and changes to it."""

    preset: Name | None = None
    config: PathOrContent | dict[str, Any] | None = None
    """Path of a ``config.json``, its text or its parsed content; or the path of a ``.safetensors``
    or ``.gguf`` file, of which the header is read."""
    hub: HubId | None = None
    parameters: Annotated[float, Field(ge=1e6, le=1e14, allow_inf_nan=False)] | None = asked(
        "number of parameters, by --model: 7B", flag="", label="Parameters", advanced=False
    )
    stack: PathOrContent | dict[str, Any] | None = None
    """A network of one's own, as layers: path of a YAML file, its text or its content."""
    shape: AssumedShape | None = None
    """Beside ``parameters``: what is known of the shape."""
    pruning: Annotated[float, Field(ge=0, le=0.9, allow_inf_nan=False)] | None = asked(
        "share of heads and inner widths that structured pruning removed: 0.3", metavar="SHARE"
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> ModelSource:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"model needs exactly one of {', '.join(SOURCES)}; got {', '.join(given) or 'none'}"
            )
        if self.shape is not None and self.parameters is None:
            raise ValueError(f"model.shape applies to parameters; {given[0]} tells the whole shape")
        return self


class Hardware(Noun):
    """The configuration to estimate; ``recommend`` searches instead.

    A layout without a count implies one: the product of its degrees.
    """

    accelerator: Annotated[
        Name,
        Input(
            "e.g. h100-sxm; unlike cards of one computer: rtx-3090+rtx-3060-12gb",
            "--accelerator",
            "GPU",
            metavar="KEY",
        ),
    ]
    count: Annotated[int, Field(ge=1, le=16384)] = asked(
        "how many; by default 1, to own or export as many as the work takes",
        label="How many",
        default=1,
    )


def _given(section: object) -> dict[str, Any]:
    """Return what was given of a section, as a mapping or a noun; empty where it is neither."""
    if isinstance(section, Noun):
        return section.model_dump(exclude_unset=True)
    return dict(section) if isinstance(section, Mapping) else {}


class Case(Noun):
    """A model, what to do with it, on what, and within which limits."""

    model: ModelSource
    workload: Workload
    hardware: Hardware | None = None
    layout: ParallelLayout | None = None
    """Its stated fields are kept; the search chooses the others."""
    limits: Constraints = Constraints.model_construct()
    objective: Objective = asked(
        "what the first plan is", label="Show first", metavar="WHAT", default=Objective.CHEAPEST
    )
    host: Host = Host.model_construct()
    owning: Owning = Owning.model_construct()
    renting: Renting = Renting.model_construct()

    @field_serializer("layout")
    def _stated_alone(self, layout: ParallelLayout | None) -> dict[str, Any] | None:
        """Write only stated fields: the search chooses the others again when the case is read."""
        return None if layout is None else layout.model_dump(exclude_unset=True)

    @model_validator(mode="before")
    @classmethod
    def _degrees_complete(cls, content: Any) -> Any:
        """Give the count the value that the degrees imply."""
        if not isinstance(content, Mapping):
            return content
        hardware, layout = _given(content.get("hardware")), _given(content.get("layout"))
        if not hardware or not layout or hardware.get("count") is not None:
            return content
        degrees = [layout.get(name, 1) for name in ("data", "tensor", "pipeline", "context")]
        if not all(isinstance(degree, int) and degree > 0 for degree in degrees):
            return content  # the fields' own checks report it
        spares = _given(content.get("workload")).get("spare_replicas") or 0
        data, expert = degrees[0], layout.get("expert", 1)
        if isinstance(spares, int | float) and isinstance(expert, int) and expert > 0:
            degrees[0] = data + int(spares) * expert
        return {**content, "hardware": {**hardware, "count": math.prod(degrees)}}

    @model_validator(mode="after")
    def _percentile_of_arrivals(self) -> Case:
        """Refuse a percentile of requests whose arrivals are unknown."""
        rates = ("requests_per_s", "demand", "audio_hours")
        known = (getattr(self.workload, name, None) for name in rates)
        rate = next((one for one in known if one is not None), None)
        if self.limits.at != "mean" and self.workload.kind == "serving" and rate is None:
            raise refusal("percentile_without_rate", value=self.limits.at)
        return self

    @model_validator(mode="after")
    def _limits_and_layout_apply(self) -> Case:
        """Refuse limits and ways of arranging that the kind of work does not have."""
        kind = self.workload.kind
        for item in case_inputs().values():
            section, _, name = item.path.partition(".")
            noun = {"limits": self.limits, "layout": self.layout, "host": self.host}.get(section)
            if noun is None or any(task.workload["kind"] == kind for task in item.tasks):
                continue
            if (value := getattr(noun, name)) == item.default:
                continue
            raise refusal(
                "field_does_not_apply",
                value=value,
                allowed=ALLOWED[section, kind == "serving"],
                field=item.path,
                kind=kind,
            )
        return self


@functools.cache
def case_inputs() -> Mapping[str, Declared]:
    """Return every field of a case by its path, with what its noun declares."""
    return declared(Case)
