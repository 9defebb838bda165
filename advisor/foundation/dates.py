"""Dates and ages of prices. Sources state the day, the month or only the year."""

import os
from datetime import date
from functools import lru_cache
from typing import Final

from advisor.errors import refusal

TODAY: Final = "GPU_ADVISOR_TODAY"
"""Environment variable: the day on which prices are judged, for an answer that can be repeated."""

STALE_DAYS: Final = 60
"""Every use of a price older than this carries a warning. [days]"""


LAUNCH_DAYS: Final = 365
"""A list price older than this is a launch price; today's shop price may differ. [days]"""


def current_day() -> date:
    """Return today, or the day that ``GPU_ADVISOR_TODAY`` names.

    Raises InputError if the variable names no day.
    """
    given = os.environ.get(TODAY)
    if not given:
        return _day(date.today().toordinal())
    try:
        return first_day(given)
    except ValueError:
        raise refusal("no_day", value=given, name=TODAY) from None


@lru_cache(maxsize=2)
def _day(ordinal: int) -> date:
    """Return a day, the same object for the same day."""
    return date.fromordinal(ordinal)


@lru_cache(maxsize=4096)
def first_day(iso: str) -> date:
    """Return the first day that a possibly truncated date can mean.

    Raises ValueError if the text has none of these forms, or is no valid date.

    ``iso``: ``2026``, ``2026-10`` or ``2026-10-05``.

    >>> first_day("2026-10")
    datetime.date(2026, 10, 1)
    """
    year, month, day, *_ = (*map(int, iso.split("-")), 1, 1)
    return date(year, month, day)


def age_days(iso: str, *, today: date | None = None) -> int:
    """Return the age of a date, or the largest possible age if truncated; 0 in the future. [days]

    >>> age_days("2026-10-05", today=date(2026, 11, 21))
    47
    """
    return max(0, ((today or current_day()) - first_day(iso)).days)


def is_stale(iso: str, *, today: date | None = None) -> bool:
    """Whether a price of this date is, or may be, older than ``STALE_DAYS``."""
    return age_days(iso, today=today) > STALE_DAYS


def dated(iso: str | None, *, today: date | None = None) -> str:
    """Return a price's date, with its age if that needs a warning; empty if there is no date.

    >>> dated("2026-10-05", today=date(2026, 11, 21))
    '2026-10-05'
    >>> dated("2026-07-20", today=date(2026, 11, 21))
    '2026-07-20 (old: 124 days)'
    >>> dated("2026", today=date(2026, 11, 21))
    '2026 (day unknown: up to 324 days old)'
    """
    if iso is None:
        return ""
    age = age_days(iso, today=today)
    if age <= STALE_DAYS:
        return iso
    known = len(iso) == len("2026-01-01")
    return f"{iso} (old: {age:,} days)" if known else f"{iso} (day unknown: up to {age:,} days old)"


def marked(iso: str, *, today: date | None = None) -> str:
    """Return a price's date for a narrow column, marked if it is or may be stale.

    >>> marked("2026-10-05", today=date(2026, 11, 21))
    '2026-10-05'
    >>> marked("2026-07-20", today=date(2026, 11, 21))
    '2026-07-20, old'
    >>> marked("2026", today=date(2026, 11, 21))
    '2026, may be old'
    """
    if not is_stale(iso, today=today):
        return iso
    return f"{iso}, old" if len(iso) == len("2026-01-01") else f"{iso}, may be old"
