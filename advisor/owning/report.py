"""The whole answer to rent or buy: each way of renting beside one purchase."""

from collections.abc import Callable
from datetime import date

from advisor.catalog.api_prices import API_SOURCE
from advisor.catalog.economy import CARBON_SOURCES, Economy
from advisor.estimate.results import Estimate
from advisor.foundation import cents
from advisor.foundation.dates import age_days
from advisor.foundation.formatting import percent
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.foundation.record import record
from advisor.foundation.units import DAY_S, HOUR_S, HOURS_PER_MONTH, MILLION, trimmed
from advisor.nouns.case import Case
from advisor.nouns.hardware import LOWEST_ASK, Accelerator, PriceKind
from advisor.nouns.money import TRAINING_HOURS_PER_MONTH
from advisor.nouns.workload import Serving
from advisor.owning.assumptions import Bought, Size, Spread, size_of
from advisor.owning.compare import Comparison, break_even_by_input
from advisor.owning.costs import Work, in_cents, owning_cost, present_usd, work_of
from advisor.owning.rents import Market, Rented, Tenancy, aged, run_rent_usd
from advisor.owning.results import (
    BreakEven,
    BudgetAnswer,
    Ownership,
    ProcessorOption,
    Purchase,
    RentCost,
    RentKind,
)
from advisor.owning.sentences import (
    answer,
    assumptions,
    billed_part,
    in_host,
    machines_words,
    narrower,
    unused,
    upkeep_words,
)
from advisor.planning.explain.missed import missed_limits
from advisor.planning.prepared import PricedCase


def rent_cost(compared: Comparison, work: Work, today: date) -> RentCost:
    """Return the cost of a way of renting, with its break-even.

    ``work``: of what is bought, which a way serves unless it says otherwise.
    """
    tenancy, offer = compared.tenancy, compared.tenancy.offer
    work = tenancy.served or work
    paid_hours = HOURS_PER_MONTH if tenancy.committed else compared.hours * tenancy.paid.expected
    total = compared.rent_range()
    per_work_hour = (
        tenancy.paid.scaled(tenancy.usd_per_hour)
        if not tenancy.committed
        else Range.exact(tenancy.usd_per_month / compared.hours)
    )
    hosted = tenancy.hosted
    apart = (
        (Range.exact(hosted.input_usd), Range.exact(hosted.output_usd))
        if hosted
        else work.apart(per_work_hour)
    )
    day = offer.price_date if offer else hosted.price_date if hosted else ""
    even = compared.break_even()
    return RentCost(
        kind=tenancy.kind,
        title=tenancy.title,
        provider=offer.provider if offer else hosted.provider if hosted and day else None,
        instance_type=offer.instance_type if offer else None,
        region=offer.region if offer else None,
        price_date=day or None,
        price_age_days=age_days(day, today=today) if day else None,
        price_source=offer.provenance.source if offer else hosted.source if hosted else None,
        instances=tenancy.instances,
        usd_per_hour=tenancy.usd_per_hour,
        hours_per_month=paid_hours,
        total_usd=in_cents(total, cents.rounded(total.expected)),
        usd_per_run=_run(tenancy, per_work_hour, work),
        usd_per_million=_million(tenancy, per_work_hour, work),
        usd_per_million_input=apart[0],
        usd_per_million_output=apart[1],
        note=hosted.caveat if hosted else "",
        checkpoint_interval_s=tenancy.checkpoint_s,
        break_even=even,
        break_even_requests_per_day=_requests(tenancy, even, work),
        terms=_terms(compared, paid_hours, total.expected),
    )


def _requests(tenancy: Tenancy, even: BreakEven, work: Work) -> float | None:
    """Return the requests a day above which owning costs less than a hosted model. [1/day]"""
    hours = even.hours_per_month
    if tenancy.kind is not RentKind.API or hours is None or work.requests_per_hour is None:
        return None
    return hours.expected / HOURS_PER_MONTH * work.requests_per_hour * (DAY_S / HOUR_S)


