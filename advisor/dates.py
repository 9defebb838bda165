"""How old a price is: dates as sources give them, to the day, the month or the year."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import Final

STALE_DAYS: Final = 60
"""A price older than this is flagged wherever it is used."""


def last_day(iso: str) -> date:
    """Return the last day that a date, possibly truncated, can mean.

    Parameters
    ----------
    iso : str
        ``2026``, ``2026-10`` or ``2026-10-05``.

    Raises
    ------
    ValueError
        If it is none of these.

    Examples
    --------
    >>> last_day("2024-02")
    datetime.date(2024, 2, 29)
    """
    parts = [int(part) for part in iso.split("-")]
    year, month = parts[0], parts[1] if len(parts) > 1 else 12
    return date(year, month, parts[2] if len(parts) > 2 else monthrange(year, month)[1])


def age_days(iso: str, *, today: date | None = None) -> int:
    """Return how old a date is at least; 0 for one that is not over. [days]

    Parameters
    ----------
    iso : str
        As for :func:`last_day`.
    today : date, optional
        The clock's by default.

    Examples
    --------
    >>> age_days("2026-10-05", today=date(2026, 11, 21))
    47
    """
    return max(0, ((today or date.today()) - last_day(iso)).days)


def is_stale(iso: str, *, today: date | None = None) -> bool:
    """Whether a price of this date is older than ``STALE_DAYS``."""
    return age_days(iso, today=today) > STALE_DAYS


def dated(iso: str | None, *, today: date | None = None) -> str:
    """Return a price's date, with its age where that is worth a warning; empty for no date.

    Examples
    --------
    >>> dated("2026-10-05", today=date(2026, 11, 21))
    '2026-10-05'
    >>> dated("2026-07-20", today=date(2026, 11, 21))
    '2026-07-20 (old: 124 days)'
    """
    if iso is None:
        return ""
    age = age_days(iso, today=today)
    return f"{iso} (old: {age:,} days)" if age > STALE_DAYS else iso
