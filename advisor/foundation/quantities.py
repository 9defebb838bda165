"""Ranges with evidence, and the terms that explain a number."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from advisor.foundation.noun import Noun


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

        Examples
        --------
        >>> Evidence.CALIBRATED.weakest(Evidence.DERIVED, Evidence.MEASURED)
        <Evidence.CALIBRATED: 'calibrated'>
        """
        order = list(Evidence)
        return max((self, *others), key=order.index)


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
            msg = (
                f"range must be ordered: low {self.low}, expected {self.expected}, high {self.high}"
            )
            raise ValueError(msg)
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
        return cls(
            low=expected * low_factor,
            expected=expected,
            high=expected * high_factor,
            evidence=evidence,
        )

    def scaled(self, factor: float) -> Range:
        """Return this range times an exact, non-negative ``factor``."""
        return Range(
            low=self.low * factor,
            expected=self.expected * factor,
            high=self.high * factor,
            evidence=self.evidence,
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
        return Range(
            low=numerator / self.high,
            expected=numerator / self.expected,
            high=numerator / self.low,
            evidence=self.evidence,
        )


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
    """Key into ``advisor.foundation.references.REFERENCES``."""
