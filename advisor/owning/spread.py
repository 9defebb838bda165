"""Spread of a result: each uncertain input moves alone, and the moves add in quadrature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.foundation.quantities import Evidence, Range
from advisor.owning.assumptions import Factors, expected
from advisor.owning.results import Assumption


@dataclass(frozen=True)
class Spread:
    """The inputs with their bounds, which are taken as 80 % intervals."""

    inputs: tuple[Assumption, ...]

    @cached_property
    def base(self) -> Factors:
        """All inputs at their expected values."""
        return expected(self.inputs)

    def at(self, field: str, value: Any) -> Factors:
        """All inputs at their expected values but one, which may be an array."""
        return replace(self.base, **{field: value})

    @cached_property
    def moved(self) -> tuple[tuple[Assumption, Factors, Factors], ...]:
        """Each uncertain input with the factors at its low and its high end."""
        return tuple(
            (
                item,
                self.at(item.field, item.value.low),
                self.at(item.field, item.value.high),
            )
            for item in self.inputs
            if item.value.low < item.value.high
        )

    def bounds(
        self, result: Callable[[Factors], NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return low, expected and high values of an array that depends on the factors.

        The deviations caused by each input alone add in quadrature, separately for the two
        directions. The inputs are taken as independent (JCGM 100:2008, 5.1.2).
        """
        middle = np.asarray(result(self.base), dtype=float)
        below, above = np.zeros_like(middle), np.zeros_like(middle)
        for _, low, high in self.moved:
            ends = np.stack([result(low) - middle, result(high) - middle, np.zeros_like(middle)])
            below = below + np.min(ends, axis=0) ** 2
            above = above + np.max(ends, axis=0) ** 2
        return middle - np.sqrt(below), middle, middle + np.sqrt(above)

    def of(self, result: Callable[[Factors], float | NDArray[np.float64]]) -> Range:
        """Return the range of one number that depends on the factors."""
        low, middle, high = self.bounds(lambda factors: np.asarray(result(factors)))
        evidence = Evidence.DERIVED.weakest(*(item.value.evidence for item, _, _ in self.moved))
        return Range(low=float(low), expected=float(middle), high=float(high), evidence=evidence)
