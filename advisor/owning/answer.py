"""From a case to rent or buy: choose the hardware, estimate the work, compare."""

from collections.abc import Callable
from datetime import date

from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.catalog.nodes import groups_of, sold_together
from advisor.errors import refusal
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.results import Estimate
from advisor.foundation.formatting import memory_against
from advisor.nouns.case import Case, Hardware
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.limits import OwnedHardware
from advisor.nouns.workload import Serving
from advisor.owning.assumptions import Size, purchase_price, size_of
from advisor.owning.costs import work_of
from advisor.owning.processors import compare_processors
from advisor.owning.rents import Rented
from advisor.owning.report import Choice, owned_usd, rent_or_buy
from advisor.owning.results import BudgetAnswer, Ownership, Purchase
from advisor.owning.sentences import EIGHT_BITS
from advisor.planning.explain.devices import devices_to_buy
from advisor.planning.placed import placement
from advisor.planning.prepared import PricedCase, fed
from advisor.planning.recommend import counted, recommend
from advisor.planning.search.options import Option, meets_time
from advisor.planning.search.ranking import best_option
from advisor.planning.search.systems import only_lowest_asks
from advisor.planning.searched import Searched
from advisor.planning.stated import best_placement


def answer_own(
    asked: PricedCase,
    *,
    economy: Economy,
    today: date,
    least: Callable[[Searched], Purchase | None],
    buy: Callable[[], BudgetAnswer] | None = None,
    narrow: Callable[[], Purchase | None] = lambda: None,
) -> Ownership:
    """Answer rent or buy for a case.

    Raises InputError if the hardware is unknown or cannot do the work, if no hardware can, or if a
    price, a power or a tariff is neither known nor given.

    ``least``: finds the whole machines that cost least to own, beside the rentals. ``buy``:
    searches what ``owning.budget_usd`` buys; without hardware, its largest part is compared,
    unless the case serves. With hardware it runs last, so that what the hardware cannot do is
    refused at once. ``narrow``: finds the machines for the same service in 8 bits.
    """
    case, catalog = asked.case, asked.catalog
    if case.limits.commitment_months is not None:
        raise refusal("term_of_rent_or_buy", value=case.limits.commitment_months)
    choice, budget = Choice(), None
    stated = case.hardware is not None
    if not stated:
        budget = buy() if buy else None
        # More cards than the users need would stand idle: what they need is compared.
        best = budget.best if budget and not isinstance(case.workload, Serving) else ()
        searched = Searched.of(asked, advising=False)
        bought = max(best, key=lambda item: item.usd, default=None) or least(searched)
        rented = _rented(asked, searched)
        if bought is None:
            hardware, choice = _loose(asked, economy, searched), Choice(rented=rented)
        else:
            card = catalog.accelerator(bought.accelerator)
            size, number, groups = size_bought(bought, card, economy), bought.count, bought.groups
            if isinstance(case.workload, Serving):  # they carry one load
                number, groups = number * (groups + case.workload.spare_replicas), 1
            hardware = Hardware(accelerator=bought.accelerator, count=number)
            choice = Choice(size, groups, rented, bought)
            case = priced(case, bought, catalog)
        case = case.changed(hardware=hardware, layout=None)
    if case.owning.purchase_usd is None and case.hardware is not None:
        # Without a price, no estimate is worth its time.
        purchase_price(catalog.accelerator(case.hardware.accelerator), economy)
    case = fed(case, asked.architecture)
    case = case.changed(hardware=counted(asked.of(case)))
    asked = asked.of(case)
    found = _estimated(asked)
    if stated and case.renting.usd_per_hour is None:
        rentable = asked.of(case.changed(limits=case.limits.changed(owned=())))
        place = best_placement(rentable)
        choice = Choice(rented=Rented(place) if place.offer else None)
    if stated and buy:
        budget = buy()
    return rent_or_buy(
        asked,
        found,
        economy,
        today=today,
        choice=choice,
        processors=compare_processors(asked, found, economy),
        budget=budget,
        narrow=narrow,
    )


def in_eight_bits(asked: PricedCase) -> PricedCase:
    """Return the question with a service's weights in 8 bits."""
    case, serving = asked.case, asked.case.workload
    if not isinstance(serving, Serving):
        return asked
    return asked.of(case.changed(workload=serving.changed(weight_format=EIGHT_BITS)))


