"""Rent or buy, from an estimate of the work to the answer."""

from __future__ import annotations

from datetime import date

from advisor import cents
from advisor.case import Case
from advisor.catalog import Catalog
from advisor.catalog.economy import CARBON_SOURCES, Economy
from advisor.catalog.nodes import owned_node, sold_together
from advisor.dates import STALE_DAYS, age_days
from advisor.efficiency import Reliability
from advisor.equations.pricing import instances_needed
from advisor.errors import InputError
from advisor.estimate.results import Estimate
from advisor.formatting import count as whole
from advisor.formatting import hourly_price, money, round_significant
from advisor.hardware import Accelerator, PriceKind
from advisor.owning.assumptions import resolve
from advisor.owning.compare import Comparison
from advisor.owning.costs import Size, owning_cost
from advisor.owning.rents import Tenancy, run_rent_usd, tenancies
from advisor.owning.results import BudgetAnswer, Ownership, ProcessorOption, RentCost, RentKind
from advisor.owning.spread import Spread
from advisor.owning.strips import strips
from advisor.owning.work import Work, work_of
from advisor.planning.sentences import missed_limits
from advisor.quantities import Evidence, Range, Term
from advisor.units import HOURS_PER_MONTH, MILLION
from advisor.workload import Serving

TRAINING_HOURS_PER_MONTH = 200.0
"""Use where the user states none: a third of the month at work days, as an assumption. [h]"""


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
) -> Ownership:
    """Compare buying the estimate's hardware with renting it.

    Parameters
    ----------
    case : Case
        ``owning`` and ``renting`` hold the assumptions, ``limits`` providers and regions.
    estimate : Estimate
        The work on the hardware to buy.
    catalog : Catalog
    economy : Economy
    reliability : Reliability
    today : date
        For the age of prices.
    processors : tuple of ProcessorOption, optional
    budget : BudgetAnswer, optional

    Returns
    -------
    Ownership

    Raises
    ------
    InputError
        If price, tariff or power of the hardware is not known and the user gave none.
    """
    accelerator = catalog.accelerator(estimate.accelerator)
    size = size_of(accelerator, estimate.count)
    owning = case.owning
    hours = owning.hours_per_month or (
        HOURS_PER_MONTH if isinstance(case.workload, Serving) else TRAINING_HOURS_PER_MONTH
    )
    inputs = resolve(
        accelerator,
        owning=owning,
        renting=case.renting,
        machines=size.machines,
        per_machine=size.per_machine,
        economy=economy,
    )
    spread, work = Spread(inputs), work_of(estimate)
    compared = sorted(
        (
            Comparison(spread, size, tenancy, hours, owning.months)
            for tenancy in tenancies(
                case,
                accelerator,
                count=estimate.count,
                work=work,
                catalog=catalog,
                economy=economy,
                reliability=reliability,
            )
        ),
        key=lambda item: item.rent(spread.base, hours=hours),
    )
    rents = tuple(_rent_cost(item, work, today) for item in compared)
    main = _headline(compared, spot=case.limits.price_kind is PriceKind.SPOT)
    place = economy.place(owning.place)
    return Ownership(
        answer=" ".join(
            (
                _answer(estimate, compared, rents, main, hours),
                *missed_limits(estimate, case.limits),
            )
        ),
        accelerator=accelerator.key,
        accelerator_name=accelerator.name,
        count=estimate.count,
        workload=estimate.workload,
        unit=work.unit,
        months=owning.months,
        hours_per_month=hours,
        place=place.name,
        own=owning_cost(spread, size, hours=hours, months=owning.months, work=work),
        rents=rents,
        against=compared.index(main) if main else None,
        saving_usd=compared[0].saving_range() if compared else None,
        timeline=main.timeline() if main else (),
        effects=main.effects() if main else (),
        strips=strips(main) if main else (),
        processors=processors,
        budget=budget,
        inputs=inputs,
        assumptions=_assumptions(
            case,
            estimate,
            hours,
            rents,
            processors,
            pack=sold_together(accelerator),
            launch_price=accelerator.price_words(today=today)
            if accelerator.at_launch_price(today=today) and owning.purchase_usd is None
            else "",
        ),
        attributions=(
            f"Carbon intensity: {CARBON_SOURCES[place.carbon_source]}.",
            "Tariffs are recalled figures of 2024 and 2025: replace them by your own.",
        ),
    )


def _headline(compared: list[Comparison], *, spot: bool) -> Comparison | None:
    """Return the cheapest way of renting that the break-even is told against.

    A commitment pays hours that are not used, and spot machines can be taken back: neither
    stands for renting as such unless the user asks for spot.
    """
    other = {RentKind.COMMITTED} if spot else {RentKind.COMMITTED, RentKind.SPOT}
    return next((item for item in compared if item.tenancy.kind not in other), None)


