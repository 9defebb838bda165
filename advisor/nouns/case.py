"""The case: one question in full, the same object for the page, the command line and Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from advisor.errors import InputError
from advisor.foundation.names import HubId, Name
from advisor.foundation.noun import Noun
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.money import Owning, Renting
from advisor.nouns.workload import Serving, Workload

MAX_LAYERS: Final = 10_000
MAX_HIDDEN: Final = 1_000_000
MAX_INTERMEDIATE: Final = 10_000_000
"""Far beyond every published model, and near enough that each question stays small."""


class AssumedShape(Noun):
    """Fields of the shape that a parameter count does not tell; None leaves them assumed."""

    like: Annotated[Name, Field(min_length=1, max_length=40)] | None = None
    """Published model whose shape is scaled, e.g. ``Llama 3.1 8B``; the nearest by size."""
    num_hidden_layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)] | None = None
    hidden_size: Annotated[int, Field(ge=8, le=MAX_HIDDEN, multiple_of=8)] | None = None
    num_attention_heads: Annotated[int, Field(ge=1, le=65_536)] | None = None
    num_key_value_heads: Annotated[int, Field(ge=1, le=65_536)] | None = None
    intermediate_size: Annotated[int, Field(ge=1, le=MAX_INTERMEDIATE)] | None = None
    vocab_size: Annotated[int, Field(ge=1, le=100_000_000)] | None = None


TRAINING_LAYOUT: Final = ("context", "sharding", "micro_batch", "recompute", "offload")
"""Fields of a layout that only training has."""
SOURCES: Final = ("preset", "config", "hub", "parameters", "stack")


class ModelSource(Noun):
    """Where the model's shape comes from, exactly one of five fields; and changes to it."""

    preset: Name | None = None
    config: str | dict[str, Any] | None = None
    """Path of a ``config.json``, its text or its parsed content; or the path of a ``.safetensors``
    or ``.gguf`` file, of which the header is read."""
    hub: HubId | None = None
    parameters: Annotated[float, Field(ge=1e6, le=1e14, allow_inf_nan=False)] | None = None
    stack: str | dict[str, Any] | None = None
    """A network of one's own, as layers: path of a YAML file, its text or its content."""
    shape: AssumedShape | None = None
    """Beside ``parameters``: what is known of the shape."""
    pruning: Annotated[float, Field(ge=0, le=0.9, allow_inf_nan=False)] | None = None
    """Share of heads and of inner widths that structured pruning removed."""

    @model_validator(mode="after")
    def _exactly_one(self) -> ModelSource:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            msg = (
                f"model needs exactly one of {', '.join(SOURCES)}; got {', '.join(given) or 'none'}"
            )
            raise ValueError(msg)
        if self.shape is not None and self.parameters is None:
            msg = f"model.shape applies to parameters; {given[0]} tells the whole shape"
            raise ValueError(msg)
        return self


class Hardware(Noun):
    """The configuration to estimate; ``recommend`` searches instead.

    Where a layout is given, count and ``layout.data`` complete each other.
    """

    accelerator: Name
    count: Annotated[int, Field(ge=1, le=16384)] = 1


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
    limits: Constraints = Constraints()
    objective: Objective = Objective.CHEAPEST
    owning: Owning = Owning()
    """What buying is assumed to cost."""
    renting: Renting = Renting()
    """What renting is assumed to cost beside list prices."""

    @model_validator(mode="before")
    @classmethod
    def _degrees_complete(cls, content: Any) -> Any:
        """Give data-parallel degree or count the value that the other degrees imply."""
        if not isinstance(content, Mapping):
            return content
        hardware, layout = _given(content.get("hardware")), _given(content.get("layout"))
        if not hardware or not layout:
            return content
        degrees = [layout.get(name, 1) for name in ("tensor", "pipeline", "context")]
        if not all(isinstance(degree, int) and degree > 0 for degree in degrees):
            return content  # told by the fields' own checks
        others, count, data = math.prod(degrees), hardware.get("count"), layout.get("data")
        if data is None and isinstance(count, int) and count % others == 0:
            return {**content, "layout": {**layout, "data": count // others}}
        if count is None and isinstance(data or 1, int):
            return {**content, "hardware": {**hardware, "count": (data or 1) * others}}
        return content

    @model_validator(mode="after")
    def _limits_and_layout_apply(self) -> Case:
        """Refuse limits and ways of arranging that the kind of work does not have."""
        serving = isinstance(self.workload, Serving)
        for name in ("deadline_hours",) if serving else ("max_ttft_ms", "max_tpot_ms"):
            if (value := getattr(self.limits, name)) is not None:
                raise InputError(
                    f"limits.{name} does not apply to {self.workload.kind}",
                    value=value,
                    allowed="max_tpot_ms, max_ttft_ms or budget_usd"
                    if serving
                    else "deadline_hours or budget_usd",
                    remedy="Leave it out, or change the task.",
                    field=f"limits.{name}",
                )
        for name in TRAINING_LAYOUT if serving and self.layout else ():
            if (value := getattr(self.layout, name)) != ParallelLayout.model_fields[name].default:
                raise InputError(
                    f"layout.{name} does not apply to serving",
                    value=value,
                    allowed="data (replicas), tensor, pipeline and expert",
                    remedy="Leave it out.",
                    field=f"layout.{name}",
                )
        return self
