"""Ways of renting the same hardware: offers, commitments, a quote, a hosted model."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from advisor.catalog.economy import Commitment, Economy
from advisor.equations.pricing import instances_needed
from advisor.estimate.cost import billed_usd
from advisor.foundation import cents
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH, MILLION
from advisor.nouns.hardware import YOUR_QUOTE, Accelerator, Billing, Offer, PriceKind
from advisor.nouns.workload import Serving
from advisor.owning.results import RentKind
from advisor.owning.work import Work
from advisor.planning.beside_api import Hosted, hosted_models
from advisor.planning.prepared import PricedCase
from advisor.planning.search.options import Option
from advisor.planning.search.systems import allowed_offers, price_usd_per_hour
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

    @property
    def committed(self) -> bool:
        """Whether the rent covers all hours of a term."""
        return self.kind is RentKind.COMMITTED


@record
class Elsewhere:
    """The cheapest plan to rent for the work, on cards other than those that are bought."""

    accelerator: Accelerator
    option: Option


@record
class Market:
    """Where the cards of each group of some work can be rented."""

    asked: PricedCase
    economy: Economy
    accelerator: Accelerator
    count: int
    """Cards of one group."""
    work: Work

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

    def tenancies(self, elsewhere: Elsewhere | None = None) -> tuple[Tenancy, ...]:
        """Return the cheapest ways of renting for the work, ``elsewhere`` and hosted models too.

        Whole instances within the case's limits, several only if the offer states a network. A
        quote from the user replaces all offers.
        """
        quote = self.asked.case.renting.usd_per_hour
        if quote is not None:
            always = Range.exact(1.0)
            found = [Tenancy(RentKind.QUOTE, YOUR_QUOTE, quote, always, self.monthly_usd)]
        else:
            found = list(self._offered())
            found += [] if elsewhere is None else [self._other(elsewhere)]
        return (*found, *self._hosted())

    def _offered(self) -> Iterator[Tenancy]:
        """Yield the cheapest of each kind, one for each provider."""
        firm = list(self._on_demand())
        committed = [
            _commitment(plan, way)
            for way in firm
            for plan in self.economy.commitments
            if way.offer and plan.provider == way.offer.provider
            if plan.covers(self.accelerator.key)
            if plan.term_months <= self.asked.case.owning.months
        ]
        for group in (firm, list(self._on_spot()), committed):
            yield from _cheapest_by_provider(group)[: SHOWN[group[0].kind] if group else 0]

    def _instances(self, kind: PriceKind) -> Iterator[tuple[Offer, int, float]]:
        """Yield the allowed offers, the instances that the work takes, and their rent. [USD/h]"""
        limits = self.asked.case.limits.changed(
            accelerators=(self.accelerator.key,), price_kind=kind
        )
        for offer in allowed_offers(self.asked.catalog, limits):
            price = price_usd_per_hour(offer, kind)
            joined = offer.accelerators >= self.count // self.work.replicas
            if price is not None and (joined or offer.inter_node_bytes_per_s is not None):
                instances = instances_of(offer, self.count, self.work.groups)
                yield offer, instances, cents.times(price, instances)

    def _on_demand(self) -> Iterator[Tenancy]:
        for offer, instances, hourly in self._instances(PriceKind.ON_DEMAND):
            yield Tenancy(
                RentKind.ON_DEMAND,
                f"{offer.provider} on demand{', price from' if offer.is_from else ''}",
                hourly,
                _as_priced(offer),
                self.monthly_usd,
                instances=instances,
                offer=offer,
            )

    def _on_spot(self) -> Iterator[Tenancy]:
        reliability = self.asked.calibration.reliability
        interruptions = Interruptions.of(self.asked.case.renting, self.economy, reliability)
        training = self.work.run_hours is not None
        for offer, instances, hourly in self._instances(PriceKind.SPOT):
            # A run stops with the instances of its own group.
            alone = max(1, instances // self.work.groups)
            yield Tenancy(
                RentKind.SPOT,
                f"{offer.provider} spot",
                hourly,
                interruptions.hours(alone) if training else interruptions.served_hours(),
                self.monthly_usd,
                instances=instances,
                offer=offer,
                checkpoint_s=interruptions.interval_s(alone) if training else None,
            )

    def _other(self, elsewhere: Elsewhere) -> Tenancy:
        """Return the rent of other cards for the same work, in the hours that it takes on them."""
        option, offer, hours = elsewhere.option, elsewhere.option.offer, self.work.run_hours
        assert offer is not None
        longer, runs = 1.0, 1
        if hours is not None:
            longer, runs = option.time / hours.expected, self.work.groups
        cards = f"{runs * option.cards}x {elsewhere.accelerator.name}"
        return Tenancy(
            RentKind.ON_DEMAND,
            f"{offer.provider} on demand, {cards}",
            runs * option.usd_per_hour,
            _as_priced(offer).scaled(longer),
            self.monthly_usd,
            instances=runs * option.instances,
            offer=offer,
            cards=cards,
        )

    def _hosted(self) -> list[Tenancy]:
        """Return hosted models, paid by the token: those of the hardware's hour."""
        case, rate = self.asked.case, self.work.units_per_hour
        workload, renting = case.workload, case.renting
        paid = rate.scaled(1 / rate.expected)
        if self.work.prompts is None or not isinstance(workload, Serving):
            price = renting.api_usd_per_million
            if price is None:
                return []
            hourly = cents.times(price, rate.expected / MILLION)
            title = f"API at your price of a {self.work.unit}"
            return [Tenancy(RentKind.API, title, hourly, paid, 0.0)]
        requests = rate.expected / workload.output_tokens
        return [
            Tenancy(
                RentKind.API,
                f"API of {item.provider}" if item.price_date else "API at your prices",
                cents.times(item.request_usd(workload, renting.api_cached_share), requests),
                paid,
                0.0,
                hosted=item,
            )
            for item in hosted_models(case, self.asked.architecture)[: SHOWN[RentKind.API]]
        ]


def run_rent_usd(tenancy: Tenancy, hours: float, groups: int = 1) -> float:
    """Return the rent of one run of ``groups`` in the provider's billing steps. [USD, in cents]"""
    billing = tenancy.offer.billing if tenancy.offer else Billing()
    hourly = tenancy.usd_per_hour / groups
    return cents.rounded(billed_usd(billing, hours=hours, usd_per_hour=hourly))


def instances_of(offer: Offer, count: int, groups: int) -> int:
    """Return the whole instances that hold ``groups`` of ``count`` accelerators.

    An instance holds whole groups; only a group larger than an instance takes several.
    """
    held = offer.accelerators // count
    if held:
        return -(-groups // held)
    return groups * int(instances_needed(accelerators=count, per_instance=offer.accelerators))


def _cheapest_by_provider(group: Iterable[Tenancy]) -> list[Tenancy]:
    found: dict[str, Tenancy] = {}
    for item in sorted(group, key=lambda item: (_effective(item), item.title)):
        provider = item.offer.provider if item.offer else item.title
        found.setdefault(provider, item)
    return list(found.values())


def _effective(tenancy: Tenancy) -> float:
    """Rent of an hour: a commitment's at full use, a price "from" at its upper end. [USD/h]"""
    spot = tenancy.kind is RentKind.SPOT
    kind = PriceKind.SPOT if spot else PriceKind.ON_DEMAND
    factor = upper_factor(tenancy.offer, kind) if tenancy.offer else 1.0
    if tenancy.committed:
        return factor * tenancy.usd_per_month / HOURS_PER_MONTH
    return factor * (tenancy.usd_per_hour * tenancy.paid.expected)


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
