"""What other hardware would buy, as a table and in words."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from advisor.foundation.formatting import duration, milliseconds, money, percent
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.planning.explain.sentences import BOUND_WORDS
from advisor.planning.explain.what_if import WhatIf

LITTLE = 0.02
"""A change of time below this share is none. [fraction]"""


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
