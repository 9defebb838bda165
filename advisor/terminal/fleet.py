"""Many answers on the terminal: the plan of a fleet, and the end of a sweep."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from rich.padding import Padding
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.text import Text

from advisor.fleet.machines import Machine
from advisor.fleet.results import FleetMachine, FleetPlan, Purchase
from advisor.fleet.solving.problem import starts_of
from advisor.foundation.formatting import count, duration, money, percent
from advisor.foundation.units import HOUR_S
from advisor.sweeps.sweep import SweepSummary
from advisor.terminal.console import INDENT, Report, Screen, drawn, of_cells, table

SHOWN_JOBS: Final = 8
SHOWN_LIMITS: Final = 3


def show_fleet(console: Report, plan: FleetPlan, *, everything: bool = False) -> None:
    """Print the plan on one screen; ``everything`` shows every period, charge and limit."""
    if not everything:
        _short(console, plan)
        return
    console.print(plan.sentence, style="bold")
    if plan.purchases:
        console.heading("Machines")
        console.print(_table([item.cells for item in plan.purchases], right=[2]))
        console.bullets("Why", _reasons(plan.purchases))
    uses = [row for machine in plan.fleet for row in _uses(machine, plan.period_months)]
    columns = ["Machine", "From month", "Number", "In use"]
    console.tabled("Use of the machines", columns, uses, right=[1, 2, 3])
    console.heading("Where each workload runs")
    console.print(_jobs(plan))
    console.heading("Cost by workload (present value)")
    console.print(_table([item.cells for item in plan.charges], right=[1, 2, 3]))
    console.heading("Cash by quarter")
    console.print(_table([item.cells for item in plan.cash], right=[0, 1, 2, 3]))
    console.bullets("Present value", (f"{line.title}: {money(line.usd)}" for line in plan.lines))
    console.bullets("Other ways", (item.sentence for item in (*plan.differing, *plan.curve)))
    console.bullets("What the limits cost", (item.sentence for item in plan.limit_prices))
    console.bullets("Energy", filter(None, (plan.energy,)))
    _regret(console, plan)
    console.bullets("Waiting for cards, simulated", _waits(plan))
    console.bullets("Notes", plan.notes)


def _regret(console: Report, plan: FleetPlan) -> None:
    if plan.regret is None:
        return
    title = "Other futures: cost, and how much more than the best plan for it"
    rows = [
        (
            row.future,
            row.plan,
            "not possible" if row.usd is None else money(row.usd),
            "-" if row.regret_usd is None else money(row.regret_usd),
        )
        for row in plan.regret.rows
    ]
    console.tabled(title, ["Future", "Plan", "Cost", "More"], rows, right=[2, 3])
    console.bullets("Least wrong", (plan.regret.sentence,))


def show_machines(console: Report, machines: Iterable[Machine]) -> None:
    """Print the machines that can be bought."""
    console.print(
        table(
            ["Key", "Machine", "Price", "Rated", "Rack units", "Noise", "Weeks"],
            [
                (
                    machine.key,
                    machine.title,
                    money(machine.usd),
                    f"{machine.rated_w:,.0f} W",
                    str(machine.row.rack_units),
                    f"{machine.row.noise_dba:.0f} dBA",
                    f"{machine.row.delivery_weeks:.0f}",
                )
                for machine in machines
            ],
            right=[2, 3, 4, 5, 6],
        )
    )


def _short(console: Report, plan: FleetPlan) -> None:
    screen = Screen(console, "'--all' shows every period, the cash by quarter and each charge.")
    screen.add(0, Text(plan.sentence, style="bold"))
    if plan.purchases:
        screen.add(1, _table([item.cells for item in plan.purchases], right=[2]))
        for reason in _reasons(plan.purchases)[:SHOWN_LIMITS]:
            screen.say(6, reason)
    for place, (name, words) in enumerate(plan.places().items()):
        screen.say(2 if place < SHOWN_JOBS else 7, f"{words}.", title=name)
    for item in plan.differing:
        screen.say(3, item.sentence)
    for text in plan.looser[:SHOWN_LIMITS]:
        screen.say(5, text)
    if plan.regret is not None:
        screen.say(1, plan.regret.sentence)
    for text in _waits(plan)[:SHOWN_LIMITS]:
        screen.say(1, text)
    screen.say(6, plan.energy)
    if plan.gap > 0.005:
        more = f"cost up to {percent(plan.gap)} less" if plan.feasible else "leave less out"
        screen.say(1, f"Another plan may {more}: the search proved no more.")
    screen.show()


def _table(rows: Sequence[Mapping[str, str]], *, right: Sequence[int]) -> Padding:
    return Padding(of_cells(rows, right=right), (0, 0, 0, INDENT))


def _jobs(plan: FleetPlan) -> Padding:
    """Return where each workload runs, again from each month in which that changes."""
    rows: list[tuple[str, str, str]] = []
    last: dict[str, str] = {}
    for month in starts_of(plan.period_months):
        there = plan.places(month)
        rows += [
            (name, f"month {month}", words)
            for name, words in there.items()
            if last.get(name) != words
        ]
        last = there
    order = {item.name: place for place, item in enumerate(plan.portfolio.workloads)}
    rows.sort(key=lambda row: order[row[0]])
    return Padding(table(["Workload", "From", "Runs on"], rows), (0, 0, 0, INDENT))


def _uses(machine: FleetMachine, months: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yield number and use of machines, again from each month in which they change."""
    last = "0", percent(0.0)
    for start, number, share in zip(
        starts_of(months), machine.count, machine.utilisation, strict=True
    ):
        there = count(number), percent(share)
        if there != last:
            yield (machine.title, str(start), *there)
        last = there


def _reasons(purchases: Iterable[Purchase]) -> list[str]:
    return list(
        dict.fromkeys(f"{item.title}: {' '.join(item.why)}" for item in purchases if item.why)
    )


def _waits(plan: FleetPlan) -> list[str]:
    return [
        f"{item.workload} on {item.machine}, from month {item.month}: half of the runs wait "
        f"{_under(item.median_h)}, 90 % {_under(item.p90_h)}, 99 % {_under(item.p99_h)}; "
        f"{percent(item.late_share)} end late."
        for item in plan.waiting
    ]


def _under(wait_h: float) -> str:
    return f"under {duration(wait_h * HOUR_S)}" if wait_h else "not at all"


WORDS: Final = {
    "ok": "answered",
    "misses_limits": "miss a limit",
    "does_not_fit": "do not fit",
    "no_plan": "without a plan within the limits",
    "mistake": "with a mistake (see the column problem)",
}


@contextmanager
def progress() -> Iterator[Callable[[int, int], object]]:
    """Draw a bar on standard error while rows are answered, if it is a terminal."""
    with drawn(MofNCompleteColumn(), TimeRemainingColumn(), total=None) as update:
        yield lambda done, total: update(completed=done, total=total)


def show_sweep(console: Report, summary: SweepSummary) -> None:
    """Print how many rows have which outcome, and where they are."""
    parts = [f"{number:,} {WORDS[name]}" for name, number in summary.outcomes.items()]
    console.print(f"{summary.rows:,} rows: {', '.join(parts) or 'none'}.")
    if summary.resumed:
        console.print(f"{summary.resumed:,} of them were done before.")
    console.print(f"Wrote {summary.output}.")
