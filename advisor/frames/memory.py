"""Memory of the plans by term."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pandas as pd

from advisor.estimate.results import MEMORY_TITLES
from advisor.foundation.formatting import memory
from advisor.foundation.units import GIB
from advisor.frames.points import Pick

MEMORY_GROUPS: Final = {
    "Weights": ("weights_bytes",),
    "Gradients and optimizer": ("gradients_bytes", "optimizer_bytes"),
    "Activations and logits": ("activations_bytes", "logits_bytes"),
    "Key-value cache": ("kv_cache_bytes",),
    "Overheads": ("workspace_bytes", "context_bytes", "fragmentation_bytes"),
}
"""Five groups, one for each hue, with their fields of ``MemoryBreakdown``."""


class MemoryTerm(NamedTuple):
    """One group of the memory of a plan, per accelerator; the fields are columns of its file."""

    plan: str
    accelerator: str
    group: str
    gib: float
    total_gib: float
    total_low_gib: float
    total_high_gib: float
    usable_gib: float


def memory_terms(chosen: Sequence[Pick]) -> list[MemoryTerm]:
    """Return the memory of each chosen plan, by groups that are above zero in any. [GiB]"""
    rows = []
    for pick in chosen:
        breakdown = pick.plan.estimate.memory
        for group, fields in MEMORY_GROUPS.items():
            size = sum(getattr(breakdown, field).expected for field in fields)
            rows.append(
                MemoryTerm(
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
    used = {row.group for row in rows if row.gib > 0}
    return [row for row in rows if row.group in used]


def memory_table(chosen: Sequence[Pick]) -> pd.DataFrame:
    """Return memory by component as text, one column for each chosen plan."""
    hosted = any(pick.plan.estimate.memory.host_bytes.expected > 0 for pick in chosen)
    host = ["In host memory"] * hosted
    table = {"On each accelerator": [*MEMORY_TITLES.values(), "Total", "Usable", *host]}
    for pick in chosen:
        found = pick.plan.estimate.memory
        table[f"{pick.title}: {pick.plan.estimate.accelerator_name}"] = [
            *(memory(getattr(found, field)) for field in MEMORY_TITLES),
            memory(found.total_bytes, with_range=True),
            memory(found.usable_bytes),
            *[memory(found.host_bytes, with_range=True)] * hosted,
        ]
    return pd.DataFrame(table)
