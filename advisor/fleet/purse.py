"""The whole machines with the highest throughput that a budget buys for one workload.

The opposite question to ``fleet.solving``, so a program of its own for the same solver (HiGHS): a
portfolio states how much is done and the plan seeks the least cost; here the money is given, and
how much one workload may do is sought. Its worth, less for each doubling of the machines, is no sum
over machines: one linear program is solved for each number of kinds and machines.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np

from advisor.catalog.economy import Economy
from advisor.errors import refusal
from advisor.fleet.machines import PLATFORMS, Machine, machine_system, machines, mark, platform_of
from advisor.fleet.portfolio import Means
from advisor.fleet.sentences import beside_classics, card_alone, machine_reasons
from advisor.foundation import cents
from advisor.foundation.formatting import money
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.workload import Serving
from advisor.owning.results import BudgetAnswer, Purchase
from advisor.planning.prepared import PricedCase
from advisor.planning.search.options import Option, meets_time
from advisor.planning.search.software import search_and_host
from advisor.planning.usual_limits import Pace, latency_words, usual_limits

DESKS: Final = 12
"""Most computers without a rack that somebody looks after beside other work. Assumed."""
WORTH_ADDING: Final = 1.05
"""Each further kind must raise the throughput by this factor: more kinds mean more work."""
WORTH_DOUBLING: Final = 1.2
"""Twice as many machines must raise it by this factor: each is set up and kept. Assumed."""
FEW: Final = 8
"""Up to this number of machines each number is tried; beyond, two in each doubling."""
MOST_KINDS: Final = 3
SHOWN: Final = 10
MORE_THAN_ASKED: Final = (
    " This is the most that the money buys; the answer above names what the load needs."
)
NODES: Final = 2000
"""Most steps of the search for one mix: a limit of time would give another on a busy machine."""
NOTHING: Final = (
    "No machine that this buys can do the work. Raise the budget, the power or the slots. Consumer "
    "cards with less than 16 GB are not offered."
)


@record
class Unit:
    """Machines that do one or several jobs: one, or several that work together."""

    machine: Machine
    machines: int
    count: int
    """Cards of one job."""
    groups: int
    """Jobs side by side."""
    throughput: float
    """Of all groups: runs a month, or tokens per second."""
    sure: float
    """Its low end, so that machines without measurements must be clearly better to win."""
    hours: float | None
    usd: float

    @property
    def cards(self) -> int:
        """Cards of all its machines."""
        return self.machines * self.machine.row.cards


def buy_within(asked: PricedCase, economy: Economy) -> BudgetAnswer:
    """Find what ``owning.budget_usd`` buys for a case within its ``limits``.

    The best mix of machines by the low end of their throughput; used ones only where no new one
    that runs CUDA is within the budget. Machines work side by side: each trains runs of its own, or
    serves the workload's load, at the usual speed unless it states its own or nothing within the
    budget does. Raises InputError if no budget is given.
    """
    case, owning, calibration = asked.case, asked.case.owning, asked.calibration
    budget = owning.budget_usd
    if budget is None:
        raise refusal("no_budget")
    room = _Room(budget, owning.power_limit_w or inf, float(owning.slots or inf), float(DESKS))
    usual = usual_limits(case, asked.architecture)
    ladder = (usual, usual_limits(case, asked.architecture, Pace.READER), case.limits)
    units, slower = _units(asked.of(case.changed(limits=usual)), economy), ""
    for limits in dict.fromkeys(ladder[1:]) if not any(map(room.most, units)) else ():
        others = _units(asked.of(case.changed(limits=limits)), economy)
        if any(map(room.most, others)):
            units = others
            words, flags = latency_words(usual, limits, writes=asked.architecture.generates)
            slower = f" Nothing that this buys answers {words} ({flags}): this is slower."
            break
    new = [unit for unit in units if not unit.machine.row.used]
    if any(map(room.most, _of_first(new))):
        units = new

    def measured(key: str) -> bool:
        card = asked.catalog.accelerator(key)
        return calibration.kernels_for(card)[1] and (
            isinstance(case.workload, Serving) or card.architecture in calibration.trained
        )

    numbers, proven = _chosen(units, room, measured)
    best = [purchase(unit, number, case) for unit, number in numbers]
    alone: dict[str, tuple[float, Purchase]] = {}
    for unit in units:
        number = room.most(unit)
        if number and unit.sure * number > alone.get(unit.machine.key, (0.0,))[0]:
            alone[unit.machine.key] = unit.sure * number, purchase(unit, number, case)
    kinds = [item for _, item in sorted(alone.values(), key=lambda pair: -pair[0])]
    serving = isinstance(case.workload, Serving)
    throughput = sum(unit.throughput * number for unit, number in numbers)

    sentence = _sentence(best, kinds, numbers, measured, proven=proven)
    if not best and units:
        least = min(_of_first(units) or units, key=lambda unit: unit.usd)
        sentence += f" The least that can: {_words(purchase(least, 1, case))}, {money(least.usd)}."
        sentence += "".join(f" {item}" for item in beside_classics(least.machine))
        sentence += card_alone([unit.machine for unit in _of_first(units)], budget)
    return BudgetAnswer(
        sentence=sentence + slower + MORE_THAN_ASKED * (serving and bool(best)),
        best_is_proven=proven,
        budget_usd=budget,
        power_limit_w=owning.power_limit_w,
        slots=owning.slots,
        best=tuple(best),
        runs_per_month=None if serving or not best else throughput,
        tokens_per_s=throughput if serving and best else None,
        usd=cents.total(item.usd for item in best),
        rated_w=sum(item.rated_w for item in best),
        alternatives=tuple(kinds[:SHOWN]),
    )


def _of_first(units: Sequence[Unit]) -> list[Unit]:
    """Return the units on the platform with the most tools."""
    return [unit for unit in units if platform_of(unit.machine.card) == PLATFORMS["NVIDIA"]]


@record
class _Room:
    """What a purchase may take: money, power, cards and places on desks."""

    usd: float
    power_w: float
    slots: float
    desks: float

    def uses(self, unit: Unit) -> tuple[float, float, float, float]:
        """Return the share of each limit that a unit takes."""
        return (
            unit.usd / self.usd,
            unit.machines * unit.machine.rated_w / self.power_w,
            unit.cards / self.slots,
            unit.machines * (unit.machine.row.rack_units == 0) / self.desks,
        )

    def most(self, unit: Unit) -> int:
        """Most units of one kind."""
        return int(1 / max(self.uses(unit)) + 1e-9)


def _chosen(
    units: Sequence[Unit], room: _Room, measured: Callable[[str], bool]
) -> tuple[list[tuple[Unit, int]], bool]:
    """Return the best units of one software platform, and whether no others are better.

    CUDA has the most tools: another platform does more for what is left of the budget after a week
    of an engineer, or is the only one that does the work. Cards without measurements win only if
    their low end beats what is expected of the others.
    """
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(platform_of(unit.machine.card), []).append(unit)
    first = PLATFORMS["NVIDIA"]
    only = not any(map(room.most, groups.get(first, ())))
    left = replace(room, usd=max(1.0, room.usd - Means().other_platform_usd))
    plans, proven = [], True
    for platform, group in groups.items():
        known = [unit for unit in group if measured(unit.machine.card.key)]
        for some in (known, group) if len(known) < len(group) else (group,):
            numbers, complete = best_units(some, room if only or platform == first else left)
            proven = proven and complete
            sure = worth([(unit.sure, unit, number) for unit, number in numbers])
            expected = worth([(unit.throughput, unit, number) for unit, number in numbers])
            plans.append((all(unit in known for unit, _ in numbers), sure, expected, numbers))
    known_plans = [plan for plan in plans if plan[0] and plan[3]]
    others = [plan for plan in plans if not plan[0]]
    best = max(known_plans, key=lambda plan: plan[1], default=(True, 0.0, 0.0, []))
    other = max(others, key=lambda plan: plan[1], default=best)
    return (other if other[1] > best[2] else best)[3], proven


def worth(mix: Sequence[tuple[float, Unit, int]]) -> float:
    """Return the throughput of a mix, less for each further kind and for more machines."""
    machines = sum(number * unit.machines for _, unit, number in mix)
    if not machines:
        return 0.0
    burden = WORTH_ADDING ** (len(mix) - 1) * WORTH_DOUBLING ** math.log2(machines)
    return float(sum(value * number for value, _, number in mix) / burden)


def best_units(units: Sequence[Unit], room: _Room) -> tuple[list[tuple[Unit, int]], bool]:
    """Return the units of the highest worth, and whether no other mix has more."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    units = [unit for unit in units if room.most(unit) > 0]
    if not units:
        return [], True
    values = np.array([unit.sure for unit in units])
    most = np.array([float(room.most(unit)) for unit in units])
    machines = np.array([float(unit.machines) for unit in units])
    size, none = len(units), np.zeros(len(units))
    uses = np.array([room.uses(unit) for unit in units]).T
    rows = np.vstack(
        [
            np.hstack([uses, np.zeros_like(uses)]),
            np.hstack([np.eye(size), -np.diag(most)]),
            np.concatenate([none, np.ones(size)])[None],
            np.concatenate([machines, none])[None],
        ]
    )
    best: list[tuple[Unit, int]] = []
    score, proven = 0.0, True
    for kinds in range(1, min(MOST_KINDS, size) + 1):
        # Without a limit on machines first: larger limits would find the same.
        numbers = [int(machines @ most)]
        while numbers:
            number = numbers.pop()
            found = milp(
                c=np.concatenate([-values / values.max(), none]),
                constraints=LinearConstraint(
                    rows, ub=np.concatenate([np.full(len(uses), 1 + 1e-9), none, [kinds, number]])
                ),
                bounds=Bounds(0, np.concatenate([most, np.ones(size)])),
                integrality=np.ones(2 * size),
                options={"node_limit": NODES},
            )
            proven = proven and bool(found.success)
            counts = none if found.x is None else np.round(found.x[:size])
            if number == int(machines @ most):
                numbers = _numbers(int(counts @ machines) - 1)
            mix = [(units[place], int(counts[place])) for place in np.flatnonzero(counts)]
            value = worth([(unit.sure, unit, each) for unit, each in mix])
            if value > score * (1 + 1e-9):
                best, score = mix, value
    return best, proven


