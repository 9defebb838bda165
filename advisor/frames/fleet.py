"""The plan of a fleet as tables."""

from typing import Final

from advisor.fleet.results import FleetPlan
from advisor.foundation.formatting import percent
from advisor.frames.rows import Cells, Rows, columns, tabled

LEAST_LEFT_OUT: Final = 0.005
"""A smaller share of a workload is not worth a column."""


@tabled
def use_table(plan: FleetPlan) -> Rows:
    """Return the use of each kind of machine by workload, over the horizon."""
    names = dict.fromkeys(name for machine in plan.fleet for name in machine.by_workload)
    for machine in plan.fleet:
        yield {
            "Machine": machine.title,
            "Most at a time": str(max(machine.count)),
            **{name: percent(machine.by_workload.get(name, 0.0)) for name in names},
            "Free, of a week": percent(max(0.0, 1 - sum(machine.by_workload.values()))),
        }


@columns("row", "workload", "share")
def weeks_frame(plan: FleetPlan, month: int) -> Cells:
    """Return who holds the machines in a week of the period that starts in a month.

    A row is a machine and part of the week, a share that of its cards.
    """
    words = {"office": "office hours", "quiet": "other hours"}
    for item in sorted(plan.weeks, key=lambda one: (one.machine, one.slot)):
        if item.month == month:
            yield (f"{item.machine}, {words[item.slot]}", item.workload, item.share)


def week_months(plan: FleetPlan) -> list[int]:
    """Return the months from which a week differs from the one before."""
    weeks: dict[int, dict[tuple[str, str, str], str]] = {}
    for item in sorted(plan.weeks, key=lambda one: one.month):
        week = weeks.setdefault(item.month, {})
        week[item.machine, item.slot, item.workload] = percent(item.share)
    months = list(weeks)
    return [
        month
        for place, month in enumerate(months)
        if not place or weeks[month] != weeks[months[place - 1]]
    ]


@tabled
def charges_table(plan: FleetPlan) -> Rows:
    """Return what each workload costs over the horizon, as present value."""
    partly = any(item.left_out > LEAST_LEFT_OUT for item in plan.charges)
    for item in plan.charges:
        left_out = {"Left out": percent(item.left_out) if item.left_out else "-"}
        yield item.cells | (left_out if partly else {})


@tabled
def ways_table(plan: FleetPlan) -> Rows:
    """Return the other ways and the plans under smaller budgets; like ones share a row."""
    titles: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for item in (*plan.differing, *plan.curve):
        titles.setdefault(tuple(item.cells.items())[1:], []).append(item.title)
    for figures, ways in titles.items():
        yield {"Way": "; ".join(ways), **dict(figures)}
