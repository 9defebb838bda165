"""What the user can spend, wait for and choose from, and what to optimise."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.kernels import KernelEfficiency

LEAST_RATE, MOST_RATE = 0.01, 100.0
"""Of the euro, far beyond what it ever was; others make prices that round to nothing. [USD/EUR]"""
Rate = Annotated[float, Field(ge=LEAST_RATE, le=MOST_RATE, allow_inf_nan=False)]
PositiveLimit = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]


class Objective(StrEnum):
    """What the best plan minimises."""

    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    BEST_VALUE = "best_value"
    """Least cost x time: one more percent of money buys one more percent of speed."""


class MeasuredMachine(Noun):
    """What the probe measured of a card that the user has."""

    accelerator: Accelerator
    kernels: KernelEfficiency
    """Take the place of the generation's constants."""


class OwnedHardware(Noun):
    """Cards that the user has already: their rental price is zero."""

    accelerator: Name
    count: Annotated[int, Field(ge=1, le=16384)] = 1
    measured: MeasuredMachine | None = None
    """From a report of the probe, where there is one."""

    @model_validator(mode="after")
    def _same_card(self) -> OwnedHardware:
        if self.measured and self.measured.accelerator.key != self.accelerator:
            msg = f"measured is of {self.measured.accelerator.key!r}, not of {self.accelerator!r}"
            raise ValueError(msg)
        return self


class Constraints(Noun):
    """Hard limits of the search. ``None`` means no limit."""

    deadline_hours: PositiveLimit | None = None
    """Training must end within this time. [h]"""
    budget_usd: PositiveLimit | None = None
    """Training: for the whole run. Serving: for a month of 730 hours. [USD]"""
    max_ttft_ms: PositiveLimit | None = None
    """Serving: time to first token. [ms]"""
    max_tpot_ms: PositiveLimit | None = None
    """Serving: time per output token. [ms]"""
    providers: tuple[Name, ...] = ()
    """Allow only these; empty allows all."""
    regions: tuple[Name, ...] = ()
    accelerators: tuple[Name, ...] = ()
    """Allow only these catalog keys; empty allows all."""
    max_accelerators: Annotated[int, Field(ge=1, le=16384)] = 512
    """More than this is seldom rented on demand."""
    price_kind: PriceKind = PriceKind.ON_DEMAND
    usd_per_eur: (
        Annotated[float, Field(ge=LEAST_RATE, le=MOST_RATE, allow_inf_nan=False)] | None
    ) = None
    """Exchange rate for prices in euro; None takes the catalog's dated one. [USD/EUR]"""
    owned: tuple[OwnedHardware, ...] = ()
    """When given, only these are searched, at no rent."""
