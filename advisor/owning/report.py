"""The whole answer to rent or buy: each way of renting beside one purchase."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from advisor.catalog import Catalog
from advisor.catalog.api_prices import API_SOURCE
from advisor.catalog.economy import CARBON_SOURCES, Economy
from advisor.catalog.nodes import owned_node
from advisor.equations.pricing import instances_needed
from advisor.errors import InputError
from advisor.estimate.results import Estimate
from advisor.foundation import cents
from advisor.foundation.dates import age_days
from advisor.foundation.formatting import percent
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.foundation.rounding import trimmed
from advisor.foundation.units import DAY_S, HOUR_S, HOURS_PER_MONTH, MILLION
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.software.delivery import Reliability
from advisor.nouns.workload import Serving
from advisor.owning.assumptions import Size, Spread, expected, resolve
from advisor.owning.compare import Comparison, break_even_by_input
from advisor.owning.costs import owning_cost, present_usd
from advisor.owning.rents import Elsewhere, Tenancy, run_rent_usd, tenancies
from advisor.owning.results import (
    Assumption,
    BreakEven,
    BudgetAnswer,
    Ownership,
    ProcessorOption,
    RentCost,
    RentKind,
)
from advisor.owning.sentences import answer, assumptions, in_host, sold_apart
from advisor.owning.work import Work, work_of
from advisor.planning.beside_api import Hosted
from advisor.planning.explain.sentences import missed_limits

TRAINING_HOURS_PER_MONTH = 200.0
"""Assumed use where the user states none: a third of the hours of working days. [h]"""


def rent_cost(compared: Comparison, work: Work, today: date) -> RentCost:
    """Return the cost of a way of renting, with its break-even."""
    tenancy, offer = compared.tenancy, compared.tenancy.offer
    paid_hours = HOURS_PER_MONTH if tenancy.committed else compared.hours * tenancy.paid.expected
    total = compared.rent_range()
    exact = cents.rounded(total.expected)
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
        total_usd=Range(
            low=min(total.low, exact),
            expected=exact,
            high=max(total.high, exact),
            evidence=total.evidence,
        ),
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
    low, middle, high = (
        run_rent_usd(tenancy, time * factor, work.groups)
        for time, factor in (
            (hours.low, paid.low),
            (hours.expected, paid.expected),
            (hours.high, paid.high),
        )
    )
    return Range(
        low=low, expected=middle, high=high, evidence=hours.evidence.weakest(paid.evidence)
    )


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


def owned_usd(case: Case, accelerator: Accelerator, count: int, economy: Economy) -> float:
    """Return the present value of owning some cards over the horizon, all expected. [USD]"""
    size = size_of(accelerator, count)
    inputs = resolve(
        accelerator, owning=case.owning, renting=case.renting, size=size, economy=economy
    )
    months = case.owning.months
    return float(present_usd(expected(inputs), size, hours=hours_in_use(case), months=months))


def rent_or_buy(
    case: Case,
    estimate: Estimate,
    *,
    catalog: Catalog,
    economy: Economy,
    reliability: Reliability,
    today: date,
    processors: tuple[ProcessorOption, ...] = (),
    budget: BudgetAnswer | None = None,
    hosted: Sequence[Hosted] = (),
    groups: int = 1,
    size: Size | None = None,
    elsewhere: Elsewhere | None = None,
) -> Ownership:
    """Compare buying the estimate's hardware with renting it, in present values.

    ``groups`` of the estimate's cards are bought and work side by side, in the machines of
    ``size``, else in those of the estimate. ``elsewhere`` is rented for the same work. Raises
    InputError if price, tariff or power of the hardware is unknown and not given.
    """
    accelerator = catalog.accelerator(estimate.accelerator)
    size = size or size_of(accelerator, estimate.cards, groups)
    owning = case.owning
    hours = hours_in_use(case)
    host_bytes = estimate.memory.host_bytes.high * size.cards_in_one

    def resolved(months: int) -> tuple[Assumption, ...]:
        kept = owning.changed(months=months)
        return resolve(
            accelerator,
            owning=kept,
            renting=case.renting,
            size=size,
            economy=economy,
            host_bytes=host_bytes,
        )

    inputs = resolved(owning.months)
    spread, work = Spread(inputs), work_of(case, estimate).times(groups)
    ways = tenancies(
        case,
        accelerator,
        count=estimate.cards,
        work=work,
        hosted=hosted,
        elsewhere=elsewhere,
        catalog=catalog,
        economy=economy,
        reliability=reliability,
    )
    compared = sorted(
        (Comparison(spread, size, way, hours, owning.months) for way in ways),
        key=lambda item: item.rent(spread.base, hours=hours),
    )
    rents = tuple(rent_cost(item, work, today) for item in compared)
    main = _headline(compared, spot=case.limits.price_kind is PriceKind.SPOT)

    def kept_for(months: int) -> Comparison:
        assert main is not None
        return replace(main, spread=Spread(resolved(months)), months=months)

    place = economy.place(owning.place)
    verdict = answer(estimate, compared, rents, main, hours, size.accelerators)
    return Ownership(
        answer=" ".join(
            (
                verdict,
                *sold_apart(accelerator, size.accelerators),
                *in_host(estimate, inputs),
                *missed_limits(estimate, case.limits),
            )
        ),
        accelerator=accelerator.key,
        accelerator_name=accelerator.name,
        count=size.accelerators,
        workload=estimate.workload,
        unit=work.unit,
        months=owning.months,
        hours_per_month=hours,
        place=place.name,
        own=owning_cost(spread, size, hours=hours, months=owning.months, work=work),
        rents=rents,
        against=compared.index(main) if main else None,
        saving_usd=main.saving_range() if main else None,
        timeline=main.timeline() if main else (),
        effects=(*main.effects(), *main.horizon_effect(kept_for)) if main else (),
        strips=break_even_by_input(main) if main else (),
        processors=processors,
        budget=budget,
        inputs=inputs,
        assumptions=assumptions(
            case, estimate, accelerator, hours, rents, processors, groups=groups, today=today
        ),
        attributions=(
            f"Carbon intensity: {CARBON_SOURCES[place.carbon_source]}.",
            *((API_SOURCE,) if any(item.kind is RentKind.API for item in rents) else ()),
            "Tariffs are means of a place and a year: replace them with your own.",
        ),
    )


def _headline(compared: list[Comparison], *, spot: bool) -> Comparison | None:
    """Return the way of renting that verdict, chart and break-even compare with: the cheapest.

    A commitment also pays for unused hours, spot machines can be taken back, and a hosted model is
    no machine. So none of them counts here, except spot if the user asks for it.
    """
    kinds = {RentKind.SPOT, RentKind.QUOTE} if spot else {RentKind.ON_DEMAND, RentKind.QUOTE}
    return next((item for item in compared if item.tenancy.kind in kinds), None)


def size_of(accelerator: Accelerator, count: int, groups: int = 1) -> Size:
    """Return machines and power of groups of accelerators; small groups share a machine.

    Raises InputError if the catalog has no board power.
    """
    if accelerator.board_power_w is None:
        reason = f" ({accelerator.no_purchase})" if accelerator.no_purchase else ""
        raise InputError(
            f"{accelerator.name} cannot be priced to own: its power is not known{reason}",
            value=None,
            allowed="an accelerator with a known power",
            remedy="Choose another accelerator; 'gpu-advisor estimate' prices renting it.",
            field="hardware.accelerator",
        )
    per_machine = owned_node(accelerator, count).accelerators
    alone = int(instances_needed(accelerators=count, per_instance=per_machine))
    return Size(
        accelerators=count * groups,
        machines=alone * -(-groups // max(1, per_machine // count)),
        per_machine=per_machine,
        board_power_w=accelerator.board_power_w,
        joined=alone > 1,
    )
