"""Efficiency over the number of accelerators, for the scaling chart."""

from __future__ import annotations

import pandas as pd

from advisor.foundation.formatting import count, duration, money, percent
from advisor.foundation.units import HOUR_S
from advisor.planning.explain.scaling import Scaling
from advisor.planning.explain.sentences import BOUND_WORDS


def scaling_frame(found: Scaling) -> pd.DataFrame:
    """Return one row for each number of accelerators, by number.

    Returns
    -------
    DataFrame
        ``count``, ``efficiency`` [fraction], ``tokens_per_s``, ``hours``, ``cost_usd`` and
        ``bound`` in words.
    """
    return pd.DataFrame(
        [
            (
                item.count,
                item.efficiency,
                item.tokens_per_s,
                item.run_hours,
                item.cost_usd,
                BOUND_WORDS[item.bound_by],
            )
            for item in found.points
        ],
        columns=["count", "efficiency", "tokens_per_s", "hours", "cost_usd", "bound"],
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
    columns = [
        "Accelerators",
        "Run",
        "Cost",
        "Efficiency",
        "Goodput",
        "Limited by",
        "Layout",
    ]
    return pd.DataFrame(rows, columns=columns)
