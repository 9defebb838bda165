"""The plan of a fleet: what is bought and rented, what runs where, and what it costs."""

from advisor.fleet.portfolio import Portfolio
from advisor.foundation.formatting import duration, money, percent
from advisor.foundation.noun import Noun
from advisor.foundation.units import HOUR_S, round_significant

WHOLE = 0.995
"""Larger shares are shown as all of it."""
NOTICED = 1.01
"""A slow end nearer to the expected value is not told."""
WORTH_TELLING = 1e-3
"""Savings below this share of the cost are none: the solver's own gap is of that size."""


class Purchase(Noun):
    """Machines bought, or rented for a term, at one time."""

    key: str
    title: str
    committed: bool
    """Whether they are rented for a term instead of bought."""
    count: int
    month: int
    """They have to be there at the start of this month; the first is 0."""
    order_weeks: float
    """Weeks before that month to order them; 0 for a commitment."""
    usd: float
    """Bought: price of all. Committed: rent of all for the whole term. [USD]"""
    price_date: str
    price_source: str
    assumed: tuple[str, ...]
    """Facts of the machine that no source states."""
    why: tuple[str, ...]
    """Reasons in words: memory, software, condition."""

    @property
    def cells(self) -> dict[str, str]:
        """The row of a table, by column."""
        return {
            "How": "Rent for a term" if self.committed else "Buy",
            "Machine": f"{self.count} x {self.title}",
            "Price": money(self.usd),
            "Ready": f"in month {self.month}" if self.month else "at the start",
            "Order": f"{self.order_weeks:.0f} weeks before" if self.order_weeks else "-",
        }


class FleetMachine(Noun):
    """Machines of one kind over time."""

    key: str
    title: str
    way: str
    cards: int
    """In each machine."""
    count: tuple[int, ...]
    """There in each period."""
    utilisation: tuple[float, ...]
    """Share of the card hours in use in each period."""
    by_workload: dict[str, float]
    """Share of the card hours of the horizon that each workload takes."""


class WeekShare(Noun):
    """How much of the machines of one kind a workload holds in a part of the week."""

    machine: str
    month: int
    """Start of the period."""
    slot: str
    """``office`` (ten hours on each weekday) or ``quiet`` (all others)."""
    workload: str
    share: float
    """Of the cards there. [fraction]"""


class Assignment(Noun):
    """Where a workload runs in one period."""

    workload: str
    month: int
    """Start of the period."""
    where: str
    rented: bool
    slot: str
    """``office`` or ``quiet`` for services; empty for runs."""
    share: float
    """Of the runs; 0 for services."""
    replicas: int
    """Of a service; 0 for runs. Of a hosted model: requests at a time."""
    hosted: bool
    cards: float
    """Together in one run or replica; below 1: a slice of a card."""
    serves: str
    """What a replica serves: a ``person``, a ``site``, or ``replica``: a part of the load."""
    hours: float
    """Of a run, as counted; 0 for services. [h]"""
    run_usd: float
    """Rent of a run, as counted; 0 on own machines. [USD]"""
    slow: float
    """Hours and rent of a run over the expected ones: 1 where runs on such cards are published."""
    detail: str
    weights: str = ""
    """Format of a service's weights, where it is not their own and nobody asked for it."""

    @property
    def when(self) -> str:
        """The hours in which a service is there; empty for runs."""
        if not self.slot:
            return ""
        return "in office hours" if self.slot == "office" else "in other hours"

    @property
    def place(self) -> str:
        """Where it runs, and how much of it there."""
        where = f"{'rented: ' if self.rented and not self.hosted else ''}{self.where}"
        if not self.slot:
            part = "" if self.share > WHOLE else f"{percent(self.share)} of the runs on "
            text = f"{part}{where}, {self._run(1.0)}"
            if self.slow > NOTICED:
                text += " (the slow end: no run on this card is published; expected: "
                text += f"{self._run(self.slow)})"
            return text
        if self.hosted:
            plural = "s" * (self.replicas > 1)
            return f"{where} for {self.replicas:,} request{plural} at a time ({self.detail})"
        many = {"person": "people"}.get(self.serves, f"{self.serves}s")
        copies = f"{self.replicas:,} {self.serves if self.replicas == 1 else many}"
        each = ", each on" if self.replicas > 1 else " on"
        on = f"{each} {self.cards:g} cards" if self.cards > 1 else ""
        on = f"{each} a {self.detail}" if self.cards < 1 else on
        return f"{where}: {copies}{on}{f' in {self.weights}' if self.weights else ''}"

    def _run(self, over: float) -> str:
        """Return hours and rent of a run in words, over a factor."""
        text = f"{duration(self.hours * HOUR_S / over)} a run"
        return f"{text} for {money(self.run_usd / over)}" if self.run_usd else text


class Charge(Noun):
    """What one workload costs over the horizon, as present value."""

    workload: str
    usd: float
    own_usd: float
    """Its share of machines and their power. [USD]"""
    rent_usd: float
    left_out: float
    """Largest share of it that the limits leave out in any period."""

    @property
    def cells(self) -> dict[str, str]:
        """The row of a table, by column."""
        return {
            "Workload": self.workload,
            "Total": money(self.usd),
            "Own machines": money(self.own_usd),
            "Rent": money(self.rent_usd),
        }


