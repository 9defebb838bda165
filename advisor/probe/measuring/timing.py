"""The measuring loop: warm-up, samples until the time is over, median and spread."""

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter
from typing import Final

from advisor.errors import ProbeError
from advisor.probe.devices.backend import Backend, Prepared
from advisor.probe.report import Timing

LONGEST_CALL_S: Final = 0.5
"""Longest call. A running call cannot be stopped, and a cancel must take effect within 1 s. [s]"""
FEWEST_SAMPLES, MOST_SAMPLES = 3, 100_000
WARM_UP_CALLS: Final = 2
WARM_UP_SHARE: Final = 0.25
"""Share of a measurement's time for clocks to rise and libraries to choose a kernel."""
LAUNCHES: Final = 200
"""Launches in one sample: well below the 1024 after which a CUDA stream blocks the host."""
LONGEST_LAUNCH_S: Final = 0.5
"""Longest time for launches: it gives thousands of them. [s]"""


class StoppedError(ProbeError):
    """The user cancelled, or the time is over. Earlier measurements are kept."""


class Clock:
    """The time limit and the cancellation of one probe."""

    def __init__(self, limit_s: float, cancelled: Callable[[], bool]) -> None:
        self._start = perf_counter()
        self._limit_s = limit_s
        self._cancelled = cancelled

    @property
    def elapsed_s(self) -> float:
        """Time since the probe began. [s]"""
        return perf_counter() - self._start

    @property
    def left_s(self) -> float:
        """Time until the limit; negative after it. [s]"""
        return self._limit_s - self.elapsed_s

    @property
    def cancelled(self) -> bool:
        """Whether the user asked to stop."""
        return self._cancelled()

    def check(self) -> None:
        """Raise ``StoppedError`` after a cancel or past the limit."""
        if self.cancelled:
            raise StoppedError("stopped by the user")
        if self.left_s <= 0:
            raise StoppedError(f"the time limit of {self._limit_s:.0f} s was reached")


def measure(backend: Backend, prepared: Prepared, *, budget_s: float, clock: Clock) -> Timing:
    """Time one call over many samples, at least three even if they take longer than ``budget_s``.

    Raises StoppedError if the user cancels or the time is over before the third sample. Raises
    ProbeError if the device fails.
    """
    start = perf_counter()
    clock.check()
    # The first call includes compilation, allocation and the choice of a kernel.
    backend.elapsed_s(prepared.work, first=0, calls=1)
    once_s = max(backend.elapsed_s(prepared.work, first=1, calls=1), 1e-9)
    done = WARM_UP_CALLS
    calls = max(1, round(min(backend.sample_s, budget_s / FEWEST_SAMPLES) / once_s))
    while perf_counter() - start < WARM_UP_SHARE * budget_s:
        clock.check()
        once_s = max(backend.elapsed_s(prepared.work, first=done, calls=calls) / calls, 1e-9)
        done += calls
        calls = max(1, round(backend.sample_s / once_s))
    samples: list[float] = []
    while _unfinished(len(samples), perf_counter() - start, budget_s):
        try:
            clock.check()
        except StoppedError:
            if len(samples) < FEWEST_SAMPLES:
                raise
            break
        samples.append(backend.elapsed_s(prepared.work, first=done, calls=calls) / calls)
        done += calls
    return timing_of(samples, calls=calls * len(samples))


def measure_launch(backend: Backend, *, budget_s: float, clock: Clock) -> Timing:
    """Time the start of the smallest operation."""
    calls, budget_s = LAUNCHES, min(budget_s, LONGEST_LAUNCH_S)
    work = backend.tiny().work
    backend.launch_s(work, calls=calls)
    start, samples = perf_counter(), list[float]()
    while _unfinished(len(samples), perf_counter() - start, budget_s):
        clock.check()
        samples.append(backend.launch_s(work, calls=calls) / calls)
    return timing_of(samples, calls=calls * len(samples))


def _unfinished(samples: int, spent_s: float, budget_s: float) -> bool:
    return samples < FEWEST_SAMPLES or (samples < MOST_SAMPLES and spent_s < budget_s)


def timing_of(samples: list[float], *, calls: int) -> Timing:
    """Return the median and the spread of one call's time over samples.

    >>> timing = timing_of([1.0, 2.0, 3.0, 4.0, 5.0], calls=5)
    >>> timing.median_s, timing.spread
    (3.0, 0.6667)
    """
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return Timing(
        median_s=median(samples),
        spread=round((high - low) / middle, 4),
        samples=len(samples),
        calls=calls,
    )
