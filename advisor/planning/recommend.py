"""The answer to a case: plans, the frontier, and why the other accelerators lost."""

from collections.abc import Callable, Sequence
from typing import Final

from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.results import Estimate
from advisor.estimate.training.report import parameters_of
from advisor.foundation.formatting import money, percent
from advisor.nouns.case import Hardware
from advisor.nouns.hardware import JOIN
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.workload import Serving
from advisor.planning.explain.advice import advise, late_advice
from advisor.planning.explain.devices import as_your_own, buying_advice, devices_to_buy, unrented
from advisor.planning.explain.missed import missed_limits
from advisor.planning.explain.rejections import REQUESTS_UNIT
from advisor.planning.explain.sentences import nothing_works, sentence, title
from advisor.planning.placed import explained
from advisor.planning.prepared import PricedCase
from advisor.planning.results import Plan, Recommendation, Rejection, RejectionCode
from advisor.planning.search.options import in_time
from advisor.planning.search.ranking import best_option
from advisor.planning.searched import Searched
from advisor.planning.stated import best_placement

MENDED: Final = frozenset({"deadline", "budget", "latency", "not_offered"})
"""Limits whose remedy is one sentence."""


def recommend(
    asked: PricedCase,
    *,
    on_sentence: Callable[[str], object] | None = None,
    beside: bool = True,
    brief: bool = False,
) -> Recommendation:
    """Search the catalog for a case, as ``advisor.recommend`` does.

    ``hardware`` is ignored: the search covers all cards. Stated fields of ``layout`` are kept.
    ``on_sentence`` is called before the explanation is computed if a plan meets the limits;
    otherwise rankings are empty and all accelerators rejected. Raises InputError if a limit names
    an unknown provider, region or accelerator, or if the model cannot do what the work asks for.
    """
    case, architecture, catalog = asked.case, asked.architecture, asked.catalog
    if isinstance(case.workload, Serving) and case.workload.disaggregated:
        from advisor.planning.pools import in_pools

        plain = asked.of(case.changed(workload=case.workload.changed(disaggregated=None)))
        found = in_pools(asked, recommend(plain, beside=beside, brief=brief))
        if on_sentence:
            on_sentence(found.answer)
        return found.changed(case=case)
    if own := as_your_own(asked):
        before = unrented([catalog.accelerator(key) for key in case.limits.accelerators])
        told = on_sentence and (lambda text: on_sentence(before + text))
        found = recommend(own, on_sentence=told, beside=beside, brief=brief)
        return found.changed(case=case, answer=before + found.answer)
    searched = Searched.of(asked)
    best = best_option(searched.feasible, case.objective)
    if best is not None and on_sentence:
        on_sentence(sentence(best, searched.systems[best.system], searched.estimate(best)))
    rankings = searched.rankings(brief=brief, beside=beside)
    bought = devices_to_buy(asked.of(searched.case))
    lost = best is None or not brief
    rejections = searched.rejections(rankings, best, bought) if lost else ()
    answer = _answer(rankings[0].plans, rejections, case.limits, _scaled(searched))
    if best is None and on_sentence:
        on_sentence(answer)
    candidates = searched.candidates()
    return Recommendation(
        case=case,
        answer=answer,
        parameters=parameters_of(architecture, next(iter(searched.result.runs), None)),
        batches=searched.batches,
        rankings=rankings,
        frontier=tuple(item for item in candidates if item.on_frontier),
        candidates=candidates,
        fewest=searched.fewest() if beside and not brief else (),
        rejections=rejections,
        nearest=None if best is not None else nearest(asked, rejections),
        advice=(
            *late_advice(searched.late),
            *advise(
                case,
                architecture,
                searched.systems,
                searched.result,
                limits=searched.case.limits,
                feasible=searched.feasible,
                first=best,
                rankings=rankings,
                prices=catalog.prices,
            ),
            *buying_advice(bought, searched.case, catalog, best.cost_usd if best else None),
        ),
        assumptions=searched.assumptions(),
        references=searched.references(),
        searched=searched.result.searched,
        feasible=len(searched.feasible),
        able=searched.able,
        catalog_date=catalog.newest_price_date,
    )