def _numbers(most: int) -> list[int]:
    """Return the numbers of machines that are tried."""
    few = range(1, min(most, FEW) + 1)
    steps = range(1, math.ceil(2 * math.log2(max(most / FEW, 1.0))) + 1)
    return [*few, *(min(most, round(FEW * 2 ** (step / 2))) for step in steps)]


def _units(asked: PricedCase, economy: Economy) -> list[Unit]:
    """Return what each machine does: its best count of cards, or several machines together."""
    case, catalog = asked.case, asked.catalog
    limits = case.limits.changed(budget_usd=None, owned=())
    open_case = case.changed(limits=limits, hardware=None, layout=None)
    training = not isinstance(case.workload, Serving)
    allowed = {catalog.accelerator(key).key for key in limits.accelerators}
    bought = {
        mark(machine): machine
        for machine in machines(catalog, economy, case.owning)
        if (not allowed or machine.card.key in allowed)
        and (not limits.vendors or machine.card.vendor in limits.vendors)
        and not (training and machine.card.inference_only)
        and not (machine.row.serves_only and (training or not allowed))
    }
    systems = [machine_system(machine, training=training) for machine in bought.values()]
    if not systems:
        return []
    searched, result = search_and_host(asked.of(open_case), systems, advising=False)
    best: dict[tuple[str, int], Unit] = {}
    for option in result.options:
        if not meets_time(option, limits):
            continue
        machine = bought[searched[option.system].node.assumptions[0]]
        unit = _unit(option, machine, economy)
        place = machine.key, unit.machines
        if place not in best or unit.sure > best[place].sure:
            best[place] = unit
    return list(best.values())


