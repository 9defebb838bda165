"""The report of a fleet: what to buy and rent, what it costs, and what else was possible."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from advisor.export.formats import Export, Format
from advisor.export.report import Bar, Report, Section, rendered
from advisor.fleet.results import FleetPlan
from advisor.foundation.dates import current_day
from advisor.foundation.formatting import percent
from advisor.foundation.names import check_known

LEAST_GAP: Final = 1e-3
ROWS: Final = 16
"""Rows of a table, so that the report stays on two pages."""


def fleet_report(plan: FleetPlan, to: str = "html", *, link: str | None = None) -> Export:
    """Write the plan of a fleet as a report of about two pages, with the address of its page.

    Raises InputError if the format is no report.
    """
    check_known(to, (Format.HTML, Format.MARKDOWN), what="report", field="to")
    name = plan.portfolio.name or f"{len(plan.portfolio.workloads)} workloads"
    report = Report(
        title=f"What to own and what to rent: {name}",
        answer=plan.sentence,
        made=f"Made on {current_day().isoformat()} by gpu-advisor.",
        link=link,
        sections=tuple(_sections(plan)),
    )
    return Export.of(Format(to), rendered(report, Format(to)))


def _sections(plan: FleetPlan) -> Iterator[Section]:
    yield _table("Machines", (item.cells for item in plan.purchases))
    yield Section(
        "Where each workload runs at first",
        columns=("Workload", "Runs on"),
        rows=_short(iter(plan.places().items())),
    )
    yield _use(plan)
    charges = sorted(plan.charges, key=lambda one: -one.usd)
    yield _table("Cost by workload (present value)", (item.cells for item in charges))
    yield _table("Cash by quarter", (item.cells for item in plan.cash))
    ways = (*plan.differing, *plan.curve)
    yield Section("Other ways", items=tuple(item.sentence for item in ways))
    yield Section("What the limits cost", items=tuple(item.sentence for item in plan.limit_prices))
    gap = percent(max(plan.gap, LEAST_GAP))
    proof = f"The plan is proven to cost at most {gap} more than the best."
    notes = filter(None, (plan.energy, proof, *plan.notes))
    yield Section("What it rests on", items=tuple(notes))
    sources = {
        f"{item.title}: {item.price_source}, {item.price_date}"
        for item in plan.purchases
        if item.price_source
    }
    yield Section("Sources", items=tuple(sorted(sources)))


def _table(title: str, cells: Iterable[Mapping[str, str]]) -> Section:
    rows = list(cells)
    columns = tuple(rows[0]) if rows else ()
    return Section(title, columns=columns, rows=_short(tuple(row.values()) for row in rows))


def _use(plan: FleetPlan) -> Section:
    """Return the use of the machines: a bar for each, and what takes most of it."""
    used = [(machine, sum(machine.by_workload.values())) for machine in plan.fleet]
    return Section(
        "Use of the machines",
        columns=("Machine", "Most at a time", "In use", "Most of it by"),
        rows=_short(
            (
                machine.title,
                str(max(machine.count)),
                percent(share),
                max(machine.by_workload, key=lambda name: machine.by_workload[name], default="-"),
            )
            for machine, share in used
        ),
        bars=tuple(Bar(machine.title, percent(share), share) for machine, share in used[:ROWS]),
    )


def _short(rows: Iterator[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return the first rows, and a last one that counts the others."""
    found = tuple(rows)
    if len(found) <= ROWS:
        return found
    more = (f"{len(found) - ROWS + 1} more", "in the plan (JSON)")
    return (*found[: ROWS - 1], (*more, *("",) * (len(found[0]) - len(more))))
