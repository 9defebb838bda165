"""Plans on several offers of one provider: replicas on machines of different sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil, inf
from typing import Final

from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.resolved_case import ResolvedCase
from advisor.foundation.units import HOURS_PER_MONTH, MILLISECOND
from advisor.nouns.hardware import Offer
from advisor.nouns.workload import Serving
from advisor.planning.balancer import balancer_usd_per_month
from advisor.planning.explain.sentences import missed_limits
from advisor.planning.placed import placement
from advisor.planning.search.options import Option
from advisor.planning.search.systems import System

FEWEST: Final = 2 / 3
"""Share of a plan's replicas that may be enough: the search tries numbers half as large again."""
Place = dict[int, tuple[float, Offer]]
"""One provider's machines with one card by their system: price [USD/h] and offer."""


def spanning(
    asked: ResolvedCase, systems: Sequence[System], met: Sequence[Option]
) -> Iterator[Option]:
    """Yield plans on machines of several sizes, each cheaper than ``met`` and all before it.

    Replicas need no network between them. Where cards of a small machine cost more, but a large one
    would stay half empty, some replicas go to small ones.

    ``met``: the options of a search that meet the limits.
    """
    workload = asked.case.workload
    if not isinstance(workload, Serving) or workload.demand or not asked.architecture.generates:
        return
    places: dict[tuple[str, ...], Place] = {}
    for option in met:
        if (offer := option.offer) is not None:
            key = offer.accelerator, offer.provider, offer.region, offer.tier, offer.commitment
            machine = option.usd_per_hour / option.instances, offer
            places.setdefault(key, {}).setdefault(option.system, machine)
    sizes = {system: place for place in places.values() if _discounts(place) for system in place}
    least = min((option.cost_high_usd for option in met), default=0.0) if sizes else 0.0
    for option in met if sizes else ():
        if (place := sizes.get(option.system)) is None:
            continue
        # Fewer cards than that are not tried, and none costs less than in the best machine.
        cheapest = min(usd / offer.accelerators for usd, offer in place.values())
        least_usd = FEWEST * option.cards * cheapest * HOURS_PER_MONTH
        if least_usd * option.cost_high_usd / option.cost_usd >= least or option.layout.expert > 1:
            continue
        tries = list(_covered(option, systems, place, least))
        best: Option | None = None
        while tries:  # Fewer replicas answer no faster.
            middle = (len(tries) - 1) // (2 if best is not None else 1)
            judged = _judged(asked, systems[option.system], tries[middle])
            tries = tries[middle + 1 :] if judged is None else tries[:middle]
            best = best if judged is None else judged
        if best is not None:
            least = best.cost_high_usd
            yield best


def _discounts(place: Place) -> bool:
    """Whether a card costs less in a larger machine than in any smaller one."""
    rates: dict[int, float] = {}
    for usd, offer in place.values():
        rates[offer.accelerators] = min(usd, rates.get(offer.accelerators, inf))
    each = [usd / cards for cards, usd in sorted(rates.items())]
    return any(one > other for one, other in pairwise(each))


def _covered(
    option: Option, systems: Sequence[System], place: Place, most_usd: float
) -> Iterator[Option]:
    """Yield an option with as many replicas or fewer, where they cost least and under a limit.

    Only machines whose links are as fast for a replica hold it. ``most_usd``: of a month, high end.
    """
    cards, layout, spares = option.layouts.replica_cards(option.row), option.layout, option.spares
    links = systems[option.system].node.links(cards)
    machines = sorted(
        (
            (usd, offer)
            for system, (usd, offer) in place.items()
            if offer.accelerators >= cards
            and (cards == 1 or systems[system].node.links(cards) == links)
        ),
        key=lambda machine: -machine[1].accelerators,
    )
    covers: list[tuple[float, tuple[Offer, ...]]] = [(0.0, ())]
    for held in range(1, layout.data + spares + 1):
        best: tuple[float, tuple[Offer, ...]] = inf, ()
        for usd, offer in machines:
            before, rest = covers[max(0, held - offer.accelerators // cards)]
            best = min(best, (before + usd, (offer, *rest)), key=lambda cover: cover[0])
        covers.append(best)
    high = HOURS_PER_MONTH * option.cost_high_usd / option.cost_usd
    for data in range(max(1, ceil(FEWEST * layout.data)), layout.data + 1):
        usd, offers = covers[data + spares]
        beside = tuple(offer for offer in offers if offer is not offers[0])
        if beside and usd * high < most_usd:
            yield replace(
                option,
                count=data * cards,
                instances=len(offers),
                offer=offers[0],
                layouts=LayoutArrays.of(layout.changed(data=data)),
                row=0,
                usd_per_hour=usd,
                cost_usd=usd * HOURS_PER_MONTH,
                cost_high_usd=usd * high,
                beside=beside,
            )


def _judged(asked: ResolvedCase, system: System, option: Option) -> Option | None:
    """Return an option with its own times; None if it misses a limit."""
    limits, workload = asked.case.limits, asked.case.workload
    found = estimate_configuration(asked, placement(option, system))
    assert isinstance(workload, Serving)
    if found.serving is None or not found.memory.fits or missed_limits(found, limits):
        return None
    shown, tokens_per_s = found.serving.at(limits.at), found.serving.output_tokens_per_s.expected
    front = balancer_usd_per_month(option.offer, workload, tokens_per_s)
    balancer, share = front if workload.load_balancer else 0.0, 1.0 - limits.risk
    return replace(
        option,
        time=shown.tpot_ms.expected * MILLISECOND,
        time_high=shown.tpot_ms.high * MILLISECOND,
        first_token_s=shown.ttft_ms.expected * MILLISECOND,
        tokens_per_s=tokens_per_s,
        judged=(shown.tpot_ms.at(share) * MILLISECOND, shown.ttft_ms.at(share) * MILLISECOND),
        cost_usd=option.cost_usd + balancer,
        cost_high_usd=option.cost_high_usd + balancer,
    )
