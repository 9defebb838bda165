"""Ways of renting the same hardware: offers, commitments, a quote, a hosted model."""

from collections.abc import Iterable, Sequence

from advisor.catalog import Catalog
from advisor.catalog.economy import Commitment, Economy
from advisor.equations.pricing import instances_needed
from advisor.estimate.cost import billed_usd
from advisor.foundation import cents
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH, MILLION
from advisor.nouns.case import Case
from advisor.nouns.hardware import YOUR_QUOTE, Accelerator, Billing, Offer, PriceKind
from advisor.nouns.software.delivery import Reliability
from advisor.nouns.workload import Serving
from advisor.owning.results import RentKind
from advisor.owning.work import Work
from advisor.planning.beside_api import Hosted
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


def tenancies(
    case: Case,
    accelerator: Accelerator,
    *,
    count: int,
    work: Work,
    hosted: Sequence[Hosted] = (),
    elsewhere: Elsewhere | None = None,
    catalog: Catalog,
    economy: Economy,
    reliability: Reliability,
) -> tuple[Tenancy, ...]:
    """Return the cheapest ways of renting ``count`` accelerators for each group of the work.

    Whole instances within the case's limits, several only if the offer states a network. A quote
    from the user replaces all offers.
    """
    renting = case.renting
    monthly = cents.total(
        (
            cents.times(renting.storage_usd_per_gb_month, renting.storage_gb),
            cents.times(renting.egress_usd_per_gb, renting.egress_gb_per_month),
        )
    )
    always = Range.exact(1.0)
    found: list[Tenancy] = []
    if renting.usd_per_hour is not None:
        found.append(Tenancy(RentKind.QUOTE, YOUR_QUOTE, renting.usd_per_hour, always, monthly))
    else:
        found += _offered(
            case, accelerator, count, catalog, economy, reliability, work=work, monthly=monthly
        )
        found += [] if elsewhere is None else [_other(elsewhere, work, monthly)]
    found += _hosted(case, work, hosted)
    return tuple(found)


def _hosted(case: Case, work: Work, hosted: Sequence[Hosted]) -> list[Tenancy]:
    """Return hosted models, paid by the token: those of the hardware's hour."""
    rate, workload = work.units_per_hour, case.workload
    paid = rate.scaled(1 / rate.expected)
    if work.prompts is None or not isinstance(workload, Serving):
        price = case.renting.api_usd_per_million
        if price is None:
            return []
        hourly = cents.times(price, rate.expected / MILLION)
        return [Tenancy(RentKind.API, f"API at your price of a {work.unit}", hourly, paid, 0.0)]
    share = case.renting.api_cached_share
    requests = rate.expected / workload.output_tokens
    return [
        Tenancy(
            RentKind.API,
            f"API of {item.provider}" if item.price_date else "API at your prices",
            cents.times(item.request_usd(workload, share), requests),
            paid,
            0.0,
            hosted=item,
        )
        for item in hosted[: SHOWN[RentKind.API]]
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


def _offered(
    case: Case,
    accelerator: Accelerator,
    count: int,
    catalog: Catalog,
    economy: Economy,
    reliability: Reliability,
    *,
    work: Work,
    monthly: float,
) -> list[Tenancy]:
    on_demand: list[Tenancy] = []
    spot: list[Tenancy] = []
    committed: list[Tenancy] = []
    for kind, target in ((PriceKind.ON_DEMAND, on_demand), (PriceKind.SPOT, spot)):
        limits = case.limits.changed(accelerators=(accelerator.key,), price_kind=kind)
        for offer in allowed_offers(catalog, limits):
            price = price_usd_per_hour(offer, kind)
            joined = offer.accelerators >= count // work.replicas
            if price is None or not (joined or offer.inter_node_bytes_per_s is not None):
                continue
            instances = instances_of(offer, count, work.groups)
            hourly = cents.times(price, instances)
            if kind is PriceKind.SPOT:
                target.append(
                    _spot(case, offer, instances, hourly, economy, reliability, work, monthly)
                )
                continue
            target.append(
                Tenancy(
                    RentKind.ON_DEMAND,
                    f"{offer.provider} on demand{', price from' if offer.is_from else ''}",
                    hourly,
                    _as_priced(offer),
                    monthly,
                    instances=instances,
                    offer=offer,
                )
            )
            committed += [
                _commitment(plan, offer, instances, hourly, monthly)
                for plan in economy.commitments
                if plan.provider == offer.provider and plan.covers(accelerator.key)
                if plan.term_months <= case.owning.months
            ]
    return [
        item
        for group in (on_demand, spot, committed)
        for item in _cheapest_by_provider(group)[: SHOWN[group[0].kind] if group else 0]
    ]


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


def _other(elsewhere: Elsewhere, work: Work, monthly: float) -> Tenancy:
    """Return the rent of other cards for the same work: a run takes its own hours on them."""
    option, offer = elsewhere.option, elsewhere.option.offer
    assert offer is not None
    cards = f"{option.cards}x {elsewhere.accelerator.name}"
    longer = 1.0 if work.run_hours is None else option.time / work.run_hours.expected
    return Tenancy(
        RentKind.ON_DEMAND,
        f"{offer.provider} on demand, {cards}",
        option.usd_per_hour,
        _as_priced(offer).scaled(longer),
        monthly,
        instances=option.instances,
        offer=offer,
        cards=cards,
    )


def _commitment(
    plan: Commitment, offer: Offer, instances: int, hourly: float, monthly: float
) -> Tenancy:
    reduced = cents.times(hourly, plan.price_ratio)
    return Tenancy(
        RentKind.COMMITTED,
        f"{offer.provider}, {plan.plan}, {plan.term_months} month{'s' * (plan.term_months > 1)}"
        f"{plan.caution}",
        reduced,
        Range.exact(0.0),
        cents.total((cents.times(reduced, HOURS_PER_MONTH), monthly)),
        term_months=plan.term_months,
        instances=instances,
        offer=offer,
    )


def _spot(
    case: Case,
    offer: Offer,
    instances: int,
    hourly: float,
    economy: Economy,
    reliability: Reliability,
    work: Work,
    monthly: float,
) -> Tenancy:
    interruptions = Interruptions.of(case.renting, economy, reliability)
    training = work.run_hours is not None
    alone = max(1, instances // work.groups)  # a run stops with the instances of its own group
    return Tenancy(
        RentKind.SPOT,
        f"{offer.provider} spot",
        hourly,
        interruptions.hours(alone) if training else interruptions.served_hours(),
        monthly,
        instances=instances,
        offer=offer,
        checkpoint_s=interruptions.interval_s(alone) if training else None,
    )
