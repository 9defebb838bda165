"""Memory and speed against one quantity that a person can change."""

from __future__ import annotations

from typing import Literal

from advisor.architecture.table.sample import Unit
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range

Variable = Literal["micro_batch", "concurrency", "sequence_length", "context"]


class CurvePoint(Noun):
    """One configuration of a curve."""

    value: int
    memory_bytes: Range
    """On the fullest accelerator. [bytes]"""
    usable_bytes: float
    speed_per_s: Range
    """Units of the whole job; generated tokens where it writes. [1/s]"""
    unit: Unit = Unit.TOKEN
    """What the speed counts."""
    fits: bool
    """The high end of the range fits."""


class Curve(Noun):
    """What a quantity does to memory and speed, all else as it is."""

    variable: Variable
    chosen: int
    """Its value in the case."""
    points: tuple[CurvePoint, ...]
    """Smallest value first."""
    usable_bytes: float
    limit: int
    """Largest value that fits, within 2 %; 0 where none does."""
    open_ended: bool
    """Nothing that was tried is too large: the limit is the largest value tried."""
    knee: int | None
    """Smallest value tried that reaches 95 % of the best speed that fits."""
