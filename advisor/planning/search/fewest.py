"""The exact smallest number of machines that meets the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints
from advisor.nouns.software.delivery import Operator
from advisor.nouns.software.efficiency import Calibration
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.options import (
    Configuration,
    Option,
    Price,
    meets_budget,
    meets_time,
    priced_options,
)
from advisor.planning.search.systems import System
from advisor.planning.search.training import search_training
from advisor.planning.time_ranges import TimeSpreads

TRIED_AT_ONCE = 3
"""How many numbers between two known ones each round tries."""


@dataclass(slots=True)
class _Between:
    """A number of machines that is too small, and an option with the smallest known enough."""

    too_few: int
    enough: Option
    machine: int
    """Accelerators in one."""

    @property
    def tried(self) -> list[int]:
        """Numbers of accelerators to try next, evenly between the two."""
        most = self.enough.count // self.machine
        ends = np.linspace(self.too_few, most, TRIED_AT_ONCE + 2)[1:-1]
        numbers = {int(number) for number in ends} - {self.too_few, most}
        return [number * self.machine for number in sorted(numbers)]


def fewest_machines(
    options: Sequence[Option],
    systems: Sequence[System],
    *,
    architecture: ModelArchitecture,
    limits: Constraints,
    calibration: Calibration,
    prices: Sequence[Price],
    stated: ParallelLayout | None = None,
) -> list[Option]:
    """Close the gap between the searched numbers: one machine fewer misses the limits.

    Parameters
    ----------
    options : sequence of Option
        Of each accelerator, the fewest of the searched numbers that meet the limits.
    prices : sequence of Price
        Of each system.
    stated : ParallelLayout, optional
        Layout of the case: its stated fields keep their values.

    Returns
    -------
    list of Option
        In the order of ``options``.

    Notes
    -----
    A number that does not divide the batch can be slower than a smaller one, so fewer machines may
    meet the limits somewhere below a number that misses them; such islands are not looked for.
    """
    runs = {id(option.run): option.run for option in options if option.run is not None}
    frozen = any(run.frozen for run in runs.values())
    operator = next((run.operator for run in runs.values()), Operator.TENANT)
    spreads = TimeSpreads(
        architecture, calibration, serving=False, frozen=frozen, operator=operator
    )
    gaps = []
    for option in options:
        system = systems[option.system]
        machine = 1 if system.owned else system.node.accelerators
        below = max((count for count in system.counts if count < option.count), default=0)
        gaps.append(_Between(below // machine, option, machine))
    hosted = any(option.layout.offload for option in options)
    for run in runs.values():
        precision = run.recipe.name
        open_gaps = [gap for gap in gaps if gap.enough.run is run and gap.tried]
        while open_gaps:
            tried = [
                replace(systems[gap.enough.system], counts=tuple(gap.tried)) for gap in open_gaps
            ]
            counts = {count for system in tried for count in system.counts}
            space = LayoutSpace(
                architecture, run, counts, calibration, stated=stated, hosted=hosted
            )
            found = search_training(architecture, run, tried, space, calibration).found
            configurations = [
                Configuration(
                    open_gaps[item.system].enough.system,
                    item.count,
                    precision,
                    item.layouts,
                    item.row,
                    item.hours,
                    item.hours
                    * spreads.of(
                        tried[item.system].accelerator,
                        tried[item.system].node,
                        precision=precision,
                        count=item.count,
                    ).high,
                    run=run,
                    proven=open_gaps[item.system].enough.proven,
                )
                for item in found
            ]
            priced = priced_options(configurations, prices)
            for place, gap in enumerate(open_gaps):
                meeting = {
                    option.count: option
                    for item, option in zip(found, priced, strict=True)
                    if item.system == place
                    and meets_time(option, limits)
                    and meets_budget(option, limits)
                }
                asked = gap.tried
                gap.enough = meeting[min(meeting)] if meeting else gap.enough
                missed = [count for count in asked if count < gap.enough.count]
                gap.too_few = max([gap.too_few, *(count // gap.machine for count in missed)])
            open_gaps = [gap for gap in open_gaps if gap.tried]
    return [gap.enough for gap in gaps]
