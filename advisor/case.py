"""The case: one question in full, the same object for the page, the command line and Python."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from advisor.layout import ParallelLayout
from advisor.limits import Constraints, Objective
from advisor.money import Owning, Renting
from advisor.noun import Noun
from advisor.workload import Serving, Workload

HubId = Annotated[str, Field(pattern=r"^[\w.-]{1,96}/[\w.-]{1,96}$")]


class ModelSource(Noun):
    """Where the model's shape comes from: exactly one of the fields."""

    preset: str | None = None
    config: str | dict[str, Any] | None = None
    """Path of a ``config.json``, its text or its parsed content; or the path of a ``.safetensors``
    or ``.gguf`` file, of which the header is read."""
    hub: HubId | None = None
    parameters: Annotated[float, Field(ge=1e6, le=1e14, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> ModelSource:
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            msg = (
                f"model needs exactly one of preset, config, hub, parameters; got "
                f"{', '.join(given) or 'none'}"
            )
            raise ValueError(msg)
        return self


class Hardware(Noun):
    """The configuration to estimate; ``recommend`` searches instead."""

    accelerator: str
    count: Annotated[int, Field(ge=1, le=16384)] = 1


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

    @model_validator(mode="after")
    def _limits_apply(self) -> Case:
        serving = isinstance(self.workload, Serving)
        wrong = ("deadline_hours",) if serving else ("max_ttft_ms", "max_tpot_ms")
        for name in wrong:
            if getattr(self.limits, name) is not None:
                msg = f"limits.{name} does not apply to {self.workload.kind}; use " + (
                    "max_tpot_ms, max_ttft_ms or budget_usd" if serving else "deadline_hours"
                )
                raise ValueError(msg)
        return self
