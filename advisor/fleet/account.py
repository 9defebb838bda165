"""The books of a plan: cost by line, by workload and by quarter, utilisation and energy."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from advisor.fleet.results import Cash, Charge, CostLine, FleetMachine, WeekShare
from advisor.fleet.solving import columns
from advisor.fleet.solving.problem import OFFICE, QUIET, SLOT_HOURS, Mode, Problem, Supply, Way
from advisor.foundation import cents
from advisor.foundation.units import HOURS_PER_MONTH

MONTHS_PER_QUARTER = 3
UNUSED = "(machines that nothing uses)"
TITLES = {
    "purchase": "Machines, less their worth at the end",
    "owned": "Place, staff and idle power of machines that are there",
    "commitments": "Rents for a term",
    "upkeep": "Place, staff and idle power of machines",
    "power": "Power of work",
    "rent": "Rents on demand and spot",
    "away": "Keeping a second place, for services that rent although machines are there",
}


@dataclass(frozen=True)
class Account:
    """A solved problem in money and hours."""

    problem: Problem
    solution: columns.Solution

    @cached_property
    def there(self) -> tuple[tuple[int, ...], ...]:
        """Machines of each supply in each period."""
        return tuple(
            columns.machines_there(self.problem, self.solution, place)
            for place in range(len(self.problem.supplies))
        )

    def mode(self, use: columns.Use) -> Mode:
        """Return the mode of a use."""
        return self.problem.jobs[use.job].modes[use.mode]

    def card_hours(self, use: columns.Use, value: float) -> float:
        """Card hours of a month in a period."""
        mode = self.mode(use)
        if use.slot >= 0:
            return mode.cards * value * SLOT_HOURS[use.slot]
        return self.problem.jobs[use.job].runs[use.period] * value * mode.cards * mode.hours

    def month_usd(self, use: columns.Use, value: float) -> float:
        """Cost of a use in a month: rent, or power of the work. [USD]"""
        return columns.use_usd(self.problem, use, value)

    def present(self, period: int) -> float:
        """Present value of a dollar in each month of a period."""
        return self.problem.months[period] * self.problem.period_factor(period)

    @cached_property
    def lines(self) -> dict[str, float]:
        """Present value by kind of cost. [USD]"""
        lines = dict.fromkeys(TITLES, 0.0)
        problem = self.problem
        for supply, period, number in self._bought():
            whole = number * columns.present_usd(problem, supply, period)
            bought = number * supply.capital_usd * problem.capital_factor(supply, period)
            lines["purchase"] += bought
            kind = "commitments" if supply.way is Way.COMMIT else "upkeep"
            lines[kind] += whole - bought
        lines["owned"] = problem.owned_usd
        for use, value in self.solution.used():
            rented = self.mode(use).supply is None
            usd = self.month_usd(use, value) * self.present(use.period)
            lines["rent" if rented else "power"] += usd
        for _, period in self.solution.away():
            lines["away"] += columns.AWAY_USD_PER_MONTH * self.present(period)
        return lines

    @property
    def total_usd(self) -> float:
        """Present value of the whole plan. [USD]"""
        return sum(self.lines.values())

    @property
    def caution_usd(self) -> float:
        """Present value of rents over the expected ones: no run on the card is published. [USD]"""
        return sum(
            (1 - 1 / self.mode(use).slow) * self.month_usd(use, value) * self.present(use.period)
            for use, value in self.solution.used()
            if self.mode(use).supply is None
        )

    def _bought(self) -> Iterator[tuple[Supply, int, int]]:
        """Yield what is bought or committed to, in which period, and how many."""
        for column, number in self.solution.bought():
            yield self.problem.supplies[column.supply], column.period, number

    @property
    def purchase_usd(self) -> float:
        """Price of all machines bought. [USD]"""
        return sum(number * supply.capital_usd for supply, _, number in self._bought())

    @property
    def worth_usd(self) -> float:
        """Present value of what all machines bought are still worth at the horizon. [USD]"""
        problem = self.problem
        return problem.factor(problem.horizon) * sum(
            number * supply.capital_usd * problem.worth_at_end(supply, period)
            for supply, period, number in self._bought()
        )

    def cost_lines(self) -> tuple[CostLine, ...]:
        """Return the lines that are not zero."""
        return tuple(
            CostLine(name=name, title=TITLES[name], usd=cents.rounded(usd))
            for name, usd in self.lines.items()
            if abs(usd) >= 0.005
        )

    def charges(self) -> tuple[Charge, ...]:
        """Share all costs among the workloads; each supply by the card hours it is used."""
        problem = self.problem
        own = [0.0] * len(problem.jobs)
        rent = [0.0] * len(problem.jobs)
        for use, value in self.solution.used():
            bill = rent if self.mode(use).supply is None else own
            bill[use.job] += self.month_usd(use, value) * self.present(use.period)
        for job, period in self.solution.away():
            rent[job] += columns.AWAY_USD_PER_MONTH * self.present(period)
        unused = 0.0
        for place, usd in enumerate(self._fixed()):
            jobs = self._shares.get(place, {})
            total = sum(jobs.values())
            unused += 0.0 if total else usd
            for job, hours in jobs.items():
                own[job] += usd * hours / total
        left = [0.0] * len(problem.jobs)
        for column, share in self.solution.left():
            left[column.job] = max(left[column.job], share)
        rows = [
            (job.name, own[place], rent[place], left[place])
            for place, job in enumerate(problem.jobs)
        ]
        if unused:
            rows.append((UNUSED, unused, 0.0, 0.0))
        return tuple(
            Charge(
                workload=name,
                usd=cents.rounded(owned + rented),
                own_usd=cents.rounded(owned),
                rent_usd=cents.rounded(rented),
                left_out=share,
            )
            for name, owned, rented, share in rows
        )

    @cached_property
    def _hours(self) -> dict[tuple[int, int, int], float]:
        """Card hours of a month by supply, period and job."""
        found: dict[tuple[int, int, int], float] = {}
        for use, value in self.solution.used():
            if (supply := self.mode(use).supply) is not None:
                at = supply, use.period, use.job
                found[at] = found.get(at, 0.0) + self.card_hours(use, value)
        return found

    @cached_property
    def busy(self) -> dict[tuple[int, int], float]:
        """Card hours of a month by supply and period."""
        found: dict[tuple[int, int], float] = {}
        for (supply, period, _), hours in self._hours.items():
            found[supply, period] = found.get((supply, period), 0.0) + hours
        return found

    @cached_property
    def worked(self) -> dict[tuple[int, int], float]:
        """The same without hours in which replicas wait for the busier ones of their curve."""
        found: dict[tuple[int, int], float] = {}
        for use, value in self.solution.used():
            if (supply := self.mode(use).supply) is not None:
                share = self.problem.jobs[use.job].busy_share(use.slot)
                hours = share * self.card_hours(use, value)
                found[supply, use.period] = found.get((supply, use.period), 0.0) + hours
        return found

    def use(self, way: Way) -> float:
        """Return in which share of the hours the cards work that came about in a way."""
        problem, busy, whole = self.problem, 0.0, 0.0
        for place, item in enumerate(problem.supplies):
            for period, number in enumerate(self.there[place] if item.way is way else ()):
                busy += self.busy.get((place, period), 0.0) * problem.months[period]
                whole += number * item.cards * HOURS_PER_MONTH * problem.months[period]
        return busy / whole if whole else 0.0

    @cached_property
    def _shares(self) -> dict[int, dict[int, float]]:
        """Card hours of the horizon by supply and job."""
        found: dict[int, dict[int, float]] = {}
        for (supply, period, job), hours in self._hours.items():
            jobs = found.setdefault(supply, {})
            jobs[job] = jobs.get(job, 0.0) + hours * self.problem.months[period]
        return found

    def _fixed(self) -> list[float]:
        """Present cost of each supply's machines without their use. [USD]"""
        problem = self.problem
        fixed = [
            sum(
                number * supply.month_usd * self.present(period)
                for period, number in enumerate(supply.owned)
            )
            for supply in problem.supplies
        ]
        for column, number in self.solution.bought():
            supply = problem.supplies[column.supply]
            fixed[column.supply] += number * columns.present_usd(problem, supply, column.period)
        return fixed

    def fleet(self) -> tuple[FleetMachine, ...]:
        """Return the machines over time with their use."""
        problem, shares = self.problem, self._shares
        found = []
        for place, item in enumerate(problem.supplies):
            there = self.there[place]
            if not any(there):
                continue
            capacity = [number * item.cards * HOURS_PER_MONTH for number in there]
            whole = sum(
                hours * months for hours, months in zip(capacity, problem.months, strict=True)
            )
            found.append(
                FleetMachine(
                    key=item.key,
                    title=item.title,
                    way=item.way.value,
                    cards=item.cards,
                    count=there,
                    utilisation=tuple(
                        self.busy.get((place, period), 0.0) / hours if hours else 0.0
                        for period, hours in enumerate(capacity)
                    ),
                    by_workload={
                        problem.jobs[job].name: hours / whole
                        for job, hours in shares.get(place, {}).items()
                    },
                )
            )
        return tuple(found)

    def weeks(self) -> tuple[WeekShare, ...]:
        """Return who holds the machines in a week of each period.

        Runs fill what services leave: the same share of the free cards in every hour.
        """
        problem = self.problem
        held: dict[tuple[int, int], dict[tuple[str, int], float]] = {}
        for use, value in self.solution.used():
            supply = self.mode(use).supply
            if supply is None:
                continue
            name = problem.jobs[use.job].name
            shares = held.setdefault((supply, use.period), {})
            cards = self.there[supply][use.period] * problem.supplies[supply].cards
            taken = self.card_hours(use, value) / max(cards, 1)
            at = name, use.slot
            hours = HOURS_PER_MONTH if use.slot < 0 else SLOT_HOURS[use.slot]
            shares[at] = shares.get(at, 0.0) + taken / hours
        found = []
        for (supply, period), shares in sorted(held.items()):
            busy = [
                sum(share for (_, part), share in shares.items() if part == slot)
                for slot in (OFFICE, QUIET)
            ]
            free = sum((1 - one) * hours for one, hours in zip(busy, SLOT_HOURS, strict=True))
            for slot, title in ((OFFICE, "office"), (QUIET, "quiet")):
                filled = (1 - busy[slot]) * HOURS_PER_MONTH / free if free > 0 else 0.0
                for (name, part), share in shares.items():
                    if part in (slot, -1):
                        found.append(
                            WeekShare(
                                machine=problem.supplies[supply].title,
                                month=problem.starts[period],
                                slot=title,
                                workload=name,
                                share=share * (filled if part < 0 else 1.0),
                            )
                        )
        return tuple(found)

    def cash(self) -> tuple[Cash, ...]:
        """Return the cash of each quarter; a period's monthly costs are even."""
        quarters = -(-self.problem.horizon // MONTHS_PER_QUARTER)
        rows = [[0.0, 0.0, 0.0] for _ in range(quarters)]
        for month, kind, usd in self._payments():
            rows[month // MONTHS_PER_QUARTER][kind] += usd
        return tuple(
            Cash(
                month=place * MONTHS_PER_QUARTER,
                purchase_usd=cents.rounded(row[0]),
                rent_usd=cents.rounded(row[1]),
                running_usd=cents.rounded(row[2]),
            )
            for place, row in enumerate(rows)
        )

    def _payments(self) -> Iterator[tuple[int, int, float]]:
        """Yield month, kind (purchase, rent, running) and amount of every payment. [USD]"""
        problem = self.problem
        for supply, period, number in self._bought():
            yield problem.starts[period], 0, number * supply.capital_usd
        monthly: list[tuple[int, int, float]] = []
        for place, supply in enumerate(problem.supplies):
            kind = 1 if supply.way is Way.COMMIT else 2
            monthly += [
                (period, kind, number * supply.month_usd)
                for period, number in enumerate(self.there[place])
            ]
        for use, value in self.solution.used():
            kind = 1 if self.mode(use).supply is None else 2
            monthly.append((use.period, kind, self.month_usd(use, value)))
        monthly += [(period, 2, columns.AWAY_USD_PER_MONTH) for _, period in self.solution.away()]
        for period, kind, usd in monthly:
            start = problem.starts[period]
            for month in range(start, start + problem.months[period]):
                yield month, kind, usd