def _run(tenancy: Tenancy, per_hour: Range, work: Work) -> Range | None:
    """Rent of one run in the provider's billing steps, including interruptions. [USD]"""
    if tenancy.kind is RentKind.API and work.units_per_run is not None:
        return _million(tenancy, per_hour, work).scaled(work.units_per_run / MILLION)
    if work.run_hours is None or tenancy.committed:
        return work.run(per_hour)
    hours, paid = work.run_hours, tenancy.paid
    whole = hours.times(paid)
    low, middle, high = (
        run_rent_usd(tenancy, time, work.groups) for time in (whole.low, whole.expected, whole.high)
    )
    return Range(low=low, expected=middle, high=high, evidence=whole.evidence)


def _million(tenancy: Tenancy, per_hour: Range, work: Work) -> Range:
    """Rent of a million generated tokens with their prompts, a hosted model's included. [USD]"""
    if tenancy.kind is RentKind.API:
        rate = work.units_per_hour.expected
        return Range.exact(tenancy.usd_per_hour / rate * MILLION, Evidence.MEASURED)
    return work.million(per_hour)


def _terms(compared: Comparison, paid_hours: float, total: float) -> tuple[Term, ...]:
    tenancy, base = compared.tenancy, compared.spread.base
    terms = [
        Term(
            name="rent",
            title=f"Rent over {compared.months} months, {tenancy.title}",
            value=total,
            unit="USD",
            formula="(hours paid x rent per hour, growing by the change of rents, + storage and "
            "traffic) of each month, discounted",
            substituted=f"{trimmed(paid_hours, 4)} h x {tenancy.instances} instances, together "
            f"{tenancy.usd_per_hour:,.2f} USD/h, {percent(base.rent_change)} a year, discounted at "
            f"{percent(base.discount_rate)}",
        )
    ]
    if tenancy.paid.expected > 1:
        terms.append(
            Term(
                name="interruptions",
                title=f"Hours paid for an hour of work, {tenancy.title}",
                value=tenancy.paid.expected,
                unit="",
                formula="1 + save / interval + (interval / 2 + restart) / time between "
                "interruptions",
                substituted=f"{tenancy.instances} instances, any of which stops the job",
                reference="daly2006",
            )
        )
    return tuple(terms)


def hours_in_use(case: Case) -> float:
    """Return the hours of a month in which owned hardware works. [h]"""
    usual = HOURS_PER_MONTH if isinstance(case.workload, Serving) else TRAINING_HOURS_PER_MONTH
    return case.owning.hours_per_month or usual


def owned_usd(case: Case, accelerator: Accelerator, size: Size, economy: Economy) -> float:
    """Return the present value of owning some cards over the horizon, all expected. [USD]"""
    bought = Bought(case, accelerator, size, economy)
    months = case.owning.months
    factors = bought.expected(months)
    return float(present_usd(factors, bought.size, hours=hours_in_use(case), months=months))


@record
class Choice:
    """What is bought where it is not just the estimate's cards, and what is rented instead."""

    size: Size | None = None
    """Machines of all groups; None takes those of the estimate."""
    groups: int = 1
    """Groups of the estimate's cards, which work side by side."""
    rented: Rented | None = None
    bought: Purchase | None = None
    """Whole machines, if they were chosen from the list."""


