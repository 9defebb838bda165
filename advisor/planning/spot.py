"""Time that interruptions of spot instances add to a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from advisor.catalog.economy import Economy, load_economy
from advisor.equations.pricing import checkpoint_interval_s, spot_hours
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.units import HOUR_S
from advisor.nouns.case import Case
from advisor.nouns.hardware import PriceKind
from advisor.nouns.money import Renting
from advisor.nouns.software.delivery import Reliability
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving


@dataclass(frozen=True, slots=True)
class Interruptions:
    """How often a spot instance is taken back, and how much a training run loses."""

    low: float
    """Per instance and hour. [1/h]"""
    expected: float
    high: float
    checkpoint_s: float
    restart_s: float

    @classmethod
    def of(cls, renting: Renting, economy: Economy, reliability: Reliability) -> Interruptions:
        """Return the user's rate, or the default with its spread."""
        given = renting.interruptions_per_hour
        default = economy.default("interruptions_per_hour")
        low, expected, high = (
            (default.low, default.expected, default.high) if given is None else (given,) * 3
        )
        return cls(low, expected, high, reliability.checkpoint_s, reliability.restart_s)

    def hours(self, instances: int) -> Range:
        """Hours that a training job takes for an hour of work; one lost instance stops it all."""
        return _hours(self, instances)

    def served_hours(self) -> Range:
        """Hours of an instance for an hour of serving, including the wait for a replacement."""
        low, expected, high = (
            1 + rate * self.restart_s / HOUR_S for rate in (self.low, self.expected, self.high)
        )
        return Range(low=low, expected=expected, high=high, evidence=Evidence.ASSUMED)

    def interval_s(self, instances: int) -> float:
        """Best time between two checkpoints. [s]"""
        return float(
            checkpoint_interval_s(
                interruptions_per_hour=self.expected * instances, checkpoint_s=self.checkpoint_s
            )
        )


def interruptions_of(case: Case, calibration: Calibration) -> Interruptions | None:
    """Return the interruptions of the case's run; None on demand or when serving."""
    if case.limits.price_kind is not PriceKind.SPOT or isinstance(case.workload, Serving):
        return None
    return Interruptions.of(case.renting, load_economy(), calibration.reliability)


@lru_cache(maxsize=4096)
def _hours(interruptions: Interruptions, instances: int) -> Range:
    low, expected, high = (
        float(
            spot_hours(
                hours=1.0,
                interruptions_per_hour=rate * instances,
                checkpoint_s=interruptions.checkpoint_s,
                restart_s=interruptions.restart_s,
            )
        )
        for rate in (interruptions.low, interruptions.expected, interruptions.high)
    )
    return Range(low=low, expected=expected, high=high, evidence=Evidence.ASSUMED)
