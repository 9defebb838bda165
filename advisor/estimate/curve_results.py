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
    """Units of the whole job; generated tokens for text. [1/s]"""
    unit: Unit = Unit.TOKEN
    """Unit of the speed."""
    fits: bool
    """The high end of the range fits."""


class Curve(Noun):
    """Memory and speed against one quantity, with all else unchanged."""

    variable: Variable
    chosen: int
    """Its value in the case."""
    points: tuple[CurvePoint, ...]
    """Smallest value first."""
    usable_bytes: float
    limit: int
    """Largest value that fits, within 2 %; 0 if none fits."""
    open_ended: bool
    """Every tried value fits, and the limit is the largest of them."""
    knee: int | None
    """Smallest value tried that reaches 95 % of the best speed that fits."""
