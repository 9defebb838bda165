"""Ranges with evidence, and the terms that explain a number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Final

from pydantic import Field, model_validator

from advisor.foundation.noun import Noun

HALF: Final = 0.5
END_SIGMAS: Final = 1.2815515655446004
"""The 90th percentile of the normal distribution, which the high end of a range is. [sigmas]"""
LEAST: Final = 1e-6
"""Least low end over the expected value, so that its logarithm exists."""


class Evidence(StrEnum):
    """How a predicted number is known, strongest first.

    A ``derived`` number follows from its inputs by arithmetic and is as certain as they are.
    """

    DERIVED = "derived"
    MEASURED = "measured"
    CALIBRATED = "calibrated"
    ASSUMED = "assumed"

    def weakest(self, *others: Evidence) -> Evidence:
        """Return the weakest evidence among this and ``others``: the evidence of their combination.

        >>> Evidence.CALIBRATED.weakest(Evidence.DERIVED, Evidence.MEASURED)
        <Evidence.CALIBRATED: 'calibrated'>
        """
        return max((self, *others), key=_STRENGTH.__getitem__)


_STRENGTH: Final = {evidence: place for place, evidence in enumerate(Evidence)}


@lru_cache(maxsize=64)
def _sigmas(share: float) -> float:
    # `statistics` takes a while to import, and most processes need no percentile.
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)


def way_to_end(share: float) -> float:
    """Return how far a share of outcomes lies towards the end of a range, in logarithms.

    >>> way_to_end(0.5), round(way_to_end(0.9), 6)
    (0.0, 1.0)
    """
    return abs(_sigmas(share)) / END_SIGMAS


class Range(Noun):
    """A predicted scalar: the expected value and the bounds of its 80 % interval.

    If the evidence is ``calibrated``, ``low`` and ``high`` come from residuals on measurements;
    otherwise they come from stated assumptions. An exact number has equal bounds.
    """

    low: float = Field(allow_inf_nan=False)
    expected: float = Field(allow_inf_nan=False)
    high: float = Field(allow_inf_nan=False)
    evidence: Evidence

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low <= self.expected <= self.high:
            raise ValueError(
                f"range must be ordered: low {self.low}, expected {self.expected}, high {self.high}"
            )
        return self

    @classmethod
    def exact(cls, value: float, evidence: Evidence = Evidence.DERIVED) -> Range:
        """Return a range of width zero."""
        return cls(low=value, expected=value, high=value, evidence=evidence)

    @classmethod
    def around(
        cls, expected: float, *, low_factor: float, high_factor: float, evidence: Evidence
    ) -> Range:
        """Return ``expected`` with multiplicative bounds (``low_factor <= 1 <= high_factor``)."""
        low, high = expected * low_factor, expected * high_factor
        return cls(low=low, expected=expected, high=high, evidence=evidence)

    def at(self, share: float) -> float:
        """Return the value that this share of outcomes stays under.

        ``low`` is at 0.1 and ``high`` at 0.9; between and beyond them, the logarithm is normal on
        each side of the expected value.

        >>> span = Range(low=5.0, expected=10.0, high=40.0, evidence=Evidence.CALIBRATED)
        >>> span.at(0.5), round(span.at(0.9), 6)
        (10.0, 40.0)
        """
        end = self.high if share > HALF else self.low
        if end == self.expected or self.expected <= 0:
            return self.expected
        ratio = max(end, LEAST * self.expected) / self.expected
        return float(self.expected * ratio ** way_to_end(share))

    def risk_above(self, limit: float) -> float:
        """Return the share of outcomes above a limit; see :meth:`at`.

        >>> span = Range(low=5.0, expected=10.0, high=40.0, evidence=Evidence.CALIBRATED)
        >>> span.risk_above(10.0), round(span.risk_above(40.0), 6)
        (0.5, 0.1)
        """
        from statistics import NormalDist

        end = self.high if limit > self.expected else self.low
        if self.expected <= 0 or end == self.expected:
            return 0.0 if limit >= self.expected else 1.0
        if limit <= 0:
            return 1.0
        side = abs(math.log(max(end, LEAST * self.expected) / self.expected)) / END_SIGMAS
        return 1.0 - NormalDist(sigma=side).cdf(math.log(limit / self.expected))

    def scaled(self, factor: float) -> Range:
        """Return this range times an exact, non-negative ``factor``."""
        low, expected, high = (end * factor for end in (self.low, self.expected, self.high))
        return Range(low=low, expected=expected, high=high, evidence=self.evidence)

    def widened(self, ends: Iterable[float]) -> Range:
        """Return this range, which other ends may widen.

        >>> Range.exact(2.0).widened([3.0]).high
        3.0
        """
        every = self.low, self.high, *ends
        return Range(
            low=min(every), expected=self.expected, high=max(every), evidence=self.evidence
        )

    def times(self, other: Range) -> Range:
        """Return the product of two non-negative ranges, low with low and high with high."""
        return Range(
            low=self.low * other.low,
            expected=self.expected * other.expected,
            high=self.high * other.high,
            evidence=self.evidence.weakest(other.evidence),
        )

    def reciprocal(self, numerator: float = 1.0) -> Range:
        """Return ``numerator`` divided by this positive range; the bounds swap."""
        low, expected, high = (numerator / end for end in (self.high, self.expected, self.low))
        return Range(low=low, expected=expected, high=high, evidence=self.evidence)


class Term(Noun):
    """One term of a number: its value, the formula with the user's values, and the source."""

    name: str
    title: str
    value: float = Field(allow_inf_nan=False)
    unit: str
    formula: str
    """The formula in symbols, plain text."""
    substituted: str = ""
    """The same formula with this case's values."""
    reference: str | None = None
    """Key of ``data/references.csv``."""
