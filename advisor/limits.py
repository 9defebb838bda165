"""What the user can spend, wait for and choose from, and what to optimise."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from advisor.hardware import PriceKind
from advisor.noun import Noun

PositiveLimit = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]


class Objective(StrEnum):
    """What the best plan minimises."""

    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    BEST_VALUE = "best_value"
    """Least cost x time: one more percent of money buys one more percent of speed."""


class OwnedHardware(Noun):
    """Cards that the user has already: their rental price is zero."""

    accelerator: str
    count: Annotated[int, Field(ge=1, le=16384)] = 1


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
    providers: tuple[str, ...] = ()
    """Allow only these; empty allows all."""
    regions: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    """Allow only these catalog keys; empty allows all."""
    max_accelerators: Annotated[int, Field(ge=1, le=16384)] = 512
    """More than this is seldom rented on demand."""
    price_kind: PriceKind = PriceKind.ON_DEMAND
    usd_per_eur: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    """Exchange rate for prices in euro; None takes the catalog's dated one. [USD/EUR]"""
    owned: tuple[OwnedHardware, ...] = ()
    """When given, only these are searched, at no rent."""