def _unit(option: Option, machine: Machine, economy: Economy) -> Unit:
    cards = machine.row.cards
    number = -(-option.count // cards)
    groups = number * cards // option.count
    each = option.tokens_per_s or HOURS_PER_MONTH / option.time
    price = machine.usd + (machine.network_usd(economy) if number > 1 else 0.0)
    return Unit(
        machine=machine,
        machines=number,
        count=option.count,
        groups=groups,
        throughput=each * groups,
        sure=each * groups * option.time / option.time_high,
        hours=None if option.tokens_per_s is not None else option.time,
        usd=number * price,
    )


def purchase(unit: Unit, number: int, case: Case) -> Purchase:
    """Return a number of units as what is bought."""
    machine, serving = unit.machine, isinstance(case.workload, Serving)
    card, row = machine.card, machine.row
    used = bool(row.card_usd)
    return Purchase(
        machine=machine.key,
        machine_name=machine.title,
        machines=number * unit.machines,
        cards_per_machine=row.cards,
        accelerator=card.key,
        accelerator_name=card.name,
        card_usd=(machine.usd - machine.host_usd) / row.cards,
        count=unit.count,
        groups=number * unit.groups,
        usd=cents.rounded(number * unit.usd),
        price_of=f"price of {machine.price_date}" if used else card.price_words(),
        at_launch_price=not used and card.at_launch_price(),
        life_years=row.life_years,
        rated_w=number * unit.machines * machine.rated_w,
        hours=unit.hours,
        tokens_per_s=unit.throughput * number if serving else None,
    )


def _sentence(
    bought: Sequence[Purchase],
    kinds: Sequence[Purchase],
    numbers: Sequence[tuple[Unit, int]],
    measured: Callable[[str], bool],
    *,
    proven: bool,
) -> str:
    """Return the best mix in words; for cards without measurements, also the best with some."""
    if not bought:
        return NOTHING
    usd = cents.total(item.usd for item in bought)
    watts = sum(item.rated_w for item in bought)
    text = (
        f"Buy {' and '.join(_words(item) for item in bought)}: {money(usd)}, {watts:,.0f} W "
        "rated. The low end of each range decides."
    )
    first = numbers[0][0].machine
    reasons = machine_reasons(first)
    text += "".join(f" {item}" for item in (reasons[0], *reasons[2:]))
    for name, price in dict.fromkeys(
        (item.accelerator_name, item.price_of) for item in bought if item.at_launch_price
    ):
        text += (
            f" {name} is priced at its {price}. Shops may ask another price: look it up before you "
            "decide."
        )
    unproven = [item.accelerator_name for item in bought if not measured(item.accelerator)]
    other = next((item for item in kinds if measured(item.accelerator)), None)
    if unproven and other:
        text += (
            f" No measurement of such work on {' or '.join(unproven)} was scored. Of the machines "
            f"whose cards have one, {_words(other)} for {money(other.usd)} do most."
        )
    desks = sum(item.machines for item in bought if not item.machine.startswith(("server", "hgx")))
    if desks >= DESKS:
        text += f" More than {DESKS} computers without a rack are not considered."
    return text if proven else f"{text} The search stopped at its limit: another mix may do more."


def _words(item: Purchase) -> str:
    return f"{item.machines:,} x {item.machine_name}"
