"""What a budget buys: the mix of cards with the highest throughput for a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor import cents
from advisor.architecture.model import ModelArchitecture
from advisor.case import Case
from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.catalog.nodes import node_for
from advisor.efficiency import Calibration
from advisor.equations.energy import WATTS_PER_KW, rated_kw
from advisor.equations.owning import capital_usd
from advisor.equations.pricing import instances_needed
from advisor.errors import InputError
from advisor.estimate.serving_report import serving_quantity
from advisor.estimate.training import time_quantity
from advisor.formatting import money
from advisor.hardware import Accelerator
from advisor.limits import OwnedHardware
from advisor.owning.assumptions import groups_of
from advisor.owning.results import BudgetAnswer, Purchase
from advisor.planning.options import Option, meets_time
from advisor.planning.search import search
from advisor.planning.systems import System, find_systems
from advisor.units import HOURS_PER_MONTH
from advisor.workload import Serving

MOST_CARDS: Final = 1024
"""Cards of one kind that are considered."""
SHOWN: Final = 8
MIXED: Final = 40
"""Groups, best alone first, of which pairs are tried."""


WORTH_MIXING: Final = 1.05
"""A second kind of card has to raise the throughput by this factor."""


@dataclass(frozen=True, slots=True)
class Group:
    """Cards that do one job together, as often as affordable."""

    accelerator: Accelerator
    count: int
    usd: float
    rated_w: float
    throughput: float
    """Runs a month (training) or tokens per second (serving)."""
    sure: float
    """The low end of it: cards that nobody measured must be better by more to win."""
    hours: float | None
    most: int
    """Groups that budget, power and slots allow."""


def buy_within(
    case: Case,
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    economy: Economy,
) -> BudgetAnswer:
    """Find what a budget buys for a case.

    Parameters
    ----------
    case : Case
        With ``owning.budget_usd``; ``limits`` (deadline, latency, accelerators) apply.
    architecture : ModelArchitecture
    catalog : Catalog
    calibration : Calibration
    economy : Economy

    Returns
    -------
    BudgetAnswer
        The best mix of at most two kinds of groups, judged by the low end of their throughput. A
        group does one job: it trains one run, or serves the workload's load; groups work side by
        side.

    Raises
    ------
    InputError
        If no budget is given.
    """
    budget = case.owning.budget_usd
    if budget is None:
        raise InputError(
            "no budget for a purchase",
            value=None,
            allowed="an amount in USD",
            remedy="Give it: --buy-budget 20000.",
            field="owning.budget_usd",
        )
    groups = _groups(case, budget, architecture, catalog, calibration, economy)
    best = _best_mix(groups, case, budget)
    kinds: dict[str, Purchase] = {}
    for group in sorted(groups, key=lambda item: -item.most * item.sure):
        kinds.setdefault(group.accelerator.key, _purchase(group, group.most, case))
    serving = isinstance(case.workload, Serving)
    throughput = sum(group.throughput * number for group, number in best)
    bought = tuple(_purchase(group, number, case) for group, number in best)
    return BudgetAnswer(
        sentence=_sentence(bought),
        budget_usd=budget,
        power_limit_w=case.owning.power_limit_w,
        slots=case.owning.slots,
        best=bought,
        runs_per_month=None if serving or not bought else throughput,
        tokens_per_s=throughput if serving and bought else None,
        usd=cents.total(item.usd for item in bought),
        rated_w=sum(item.rated_w for item in bought),
        alternatives=tuple(kinds.values())[:SHOWN],
    )


def _groups(
    case: Case,
    budget: float,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    economy: Economy,
) -> list[Group]:
    owned = []
    allowed = {catalog.accelerator(key).key for key in case.limits.accelerators}
    for card in catalog.accelerators:
        if card.purchase_usd is None or card.board_power_w is None:
            continue
        if allowed and card.key not in allowed:
            continue
        most = min(int(budget // card.purchase_usd), case.owning.slots or MOST_CARDS, MOST_CARDS)
        while most and not _affordable(card, most, case, budget, economy):
            most -= max(1, most // 16)
        if most > 0:
            owned.append(OwnedHardware(accelerator=card.key, count=most))
    if not owned:
        return []
    limits = case.limits.model_copy(
        update={"owned": tuple(owned), "max_accelerators": MOST_CARDS, "budget_usd": None}
    )
    asked = case.model_copy(update={"limits": limits, "hardware": None, "layout": None})
    systems = find_systems(catalog, limits, training=not isinstance(case.workload, Serving))
    if not systems:
        return []
    options = search(asked, architecture, systems, calibration).options
    serving = isinstance(case.workload, Serving)
    quantity = serving_quantity(architecture) if serving else time_quantity(architecture)

    def slow(card: Accelerator) -> float:
        measured = calibration.kernels_for(card)[1]
        return calibration.interval(quantity, measured=measured).high

    return [
        group
        for option in options
        if meets_time(option, limits)
        and (group := _group(option, systems[option.system], case, budget, economy, slow))
    ]


def _price(card: Accelerator, count: int, case: Case, economy: Economy) -> tuple[float, float]:
    """Price [USD] and rated power [W] of a group with its machines."""
    names = groups_of(card)
    owning = case.owning
    host = owning.host_share
    if host is None:
        host = economy.default("host_share", *names).expected
    power = owning.host_power_share
    if power is None:
        power = economy.default("host_power_share", *names).expected
    machines = instances_needed(accelerators=count, per_instance=node_for(card, None).accelerators)
    network = 0.0
    if machines > 1:
        network = (
            owning.network_share
            if owning.network_share is not None
            else (economy.default("network_share", *names).expected)
        )
    if card.purchase_usd is None or card.board_power_w is None:
        msg = f"{card.key} has no price or power"
        raise ValueError(msg)
    usd = capital_usd(
        accelerators=count,
        purchase_usd=card.purchase_usd,
        host_share=host,
        network_share=network,
    )
    kw = rated_kw(accelerators=count, board_power_w=card.board_power_w, host_power_share=power)
    return cents.rounded(float(usd)), float(kw) * WATTS_PER_KW


def _affordable(card: Accelerator, count: int, case: Case, budget: float, economy: Economy) -> bool:
    usd, watts = _price(card, count, case, economy)
    limit = case.owning.power_limit_w
    return usd <= budget and (limit is None or watts <= limit)


def _group(
    option: Option,
    system: System,
    case: Case,
    budget: float,
    economy: Economy,
    slow: Callable[[Accelerator], float],
) -> Group | None:
    """Return the group that an option describes; None where it does not fit the limits."""
    card, count = system.accelerator, option.count
    usd, watts = _price(card, count, case, economy)
    rooms = [budget / usd]
    if case.owning.power_limit_w is not None:
        rooms.append(case.owning.power_limit_w / watts)
    if case.owning.slots is not None:
        rooms.append(case.owning.slots / count)
    most = int(min([*rooms, float(MOST_CARDS)]) + 1e-9)
    if most < 1:
        return None
    serving = option.tokens_per_s is not None
    throughput = option.tokens_per_s or HOURS_PER_MONTH / option.time
    return Group(
        accelerator=card,
        count=count,
        usd=usd,
        rated_w=watts,
        throughput=throughput,
        sure=throughput / slow(card),
        hours=None if serving else option.time,
        most=most,
    )


def _best_mix(groups: list[Group], case: Case, budget: float) -> list[tuple[Group, int]]:
    """Return the groups of the best mix of one or two kinds, with how many of each.

    A second kind has to add ``WORTH_MIXING``: two sorts of machines are a burden.
    """
    ranked = sorted(_undominated(groups), key=lambda item: -item.most * item.sure)[:MIXED]
    if not ranked:
        return []
    best = [(ranked[0], ranked[0].most)]
    highest = WORTH_MIXING * ranked[0].most * ranked[0].sure
    for first in ranked:
        for second in ranked:
            if first is second:
                continue
            ones = np.arange(1, first.most + 1)
            twos = _room(first, second, ones, case, budget)
            total = ones * first.sure + twos * second.sure
            place = int(np.argmax(total))
            if total[place] > highest and twos[place]:
                highest = float(total[place])
                best = [(first, int(ones[place])), (second, int(twos[place]))]
    return best


def _room(
    first: Group, second: Group, ones: NDArray[np.int_], case: Case, budget: float
) -> NDArray[np.int_]:
    """Groups of the second kind that still fit beside each number of the first."""
    rooms = [(budget - ones * first.usd) / second.usd]
    if case.owning.power_limit_w is not None:
        rooms.append((case.owning.power_limit_w - ones * first.rated_w) / second.rated_w)
    if case.owning.slots is not None:
        rooms.append((case.owning.slots - ones * first.count) / second.count)
    fitting: NDArray[np.int_] = np.clip(
        np.floor(np.min(rooms, axis=0) + 1e-9), 0, second.most
    ).astype(int)
    return fitting


def _undominated(groups: list[Group]) -> list[Group]:
    def facts(item: Group) -> tuple[float, float, float, int]:
        return (-item.sure, item.usd, item.rated_w, item.count)

    return [
        item
        for item in groups
        if not any(
            facts(other) != facts(item)
            and all(mine >= theirs for mine, theirs in zip(facts(item), facts(other), strict=True))
            for other in groups
        )
    ]


def _sentence(bought: tuple[Purchase, ...]) -> str:
    if not bought:
        return ""
    parts = [
        f"{item.groups:,} x ({item.count:,}x {item.accelerator_name})"
        if item.count > 1
        else f"{item.groups:,}x {item.accelerator_name}"
        for item in bought
    ]
    usd = cents.total(item.usd for item in bought)
    watts = sum(item.rated_w for item in bought)
    return (
        f"Buy {' and '.join(parts)}: {money(usd)} with hosts, {watts:,.0f} W rated. Judged by the "
        "low end of the range; hosts cost a share of the cards' price."
    )


def _purchase(group: Group, number: int, case: Case) -> Purchase:
    serving = isinstance(case.workload, Serving)
    return Purchase(
        accelerator=group.accelerator.key,
        accelerator_name=group.accelerator.name,
        count=group.count,
        groups=number,
        usd=cents.times(group.usd, number),
        rated_w=group.rated_w * number,
        hours=group.hours,
        tokens_per_s=group.throughput * number if serving else None,
    )
