"""Answers side by side: to saved questions, and what other hardware would buy."""

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from advisor.foundation.formatting import duration, memory, milliseconds, money, percent, rate
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.planning.explain.sentences import BOUND_WORDS
from advisor.planning.explain.what_if import WhatIf
from advisor.planning.results import Recommendation

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
    if estimate.time is not None:
        shown["Time"] = duration(estimate.time.run_hours.scaled(HOUR_S), with_range=True)
    if (serving := estimate.serving) is not None:
        shown["Time per token"] = milliseconds(serving.tpot_ms.scaled(MILLISECOND), with_range=True)
        shown["Requests/s"] = rate(serving.requests_per_s, "", with_range=True).strip()
    if estimate.cost.rent_usd is not None:
        name = "Cost" if estimate.time is not None else "Cost of a month"
        shown[name] = money(estimate.cost.rent_usd, with_range=True)
    shown["Memory on each card"] = memory(estimate.memory.total_bytes, with_range=True)
    shown["Prices up to"] = found.catalog_date
    return shown


def what_if_table(found: Sequence[WhatIf]) -> pd.DataFrame:
    """Return each change with its time, cost and what limits it then; as it is, first."""
    rows = [
        (
            (item.change or "as it is").capitalize(),
            _time(item) if item.fits else "does not fit",
            _faster(item, found[0]),
            "not rented" if item.usd is None else money(item.usd),
            BOUND_WORDS.get(item.bound_by, item.bound_by),
        )
        for item in found
    ]
    return pd.DataFrame(
        rows, columns=["What if", "Time", "Less time", "Cost", "What limits it then"]
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
        msg = "neither a run nor a server"
        raise ValueError(msg)
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
        return "no"
    return percent(share) if share > 0 else f"{percent(-share)} more"
