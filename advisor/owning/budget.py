"""The mix of cards with the highest throughput that a budget buys for a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.catalog.nodes import sold_together
from advisor.errors import InputError
from advisor.foundation import cents
from advisor.foundation.formatting import money
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.limits import OwnedHardware
from advisor.nouns.workload import Serving
from advisor.owning.bought import Kind
from advisor.owning.card_mix import Item, best_mix
from advisor.owning.results import BudgetAnswer, Purchase
from advisor.planning.search.options import Option, meets_time
from advisor.planning.search.precisions import search
from advisor.planning.search.systems import find_systems

MOST_CARDS: Final = 1024
"""Most cards of one kind."""
MOST_GROUPS: Final = 16_384
SHOWN: Final = 10
OUT_OF_TIME: Final = " The search for the best mix ran out of time: another mix may do more."


@dataclass(frozen=True, slots=True)
class Group:
    """Cards that do one job together; a budget buys several such groups."""

    kind: Kind
    count: int
    throughput: float
    """Runs a month (training) or tokens per second (serving)."""
    hours: float | None
    item: Item
    """Its value in a mix: the low end of the throughput. So cards without measurements must be
    clearly better to win."""


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

    Returns
    -------
    BudgetAnswer
        The best mix of groups by the low end of their throughput. Each group does one job: it
        trains one run, or serves the workload's load. Groups work in parallel.

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
    mix = best_mix([group.item for group in groups])
    best = [(groups[place], number) for place, number in mix.counts.items()]
    kinds: dict[str, Purchase] = {}
    for group in sorted(groups, key=lambda item: -item.item.most * item.item.value):
        kinds.setdefault(group.kind.card.key, _purchase(group, group.item.most, case))
    serving = isinstance(case.workload, Serving)
    throughput = sum(group.throughput * number for group, number in best)
    bought = tuple(_purchase(group, number, case) for group, number in best)

    def proven(key: str) -> bool:
        card = catalog.accelerator(key)
        return calibration.kernels_for(card)[1] and (
            serving or card.architecture in calibration.trained
        )

    return BudgetAnswer(
        sentence=_sentence(bought, tuple(kinds.values()), proven)
        + ("" if mix.proven else OUT_OF_TIME),
        best_is_proven=mix.proven,
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
    bought, owned = {}, []
    allowed = {catalog.accelerator(key).key for key in case.limits.accelerators}
    owning = case.owning.model_copy(update={"purchase_usd": None})
    for card in catalog.accelerators:
        if card.purchase_usd is None or card.board_power_w is None:
            continue
        if allowed and card.key not in allowed:
            continue
        kind = Kind(card, owning, economy)
        most = _item(kind, 1, 1.0, budget).most
        if most > 0:
            bought[card.key] = kind
            owned.append(OwnedHardware(accelerator=card.key, count=min(most, MOST_CARDS)))
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
    return [
        _group(option, bought[systems[option.system].accelerator.key], budget)
        for option in options
        if meets_time(option, limits)
    ]


def _item(kind: Kind, count: int, value: float, budget: float) -> Item:
    """Return groups of ``count`` cards as an item of a mix: shares of money, power and slots."""
    owning = kind.owning
    each, packs_per_group = _packs(kind, count)
    machine = kind.machine(each)
    usd = each * kind.purchase_usd
    return Item(
        value=value,
        packs_per_group=packs_per_group,
        pack_uses=(
            usd * (1 + machine.network_share) / budget,
            each * kind.rated_w(1) / (owning.power_limit_w or inf),
            each / (owning.slots or inf),
        ),
        packs_per_machine=machine.packs / machine.machines,
        host_per_pack=usd * machine.host_share / budget,
        host_per_machine=machine.host_usd / budget,
        at_most=MOST_GROUPS,
    )


def _packs(kind: Kind, count: int) -> tuple[int, float]:
    """Cards that are sold together (baseboards), and how many such packs one group takes."""
    pack = sold_together(kind.card)
    if count < pack:
        return pack, count / pack
    return -(-count // pack) * pack, 1.0


def _bought(kind: Kind, count: int, groups: int) -> tuple[float, float]:
    """Price [USD] and number of cards of groups of ``count``, in whole baseboards."""
    each, packs_per_group = _packs(kind, count)
    number = ceil(groups * packs_per_group - 1e-9)
    return float(kind.usd(each, number)), each * number


def _group(option: Option, kind: Kind, budget: float) -> Group:
    throughput = option.tokens_per_s or HOURS_PER_MONTH / option.time
    sure = throughput * option.time / option.time_high
    return Group(
        kind=kind,
        count=option.count,
        throughput=throughput,
        hours=None if option.tokens_per_s is not None else option.time,
        item=_item(kind, option.count, sure, budget),
    )


def _sentence(
    bought: tuple[Purchase, ...], kinds: tuple[Purchase, ...], proven: Callable[[str], bool]
) -> str:
    """Return the best mix in words; for unproven cards, also the best proven kind."""
    if not bought:
        return "No cards that this buys can do the work. Raise the budget, the power or the slots."
    usd = cents.total(item.usd for item in bought)
    watts = sum(item.rated_w for item in bought)
    text = (
        f"Buy {' and '.join(_words(item) for item in bought)}: {money(usd)} with the machines "
        f"around the cards, {watts:,.0f} W rated. The low end of each range decides."
    )
    for item in bought:
        if item.at_launch_price:
            text += (
                f" {item.accelerator_name} is priced at its {item.price_of}. Shops may ask another "
                "price: look it up before you decide."
            )
    unproven = [item.accelerator_name for item in bought if not proven(item.accelerator)]
    other = next((item for item in kinds if proven(item.accelerator)), None)
    if unproven and other:
        text += (
            f" No measurement of such work on {' or '.join(unproven)} was scored. Of the cards "
            f"that have one, {_words(other)} for {money(other.usd)} do most."
        )
    return text


def _words(item: Purchase) -> str:
    each = f"{item.count:,}x {item.accelerator_name}"
    return f"{item.groups:,} x ({each})" if item.count > 1 else f"{item.groups:,}x {each[3:]}"


def _purchase(group: Group, number: int, case: Case) -> Purchase:
    serving = isinstance(case.workload, Serving)
    usd, cards = _bought(group.kind, group.count, number)
    return Purchase(
        accelerator=group.kind.card.key,
        accelerator_name=group.kind.card.name,
        count=group.count,
        groups=number,
        usd=cents.rounded(usd),
        price_of=group.kind.card.price_words(),
        at_launch_price=group.kind.card.at_launch_price(),
        rated_w=group.kind.rated_w(cards),
        hours=group.hours,
        tokens_per_s=group.throughput * number if serving else None,
    )
