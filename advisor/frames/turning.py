"""How the answer changes, as tables: curves, other hardware, and answers side by side."""

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from advisor.architecture.titles import in_letters
from advisor.estimate.beside_results import Curve, Day
from advisor.foundation.formatting import (
    count,
    duration,
    hourly_price,
    memory,
    milliseconds,
    money,
    percent,
    rate,
)
from advisor.foundation.quantities import Range
from advisor.foundation.units import GIB, HOUR_S, MILLISECOND, round_significant
from advisor.frames.rows import Cells, Rows, columns, tabled
from advisor.planning.explain.curves import Scaling
from advisor.planning.explain.sentences import BOUND_WORDS
from advisor.planning.explain.terms import headlines
from advisor.planning.explain.turning import AMOUNTS, PROMPT, Cell, Turn
from advisor.planning.explain.what_if import WhatIf
from advisor.planning.results import Recommendation, RejectionCode

TITLES: Final = {
    "tokens": "Tokens",
    "samples": "Samples",
    "concurrency": "Users at once",
    "requests_per_s": "Requests/s",
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


@columns("Input", "Now", "Turns at", "Then the answer is")
def turns_table(found: Sequence[Turn]) -> Cells:
    """Return each input with the value that turns the answer, and the answer then."""
    for item in found:
        yield (
            f"{TITLES[item.field]} {item.of}".rstrip(),
            *_now_and_turned(item),
            item.then or "nothing works",
        )


def turns_sentence(found: Sequence[Turn]) -> str:
    """Return which change of an input turns the answer first."""
    known = [(item, item.at / item.now) for item in found if item.now]
    if not known:
        return "No change of one input alone that was tried makes another card the answer."
    item, _ = min(known, key=lambda each: max(each[1], 1 / each[1]))
    title = f"{TITLES[item.field]} {item.of}".rstrip()
    now, turned = _now_and_turned(item)
    return (
        f"The smallest change that turns the answer: {title[:1].lower()}{title[1:]} "
        f"{turned}, now {now}. Then "
        f"{item.then or 'nothing'} would do it."
    )


def _now_and_turned(item: Turn) -> tuple[str, str]:
    """Return the value now and the one that turns the answer, told apart."""
    now = "not set" if item.now is None else _text(item.field, item.now)
    at = _text(item.field, item.at)
    if now == at and item.field == "usd_per_hour":
        now, at = f"${item.now:.4f}/h", f"${item.at:.4f}/h"
    if item.field in (*AMOUNTS, PROMPT):
        return now, f"{at} or {'more' if item.above else 'fewer'}"
    return now, f"{'above' if item.above else 'below'} {at}"


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


@columns("card", "count", "time", "usd", "text_time", "text_usd", "why")
def grid_frame(found: Sequence[Cell]) -> Cells:
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
    for card in cards:
        for many in sorted(able)[:COUNTS]:
            yield (names[card], many, *_cell(cells.get((card, many))))


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


NOTHING: Final = "nothing works"
LITTLE = 0.02
"""A change of time below this share is none. [fraction]"""


def side_by_side(
    asked: Sequence[Mapping[str, str]], found: Sequence[Recommendation], titles: Sequence[str]
) -> pd.DataFrame:
    """Return questions and their first plans as text, one column each with its title.

    ``asked`` holds the inputs of each question by label; those that all share are left out.
    """
    labels = dict.fromkeys(label for inputs in asked for label in inputs)
    rows = {label: [inputs.get(label, "") for inputs in asked] for label in labels}
    rows = {label: values for label, values in rows.items() if len(set(values)) > 1}
    results = [_results(item) for item in found]
    for label in dict.fromkeys(label for result in results for label in result):
        rows[label] = [result.get(label, "") for result in results]
    table = pd.DataFrame(rows.values(), columns=list(titles))
    table.insert(0, "What differs, then the answer", list(rows))
    return table


def _results(found: Recommendation) -> dict[str, str]:
    """Return the figures of the first plan."""
    if not found.plans:
        return {"Hardware": NOTHING}
    estimate = found.plans[0].estimate
    shown = {"Hardware": f"{estimate.count:,}x {estimate.accelerator_name}"}
    if estimate.cost.provider:
        shown["From"] = f"{estimate.cost.provider} ({estimate.cost.price_date})"
    if estimate.serving is not None:
        requests = rate(estimate.serving.requests_per_s, "", with_range=True)
        shown["Requests/s"] = requests.strip()
    return shown | headlines(estimate) | {"Prices up to": found.catalog_date}


@columns("What if", "Time", "Time saved", "Cost", "What limits it then")
def what_if_table(found: Sequence[WhatIf]) -> Cells:
    """Return each change with its time, cost and what limits it then; as it is, first."""
    for item in found:
        yield (
            (item.change or "as it is").capitalize(),
            _time(item) if item.fits else "does not fit",
            _faster(item, found[0]),
            "not rented" if item.usd is None else money(item.usd),
            BOUND_WORDS.get(item.bound_by, item.bound_by),
        )


def what_if_sentence(found: Sequence[WhatIf]) -> str:
    """Return which change saves most time."""
    now = found[0]
    changed = [item for item in found[1:] if item.fits]
    best = min(changed, key=lambda item: _seconds(item).expected, default=None)
    if best is None or _share(best, now) < LITTLE:
        return "No single change of the hardware makes it much faster."
    return f"Most time is saved by {best.change}: {percent(_share(best, now))} less."


def _seconds(item: WhatIf) -> Range:
    if item.hours is not None:
        return item.hours.scaled(HOUR_S)
    if item.tpot_ms is None:
        raise ValueError("neither a run nor a server")
    return item.tpot_ms.scaled(MILLISECOND)


def _time(item: WhatIf) -> str:
    seconds = _seconds(item)
    return milliseconds(seconds) if item.hours is None else duration(seconds)


def _share(item: WhatIf, now: WhatIf) -> float:
    return 1 - _seconds(item).expected / _seconds(now).expected


def _faster(item: WhatIf, now: WhatIf) -> str:
    if item is now or not item.fits:
        return ""
    share = _share(item, now)
    if abs(share) < LITTLE:
        return "none"
    return percent(share) if share > 0 else f"none, {percent(-share)} more"


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
