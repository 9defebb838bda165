"""A plan through the day: fixed, autoscaled, with a reserved base and with a spot burst."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.economy import Commitment, load_economy
from advisor.equations.serving.autoscaling import (
    awake_share,
    billed_replicas,
    late_share,
    reserved_base,
    running_replicas,
)
from advisor.estimate.batch.arrivals import batches_under_arrivals
from advisor.estimate.beside_results import Day, DayHour, DayWay
from advisor.estimate.candidates import Candidates
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.serving.arrivals import arrivals_of, engine_curves
from advisor.estimate.serving.demand import served_on
from advisor.estimate.serving.queue import queued
from advisor.estimate.serving.unlike import working_card
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.engine import constants_of
from advisor.foundation.formatting import duration, percent
from advisor.foundation.quantities import way_to_end
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH, MILLISECOND
from advisor.nouns.demand import Demand
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.workload import Serving
from advisor.planning.time_ranges import TimeSpreads

Floats = NDArray[np.float64]

STEP_S: Final = 60.0
LOADS: Final = np.linspace(0.002, 0.998, 499)
"""Loads of one replica that are tried."""


@record
class Load:
    """The demand of each minute, and the units that it needs: machines that hold whole replicas."""

    demand: Demand
    replica_per_s: float
    """Most requests that one replica takes. [requests/s]"""
    replicas: int
    """Of a unit."""
    usd_per_hour: float
    """Of a unit. [USD/h]"""
    spares: int = 0
    """Replicas that run beside those that the requests need."""

    @property
    def rates(self) -> Floats:
        """Of requests. [requests/s]"""
        return minutes(self.demand)

    @property
    def busy(self) -> float:
        """Units that work, on average."""
        return float((self.rates / self.replica_per_s / self.replicas).mean())

    @property
    def needed(self) -> Floats:
        """Whole units."""
        return np.asarray(np.ceil(self.rates / self.replica_per_s / self.replicas))

    @property
    def usd_per_month(self) -> float:
        """Of a unit. [USD]"""
        return self.usd_per_hour * HOURS_PER_MONTH

    @property
    def least(self) -> int:
        """Units that always run."""
        return -(-self.demand.min_replicas // self.replicas)

    def billed(self, *, least: int, most: float) -> Floats:
        """Return the units that an autoscaler rents in each minute."""
        each = self.replica_per_s
        kept = np.ceil((self.rates / each + self.spares) / self.replicas)
        return billed_replicas(
            needed=np.where(self.rates > 0, kept, 0.0),
            step_s=STEP_S,
            hold_s=self.demand.hold_s,
            least=least,
            most=most,
        )

    def way(
        self, name: str, title: str, units: float, *, late: float, low: float, high: float
    ) -> DayWay:
        """Return the bill of a mean number of units."""
        idle = max(0.0, 1 - self.busy / units) if units > 0 else 0.0
        return DayWay(
            name=name,
            title=title,
            usd_per_month=units * self.usd_per_month,
            idle_usd=idle * units * self.usd_per_month,
            idle_share=idle,
            late_share=min(late, 1.0),
            least_replicas=int(low) * self.replicas,
            most_replicas=int(high) * self.replicas,
        )


def with_day(asked: ResolvedCase, placement: Placement, estimate: Estimate) -> Estimate:
    """Return an estimate with the bills of the day, if the case states one and it has a price."""
    workload = asked.case.workload
    if not isinstance(workload, Serving) or workload.demand is None or estimate.serving is None:
        return estimate
    if placement.usd_per_hour is None or not placement.instances:
        return estimate
    each = _most_per_replica(asked, workload, placement)
    if each <= 0:
        return estimate
    layout, spares = placement.layout, workload.spare_replicas
    cards = layout.accelerators // layout.replicas
    machine = placement.node.accelerators
    usd_per_hour = placement.usd_per_hour / placement.instances * -(-cards // machine)
    load = Load(workload.demand, each, max(1, machine // cards), usd_per_hour, spares)
    weights = estimate.memory.weights_bytes.expected * cards
    start = serving_defaults().start
    start_s = workload.demand.cold_start_s or (start.provision_s + start.loaded_s(weights))
    day = bills(load, start_s, layout.replicas + spares)
    return estimate.changed(day=_with_terms(day, placement, load))


def _most_per_replica(asked: ResolvedCase, workload: Serving, placement: Placement) -> float:
    """Return the highest rate that one replica takes within the targets. [requests/s]"""
    case, architecture = asked.case, asked.architecture
    placement = placement.equipped(case, architecture)
    card, form = placement.accelerator, WEIGHT_FORMATS[placement.precision]
    calibration = constants_of(
        asked.calibration, placement.tool, card, duty_of(workload, architecture)
    )
    card, kernels, _ = working_card(card, architecture, workload, form, calibration)
    served = served_on(card, architecture, workload, form)
    layout = placement.layout.changed(data=placement.layout.expert)
    compute = compute_format(card, form)
    candidates = Candidates.of([layout], card, placement.node, kernels, compute=compute)
    one, same = workload.changed(requests_per_s=1.0), np.zeros(len(LOADS), dtype=np.intp)
    # A rank of 1 / rate ranks that share one request a second takes the rate.
    if architecture.generates:
        curve = engine_curves(served, workload, candidates, calibration)
        rates = LOADS * curve.most_per_s[0]
        found = queued(curve.take(same), arrivals_of(one, 1 / rates))
    else:
        alone = batches_under_arrivals(architecture, one, form, candidates, calibration)
        rates = LOADS / alone.queued.load[0]
        many = candidates.take(same)
        many = Candidates(replace(many.layout, data=1 / rates), many.hardware)
        found = batches_under_arrivals(architecture, one, form, many, calibration).queued
    spreads, limits = TimeSpreads(architecture, calibration, workload), case.limits
    way = way_to_end(1.0 - limits.risk)
    later = spreads.of(card, precision=form.name, count=1).high
    first = spreads.first(card, precision=form.name, at=limits.at).high
    high = found.strained(np.full(len(rates), later))
    met = found.stable & (found.load * later**way <= 1)
    pairs = zip(
        *(found.latencies(limits.at), high.latencies(limits.at), (later, first)),
        *((limits.max_tpot_ms, limits.max_ttft_ms),),
        strict=True,
    )
    for expected, end, least, most in pairs:
        if most is not None:
            ratio = np.maximum(end[met] / expected[met], least)
            met[met] = expected[met] * ratio**way <= most * MILLISECOND
    return float(rates[met].max(initial=0.0)) * placement.layout.expert


def bills(load: Load, start_s: float, fixed: int) -> Day:
    """Return the bills of a fixed and of an autoscaled fleet.

    ``start_s``: until a new unit answers. [s]
    """
    rates, needed = load.rates, load.needed
    fixed_units = -(-fixed // load.replicas)
    short = late_share(rate_per_s=rates, needed=needed, running=np.full_like(rates, fixed_units))
    billed = load.billed(least=load.least, most=max(float(fixed_units), float(needed.max())))
    running = running_replicas(billed=billed, step_s=STEP_S, start_s=start_s)
    count = len(rates) * STEP_S / HOUR_S
    by_hour = (column.reshape(round(count), -1).mean(axis=1) for column in (rates, needed, running))
    return Day(
        peak_requests_per_s=float(rates.max()),
        mean_requests_per_s=float(rates.mean()),
        requests_per_replica_s=load.replica_per_s,
        start_s=start_s,
        hold_s=load.demand.hold_s,
        hours=tuple(
            DayHour(
                hour=hour, requests_per_s=a, needed=b * load.replicas, running=c * load.replicas
            )
            for hour, (a, b, c) in enumerate(
                zip(*(column.tolist() for column in by_hour), strict=True)
            )
        ),
        ways=(
            load.way(
                "fixed",
                "Fixed for the peak",
                fixed_units,
                late=short,
                low=fixed_units,
                high=fixed_units,
            ),
            _autoscaled(load, billed, late_share(rate_per_s=rates, needed=needed, running=running)),
        ),
    )


def _autoscaled(load: Load, billed: Floats, late: float) -> DayWay:
    """Return the bill of an autoscaled fleet; one that may sleep is billed only while awake."""
    low, paid = billed.min(), billed
    if load.least == 0:
        rates = load.rates
        awake = awake_share(rate_per_s=rates, hold_s=load.demand.hold_s)
        alone = billed <= 1
        low, paid = 0.0, np.where(alone, awake, billed)
        late += float((rates * np.where(alone, 1 - awake, 0.0)).sum() / max(rates.sum(), 1e-300))
    return load.way(
        "autoscaled", "Autoscaled", float(paid.mean()), late=late, low=low, high=billed.max()
    )


def minutes(demand: Demand) -> Floats:
    """Return the rate at each minute, linear between the middles of the hours. [requests/s]"""
    hourly = np.array(demand.rates())
    places = (np.arange(len(hourly) * HOUR_S / STEP_S) + 0.5) * STEP_S / HOUR_S - 0.5
    return np.asarray(np.interp(places, np.arange(len(hourly)), hourly, period=len(hourly)))


def _with_terms(day: Day, placement: Placement, load: Load) -> Day:
    """Return a day with a reserved base and a spot burst, where the provider sells them."""
    offer, month = placement.offer, load.usd_per_month
    fixed, scaled = day.ways
    billed = load.billed(least=max(1, load.least), most=np.inf)
    ways = [fixed, scaled]
    plan = None if offer is None else _commitment(offer.provider, placement.accelerator.key)
    if plan is not None:
        base = reserved_base(billed=billed, price_ratio=plan.price_ratio)
        ways.append(
            _other(
                scaled,
                "reserved",
                f"{base * load.replicas:.0f} reserved, the rest on demand",
                month * (base * plan.price_ratio + float(np.maximum(billed - base, 0).mean())),
                1 - load.busy / float(np.maximum(billed, base).mean()),
                note=f"{plan.plan}, {plan.term_months} months at {percent(plan.price_ratio)} of "
                f"the price{plan.caution}",
            )
        )
    if offer is not None and offer.spot_usd_per_hour and offer.on_demand_usd_per_hour:
        ratio = offer.spot_usd_per_hour / offer.on_demand_usd_per_hour
        base = float(billed.min())
        ways.append(
            _other(
                scaled,
                "spot",
                f"{base * load.replicas:.0f} on demand, the rest spot",
                month * (base + ratio * float((billed - base).mean())),
                1 - load.busy / float(billed.mean()),
                note="spot machines can be taken back at any time",
            )
        )
    answers, goes = duration(day.start_s), duration(day.hold_s)
    assumption = f"a new replica answers after {answers}, one that is not needed goes after {goes}"
    return day.changed(ways=tuple(ways), assumptions=(assumption,))


def _other(scaled: DayWay, name: str, title: str, usd: float, idle: float, *, note: str) -> DayWay:
    """Return another way to pay for the autoscaled fleet."""
    return scaled.changed(
        name=name, title=title, usd_per_month=usd, idle_usd=idle * usd, idle_share=idle, note=note
    )


def _commitment(provider: str, accelerator: str) -> Commitment | None:
    """Return the cheapest commitment that a provider sells for a card."""
    plans = [
        plan
        for plan in load_economy().commitments
        if plan.provider == provider and plan.covers(accelerator)
    ]
    return min(plans, key=lambda plan: plan.price_ratio, default=None)
