"""Memory and speed against batch and length: for the charts, the tables and the sentences."""

from __future__ import annotations

import pandas as pd

from advisor.estimate.curve_results import Curve
from advisor.foundation.formatting import memory, rate
from advisor.foundation.units import GIB


def curve_frame(curve: Curve) -> pd.DataFrame:
    """Return the points of a curve.

    Returns
    -------
    DataFrame
        ``value, low_gib, expected_gib, high_gib, usable_gib, speed_per_s, unit, fits, chosen``.
    """
    return pd.DataFrame(
        [
            (
                point.value,
                point.memory_bytes.low / GIB,
                point.memory_bytes.expected / GIB,
                point.memory_bytes.high / GIB,
                point.usable_bytes / GIB,
                point.speed_per_s.expected,
                f"{point.unit.value}s/s",
                point.fits,
                point.value == curve.chosen,
            )
            for point in curve.points
        ],
        columns=[
            "value",
            "low_gib",
            "expected_gib",
            "high_gib",
            "usable_gib",
            "speed_per_s",
            "unit",
            "fits",
            "chosen",
        ],
    )


def curve_table(curve: Curve) -> pd.DataFrame:
    """Return the points of a curve as text."""
    return pd.DataFrame(
        [
            (
                f"{point.value:,}",
                memory(point.memory_bytes, with_range=True),
                rate(point.speed_per_s, unit=f"{point.unit.value}s/s"),
                "yes" if point.fits else "no",
            )
            for point in curve.points
        ],
        columns=[curve.title, "Memory on each", "Speed", "Fits"],
    )
