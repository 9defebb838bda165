"""Answers side by side: what was asked differently, then what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from advisor.foundation.formatting import duration, memory, milliseconds, money, rate
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.planning.results import Recommendation

NOTHING: Final = "nothing works"


def side_by_side(
    asked: Sequence[Mapping[str, str]], found: Sequence[Recommendation], titles: Sequence[str]
) -> pd.DataFrame:
    """Return questions and their first plans as text, one column each.

    Parameters
    ----------
    asked : sequence of mapping
        Inputs of each question: label to value. Those that all share are left out.
    found : sequence of Recommendation
        The answers, in the same order.
    titles : sequence of str
        Heads of the columns.
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
