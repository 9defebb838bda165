"""Repeating, and printing medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

import numpy as np

SWEEP: Final = "a product, a sum and a root of 1,000 arrays of 16,384 floats"
"""A fixed piece of work, 49 M operations in float64, with which other times compare."""


def sweep_s() -> float:
    """Return the median wall time of :data:`SWEEP`. [s]"""
    first, other = np.linspace(1.0, 2.0, 2 * 16_384).reshape(2, -1)

    def sweep() -> None:
        for _ in range(1_000):
            np.sqrt(first * other + first)

    return median_s(sweep, repeats=3)


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
