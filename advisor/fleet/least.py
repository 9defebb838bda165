"""The whole machines on which one question costs least to own: what its portfolio would buy.

With one workload and nothing rented, the plan of ``fleet.solving`` is the least over the ways to do
the work, so it needs no program.
"""

import math

from advisor.catalog.economy import Economy
from advisor.errors import InputError
from advisor.fleet.build import build
from advisor.fleet.machines import PLATFORMS, platform_of
from advisor.fleet.modes import by_concurrency
from advisor.fleet.portfolio import OWNING_FIELDS, FleetWorkload, Portfolio
from advisor.fleet.purse import Unit, purchase
from advisor.fleet.solving.covers import SLACK
from advisor.nouns.hardware import PriceKind
from advisor.nouns.workload import Serving
from advisor.owning.answer import priced, size_bought
from advisor.owning.report import owned_usd
from advisor.owning.results import Purchase
from advisor.planning.prepared import PricedCase
from advisor.planning.searched import Searched


def least_machines(asked: PricedCase, economy: Economy, searched: Searched) -> Purchase | None:
    """Return the machines of one kind that do a case's work for the least present value.

    A service takes those that carry its load, a run those whose hours cost least. Another platform
    than CUDA has to save ``means.other_platform_usd``, as in a portfolio. None if no machine of the
    list does the work, or the case asks for its own cards. ``searched``: the case's rentals.
    """
    case, serving = asked.case, asked.case.workload
    if case.limits.owned:
        return None
    limits = case.limits.changed(budget_usd=None, price_kind=PriceKind.ON_DEMAND)
    alone = case.changed(limits=limits, hardware=None, layout=None)
    served, spares = isinstance(serving, Serving), 0
    if isinstance(serving, Serving):
        spares = serving.spare_replicas
        alone = alone.changed(workload=serving.changed(spare_replicas=0))
    often = {"quiet_share": 1.0} if served else {"runs_per_month": 1.0}
    workload = FleetWorkload.model_validate({"name": "work", "case": alone, **often})
    owning = {name: value for name, value in case.owning if name in OWNING_FIELDS}
    given = {"single": True, "means": {"rent": False}, "owning": owning}
    try:
        workload = by_concurrency(workload, asked.catalog, searched if alone == case else None)
        portfolio = Portfolio.model_validate({"workloads": [workload], **given})
        built = build(portfolio, asked.catalog, asked.calibration, economy)
    except InputError:  # told where the question is answered without the list
        return None
    [job] = built.problem.jobs
    found = []
    for mode in job.modes:
        machine = None if mode.supply is None else built.machines[mode.supply]
        if machine is None:
            continue
        cards, number = machine.row.cards, mode.machines
        if served:
            carried = mode.serves * math.floor(cards / mode.cards + SLACK)
            number = math.ceil(max(job.load[0]) / carried - SLACK) + spares
        count = int(mode.cards)
        price = machine.usd + (machine.network_usd(economy) if count > cards else 0.0)
        unit = Unit(machine, number, count, number * cards // count, 0.0, 0.0, None, number * price)
        bought = purchase(unit, 1, case)
        size = size_bought(bought, machine.card, economy)
        usd = owned_usd(priced(case, bought, asked.catalog), machine.card, size, economy)
        if platform_of(machine.card) != PLATFORMS["NVIDIA"]:
            usd += portfolio.means.other_platform_usd
        found.append((usd * (1.0 if served else mode.hours), bought))
    return min(found, key=lambda one: one[0], default=(0.0, None))[1]
