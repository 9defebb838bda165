"""Each way of renting as a result: its price, run, break-even and terms."""

from __future__ import annotations

from datetime import date

from advisor.foundation import cents
from advisor.foundation.dates import age_days
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.foundation.units import DAY_S, HOUR_S, HOURS_PER_MONTH, MILLION
from advisor.owning.compare import Comparison
from advisor.owning.rents import Tenancy, run_rent_usd
from advisor.owning.results import BreakEven, RentCost, RentKind
from advisor.owning.work import Work


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
            substituted=f"{paid_hours:,.4g} h x {tenancy.instances} instances, together "
            f"{tenancy.usd_per_hour:,.2f} USD/h, {base.rent_change:+.0%} a year, discounted at "
            f"{base.discount_rate:.0%}",
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
