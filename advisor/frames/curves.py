"""Memory, speed and efficiency against batch, length and number; the hours of a day."""

import pandas as pd

from advisor.estimate.beside_results import Curve, Day
from advisor.foundation.formatting import count, duration, memory, money, percent, rate
from advisor.foundation.units import GIB, HOUR_S
from advisor.frames.rows import Cells, Rows, columns, tabled
from advisor.planning.explain.scaling import Scaling
from advisor.planning.explain.sentences import BOUND_WORDS


@tabled
def curve_frame(curve: Curve) -> Rows:
    """Return the points of a curve; memory in GiB."""
    for point in curve.points:
        yield {
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


@columns("hour", "requests_per_s", "needed", "running")
def day_frame(day: Day) -> Cells:
    """Return requests a second, and the needed and running replicas, hour by hour."""
    for one in day.hours:
        yield (one.hour, one.requests_per_s, one.needed, one.running)


@tabled
def day_table(day: Day) -> Rows:
    """Return the bills of each way of renting as text for people."""
    for way in day.ways:
        yield way.cells | {"Way": way.title + (f" ({way.note})" if way.note else "")}


@tabled
def scaling_frame(found: Scaling) -> Rows:
    """Return one row for each number of accelerators.

    ``efficiency`` is a fraction, ``bound`` in words.
    """
    for item in found.points:
        yield {
            "count": item.count,
            "efficiency": item.efficiency,
            "tokens_per_s": item.tokens_per_s,
            "hours": item.run_hours,
            "cost_usd": item.cost_usd,
            "bound": BOUND_WORDS[item.bound_by],
        }


@columns("Accelerators", "Run", "Cost", "Efficiency", "Goodput", "Limited by", "Layout")
def scaling_table(found: Scaling) -> Cells:
    """Return the same as text for people, with the layouts."""
    for item in found.points:
        yield (
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
