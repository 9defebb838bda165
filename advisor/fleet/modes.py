"""Ways to do a workload: on own machines, on rented or serverless ones, by a hosted model (API)."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import Catalog
from advisor.errors import refusal
from advisor.fleet.machines import platform_of
from advisor.fleet.portfolio import FleetWorkload, Hours
from advisor.fleet.solving.covers import SLACK
from advisor.fleet.solving.problem import OFFICE_DAY_HOURS, Mode, Pauses, starts_of
from advisor.foundation.units import DAY_S, HOUR_S, MILLISECOND, MONTHS_PER_YEAR
from advisor.nouns.case import Case
from advisor.nouns.hardware import TOGETHER, PriceKind
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.workload import Serving, Workload
from advisor.planning.beside_api import hosted_models
from advisor.planning.prepared import prepared, resolved, with_demand
from advisor.planning.search.options import Option
from advisor.planning.search.ranking import best_option
from advisor.planning.search.systems import System
from advisor.planning.searched import Searched
from advisor.planning.spot import aged_factor

Serves = Callable[[Option], float]
MODES_KEPT: Final = 3
"""Sizes of a replica that a plan may choose from, on one kind of machine."""
LEVELS, STEP = 5, 2
"""Sizes of a replica that are tried: the peak load, its half, and so on."""
MOST_EVEN: Final = 6
"""Most equal replicas that share the peak load of one question."""
COARSE_LEVELS, COARSE_STEP = 2, 4
"""The same in large portfolios, so that their plan stays within its time."""
AWAITED_H: Final = 72.0
"""Longest run of people who state no deadline, where some machine is as fast: they wait for it at
work. Assumed. [h]"""


def awaited(options: list[Option]) -> list[Option]:
    """Return the runs that people wait for; all if none is as fast."""
    return [one for one in options if one.time * doubt(one) <= AWAITED_H] or options


def token_s(limits: Constraints, service: Workload) -> float:
    """Return the time between the tokens of an answer: that of the target, or the usual. [s]"""
    usual_ms = serving_defaults().patience.between_tokens_ms(service)
    return (limits.max_tpot_ms or usual_ms) * MILLISECOND


def levels(peak: float, *, coarse: bool = False, even: bool = False) -> list[int]:
    """Return the loads of a replica to try, the largest first.

    ``even``: those of equal replicas.

    >>> levels(12.0, even=True)
    [12, 6, 4, 3, 2]
    >>> levels(12.0)
    [12, 6, 3, 2, 1]
    >>> levels(12.0, coarse=True)
    [12, 3]
    """
    number, step = (COARSE_LEVELS, COARSE_STEP) if coarse else (LEVELS, STEP)
    parts = range(1, MOST_EVEN + 1) if even else (step**power for power in range(number))
    sizes = (math.ceil(peak / part - 1e-9) for part in parts)
    return list(dict.fromkeys(max(1, size) for size in sizes))


def growth_of(workload: FleetWorkload, months: Sequence[int]) -> tuple[float, ...]:
    """Demand in the middle of each period over that of today."""
    yearly = 1 + workload.growth_per_year
    return tuple(
        yearly ** ((start + length / 2) / MONTHS_PER_YEAR)
        for start, length in zip(starts_of(months), months, strict=True)
    )


def hosted_mode(workload: FleetWorkload, answer_s: float | None = None) -> Mode | None:
    r"""Return the hosted model that answers compare with first, for one request in flight.

    None if no provider hosts it, or the case limits machines or regions. An answer takes
    ``answer_s``, else what the latency target says of its tokens: an hour holds
    :math:`3600 / (n_{out}\,t)` of them. It serves what that is of the load's unit, of which a rate
    says how many tokens a second it stands for.
    """
    case, serving = workload.case, workload.case.workload
    limits = case.limits
    limited = limits.accelerators or limits.vendors or limits.regions or limits.software
    if limited or not isinstance(serving, Serving):
        return None
    providers = {name.casefold() for name in limits.providers}
    offered = (
        item
        for item in hosted_models(case, resolved(case)[1])
        if not providers or item.provider.casefold() in providers
    )
    best = next(offered, None)
    if best is None:
        return None
    each_s = answer_s or serving.output_tokens * token_s(limits, serving)
    pace = workload.output_per_s
    return Mode(
        supply=None,
        title=best.title,
        serves=serving.output_tokens / (each_s * pace) if pace else 1.0,
        usd=best.request_usd(case) * HOUR_S / each_s,
        hosted=True,
        detail=f"{best.model}, list price of {best.price_date}" if best.price_date else "",
    )


def run_mode(place: int, option: Option, cards: int) -> Mode:
    """Return a run on machines of ``cards`` at a place of the supplies."""
    return Mode(
        supply=place,
        title="",
        cards=option.count,
        machines=-(-option.count // cards),
        hours=option.time * doubt(option),
        slow=doubt(option),
        detail=_detail(option),
    )


def by_platform(options: Iterable[Option], systems: Sequence[System]) -> dict[str, list[Option]]:
    """Group options on rented machines by their software platform."""
    found: dict[str, list[Option]] = {}
    names: dict[int, str] = {}
    for option in options:
        if option.offer is not None:
            if option.system not in names:
                names[option.system] = platform_of(systems[option.system].accelerator)
            found.setdefault(names[option.system], []).append(option)
    return dict(sorted(found.items()))


def rented_runs(options: Mapping[str, Sequence[Option]], prefix: str = "") -> Iterator[Mode]:
    """Yield the cheapest rental of a run on each platform: what ``recommend`` puts first."""
    for platform, rented in options.items():
        best = best_option(rented, Objective.CHEAPEST)
        if best is not None:
            yield Mode(
                supply=None,
                title=f"{prefix}{_offer_title(best)}",
                cards=best.count,
                machines=best.instances,
                hours=best.time * doubt(best),
                slow=doubt(best),
                usd=best.cost_usd * doubt(best),
                platform=platform,
                detail=_detail(best),
            )


def quicker(options: Sequence[Option]) -> list[Option]:
    """Return rented runs that take at most half the time of the cheapest."""
    best = best_option(options, Objective.CHEAPEST)
    most = 0.0 if best is None else best.time * doubt(best) / 2
    return [option for option in options if option.time * doubt(option) <= most]


def hourly(options: Iterable[Option]) -> list[Option]:
    """Return rentals that can stop when the office closes: not billed by the day or longer."""
    return [item for item in options if item.offer and item.offer.billing.step_s < DAY_S]


def _of_equals(option: Option) -> tuple[float, int, str]:
    """Return what decides between rentals of one cost, in whatever order they were found."""
    return option.time_high, option.instances, option.offer.key if option.offer else ""


def rented_replicas(options: Mapping[str, Sequence[Option]], serves: Serves) -> Iterator[Mode]:
    """Yield the replica on each platform whose rental is the cheapest for what it serves.

    The upper end decides, as in ``recommend``: an old price has to win clearly.
    """
    for platform, rented in options.items():
        if able := hourly(rented):
            best = min(able, key=lambda one: (one.cost_high_usd / serves(one), _of_equals(one)))
            yield replace(replica_mode(None, best, serves(best)), platform=platform)


def serverless(
    options: Iterable[Option], systems: Sequence[System], case: Case, serves: Serves
) -> Iterator[Mode]:
    """Yield a replica on each serverless offer whose machine has its number of cards."""
    serving = case.workload
    if not isinstance(serving, Serving):
        return
    answer_s = serving.output_tokens * token_s(case.limits, serving)
    for option in options:
        system = systems[option.system]
        for offer in system.offers if option.offer is not None else ():
            kept_s, price = offer.billing.kept_s, offer.on_demand_usd_per_hour
            if kept_s is None or price is None or option.count != offer.accelerators:
                continue
            # The card's memory bounds the weights, whatever the precision.
            held = option.count * system.accelerator.memory_reported_bytes
            start_s = serving_defaults().start.loaded_s(held)
            yield replace(
                replica_mode(None, option, serves(option)),
                title=f"{offer.provider} {offer.instance_type}, stopped when unused",
                usd=price * aged_factor(offer, PriceKind.ON_DEMAND),
                platform=platform_of(system.accelerator),
                pauses=Pauses(answer_s, kept_s, start_s),
            )


def replica_mode(place: int | None, option: Option, serves: float, per_machine: int = 0) -> Mode:
    """Return a replica that serves a load, on machines at a place, else rented.

    ``per_machine``: cards of a machine there; 0: a machine holds it.
    """
    rented = option.offer is not None and place is None
    return Mode(
        supply=place,
        title=_offer_title(option) if rented else "",
        cards=option.count,
        machines=-(-option.count // per_machine) if per_machine else 1,
        serves=serves,
        usd=option.usd_per_hour if rented else 0.0,
        weights=option.precision,
        first_s=option.first_token_s or 0.0,
        token_s=option.time,
        detail=_detail(option),
    )


def doubt(option: Option) -> float:
    """Return the share by which cards without published runs are sized larger.

    It is the upper end of the range over the expected time: with it they still do the work.
    """
    return 1.0 if option.proven else option.time_high / option.time


def _offer_title(option: Option) -> str:
    offer = option.offer
    if offer is None:
        return ""
    number = f"{option.instances} x " if option.instances > 1 and TOGETHER not in offer.key else ""
    return f"{number}{offer.provider} {offer.instance_type}"


def _detail(option: Option) -> str:
    return f"{option.count} x {option.precision}" if option.count > 1 else option.precision


def worthwhile(modes: Sequence[Mode]) -> list[Mode]:
    """Return the few sizes of a replica that no other beats in both load and use.

    The one that serves most for its use comes first, then the smallest.
    """

    def use(mode: Mode) -> float:
        return mode.cards if mode.supply is not None else mode.usd

    kept: list[Mode] = []
    for mode in sorted(modes, key=lambda item: (use(item), -item.serves)):
        # Several of a smaller size serve as much for the same use.
        if all(
            mode.serves > (1 + SLACK) * one.serves * math.floor(use(mode) / use(one) + SLACK)
            for one in kept
        ):
            kept.append(mode)
    if len(kept) <= MODES_KEPT:
        return kept
    best = max(kept, key=lambda item: item.serves / use(item))
    return list(dict.fromkeys((best, kept[0], kept[-1])))


def by_concurrency(
    workload: FleetWorkload, catalog: Catalog, searched: Searched | None = None
) -> FleetWorkload:
    """Return a service with the requests that its rate keeps in flight, in place of the rate.

    They are those of the plan that ``recommend`` finds for it; one of them counts as its share of
    that plan's output, so that slower cards need more replicas. Other work is returned as it is.
    A curve of demand becomes the rate of its busiest hour, and the shares of all hours.
    Raises InputError if its file cannot be read, or if nothing carries the rate. ``searched``: the
    search of the workload's case, if it is known.
    """
    case, serving = workload.case, workload.case.workload
    if not isinstance(serving, Serving):
        return workload
    read = with_demand(serving)
    if isinstance(read, Serving) and read.demand is not None:
        rates = read.demand.rates()
        serving = read.changed(demand=None)
        week = tuple(rate / max(rates) for rate in rates)
        workload = workload.changed(case=workload.case.changed(workload=serving), week=week)
    if serving.disaggregated:
        raise refusal("two_pools", why="a portfolio plans replicas of one")
    if not serving.rate_words:
        return workload
    at_peak = _at_peak(workload, serving)
    if searched is None or at_peak != case:
        searched = Searched.of(prepared(at_peak, catalog, searching=True))
    best = best_option(searched.feasible, Objective.CHEAPEST)
    found = None if best is None else searched.estimate(best).serving
    if best is None or found is None or found.arrivals is None:
        raise refusal(
            "rate_not_carried", value=serving.rate_words, serving=serving, workload=workload
        )
    held = max(1, math.ceil(found.arrivals.in_flight))
    at_once = serving.changed(requests_per_s=None, audio_hours=None, concurrency=held)
    case = workload.case.changed(workload=at_once)
    return workload.changed(case=case, output_per_s=(best.tokens_per_s or 0.0) / held or None)


def _at_peak(workload: FleetWorkload, serving: Serving) -> Case:
    """Return the case of a service with its daily sound spread over a weekday as its hours say."""
    if serving.audio_hours is None:
        return workload.case
    quiet = workload.quiet_share if workload.hours is Hours.ALWAYS else 0.0
    day = DAY_S / HOUR_S
    over = day / (OFFICE_DAY_HOURS + quiet * (day - OFFICE_DAY_HOURS))
    return workload.case.changed(workload=serving.changed(audio_hours=over * serving.audio_hours))