def size_of(accelerator: Accelerator, count: int) -> Size:
    """Return machines and power of a number of accelerators, in machines as they are timed.

    Raises
    ------
    InputError
        If the catalog has no board power.
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
    return Size(
        accelerators=count,
        machines=int(instances_needed(accelerators=count, per_instance=per_machine)),
        per_machine=per_machine,
        board_power_w=accelerator.board_power_w,
    )


def _rent_cost(compared: Comparison, work: Work, today: date) -> RentCost:
    tenancy, offer = compared.tenancy, compared.tenancy.offer
    paid_hours = HOURS_PER_MONTH if tenancy.committed else compared.hours * tenancy.paid.expected
    total = compared.rent_range()
    exact = cents.rounded(total.expected)
    per_work_hour = (
        tenancy.paid.scaled(tenancy.usd_per_hour)
        if not tenancy.committed
        else Range.exact(tenancy.usd_per_month / compared.hours)
    )
    return RentCost(
        kind=tenancy.kind,
        title=tenancy.title,
        provider=offer.provider if offer else None,
        instance_type=offer.instance_type if offer else None,
        region=offer.region if offer else None,
        price_date=offer.price_date if offer else None,
        price_age_days=age_days(offer.price_date, today=today) if offer else None,
        price_source=offer.provenance.source if offer else None,
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
        checkpoint_interval_s=tenancy.checkpoint_s,
        break_even=compared.break_even(),
        terms=_terms(compared, paid_hours, total.expected),
    )


def _run(tenancy: Tenancy, per_hour: Range, work: Work) -> Range | None:
    """Rent of one run: billed in the provider's steps, interruptions included. [USD]"""
    if tenancy.kind is RentKind.API and work.units_per_run is not None:
        return _million(tenancy, per_hour, work).scaled(work.units_per_run / MILLION)
    if work.run_hours is None or tenancy.committed:
        return work.run(per_hour)
    hours, paid = work.run_hours, tenancy.paid
    low, middle, high = (
        run_rent_usd(tenancy, time * factor)
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
    """Rent of a million tokens; of a hosted model, its list price. [USD]"""
    if tenancy.kind is RentKind.API:
        rate = work.units_per_hour.expected
        return Range.exact(tenancy.usd_per_hour / rate * MILLION, Evidence.MEASURED)
    return work.million(per_hour)


def _terms(compared: Comparison, paid_hours: float, total: float) -> tuple[Term, ...]:
    tenancy, base = compared.tenancy, compared.spread.base
    terms = [
        Term(
            name="rent",
            title=f"Rent over {compared.months} months",
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
                title="Hours paid for an hour of work",
                value=tenancy.paid.expected,
                unit="",
                formula="1 + save / interval + (interval / 2 + restart) / time between "
                "interruptions",
                substituted=f"{tenancy.instances} instances, any of which stops the job",
                reference="daly2006",
            )
        )
    return tuple(terms)


def _answer(
    estimate: Estimate,
    compared: list[Comparison],
    rents: tuple[RentCost, ...],
    main: Comparison | None,
    hours: float,
) -> str:
    cards = f"{whole(estimate.count)}x {estimate.accelerator_name}"
    if main is None:
        return f"Nothing in the catalog rents {cards} under your limits: only owning is priced."
    years = "1 year" if main.months == 12 else f"{main.months / 12:.3g} years"
    even = rents[compared.index(main)].break_even
    value = even.hours_per_month
    against = f"{main.tenancy.title} at {hourly_price(main.tenancy.usd_per_hour)}"
    if value is not None and round(value.expected) == 0:
        lead = f"Buy {cards}: within {years} owning costs less than {against} at any use."
    elif value is None:
        lead = f"Rent: no use of {cards} pays for buying within {years} against {against}."
        if even.hours_at_best is not None:
            lead += f" At best it pays above {even.hours_at_best:,.0f} hours a month."
    else:
        worst = "never" if even.may_never else f"above {value.high:,.0f}"
        lead = (
            f"Buy {cards} if you use them more than {value.expected:,.0f} hours a month "
            f"(at best above {value.low:,.0f}, at worst {worst}) for {years}, else rent from "
            f"{against}."
        )
    cheapest = rents[0].title
    if main is not compared[0]:
        cheapest = f"the cheapest way of all, {cheapest},"
    return f"{lead} {_verdict(compared[0].saving_range(), cheapest, hours)}"


def _verdict(saving: Range, rent: str, hours: float) -> str:
    """Say which is cheaper at the stated hours, or that the range does not tell."""
    amount = money(round_significant(abs(saving.expected), 2))
    if saving.low < 0 < saving.high:
        side = "less" if saving.expected >= 0 else "more"
        return (
            f"At {hours:,.0f} hours it is too close to call: buying costs {amount} {side} than "
            f"{rent}, within the range."
        )
    verb = f"buying beats {rent}" if saving.expected >= 0 else f"{rent} beats buying"
    return f"At {hours:,.0f} hours {verb} by {amount}."


def _assumptions(
    case: Case,
    estimate: Estimate,
    hours: float,
    rents: tuple[RentCost, ...],
    processors: tuple[ProcessorOption, ...],
    *,
    pack: int,
    launch_price: str,
) -> tuple[str, ...]:
    found = []
    if launch_price:
        found.append(
            f"{estimate.accelerator_name} at its {launch_price}, which shops may not keep: look up "
            "today's and give it (--purchase-price)"
        )
    if estimate.count % pack:
        found.append(
            f"{estimate.accelerator_name} is sold {pack} at a time: {estimate.count} are priced "
            "as their share"
        )
    if case.owning.hours_per_month is None:
        found.append(f"{hours:,.0f} hours in use each month")
    found += [
        "all amounts are present values: money of today, before tax",
        "bounds of each input are taken as an 80 % interval, independent of each other",
        "the owned machines run the work as fast as the rented ones",
        "the machines' worth counts at the end of the horizon alone",
    ]
    found += [
        f"rates of {estimate.accelerator_name} by the {item.measured.kernels.source}"
        for item in case.limits.owned
        if item.measured and item.accelerator == estimate.accelerator
    ]
    if any(item.slower.evidence is Evidence.ASSUMED for item in processors):
        found.append("processors: no kernel of theirs was measured, their times are assumed shares")
    if any(item.kind is RentKind.SPOT for item in rents):
        found.append("spot: the lowest of three recorded interruption rates; markets differ widely")
    old = [item for item in rents if (item.price_age_days or 0) > STALE_DAYS]
    found += [
        f"the price of {item.title} is of {item.price_date}, {item.price_age_days} days old"
        for item in old
    ]
    return tuple(dict.fromkeys([*found, *estimate.assumptions]))
