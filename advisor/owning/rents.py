"""Ways of renting the same hardware: offers, commitments, a quote, a hosted model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from advisor.catalog.economy import Commitment, Economy
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.cost import billed_usd
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.foundation import cents
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH, MILLION
from advisor.nouns.hardware import TOGETHER, YOUR_QUOTE, Accelerator, Billing, Offer, PriceKind
from advisor.owning.costs import Work
from advisor.owning.results import RentKind
from advisor.planning.beside_api import Hosted, hosted_models
from advisor.planning.machines import hardware_systems
from advisor.planning.prepared import PricedCase
from advisor.planning.search.options import Option, Price, priced_options
from advisor.planning.spanning import spanning
from advisor.planning.spot import Interruptions, upper_factor

SHOWN = {RentKind.ON_DEMAND: 4, RentKind.SPOT: 2, RentKind.COMMITTED: 3, RentKind.API: 2}
"""The cheapest of each kind, one for each provider."""


@record
class Tenancy:
    """One way of renting."""

    kind: RentKind
    title: str
    usd_per_hour: float
    """List price of all instances. [USD/h]"""
    paid: Range
    """Hours paid for an hour of work: above 1 with interruptions, 0 for a commitment that is
    paid by the month."""
    usd_per_month: float
    """Paid independently of use: commitment, storage, traffic. [USD]"""
    term_months: int = 1
    instances: int = 1
    offer: Offer | None = None
    hosted: Hosted | None = None
    cards: str = ""
    """What is rented, if it is not what is bought; the title ends with it."""
    checkpoint_s: float | None = None
    """Best time between checkpoints. [s]"""
    served: Work | None = None
    """What it serves an hour, if that is not what the purchase serves."""

    @property
    def committed(self) -> bool:
        """Whether the rent covers all hours of a term."""
        return self.kind is RentKind.COMMITTED


@record
class Rented:
    """The plan to rent that ``recommend`` or ``estimate`` names for the same question."""

    place: Placement
    hours: float | None = None
    """Of a run, with interruptions; None: as long as on what is bought. [h]"""
    served: Work | None = None
    """What it serves an hour; None: training, or as much as what is bought."""


@record
class Market:
    """Where the hardware of an estimate can be rented, for the work of all its groups."""

    asked: PricedCase
    economy: Economy
    accelerator: Accelerator
    estimate: Estimate
    work: Work
    bought: int
    """Accelerators that are bought."""

    @property
    def monthly_usd(self) -> float:
        """Storage and traffic of a month. [USD]"""
        renting = self.asked.case.renting
        return cents.total(
            (
                cents.times(renting.storage_usd_per_gb_month, renting.storage_gb),
                cents.times(renting.egress_usd_per_gb, renting.egress_gb_per_month),
            )
        )

    def tenancies(self, plan: Rented | None = None) -> tuple[Tenancy, ...]:
        """Return the ways of renting for the work, of each kind the best first, and hosted models.

        The plan comes before all others. A quote from the user replaces all offers.
        """
        quote = self.asked.case.renting.usd_per_hour
        if quote is not None:
            always = Range.exact(1.0)
            found = [Tenancy(RentKind.QUOTE, YOUR_QUOTE, quote, always, self.monthly_usd)]
        else:
            found = [] if plan is None else [self._planned(plan)]
            found += self._offered(found)
        return (*found, *self._hosted(plan.served if plan else None))

    def _offered(self, first: Sequence[Tenancy]) -> Iterator[Tenancy]:
        """Yield the cheapest of each kind beside the plan, one for each provider."""
        firm = self._ways(PriceKind.ON_DEMAND)
        committed = [
            _commitment(plan, way)
            for way in firm
            for plan in self.economy.commitments
            if way.offer and plan.provider == way.offer.provider
            if plan.covers(self.accelerator.key)
            if plan.term_months <= self.asked.case.owning.months
        ]
        for group in (firm, self._ways(PriceKind.SPOT), committed):
            alike = [
                way
                for way in first
                if group and way.kind is group[0].kind and way.cards in ("", group[0].cards)
            ]
            seen = {way.offer.provider for way in alike if way.offer}
            others = [way for way in _cheapest_by_provider(group) if _provider(way) not in seen]
            yield from others[: SHOWN[group[0].kind] - len(alike) if group else 0]

    def _ways(self, kind: PriceKind) -> list[Tenancy]:
        """Return the estimate's hardware on each offer, priced as a search prices its plans."""
        found, groups = self.estimate, self.work.groups
        limits = self.asked.case.limits.changed(price_kind=kind, owned=())
        asked = self.asked.of(self.asked.case.changed(limits=limits))
        replica, number = found.cards // self.work.replicas, found.cards * groups
        systems = [
            replace(system, offers=(offer,))
            for system in hardware_systems(
                self.accelerator, number, asked.catalog, asked.case, together=replica
            )
            for offer in system.offers
        ]
        layouts = LayoutArrays.of(found.layout.changed(data=found.layout.data * groups))
        hours = 1.0 if self.work.run_hours is None else self.work.run_hours.expected
        first_s = None if self.work.run_hours else 0.0
        options = priced_options(
            [
                Option(at, number, found.precision, layouts, 0, hours, hours, first_s)
                for at in range(len(systems))
            ],
            [Price.of(system, kind) for system in systems],
        )
        options = spanning(asked, systems, options, fewer=False)
        return [
            self._tenancy(
                kind,
                option.offer,
                option.usd_per_hour,
                option.instances,
                cards=self._cards(self.accelerator, number, option.offer, option.instances),
            )
            for option in sorted(options, key=lambda option: option.cost_high_usd)
            if option.offer is not None
        ]

    def _tenancy(
        self,
        kind: PriceKind,
        offer: Offer,
        usd_per_hour: float,
        instances: int,
        *,
        longer: float = 1.0,
        cards: str = "",
        served: Work | None = None,
    ) -> Tenancy:
        """Return the rent of an offer's machines.

        ``longer``: hours of a run there for an hour on what is bought, without interruptions.
        ``cards``: what is rented, if it is not what is bought.
        """
        spot, training = kind is PriceKind.SPOT, self.work.run_hours is not None
        joined = f" ({offer.instance_type})" if TOGETHER in offer.key else ""
        paid, checkpoint_s = _as_priced(offer), None
        if spot:
            reliability = self.asked.calibration.reliability
            interruptions = Interruptions.of(self.asked.case.renting, self.economy, reliability)
            # A run stops with the instances of its own group.
            alone = max(1, instances // self.work.groups)
            paid = interruptions.hours(alone) if training else interruptions.served_hours()
            checkpoint_s = interruptions.interval_s(alone) if training else None
        how = "spot" if spot else f"on demand{', price from' if offer.is_from else ''}"
        return Tenancy(
            RentKind.SPOT if spot else RentKind.ON_DEMAND,
            f"{offer.provider} {how}{joined}{f', {cards}' if cards else ''}",
            usd_per_hour,
            paid.scaled(longer),
            self.monthly_usd,
            instances=instances,
            offer=offer,
            cards=cards,
            checkpoint_s=checkpoint_s,
            served=served,
        )

    def _planned(self, plan: Rented) -> Tenancy:
        """Return the rent of the plan, in the hours that the work takes there."""
        place, hours = plan.place, self.work.run_hours
        assert place.offer is not None
        assert place.usd_per_hour is not None
        longer, runs = 1.0, 1
        if hours is not None:
            runs = self.work.groups
            stopped = 1.0 if place.interrupted is None else place.interrupted.expected
            longer = 1.0 if plan.hours is None else plan.hours / stopped / hours.expected
        spares = getattr(self.asked.case.workload, "spare_replicas", 0)
        number = runs * (place.count + spares * place.layout.replica_cards)
        return self._tenancy(
            self.asked.case.limits.price_kind,
            place.offer,
            runs * place.usd_per_hour,
            runs * place.instances,
            longer=longer,
            cards=self._cards(place.accelerator, number, place.offer, runs * place.instances),
            served=plan.served,
        )

    def _cards(self, card: Accelerator, number: int, offer: Offer, instances: int) -> str:
        """Return what is rented in words; empty if it is as many cards as are bought."""
        alike = self.bought in (number, instances * offer.accelerators)
        return "" if alike and card.key == self.accelerator.key else f"{number}x {card.name}"

    def _hosted(self, served: Work | None) -> list[Tenancy]:
        """Return hosted models, paid by the token: those of an hour of the plan to rent."""
        case, work = self.asked.case, served or self.work
        rate, requests = work.units_per_hour, work.requests_per_hour
        paid = rate.scaled(1 / rate.expected)
        if work.prompts is None or requests is None:
            price = case.renting.api_usd_per_million
            if price is None:
                return []
            hourly = cents.times(price, rate.expected / MILLION)
            title = f"API at your price of a {self.work.unit}"
            return [Tenancy(RentKind.API, title, hourly, paid, 0.0)]
        return [
            Tenancy(
                RentKind.API,
                item.title,
                cents.times(item.request_usd(case), requests),
                paid,
                0.0,
                hosted=item,
                served=work,
            )
            for item in hosted_models(case, self.asked.architecture)[: SHOWN[RentKind.API]]
        ]


def run_rent_usd(tenancy: Tenancy, hours: float, groups: int = 1) -> float:
    """Return the rent of one run of ``groups`` in the provider's billing steps. [USD, in cents]"""
    billing = tenancy.offer.billing if tenancy.offer else Billing()
    hourly = tenancy.usd_per_hour / groups
    return cents.rounded(billed_usd(billing, hours=hours, usd_per_hour=hourly))


def _cheapest_by_provider(group: Iterable[Tenancy]) -> list[Tenancy]:
    """Return the first of each provider; of commitments, the cheapest at full use."""
    found: dict[str, Tenancy] = {}
    for item in sorted(group, key=_upper_month):
        found.setdefault(_provider(item), item)
    return list(found.values())


def _upper_month(tenancy: Tenancy) -> float:
    """Return the upper end of a commitment's rent; others keep their order. [USD/month]"""
    return tenancy.usd_per_month * aged(tenancy) if tenancy.committed and tenancy.offer else 0.0


def aged(tenancy: Tenancy) -> float:
    """Return the upper end of a rent's price today over the price."""
    if tenancy.offer is None:
        return 1.0
    spot = tenancy.kind is RentKind.SPOT
    return upper_factor(tenancy.offer, PriceKind.SPOT if spot else PriceKind.ON_DEMAND)


def _provider(tenancy: Tenancy) -> str:
    return tenancy.offer.provider if tenancy.offer else tenancy.title


def _as_priced(offer: Offer) -> Range:
    """Return the upper price of an hour on demand over its price; above 1 for "from"."""
    if not offer.is_from:
        return Range.exact(1.0)
    return Range(low=1.0, expected=1.0, high=offer.price_factor, evidence=Evidence.ASSUMED)


def _commitment(plan: Commitment, way: Tenancy) -> Tenancy:
    """Return what a provider's commitment makes of renting on demand."""
    reduced = cents.times(way.usd_per_hour, plan.price_ratio)
    term = f"{plan.term_months} month{'s' * (plan.term_months > 1)}"
    return replace(
        way,
        kind=RentKind.COMMITTED,
        title=f"{plan.provider}, {plan.plan}, {term}{plan.caution}",
        usd_per_hour=reduced,
        paid=Range.exact(0.0),
        usd_per_month=cents.total((cents.times(reduced, HOURS_PER_MONTH), way.usd_per_month)),
        term_months=plan.term_months,
    )
