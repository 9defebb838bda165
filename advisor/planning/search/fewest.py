"""The exact smallest number of machines that meets the limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.nouns.case import Case
from advisor.nouns.limits import Constraints
from advisor.nouns.software.efficiency import Calibration
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.options import Option, Price, meets_budget, meets_time, priced_options
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

    def close(self, meeting: Sequence[Option]) -> None:
        """Narrow the gap by those of the tried numbers that meet the limits."""
        tried = self.tried
        self.enough = min(meeting, key=lambda option: option.count, default=self.enough)
        missed = [count for count in tried if count < self.enough.count]
        self.too_few = max([self.too_few, *(count // self.machine for count in missed)])


def fewest_machines(
    options: Sequence[Option],
    systems: Sequence[System],
    prices: Sequence[Price],
    case: Case,
    architecture: ModelArchitecture,
    calibration: Calibration,
) -> list[Option]:
    """Close the gap between the searched numbers: one machine fewer misses the limits.

    In the order of ``options``.

    Parameters
    ----------
    options : sequence of Option
        Of each accelerator, the fewest of the searched numbers that meet the limits.

    Notes
    -----
    A number that does not divide the batch can be slower than a smaller one, so fewer machines may
    meet the limits somewhere below a number that misses them; such islands are not looked for.
    """
    gaps = [_gap(option, systems[option.system]) for option in options]
    hosted = any(option.layout.offload for option in options)
    spreads = TimeSpreads(architecture, calibration, case.workload)
    for run in {id(gap.enough.run): gap.enough.run for gap in gaps}.values():
        if run is None:
            continue
        open_gaps = [gap for gap in gaps if gap.enough.run is run and gap.tried]
        while open_gaps:
            tried = [
                replace(systems[gap.enough.system], counts=tuple(gap.tried)) for gap in open_gaps
            ]
            counts = {count for system in tried for count in system.counts}
            space = LayoutSpace(
                architecture, run, counts, calibration, stated=case.layout, hosted=hosted
            )
            found = search_training(architecture, run, tried, space, calibration).found
            configurations = []
            for item in found:
                known, system = open_gaps[item.system].enough, tried[item.system]
                configurations.append(
                    item.configuration(known.system, system, run, spreads, proven=known.proven)
                )
            priced = priced_options(configurations, prices)
            for place, gap in enumerate(open_gaps):
                own = [
                    option
                    for item, option in zip(found, priced, strict=True)
                    if item.system == place and _meets(option, case.limits)
                ]
                gap.close(own)
            open_gaps = [gap for gap in open_gaps if gap.tried]
    return [gap.enough for gap in gaps]


def _gap(option: Option, system: System) -> _Between:
    machine = 1 if system.owned else system.node.accelerators
    below = max((count for count in system.counts if count < option.count), default=0)
    return _Between(below // machine, option, machine)


def _meets(option: Option, limits: Constraints) -> bool:
    return meets_time(option, limits) and meets_budget(option, limits)
