"""Cost of owning: every line as present value over the horizon, and of a unit of the work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from advisor.equations import Number
from advisor.equations.energy import carbon_kg, energy_kwh, kwh_per_month, rated_kw
from advisor.equations.owning import annuity_months, capital_usd, discounted, hosts_usd
from advisor.estimate.cost import Prompts
from advisor.estimate.results import Estimate
from advisor.estimate.terms import term, term_texts
from advisor.foundation import cents
from advisor.foundation.quantities import Range, Term
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH, MILLION
from advisor.nouns.case import Case
from advisor.nouns.workload import Serving
from advisor.owning.assumptions import Factors, Size, Spread
from advisor.owning.results import Line, OwningCost


@record
class Work:
    """Time and rate of the configuration, from the estimate."""

    run_hours: Range | None
    """One run (training); None when serving. [h]"""
    units_per_hour: Range
    """Tokens (or images) that an hour trains or generates. [1/h]"""
    units_per_run: float | None
    """Tokens (or images) of one run (training)."""
    unit: str
    """``token``, ``image`` or ``sample``."""
    requests_per_hour: float | None = None
    """Answered requests (serving). [1/h]"""
    prompts: Prompts | None = None
    """What splits the cost between prompts and answers; None unless text is served."""

    groups: int = 1
    """Groups of cards that work side by side, each on a run of its own."""
    replicas: int = 1
    """Copies of a served model in one group, which need no network between them."""

    def run(self, usd_per_hour: Range) -> Range | None:
        """Return the cost of one run; None when serving. [USD]"""
        if self.run_hours is None:
            return None
        return self.run_hours.times(usd_per_hour).scaled(1 / self.groups)

    def times(self, groups: int) -> Work:
        """Return the work of several such groups."""
        requests = self.requests_per_hour
        return replace(
            self,
            units_per_hour=self.units_per_hour.scaled(groups),
            requests_per_hour=None if requests is None else requests * groups,
            groups=groups,
        )

    def million(self, usd_per_hour: Range) -> Range:
        """Return the cost of a million tokens. [USD]"""
        return self.units_per_hour.reciprocal(MILLION).times(usd_per_hour)

    def apart(self, usd_per_hour: Range) -> tuple[Range | None, Range | None]:
        """Return the cost of a million prompt tokens and of a million generated ones. [USD]"""
        if self.prompts is None:
            return None, None
        return self.prompts.apart(self.million(usd_per_hour))


def work_of(case: Case, estimate: Estimate) -> Work:
    """Return the work of a case and its estimate; ``ValueError`` if it has neither run nor rate."""
    if estimate.serving is not None:
        serving = estimate.serving
        per_hour = serving.output_tokens_per_s.scaled(HOUR_S)
        split = Prompts.of(serving, case.workload) if isinstance(case.workload, Serving) else None
        requests = serving.requests_per_s.expected * HOUR_S
        return Work(
            None, per_hour, None, serving.unit.value, requests, split, replicas=serving.replicas
        )
    if estimate.time is None:
        raise ValueError("the estimate has neither time nor serving")
    hours = estimate.time.run_hours
    units = estimate.time.steps * estimate.time.tokens_per_step
    return Work(hours, hours.reciprocal(units), units, estimate.time.unit.value)


def machine_kw(factors: Factors, size: Size) -> Number:
    """Rated power of the machines. [kW]"""
    return rated_kw(
        accelerators=size.accelerators,
        board_power_w=size.board_power_w,
        host_power_share=factors.host_power_share,
    )


def monthly_kwh(factors: Factors, size: Size, hours: float) -> Number:
    """Energy of a month with ``hours`` in use, including cooling; spares idle. [kWh]"""
    return kwh_per_month(
        hours_per_month=size.busy_hours(hours),
        rated_kw=machine_kw(factors, size),
        load_share=factors.load_share,
        idle_share=factors.idle_share,
        pue=factors.pue,
    )


def bought_usd(factors: Factors, size: Size) -> Number:
    """Paid on the first day. [USD]"""
    return capital_usd(
        accelerators=size.accelerators,
        purchase_usd=factors.purchase_usd,
        host_share=factors.host_share,
        network_share=factors.network_share,
        machines=size.machines,
        host_usd=factors.host_usd,
    )


def lines(factors: Factors, size: Size, *, hours: float, months: Number) -> dict[str, Number]:
    """Return the present value of each line after ``months``, sold at their end. [USD]"""
    cards = size.accelerators * factors.purchase_usd
    annuity = annuity_months(months=months, discount_rate=factors.discount_rate)
    power = machine_kw(factors, size)
    energy = monthly_kwh(factors, size, hours) * factors.electricity_usd_per_kwh
    return {
        "accelerators": cards,
        "hosts": hosts_usd(
            accelerators=size.accelerators,
            purchase_usd=factors.purchase_usd,
            host_share=factors.host_share,
            machines=size.machines,
            host_usd=factors.host_usd,
        ),
        "network": cards * factors.network_share,
        "electricity": energy * annuity,
        "colocation": power * factors.colocation_usd_per_kw_month * annuity,
        "staff": size.machines * factors.staff_usd_per_machine_month * annuity,
        "resale": 0.0
        - discounted(
            usd=bought_usd(factors, size) * factors.resale_share,
            months=months,
            discount_rate=factors.discount_rate,
        ),
    }


def present_usd(factors: Factors, size: Size, *, hours: float, months: float) -> Number:
    """Total of all lines over the horizon; one of the factors may be an array. [USD]"""
    return sum(lines(factors, size, hours=hours, months=months).values(), 0.0)


def timeline_usd(factors: Factors, size: Size, *, hours: float, months: int) -> NDArray[np.float64]:
    """Cumulative cost after 0, 1, ... months; the worth counts only at the end. [USD]"""
    after = np.arange(months + 1, dtype=float)
    parts = lines(factors, size, hours=hours, months=after)
    resale = np.broadcast_to(np.asarray(parts.pop("resale")), after.shape)
    paid = np.zeros_like(after)
    for part in parts.values():
        paid = paid + part
    paid[-1] += resale[-1]
    return paid


def owning_cost(spread: Spread, size: Size, *, hours: float, months: int, work: Work) -> OwningCost:
    """Return the cost of owning over the horizon, by ``hours`` in use each month.

    Lines are in whole cents and add up to the expected total. ``work`` gives the cost of a run and
    of a million tokens.
    """
    base = spread.base
    bill = {name: float(usd) for name, usd in lines(base, size, hours=hours, months=months).items()}
    texts = term_texts()["owning"]
    shown = tuple(
        Line(name=name, title=texts[name].title, usd=cents.rounded(usd))
        for name, usd in bill.items()
    )
    around = spread.of(lambda factors: present_usd(factors, size, hours=hours, months=months))
    total = in_cents(around, cents.total(line.usd for line in shown))
    per_hour = total.scaled(1 / (hours * months))
    energy = spread.of(lambda factors: monthly_kwh(factors, size, hours) * months)
    of_a_kwh = float(carbon_kg(energy_kwh=1.0, g_per_kwh=base.carbon_g_per_kwh))
    apart = work.apart(per_hour)
    return OwningCost(
        total_usd=total,
        lines=shown,
        usd_per_month=total.scaled(1 / months),
        usd_per_hour=per_hour,
        usd_per_run=work.run(per_hour),
        usd_per_million=work.million(per_hour),
        usd_per_million_input=apart[0],
        usd_per_million_output=apart[1],
        purchase_usd=cents.total((bill["accelerators"], bill["hosts"], bill["network"])),
        machines=size.machines,
        rated_kw=float(machine_kw(base, size)),
        energy_kwh=energy,
        energy_kwh_per_run=_run_energy(spread, size, work),
        carbon_kg=energy.scaled(of_a_kwh),
        terms=_terms(base, size, bill, hours=hours, months=months),
    )


def in_cents(around: Range, exact: float) -> Range:
    """Return a range around what the bill says. [USD]"""
    return around.model_copy(
        update={"low": min(around.low, exact), "expected": exact, "high": max(around.high, exact)}
    )


def _run_energy(spread: Spread, size: Size, work: Work) -> Range | None:
    """Return the energy of one run on its group of cards. [kWh]"""
    if work.run_hours is None:
        return None

    def used(factors: Factors) -> float:
        kw = machine_kw(factors, size) / work.groups
        each = {"load_share": factors.load_share, "pue": factors.pue}
        return float(energy_kwh(rated_kw=kw, hours=1.0, **each))

    return work.run_hours.times(spread.of(used))


def _terms(
    base: Factors, size: Size, bill: dict[str, float], *, hours: float, months: int
) -> tuple[Term, ...]:
    annuity = float(annuity_months(months=months, discount_rate=base.discount_rate))
    power = machine_kw(base, size)
    cards = f"{size.accelerators} x {base.purchase_usd:,.2f}"
    busy = size.busy_hours(hours)
    idle = HOURS_PER_MONTH - busy
    energy = (
        f"{power:,.3f} kW x {base.pue:g} x ({base.load_share:g} x {busy:g} h + "
        f"{base.idle_share:g} x {idle:g} h) = {monthly_kwh(base, size, hours):,.1f} kWh"
    )
    sold = (
        f"- {bought_usd(base, size):,.2f} x {base.resale_share:g} / "
        f"(1 + {base.discount_rate:g})^({months} / 12)"
    )
    bought = f"{cards} x {base.host_share:g}, at least {size.machines} x {base.host_usd:,.2f}"
    substituted = {
        "accelerators": cards,
        "hosts": bought,
        "network": f"{cards} x {base.network_share:g}",
        "electricity": f"{energy} x {base.electricity_usd_per_kwh:g} x {annuity:.4f}",
        "colocation": f"{power:,.3f} kW x {base.colocation_usd_per_kw_month:g} x {annuity:.4f}",
        "staff": f"{size.machines} x {base.staff_usd_per_machine_month:g} x {annuity:.4f}",
        "resale": sold,
    }
    return tuple(
        term("owning", name, cents.rounded(usd), "USD", substituted[name])
        for name, usd in bill.items()
    )
