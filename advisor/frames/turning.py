"""What would make another accelerator the answer, and each accelerator in each number."""

from collections.abc import Sequence
from typing import Final

import pandas as pd

from advisor.architecture.titles import in_letters
from advisor.foundation.formatting import duration, hourly_price, milliseconds, money
from advisor.foundation.rounding import round_significant
from advisor.foundation.units import HOUR_S
from advisor.planning.explain.turning import AMOUNTS, PROMPT, Cell, Turn
from advisor.planning.results import RejectionCode

TITLES: Final = {
    "tokens": "Tokens",
    "samples": "Samples",
    "concurrency": "Users at once",
    "requests_per_s": "Requests per second",
    "input_tokens": "Tokens of a prompt",
    "deadline_hours": "Deadline",
    "budget_usd": "Budget",
    "usd_per_hour": "Price of",
}
WHY: Final = {
    RejectionCode.MEMORY: "too small",
    RejectionCode.DEADLINE: "too slow",
    RejectionCode.LATENCY: "too slow",
    RejectionCode.BUDGET: "too dear",
}
"""Short words for a cell; a card is too small where nothing fits or no layout carries the load."""
NOT_OFFERED: Final = "without offer or layout"
CARDS, COUNTS = 12, 7
"""Most rows and columns."""


def turns_table(found: Sequence[Turn]) -> pd.DataFrame:
    """Return each input with the value that turns the answer, and the answer then."""
    return pd.DataFrame(
        [
            (
                f"{TITLES[item.field]} {item.of}".rstrip(),
                "not set" if item.now is None else _text(item.field, item.now),
                _turned(item),
                item.then or "nothing works",
            )
            for item in found
        ],
        columns=["Input", "Now", "Turns at", "Then the answer is"],
    )


def turns_sentence(found: Sequence[Turn]) -> str:
    """Return which change of an input turns the answer first."""
    known = [(item, item.at / item.now) for item in found if item.now]
    if not known:
        return "No change of one input alone that was tried makes another card the answer."
    item, _ = min(known, key=lambda each: max(each[1], 1 / each[1]))
    title = f"{TITLES[item.field]} {item.of}".rstrip()
    return (
        f"The smallest change that turns the answer: {title[:1].lower()}{title[1:]} "
        f"{_turned(item)}, now {_text(item.field, item.now or 0.0)}. Then "
        f"{item.then or 'nothing'} would do it."
    )


def _turned(item: Turn) -> str:
    text = _text(item.field, item.at)
    if item.field in (*AMOUNTS, PROMPT):
        return f"{text} or {'more' if item.above else 'fewer'}"
    return f"{'above' if item.above else 'below'} {text}"


def _text(field: str, value: float) -> str:
    if field == "deadline_hours":
        return duration(value * HOUR_S)
    if field == "budget_usd":
        return money(round_significant(value, 2))
    if field == "usd_per_hour":
        return hourly_price(value)
    if field in ("tokens", "samples"):
        return in_letters(round_significant(value, 2))
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


def grid_frame(found: Sequence[Cell]) -> pd.DataFrame:
    """Return the cells of the cards that do best, in the numbers around their best.

    The cheapest card comes first, numbers rise. ``why`` is empty where it works.
    """
    best: dict[str, tuple[bool, float, float]] = {}
    for item in found:
        if item.usd is not None and item.time is not None:
            rank = item.why is not None, item.usd, item.time
            best[item.accelerator] = min(best.get(item.accelerator, rank), rank)
    cards = sorted(best, key=best.__getitem__)[:CARDS]
    cells = {(item.accelerator, item.count): item for item in found}
    able = {
        count
        for (card, count), item in cells.items()
        if card in cards and not count & (count - 1) and item.usd is not None
    }
    names = {item.accelerator: item.accelerator_name for item in found}
    rows = [
        (names[card], count, *_cell(cells.get((card, count))))
        for card in cards
        for count in sorted(able)[:COUNTS]
    ]
    columns = ["card", "count", "time", "usd", "text_time", "text_usd", "why"]
    return pd.DataFrame(rows, columns=columns)


def _cell(item: Cell | None) -> tuple[float | None, float | None, str, str, str]:
    if item is None or item.time is None or item.usd is None:
        why = NOT_OFFERED if item is None or item.why is None else WHY[item.why]
        return None, None, why, why, why
    time = duration(item.time * HOUR_S) if item.hourly else milliseconds(item.time)
    why = "" if item.why is None else WHY[item.why]
    return item.time, item.usd, time, money(round_significant(item.usd, 2)), why


def grid_table(frame: pd.DataFrame, *, by: str) -> pd.DataFrame:
    """Return the grid as text: a row for each card, a column for each number."""
    cells = frame[f"text_{by}"].where(frame["why"] == "", frame["why"])
    wide = frame.assign(cell=cells).pivot(index="card", columns="count", values="cell")
    wide = wide.loc[frame["card"].drop_duplicates()]
    wide.columns = [f"{count:,}x" for count in wide.columns]
    return wide.reset_index().rename(columns={"card": "Accelerator"})
