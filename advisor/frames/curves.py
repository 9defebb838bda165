"""Memory, speed and efficiency against batch, length and number; the hours of a day."""

import pandas as pd

from advisor.estimate.beside_results import Curve, Day
from advisor.foundation.formatting import count, duration, memory, money, percent, rate
from advisor.foundation.units import GIB, HOUR_S
from advisor.planning.explain.scaling import Scaling
from advisor.planning.explain.sentences import BOUND_WORDS


def curve_frame(curve: Curve) -> pd.DataFrame:
    """Return the points of a curve; memory in GiB."""
    return pd.DataFrame(
        [
            {
                "value": point.value,
                "low_gib": point.memory_bytes.low / GIB,
                "expected_gib": point.memory_bytes.expected / GIB,
                "high_gib": point.memory_bytes.high / GIB,
                "usable_gib": point.usable_bytes / GIB,
                "speed_per_s": point.speed_per_s.expected,
                "unit": f"{point.unit.value}s/s",
                "fits": point.fits,
                "chosen": point.value == curve.chosen,
            }
            for point in curve.points
        ]
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


def day_frame(day: Day) -> pd.DataFrame:
    """Return requests a second, and the needed and running replicas, hour by hour."""
    rows = [(one.hour, one.requests_per_s, one.needed, one.running) for one in day.hours]
    return pd.DataFrame(rows, columns=["hour", "requests_per_s", "needed", "running"])


def day_table(day: Day) -> pd.DataFrame:
    """Return the bills of each way of renting as text for people."""
    rows = [
        (
            way.title + (f" ({way.note})" if way.note else ""),
            f"{money(way.usd_per_month)} a month",
            f"{money(way.idle_usd)} ({percent(way.idle_share)})",
            percent(way.late_share),
            f"{way.least_replicas} to {way.most_replicas}",
        )
        for way in day.ways
    ]
    return pd.DataFrame(rows, columns=["Way", "Rent", "Idle", "Requests late", "Replicas"])


def scaling_frame(found: Scaling) -> pd.DataFrame:
    """Return one row for each number of accelerators.

    ``efficiency`` is a fraction, ``bound`` in words.
    """
    return pd.DataFrame(
        [
            {
                "count": item.count,
                "efficiency": item.efficiency,
                "tokens_per_s": item.tokens_per_s,
                "hours": item.run_hours,
                "cost_usd": item.cost_usd,
                "bound": BOUND_WORDS[item.bound_by],
            }
            for item in found.points
        ]
    )


def scaling_table(found: Scaling) -> pd.DataFrame:
    """Return the same as text for people, with the layouts."""
    rows = [
        (
            count(item.count),
            duration(item.run_hours * HOUR_S),
            "no rent" if item.cost_usd is None else money(item.cost_usd),
            percent(item.efficiency),
            percent(item.goodput),
            BOUND_WORDS[item.bound_by],
            ", ".join(
                f"{name} {degree}"
                for name, degree in item.layout.model_dump(
                    include={"data", "tensor", "pipeline", "context", "expert"}
                ).items()
                if degree > 1
            )
            or "one accelerator",
        )
        for item in found.points
    ]
    columns = ["Accelerators", "Run", "Cost", "Efficiency", "Goodput", "Limited by", "Layout"]
    return pd.DataFrame(rows, columns=columns)