def _scaled(searched: Searched) -> list[str]:
    """Say that the cheapest plan, over a budget all day, is within it where it follows the day."""
    limits, options = searched.case.limits, searched.result.options
    if searched.feasible or limits.budget_usd is None:
        return []
    best = best_option(in_time(options, limits), Objective.CHEAPEST)
    day = None if best is None else searched.estimate(best).day
    if best is None or day is None or day.cheapest.usd_per_month > limits.budget_usd:
        return []
    way, name = day.cheapest, title(best, searched.systems[best.system])
    bills = f"{money(best.cost_usd)} a month for the peak all day, but {money(way.usd_per_month)}"
    late = percent(way.late_share)
    return [f"{name}: {bills} {way.title.lower()}, with {late} of requests late."]


def _answer(
    plans: Sequence[Plan],
    rejections: Sequence[Rejection],
    limits: Constraints,
    scaled: Sequence[str],
) -> str:
    if plans:
        return plans[0].sentence
    codes = {"deadline", "budget", "latency", "memory"}
    if limits.accelerators:
        codes |= {"not_offered", "format", "inference_only", "software"}
    found = [item for item in rejections if item.code.value in codes]
    if any(item.code is RejectionCode.BUDGET for item in found):
        # More cards than a search takes are no nearer to the budget.
        found = [item for item in found if item.unit != REQUESTS_UNIT]
    # Without any nearer miss, software is what is missing.
    found = found or [item for item in rejections if item.code is RejectionCode.SOFTWARE]
    if not found:  # limits that leave no card: say how the named ones break them
        named = {*limits.accelerators, *(item.accelerator for item in limits.owned)}
        found = [item for item in rejections if item.accelerator in named]
    nearest = sorted(found, key=lambda item: item.miss)[:2]
    # What would make it fit has lines of its own, each with what it costs.
    mending = [item.remedy for item in nearest[:1] if item.code in MENDED]
    return nothing_works(
        [*scaled, *(item.message for item in nearest), *mending],
        deadline_hours=limits.deadline_hours,
        budget_usd=limits.budget_usd,
    )


BEYOND_MEMORY: Final = {RejectionCode.BUDGET, RejectionCode.DEADLINE, RejectionCode.LATENCY}
"""Codes of cards whose memory is enough for the work."""


def nearest(asked: PricedCase, rejections: Sequence[Rejection]) -> Estimate | None:
    """Return the estimate of the card that lacks the least memory, with its ways out.

    On as many cards as are owned, else on one. None if no card failed for its memory, nothing
    would make it fit, or money or time is what lacks.
    """
    short = [item for item in rejections if item.code is RejectionCode.MEMORY]
    if not short or any(item.code in BEYOND_MEMORY for item in rejections):
        return None
    key = min(short, key=lambda item: (item.miss, item.accelerator)).accelerator
    owned = {item.accelerator: item.count for item in asked.case.limits.owned}
    hardware = Hardware(accelerator=key, count=owned.get(key, 1))
    asked = asked.of(asked.case.changed(hardware=hardware))
    try:
        found = explained(asked, best_placement(asked), curves=False)
    except InputError:
        return None
    return found if found.ways_out or found.improvements else None


def counted(asked: PricedCase) -> Hardware | None:
    """Return stated hardware, without a number as many cards as the work takes.

    One card, unless it falls short or keeps parts in the host's memory and a plan with more exists.
    """
    case, stated = asked.case, asked.case.hardware
    if stated is None or "count" in stated.model_fields_set or JOIN in stated.accelerator:
        return stated
    found = estimate_configuration(asked, best_placement(asked))
    alone = found.memory.fits and found.memory.host_bytes.expected == 0
    if alone and not missed_limits(found, case.limits):
        return stated
    limits = case.limits.changed(accelerators=(stated.accelerator,))
    searching = asked.of(case.changed(limits=limits, hardware=None))
    plans = recommend(searching, brief=True).plans
    if not plans:
        return stated
    return stated.changed(count=plans[0].estimate.count)
