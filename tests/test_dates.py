"""Ages of prices, whole and truncated dates."""

from datetime import date

import pytest

from advisor.errors import InputError
from advisor.foundation.dates import age_days, current_day, dated, first_day, is_stale

TODAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("iso", "day"),
    [
        ("2026-10-05", date(2026, 10, 5)),
        ("2026-10", date(2026, 10, 1)),
        ("2024-02", date(2024, 2, 1)),
        ("2025", date(2025, 1, 1)),
    ],
)
def test_a_truncated_date_is_read_as_early_as_it_can_be(iso: str, day: date) -> None:
    assert first_day(iso) == day


@pytest.mark.parametrize(
    ("iso", "days", "stale"),
    [
        ("2026-11-21", 0, False),
        ("2026-09-22", 60, False),
        ("2026-09-21", 61, True),
        ("2026-07-20", 124, True),
        ("2024-12-23", 698, True),
        ("2026-10", 51, False),
        ("2026", 324, True),  # may be of January
        ("2027-01-01", 0, False),  # the clock was set back
    ],
)
def test_sixty_days_are_the_limit(iso: str, days: int, stale: bool) -> None:
    assert age_days(iso, today=TODAY) == days
    assert is_stale(iso, today=TODAY) is stale


def test_old_prices_say_so() -> None:
    assert dated("2026-07-20", today=TODAY) == "2026-07-20 (old: 124 days)"
    assert dated("2026-10-05", today=TODAY) == "2026-10-05"
    assert dated("2025", today=TODAY) == "2025 (day unknown: up to 689 days old)"
    assert dated(None, today=TODAY) == ""


def test_what_is_no_date_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        first_day("autumn")


def test_the_day_may_be_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_ADVISOR_TODAY", "2027-01-31")
    assert current_day() == date(2027, 1, 31)
    assert age_days("2027-01-01") == 30
    for wrong in ("tomorrow", "2026-W01-1", "20260101"):
        monkeypatch.setenv("GPU_ADVISOR_TODAY", wrong)
        with pytest.raises(InputError, match=f"GPU_ADVISOR_TODAY is not a day: got '{wrong}'"):
            current_day()
    monkeypatch.delenv("GPU_ADVISOR_TODAY")
    assert current_day() == date.today()
