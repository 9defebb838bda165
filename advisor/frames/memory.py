"""Memory of the plans by term: for the chart in five groups, for the table in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from advisor.estimate.results import MemoryBreakdown
from advisor.foundation.formatting import memory
from advisor.foundation.quantities import Range
from advisor.foundation.units import GIB
from advisor.frames.picks import Pick

MEMORY_GROUPS: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    ("Weights", (("weights_bytes", "Weights"),)),
    (
        "Gradients and optimizer",
        (("gradients_bytes", "Gradients"), ("optimizer_bytes", "Optimizer states")),
    ),
    (
        "Activations and logits",
        (("activations_bytes", "Activations"), ("logits_bytes", "Logits and loss")),
    ),
    ("Key-value cache", (("kv_cache_bytes", "Key-value cache"),)),
    (
        "Overheads",
        (
            ("workspace_bytes", "Workspaces and buffers"),
            ("context_bytes", "Driver context"),
            ("fragmentation_bytes", "Allocator fragmentation"),
        ),
    ),
)
"""Five groups, one for each hue, with their fields of ``MemoryBreakdown``."""


def memory_frame(chosen: Sequence[Pick]) -> pd.DataFrame:
    """Return the memory of each chosen plan by group, per accelerator.

    Returns
    -------
    DataFrame
        ``plan, accelerator, group, gib, total_gib, total_low_gib, total_high_gib, usable_gib``;
        without groups that are zero in all plans.
    """
    rows = []
    for pick in chosen:
        breakdown = pick.plan.estimate.memory
        for group, fields in MEMORY_GROUPS:
            size = sum(component(breakdown, field).expected for field, _ in fields)
            rows.append(
                (
                    pick.title,
                    f"{pick.plan.estimate.count:,}x {pick.plan.estimate.accelerator_name}",
                    group,
                    size / GIB,
                    breakdown.total_bytes.expected / GIB,
                    breakdown.total_bytes.low / GIB,
                    breakdown.total_bytes.high / GIB,
                    breakdown.usable_bytes / GIB,
                )
            )
    columns = ["plan", "accelerator", "group", "gib"]
    columns += ["total_gib", "total_low_gib", "total_high_gib", "usable_gib"]
    frame = pd.DataFrame(rows, columns=columns)
    used = frame.groupby("group")["gib"].max()
    return frame[frame["group"].isin(used.index[used > 0])].reset_index(drop=True)


def memory_table(chosen: Sequence[Pick]) -> pd.DataFrame:
    """Return memory by component as text, one column for each chosen plan."""
    table: dict[str, list[str]] = {"On each accelerator": []}
    labels = [title for _, fields in MEMORY_GROUPS for _, title in fields]
    hosted = any(pick.plan.estimate.memory.host_bytes.expected > 0 for pick in chosen)
    table["On each accelerator"] = [*labels, "Total", "Usable", *["In host memory"] * hosted]
    for pick in chosen:
        breakdown = pick.plan.estimate.memory
        cells = [
            memory(component(breakdown, field))
            for _, fields in MEMORY_GROUPS
            for field, _ in fields
        ]
        name = f"{pick.title}: {pick.plan.estimate.accelerator_name}"
        table[name] = [
            *cells,
            memory(breakdown.total_bytes, with_range=True),
            memory(breakdown.usable_bytes),
            *[memory(breakdown.host_bytes, with_range=True)] * hosted,
        ]
    return pd.DataFrame(table)


def component(breakdown: MemoryBreakdown, field: str) -> Range:
    """Return one term of a breakdown by the name of its field."""
    value = getattr(breakdown, field)
    if not isinstance(value, Range):
        msg = f"{field} is not a term of the memory; choose one of MEMORY_GROUPS"
        raise TypeError(msg)
    return value
