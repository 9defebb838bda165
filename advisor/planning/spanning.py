"""Plans on several offers of one provider: replicas on machines of different sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, inf
from typing import Final, NamedTuple

from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.resolved_case import ResolvedCase
from advisor.foundation.dates import current_day
from advisor.foundation.units import HOURS_PER_MONTH, MILLISECOND
from advisor.nouns.hardware import TOGETHER, Offer, PriceKind
from advisor.nouns.workload import Serving
from advisor.planning.balancer import balancer_usd_per_month
from advisor.planning.explain.missed import missed_limits
from advisor.planning.placed import placement
from advisor.planning.search.options import Option, in_time
from advisor.planning.search.systems import System
from advisor.planning.spot import upper_factor

FEWEST: Final = 2 / 3
"""Share of a plan's replicas that may be enough: the search tries numbers half as large again."""
Place = dict[int, tuple[float, float, Offer]]
"""One provider's machines with one card by their system: high end and price [USD/h], and offer."""
Cover = tuple[float, float, Counter[Offer]]
"""Machines that hold some replicas: the high end of their price, their price [USD/h], and which."""


class _Holder(NamedTuple):
    """A machine of a place: how many replicas it holds, high end and price [USD/h], and offer."""

    replicas: int
    high: float
    usd: float
    offer: Offer


def spanning(
    asked: ResolvedCase, systems: Sequence[System], options: Sequence[Option], *, fewer: bool
) -> list[Option]:
    """Return the options, each on the machines of its provider that hold its replicas for least.

    Replicas need no network between them. Where cards of a small machine cost more, but a large one
    would stay half empty, some replicas go to small ones.

    ``fewer``: also add options with fewer replicas that so become the cheapest of their card.
    """
    workload = asked.case.workload
    if not isinstance(workload, Serving) or workload.demand or not asked.architecture.generates:
        return list(options)
    machines = _Machines.of(systems, options, asked.case.limits.price_kind)
    if not machines.sizes:
        return list(options)
    found = [machines.covered(one) or one for one in options]
    return [*found, *_fewer(asked, machines, found)] if fewer else found


