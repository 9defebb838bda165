"""Requests that wait in a queue: their latencies, and ranges that go through the queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.equations.serving.bursts import overload_wait_s
from advisor.estimate.candidates import Floats
from advisor.estimate.serving.results import LatencyAt, Percentiles, UnderArrivals
from advisor.foundation.quantities import Range
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, MILLISECOND

PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
SIGMAS: Final = {"p50": 0.0, "p95": 1.6448536269514722, "p99": 2.3263478740408408}
"""The same percentiles of the normal distribution. [sigmas]"""
TAILS: Final = ("p95", "p99")
Rows = NDArray[np.intp] | slice
EVERY: Final = slice(None)
STEADY_LOAD: Final = 0.95
"""Load up to which the simulation of ``tests/simulation`` holds the formulas."""


@record
class Queued:
    """Steady state of engines under arrivals, one element each."""

    stable: NDArray[np.bool_]
    """Whether the engine keeps up; otherwise all times are infinite."""
    load: Floats
    """Arrivals over the most that the engine completes."""
    rate_per_s: Floats
    """Arrivals. [requests/s]"""
    in_flight: Floats
    """Mean number of requests in the engine."""
    outside: Floats
    """Share of requests that wait for another to leave the engine."""
    ttft_s: Floats
    """Mean. [s]"""
    tpot_s: Floats
    """Mean. [s]"""
    ttft_at: dict[str, Floats]
    """By percentile. [s]"""
    tpot_at: dict[str, Floats]
    """By percentile. [s]"""
    full_tpot_s: Floats
    """Time per token of an engine that is always full. [s]"""
    busier: Callable[[Floats, Rows], Queued]
    """Return some of these engines at so many times the rate."""
    whole: bool = False
    """Whether both latencies are those of whole answers, as of batches."""

    def latencies(self, at: str) -> tuple[Floats, Floats]:
        """Return time per token and time to the first, of the mean or at a percentile. [s]"""
        if at in PERCENTILES:
            return self.tpot_at[at], self.ttft_at[at]
        return self.tpot_s, self.ttft_s

    def strained(self, factor: Floats, *, lasts_s: float = HOUR_S, rows: Rows = EVERY) -> Queued:
        """Return finite times of engines whose services take ``factor`` times as long.

        Slower services lengthen the queue as well: a range of service times goes through it, and
        times grow by more than ``factor``. Counted in the slower services, requests arrive that
        much faster. Where they arrive faster than they are served, the engine is full, and the
        queue grows for ``lasts_s``.

        ``rows``: the engines that are wanted, one for each factor.
        """
        load, rate_per_s = np.maximum(self.load[rows], 1e-300), self.rate_per_s[rows]
        # An engine that keeps up at a higher load is in the steady state that it has.
        fullest = np.where(load < 1, np.maximum(load, STEADY_LOAD), STEADY_LOAD)
        slow, strain = self.busier(np.minimum(factor, fullest / load), rows), load * factor
        full_s = np.where(strain < 1, 0.0, self.full_tpot_s[rows] * factor)

        def first(value: Floats, share: float) -> Floats:
            wait = overload_wait_s(
                requests=rate_per_s * lasts_s,
                rate_per_s=rate_per_s,
                served_per_s=rate_per_s / strain,
                share=share,
            )
            return np.asarray(value * factor + wait)

        def later(value: Floats, share: float) -> Floats:
            return first(value, share) if self.whole else np.maximum(value * factor, full_s)

        middle = PERCENTILES["p50"]
        return replace(
            slow,
            stable=strain < 1,
            load=strain,
            rate_per_s=rate_per_s,
            ttft_s=first(slow.ttft_s, middle),
            tpot_s=later(slow.tpot_s, middle),
            ttft_at={name: first(slow.ttft_at[name], share) for name, share in PERCENTILES.items()},
            tpot_at={name: later(slow.tpot_at[name], share) for name, share in PERCENTILES.items()},
        )


class QueuedSpreads:
    """Ranges of one deployment's latencies under a stated rate.

    ``later``, ``first`` and ``late`` are the ranges of times alone: per token, to the first token,
    and to it at P95 and P99. Each latency's range also goes through the queue, at both ends of the
    range of the engine's steps (``later``).
    """

    def __init__(
        self,
        found: Queued,
        *,
        later: Callable[[float], Range],
        first: Callable[[float], Range],
        late: Callable[[float], Range],
    ) -> None:
        self._found, self._later, self._first, self._late = found, later, first, late

    @cached_property
    def _ends(self) -> Queued:
        steps = self._later(1.0)
        return self._found.strained(np.array([steps.low, steps.high]))

    def at(self, name: str) -> LatencyAt:
        """Return the mean latencies or those at a percentile."""
        spreads = self._later, self._late if name in TAILS else self._first
        pairs = zip(self._found.latencies(name), self._ends.latencies(name), strict=True)
        tpot, ttft = (
            spread(float(seconds[0])).widened(ends.tolist()).scaled(1 / MILLISECOND)
            for spread, (seconds, ends) in zip(spreads, pairs, strict=True)
        )
        return LatencyAt(ttft_ms=ttft, tpot_ms=tpot)

    def under(self, asked: float) -> UnderArrivals:
        """Return what a rate makes of the deployment. [requests/s]"""
        found, load = self._found, float(self._found.load[0])
        return UnderArrivals(
            asked_requests_per_s=asked,
            most_requests_per_s=self._later(1.0).reciprocal(asked / load),
            load=load,
            in_flight=float(found.in_flight[0]) * asked / float(found.rate_per_s[0]),
            waiting_share=float(found.outside[0]),
            percentiles=Percentiles(**{name: self.at(name) for name in PERCENTILES})
            if found.stable[0]
            else None,
        )
