"""Repeating, and printing medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def median_s(action: Callable[[], object], *, repeats: int = 7, warm_up: int = 1) -> float:
    """Return the median wall time of ``action``. [s]"""
    for _ in range(warm_up):
        action()
    samples = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def show(name: str, value: float, unit: str, target: str = "") -> None:
    """Print one figure."""
    goal = f"   (target {target})" if target else ""
    print(f"{name:<58}{value:>12,.4g} {unit}{goal}", flush=True)