@dataclass
class _Machines:
    """The machines of the providers whose larger ones give a discount."""

    systems: Sequence[System]
    sizes: dict[int, Place]
    """Each system's place: what its provider rents with the same card."""
    covers: dict[tuple[int, int], tuple[list[_Holder], list[tuple[float, int]]]] = field(
        default_factory=dict
    )
    """By a replica's system and cards: the machines that hold it and, for each number of replicas,
    the least price and the machine to add to the cover of fewer."""

    @classmethod
    def of(cls, systems: Sequence[System], options: Sequence[Option], kind: PriceKind) -> _Machines:
        """Return the machines of the options of a search."""
        places: dict[tuple[str, ...], Place] = {}
        first, today = dict[int, Option](), current_day()
        for option in options:
            first.setdefault(option.system, option)
        for system, option in first.items():
            if (offer := option.offer) is not None:
                key = offer.accelerator, offer.provider, offer.region, offer.tier, offer.commitment
                usd = option.usd_per_hour / option.instances
                machine = usd * upper_factor(offer, kind, today), usd, offer
                places.setdefault(key, {})[system] = machine
        discounted = (place for place in places.values() if _discounts(place))
        return cls(systems, {system: place for place in discounted for system in place})

    def _cheapest(self, system: int, cards: int, replicas: int, below: float) -> Cover | None:
        """Return the cheapest machines that hold some replicas; None if they are not cheap enough.

        Only machines whose links are as fast for a replica hold it.

        ``below``: high end of their price over that of the system's own machine.

        Notes
        -----
        Let a machine of the best value hold b replicas. Among any b other machines, some together
        hold a multiple of b, which machines of the best value hold for no more. So a cheapest cover
        has fewer than b others, and all else is of the best value.
        """
        key = system, cards
        if key not in self.covers:
            self.covers[key] = self._holding(system, cards), [(0.0, 0)]
        machines, covers = self.covers[key]
        if not machines:
            return None
        best = min(machines, key=lambda one: one.high / one.replicas)
        largest = max(one.replicas for one in machines)
        alike = max(0, replicas // best.replicas - largest)
        rest = replicas - alike * best.replicas
        for held in range(len(covers), rest + 1):
            sums = [covers[max(0, held - one.replicas)][0] + one.high for one in machines]
            least = min(sums)
            covers.append((least, sums.index(least)))
        high = alike * best.high + covers[rest][0]
        if high / self.sizes[system][system][0] >= below:
            return None
        number = Counter({best.offer: alike} if alike else {})
        usd, held = alike * best.usd, rest
        while held > 0:
            added = machines[covers[held][1]]
            number[added.offer] += 1
            usd, held = usd + added.usd, held - added.replicas
        return high, usd, number

    def _holding(self, system: int, cards: int) -> list[_Holder]:
        """Return the machines of a place that hold a replica of so many cards, largest first."""
        links = self.systems[system].node.links(cards)
        found = [
            _Holder(offer.accelerators // cards, high, usd, offer)
            for other, (high, usd, offer) in self.sizes[system].items()
            if offer.accelerators >= cards
            and (cards == 1 or self.systems[other].node.links(cards) == links)
        ]
        return sorted(found, key=lambda one: -one.offer.accelerators)

    def covered(self, option: Option, replicas: int | None = None) -> Option | None:
        """Return an option on several offers; None if one costs no more.

        ``replicas``: as many as these instead of its own.
        """
        if option.system not in self.sizes:
            return None
        cards = option.layouts.replica_cards(option.row)
        replicas = replicas or option.count // cards
        own_high, own_usd, _ = self.sizes[option.system][option.system]
        held, own = replicas + option.spares, option.usd_per_hour / own_usd
        cover = self._cheapest(option.system, cards, held, own)
        if cover is None or len(cover[2]) < 2:
            return None
        high, usd, number = cover
        front_usd = option.cost_usd - option.usd_per_hour * HOURS_PER_MONTH
        cost_usd = usd * HOURS_PER_MONTH + front_usd
        return replace(
            option,
            count=replicas * cards,
            instances=number.total(),
            offer=_together(number),
            usd_per_hour=usd,
            cost_usd=cost_usd,
            cost_high_usd=option.cost_high_usd
            * (cost_usd / option.cost_usd)
            * (high / usd / (own_high / own_usd)),
        )


def _together(number: Counter[Offer]) -> Offer:
    """Return machines as one offer: the largest, named as ``1x h100x8 and 2x h100``."""
    offers = sorted(number, key=lambda offer: -offer.accelerators)
    words = " and ".join(f"{number[offer]:,}x {offer.instance_type}" for offer in offers)
    key = TOGETHER.join(offer.key for offer in offers)
    return offers[0].changed(key=key, instance_type=words)


def _discounts(place: Place) -> bool:
    """Whether a card costs less in a larger machine than in any smaller one."""
    rates: dict[int, float] = {}
    for high, _, offer in place.values():
        rates[offer.accelerators] = min(high, rates.get(offer.accelerators, inf))
    each = [usd / cards for cards, usd in sorted(rates.items())]
    return any(one > other for one, other in pairwise(each))


def _fewer(asked: ResolvedCase, machines: _Machines, options: Sequence[Option]) -> Iterator[Option]:
    """Yield options with fewer replicas on several offers, each the cheapest of its card so far."""
    limits, least = asked.case.limits, dict[str, float]()
    timely = in_time(options, limits)
    for option in timely:
        card = machines.systems[option.system].accelerator.key
        least[card] = min(option.cost_high_usd, least.get(card, inf))
    cheapest = {
        system: min(high / offer.accelerators for high, _, offer in place.values())
        for system, place in machines.sizes.items()
    }
    for option in timely:
        if option.system not in cheapest:
            continue
        card = machines.systems[option.system].accelerator.key
        # Fewer cards than that are not tried, and none costs less than in the best machine.
        usd = FEWEST * option.cards * cheapest[option.system] * HOURS_PER_MONTH
        if usd >= least[card] or option.layouts.expert[option.row] > 1:
            continue
        replicas = int(option.layouts.data[option.row])
        numbers = range(max(1, ceil(FEWEST * replicas)), replicas)
        tries = [one for data in numbers if (one := machines.covered(option, data))]
        tries = [one for one in tries if one.cost_high_usd < least[card]]
        best: Option | None = None
        while tries:  # Fewer replicas answer no faster.
            middle = (len(tries) - 1) // (2 if best is not None else 1)
            judged = _judged(asked, machines.systems[option.system], tries[middle])
            tries = tries[middle + 1 :] if judged is None else tries[:middle]
            best = best if judged is None else judged
        if best is not None:
            least[card] = best.cost_high_usd
            yield best


def _judged(asked: ResolvedCase, system: System, option: Option) -> Option | None:
    """Return an option with its own times; None if it misses a limit."""
    limits, workload = asked.case.limits, asked.case.workload
    replicas = option.count // option.layouts.replica_cards(option.row)
    layouts = LayoutArrays.of(option.layout.changed(data=replicas))
    option = replace(option, layouts=layouts, row=0)
    found = estimate_configuration(asked, placement(option, system))
    assert isinstance(workload, Serving)
    if found.serving is None or not found.memory.fits or missed_limits(found, limits):
        return None
    shown, tokens_per_s = found.serving.at(limits.at), found.serving.output_tokens_per_s.expected
    front = balancer_usd_per_month(option.offer, workload, tokens_per_s)
    balancer, share = front if workload.load_balancer else 0.0, 1.0 - limits.risk
    hours_usd = option.usd_per_hour * HOURS_PER_MONTH
    return replace(
        option,
        time=shown.tpot_ms.expected * MILLISECOND,
        time_high=shown.tpot_ms.high * MILLISECOND,
        first_token_s=shown.ttft_ms.expected * MILLISECOND,
        tokens_per_s=tokens_per_s,
        judged=(shown.tpot_ms.at(share) * MILLISECOND, shown.ttft_ms.at(share) * MILLISECOND),
        cost_usd=hours_usd + balancer,
        cost_high_usd=hours_usd * option.cost_high_usd / option.cost_usd + balancer,
    )