def size_bought(bought: Purchase, card: Accelerator, economy: Economy) -> Size:
    """Return machines that are bought as the bill of owning takes them, with their rated power."""
    cards = bought.machines * bought.cards_per_machine
    groups = groups_of(card, bought.cards_per_machine)
    rest = economy.default("host_power_share", *groups).expected
    return Size(
        accelerators=cards,
        machines=bought.machines,
        per_machine=bought.cards_per_machine,
        board_power_w=bought.rated_w / cards / (1 + rest),
        joined=bought.count > bought.cards_per_machine,
        idle=cards - bought.count * bought.groups,
    )


def priced(case: Case, bought: Purchase, catalog: Catalog) -> Case:
    """Return a case with the price of the machine's cards, and its life, if they are not usual."""
    usual, own = catalog.accelerator(bought.accelerator).purchase_usd, case.owning
    usd = own.purchase_usd if bought.card_usd == usual else own.purchase_usd or bought.card_usd
    life = own.life_years or bought.life_years
    return case.changed(owning=own.changed(purchase_usd=usd, life_years=life))


def _rented(asked: PricedCase, searched: Searched) -> Rented | None:
    """Return what ``recommend`` rents; None if nothing, or if the user names the rent."""
    case = asked.case
    best = best_option(searched.feasible, case.objective)
    if best is None or best.offer is None or case.renting.usd_per_hour is not None:
        return None
    place = placement(best, searched.systems[best.system])
    if isinstance(case.workload, Serving):
        return Rented(place, served=work_of(case, searched.estimate(best)))
    return Rented(place, best.time)


def _loose(asked: PricedCase, economy: Economy, searched: Searched) -> Hardware:
    """Return the cards that cost least to own, where no machine of the list does the work.

    Cards that are sold in machines of eight are bought by the machine.
    """
    case, catalog = asked.case, asked.catalog
    allowed = {catalog.accelerator(key).key for key in case.limits.accelerators}
    priced = {
        card.key
        for card in catalog.accelerators
        if card.purchase_usd is not None
        and card.board_power_w is not None
        and (card.key in allowed if allowed else not only_lowest_asks(catalog.offers_for(card.key)))
    }
    if not priced:
        raise refusal("cards_without_price", value=", ".join(case.limits.accelerators))
    if case.limits.price_kind is not PriceKind.ON_DEMAND:
        limits = case.limits.changed(price_kind=PriceKind.ON_DEMAND)
        searched = Searched.of(asked.of(case.changed(limits=limits)), advising=False)
    ways = [(searched.systems[option.system].accelerator, option) for option in searched.feasible]
    ways = [way for way in ways if way[0].key in priced]
    ways += [
        (catalog.accelerator(key), option)
        for key, option in devices_to_buy(asked.of(searched.case)).items()
        if meets_time(option, searched.case.limits) and not option.layout.host_options
    ]
    if not ways:
        raise refusal("no_hardware_to_buy", value=recommend(asked).answer)
    bills: dict[tuple[str, int], float] = {}

    def to_own(way: tuple[Accelerator, Option]) -> float:
        card, option = way
        key = card.key, _sold(card, option)
        if key not in bills:
            bills[key] = owned_usd(case, card, size_of(card, key[1]), economy)
        # A run takes its hours of what is bought; a service takes all of them.
        work = 1.0 if isinstance(case.workload, Serving) else option.time
        return bills[key] * work * (1.0 if option.proven else option.time_high / option.time)

    card, option = min(ways, key=to_own)
    return Hardware(accelerator=card.key, count=_sold(card, option))


def _sold(card: Accelerator, option: Option) -> int:
    """Return the cards of an option in the numbers in which they are sold."""
    pack = sold_together(card)
    return -(-option.cards // pack) * pack


def _estimated(asked: PricedCase) -> Estimate:
    case, catalog = asked.case, asked.catalog
    if case.hardware is None:
        raise ValueError("the case has no hardware")
    hardware = case.hardware
    # Nobody takes owned machines back: spot interruptions only lengthen the rent.
    update: dict[str, object] = {"price_kind": PriceKind.ON_DEMAND}
    if all(
        catalog.accelerator(item.accelerator).key != catalog.accelerator(hardware.accelerator).key
        for item in case.limits.owned
    ):
        update["owned"] = (OwnedHardware(accelerator=hardware.accelerator, count=hardware.count),)
    asked = asked.of(case.changed(limits=case.limits.changed(**update)))
    found = estimate_configuration(asked, best_placement(asked))
    if not found.memory.fits:
        needed, usable = memory_against(found.memory.total_bytes, found.memory.usable_bytes)
        raise refusal("owned_too_small", found=found, needed=needed, usable=usable)
    return found
