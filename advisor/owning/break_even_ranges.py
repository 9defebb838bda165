"""Break-even hours across the range of one input at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from advisor.owning.compare import Comparison
from advisor.owning.results import Strip

POINTS: Final = 41
SPAN: Final = {
    "purchase_usd": (0.25, 2.5),
    "electricity_usd_per_kwh": (0.0, 4.0),
    "usd_per_hour": (0.25, 4.0),
}
"""Ends as multiples of the value in use; the worth at the end goes from 0 to 1."""


def break_even_by_input(comparison: Comparison) -> tuple[Strip, ...]:
    """Return break-even hours across price, worth at the end, electricity and rent."""
    spread, tenancy = comparison.spread, comparison.tenancy
    found = []
    for item in spread.inputs:
        if item.field != "resale_share" and item.field not in SPAN:
            continue
        value = item.value.expected
        low, high = SPAN.get(item.field, (0.0, 1.0))
        scale = value if item.field in SPAN else 1.0
        values = np.linspace(low * scale, high * scale, POINTS)
        found.append(
            Strip(
                field=item.field,
                value=value,
                values=tuple(values.tolist()),
                hours=comparison.each_hours_at(spread.at(item.field, values)),
            )
        )
    low, high = SPAN["usd_per_hour"]
    rents: Any = np.linspace(low * tenancy.usd_per_hour, high * tenancy.usd_per_hour, POINTS)
    found.append(
        Strip(
            field="usd_per_hour",
            value=tenancy.usd_per_hour,
            values=tuple(rents.tolist()),
            hours=replace(comparison, tenancy=replace(tenancy, usd_per_hour=rents)).each_hours_at(
                spread.base
            ),
        )
    )
    return tuple(found)
