"""The day of a service: demand and replicas by hour, and the bills of each way of renting."""

from __future__ import annotations

import pandas as pd

from advisor.estimate.day import Day
from advisor.foundation.formatting import money, percent


def day_frame(day: Day) -> pd.DataFrame:
    """Return one row for each hour.

    Returns
    -------
    DataFrame
        ``hour``, ``requests_per_s``, ``needed`` and ``running`` replicas.
    """
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