def rent_or_buy(
    asked: PricedCase,
    estimate: Estimate,
    economy: Economy,
    *,
    today: date,
    choice: Choice | None = None,
    processors: tuple[ProcessorOption, ...] = (),
    budget: BudgetAnswer | None = None,
    narrow: Callable[[], Purchase | None] = lambda: None,
) -> Ownership:
    """Compare buying the estimate's hardware, or what was chosen, with renting it.

    Amounts are present values. ``narrow``: finds the machines for a service in 8 bits. Raises
    InputError if price, tariff or power of the hardware is unknown and not given.
    """
    case, choice = asked.case, choice or Choice()
    owning, groups = case.owning, choice.groups
    accelerator = asked.catalog.accelerator(estimate.accelerator)
    alone = estimate.layout.replica_cards if estimate.serving else estimate.cards
    spares = getattr(case.workload, "spare_replicas", 0)
    stated = case.hardware.count if case.hardware and choice.size is None else 0
    together = groups * estimate.cards // alone
    size = choice.size or size_of(accelerator, alone, together, spares, stated)
    host_bytes = estimate.memory.host_bytes.high * size.cards_in_one
    bought = Bought(case, accelerator, size, economy, host_bytes)
    inputs = bought.inputs(owning.months)
    spread, work = Spread(inputs), work_of(case, estimate).times(groups)
    hours = hours_in_use(case)
    if choice.bought and choice.bought.runs_per_month and work.run_hours:
        hours = choice.bought.runs_per_month * work.run_hours.expected / groups
    market = Market(asked, economy, accelerator, estimate, work, size.accelerators)
    ways = [
        Comparison(spread, bought, way, hours, owning.months)
        for way in market.tenancies(choice.rented)
    ]
    compared = sorted(ways, key=lambda item: item.rent(spread.base, hours=hours))
    main = _headline(
        sorted(ways, key=lambda item: item.rent(spread.base, hours=hours) * aged(item.tenancy)),
        spot=case.limits.price_kind is PriceKind.SPOT,
    )
    rents = tuple(rent_cost(item, work, today) for item in compared)
    place = economy.place(owning.place)
    own = owning_cost(spread, size, hours=hours, months=owning.months, work=work)
    found = Ownership(
        answer=" ".join(
            (
                answer(estimate, compared, rents, main, size.accelerators),
                *billed_part(choice.bought, budget),
                *upkeep_words(own.lines),
                *machines_words(size, stated),
                *unused(accelerator, size.accelerators, estimate, stated),
                *in_host(estimate, inputs),
                *missed_limits(estimate, case.limits),
                *(narrower(case, estimate, narrow, choice.bought) if choice.size else ()),
            )
        ),
        accelerator=accelerator.key,
        accelerator_name=accelerator.name,
        count=size.accelerators,
        workload=estimate.workload,
        unit=work.unit,
        months=owning.months,
        hours_per_month=hours,
        runs_per_month=hours * groups / work.run_hours.expected if work.run_hours else None,
        place=place.name,
        own=own,
        rents=rents,
        processors=processors,
        budget=budget,
        inputs=inputs,
        assumptions=assumptions(
            case,
            estimate,
            accelerator,
            inputs,
            hours,
            rents,
            processors,
            groups=groups,
            today=today,
        ),
        attributions=(
            f"Carbon intensity: {CARBON_SOURCES[place.carbon_source]}.",
            *((API_SOURCE,) if any(item.kind is RentKind.API for item in rents) else ()),
            "Tariffs are means of a place and a year: replace them with your own.",
        ),
    )
    if main is None:
        return found
    return found.changed(
        against=compared.index(main),
        saving_usd=main.saving_range(),
        timeline=main.timeline(),
        effects=main.effects(),
        strips=break_even_by_input(main),
    )


def _headline(ways: list[Comparison], *, spot: bool) -> Comparison | None:
    """Return the way of renting that verdict, chart and break-even compare with.

    ``ways``: the cheapest first by what its price may be today, as plans are ranked.

    A commitment also pays for unused hours, spot machines can be taken back, and a hosted model is
    no machine. So none of them counts here, except spot if the user asks for it. The lowest ask of
    a marketplace, which one host can withdraw, counts only beside no other, as in a search.
    """
    kinds = {RentKind.SPOT, RentKind.QUOTE} if spot else {RentKind.ON_DEMAND, RentKind.QUOTE}
    found = [item for item in ways if item.tenancy.kind in kinds]
    firm = [
        item for item in found if not (item.tenancy.offer and item.tenancy.offer.tier == LOWEST_ASK)
    ]
    return next(iter(firm or found), None)