class Cash(Noun):
    """Cash of one quarter. [USD]"""

    month: int
    purchase_usd: float
    rent_usd: float
    running_usd: float
    """Power, place and staff."""

    @property
    def cells(self) -> dict[str, str]:
        """The row of a table, by column."""
        return {
            "From month": str(self.month),
            "Machines": money(self.purchase_usd),
            "Rent": money(self.rent_usd),
            "Power, place, staff": money(self.running_usd),
        }


class CostLine(Noun):
    """One line of the present cost."""

    name: str
    title: str
    usd: float


class Alternative(Noun):
    """Another way to do the same work."""

    name: str
    title: str
    feasible: bool
    usd: float | None
    """Present value. [USD]"""
    purchase_usd: float | None
    machines: str = ""
    """What it buys, in words."""
    gap: float = 0.0
    """How much less another plan of this kind may cost, over its cost."""
    timed_out: bool = False
    """The search ended before it found such a plan, or that there is none."""
    sentence: str

    @property
    def cells(self) -> dict[str, str]:
        """The row of a table, by column."""
        return {
            "Way": self.title,
            "Cost": "not possible" if self.usd is None else money(self.usd),
            "Spent on machines": "-" if self.purchase_usd is None else money(self.purchase_usd),
            "Machines": self.machines or "-",
        }


class ConstraintPrice(Noun):
    """What a limit costs: how much less the plan costs if the limit is looser."""

    limit: str
    saves_usd: float
    most_usd: float
    """No plan under the looser limit saves more. [USD]"""
    sentence: str


class Regret(Noun):
    """What one plan costs in one future."""

    plan: str
    future: str
    usd: float | None
    """None if the plan cannot do the work there. [USD]"""
    regret_usd: float | None
    """More than the best plan for that future. [USD]"""


class RegretTable(Noun):
    """Plans under other futures."""

    rows: tuple[Regret, ...]
    least_wrong: str
    """The plan with the smallest largest regret; empty if none does the work everywhere."""
    sentence: str


class Waiting(Noun):
    """How long the runs of one workload wait for cards, as simulated."""

    workload: str
    machine: str
    month: int
    """Start of the simulated period."""
    median_h: float
    p90_h: float
    p99_h: float
    late_share: float
    """Share of the runs that miss their deadline, counted from arrival."""


class FleetPlan(Noun):
    """The answer to a portfolio."""

    portfolio: Portfolio
    sentence: str
    """The answer for a boss."""
    feasible: bool
    """Whether all work is done. If not, ``left_out`` of the charges says what is missing."""
    total_usd: float
    """Present value over the horizon. [USD]"""
    gap: float
    """No plan costs less by more than this share, by the solver's proof."""
    horizon_months: int
    period_months: tuple[int, ...]
    platforms: tuple[str, ...]
    """Software platforms of the machines and rentals that it may use."""
    purchases: tuple[Purchase, ...]
    fleet: tuple[FleetMachine, ...]
    weeks: tuple[WeekShare, ...]
    """Who holds the machines in a week of each period."""
    assignments: tuple[Assignment, ...]
    charges: tuple[Charge, ...]
    cash: tuple[Cash, ...]
    lines: tuple[CostLine, ...]
    energy_kwh: float
    """Of owned machines, cooling included; rented ones are the provider's. [kWh]"""
    carbon_kg: float
    peak_kw: float
    """Rated power of all machines on site, at its highest. [kW]"""
    alternatives: tuple[Alternative, ...] = ()
    curve: tuple[Alternative, ...] = ()
    """Best plans under rising purchase budgets."""
    limit_prices: tuple[ConstraintPrice, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    """Simulated queues of the first and the last period, if asked for."""
    regret: RegretTable | None = None
    """Plans under other futures, if asked for."""
    notes: tuple[str, ...] = ()

    @property
    def energy(self) -> str:
        """Energy and carbon of the machines on site, in words; empty if they take none."""
        if not self.energy_kwh:
            return ""
        kwh, kg = round_significant(self.energy_kwh, 3), round_significant(self.carbon_kg, 3)
        return (
            f"Machines on site take {kwh:,.0f} kWh and cause {kg:,.0f} kg of CO2 over "
            f"{self.horizon_months} months; rated power {self.peak_kw:.1f} kW."
        )

    @property
    def differing(self) -> tuple[Alternative, ...]:
        """Other ways that are not the plan itself again."""
        little = WORTH_TELLING * max(self.total_usd, 1.0)
        return tuple(
            item
            for item in self.alternatives
            if item.usd is None or abs(item.usd - self.total_usd) > little
        )

    @property
    def looser(self) -> tuple[str, ...]:
        """What looser limits would save, in words."""
        least = WORTH_TELLING * self.total_usd
        saving = tuple(item.sentence for item in self.limit_prices if item.most_usd > least)
        if self.limit_prices and not saving:
            return ("No looser limit would save anything.",)
        return saving

    def places(self, month: int | None = None) -> dict[str, str]:
        """Return where each workload runs in the period that starts in a month, in words.

        Without a month: where each runs first, and from when if that is later.
        """
        first: dict[str, int] = {}
        for item in self.assignments:
            first[item.workload] = min(item.month, first.get(item.workload, item.month))
        found: dict[str, dict[str, list[str]]] = {}
        for item in self.assignments:
            if item.month == (first[item.workload] if month is None else month):
                places = found.setdefault(item.workload, {})
                places.setdefault(item.place, []).append(item.when)
        return {
            name: "; ".join(
                f"{place} {'day and night' if len(when) > 1 else when[0]}".rstrip()
                for place, when in places.items()
            )
            + f", from month {first[name]}" * (month is None and first[name] > 0)
            for name, places in found.items()
        }
