"""The answer to a case: plans, the frontier, and why everything else lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.estimate.batch.forward import generates
from advisor.estimate.configuration import Placement, estimate_configuration
from advisor.estimate.results import Estimate, Parameters
from advisor.estimate.training.loading import decodes_images
from advisor.estimate.training.report import parameters_of
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.workload import FineTuning, FineTuningMethod, Serving
from advisor.planning.explain.advice import advise
from advisor.planning.explain.chart_points import as_candidates, chart_points, fewest, fewest_first
from advisor.planning.explain.rejections import Outcome, reject
from advisor.planning.explain.sentences import label, nothing_works, sentence, title, why
from advisor.planning.results import Plan, Ranking, Recommendation, Rejection
from advisor.planning.search.fewest import fewest_machines
from advisor.planning.search.neighbours import neighbours
from advisor.planning.search.options import (
    Option,
    Price,
    best_option,
    best_per_accelerator,
    meets_budget,
    meets_time,
)
from advisor.planning.search.precisions import SearchResult, search_and_host
from advisor.planning.search.systems import System, check_names, check_owned, find_systems
from advisor.planning.spot import interruptions_of

PLANS_ASKED = 3
PLANS_BESIDE = 1
"""Plans of the asked objective, and of each other one: what it would take instead."""


def recommend(
    case: Case,
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    told: Callable[[str], object] | None = None,
) -> Recommendation:
    """Search the catalog for a case.

    Parameters
    ----------
    case : Case
        ``hardware`` and ``layout`` are ignored: the search covers all of them.
    architecture : ModelArchitecture
        The model of the case, resolved.
    catalog : Catalog
    calibration : Calibration
    told : callable, optional
        Is called once with the answer's sentence as soon as it is known: before all that explains
        it, where something meets the limits.

    Returns
    -------
    Recommendation
        With empty rankings and all rejections when nothing meets the limits.

    Raises
    ------
    InputError
        If a limit names an unknown provider, region or accelerator, or the workload asks for
        what the model cannot do.
    """
    limits = case.limits
    check_names(limits, catalog)
    check_owned(limits)
    training = not isinstance(case.workload, Serving)
    decoding = decodes_images(case.workload, architecture)
    found = find_systems(catalog, limits, training=training, decoding=decoding)
    systems, result = search_and_host(case, architecture, found, calibration)
    feasible = [
        option
        for option in result.options
        if meets_time(option, limits) and meets_budget(option, limits)
    ]
    objectives = (case.objective, *(item for item in Objective if item is not case.objective))
    estimates: dict[Option, Estimate] = {}

    def full(option: Option) -> Estimate:
        if option not in estimates:
            estimates[option] = estimate_configuration(
                case,
                placement(option, systems[option.system]),
                architecture=architecture,
                calibration=calibration,
                run=result.runs.get(option.precision),
            )
        return estimates[option]

    best = best_option(feasible, case.objective)
    if told is not None and best is not None:
        told(sentence(best, systems[best.system], full(best)))
    for objective in objectives:
        first = best_option(feasible, objective)
        if first is not None and not full(first).neighbours:
            around = neighbours(
                case,
                placement(first, systems[first.system]),
                architecture=architecture,
                calibration=calibration,
                run=result.runs.get(first.precision),
            )
            estimates[first] = estimates[first].model_copy(update={"neighbours": around})
    rankings = tuple(
        Ranking(
            objective=objective,
            plans=_plans(
                feasible,
                systems,
                objective,
                full,
                most=PLANS_ASKED if objective is case.objective else PLANS_BESIDE,
            ),
        )
        for objective in objectives
    )
    chosen = frozenset(plan.estimate.accelerator for item in rankings for plan in item.plans)
    batches = isinstance(case.workload, Serving) and not generates(architecture)
    rejections = _rejections(
        case,
        catalog,
        systems,
        result,
        chosen=chosen,
        best=best,
        batches=batches,
        startup_s=calibration.reliability.startup_s,
    )
    answer = _answer(rankings[0].plans, rejections, limits)
    if told is not None and best is None:
        told(answer)
    chart = chart_points(
        feasible or result.options, systems, architecture, case.workload, calibration
    )
    return Recommendation(
        case=case,
        answer=answer,
        parameters=_parameters(architecture, result),
        batches=batches,
        rankings=rankings,
        frontier=tuple(item for item in chart if item.on_frontier),
        candidates=chart,
        fewest=()
        if limits.deadline_hours is None
        else as_candidates(
            _fewest(case, feasible, systems, result, architecture, calibration),
            systems,
            architecture,
            case.workload,
            calibration,
            on_frontier=set(),
        ),
        rejections=rejections,
        advice=advise(
            case,
            architecture,
            systems,
            result,
            feasible=feasible,
            rankings=rankings,
            prices=catalog.prices,
        ),
        assumptions=_assumptions(architecture, result, estimates),
        references=tuple(
            dict.fromkeys(key for item in estimates.values() for key in item.references)
        ),
        searched=result.searched,
        feasible=len(feasible),
        catalog_date=catalog.newest_price_date,
    )


def placement(option: Option, system: System) -> Placement:
    """Return an option as the estimate layer wants it."""
    return Placement(
        accelerator=system.accelerator,
        node=system.node,
        count=option.count,
        layout=option.layout,
        precision=option.precision,
        offer=option.offer,
        usd_per_hour=option.usd_per_hour if option.offer else None,
        instances=option.instances,
        owned=system.owned,
        interrupted=option.interrupted,
    )


def _plans(
    feasible: Sequence[Option],
    systems: Sequence[System],
    objective: Objective,
    full: Callable[[Option], Estimate],
    *,
    most: int,
) -> tuple[Plan, ...]:
    ordered = best_per_accelerator(feasible, systems, objective)
    plans = []
    for rank, option in enumerate(ordered[:most]):
        system = systems[option.system]
        estimate = full(option)
        following = ordered[rank + 1] if rank + 1 < len(ordered) else None
        runner_up = None if following is None else (following, systems[following.system])
        plans.append(
            Plan(
                rank=rank + 1,
                title=title(option, system),
                sentence=sentence(option, system, estimate),
                why=why(option, estimate, objective, runner_up),
                estimate=estimate,
            )
        )
    return tuple(plans)


def _fewest(
    case: Case,
    feasible: Sequence[Option],
    systems: Sequence[System],
    result: SearchResult,
    architecture: ModelArchitecture,
    calibration: Calibration,
) -> list[Option]:
    """Return the smallest number of each accelerator that meets the limits, fewest first."""
    interruptions = interruptions_of(case, calibration)
    found = fewest_machines(
        fewest(feasible, systems),
        systems,
        architecture=architecture,
        runs=result.runs,
        limits=case.limits,
        calibration=calibration,
        prices=[Price.of(system, case.limits.price_kind, interruptions) for system in systems],
    )
    return sorted(found, key=fewest_first)


def _answer(plans: Sequence[Plan], rejections: Sequence[Rejection], limits: Constraints) -> str:
    if plans:
        return plans[0].sentence
    codes = {"deadline", "budget", "latency", "memory"}
    if limits.accelerators:
        codes |= {"not_offered", "format", "inference_only"}
    nearest = sorted(
        (item for item in rejections if item.code.value in codes), key=lambda item: item.miss
    )
    return nothing_works(
        [item.message for item in nearest],
        deadline_hours=limits.deadline_hours,
        budget_usd=limits.budget_usd,
    )


def _rejections(
    case: Case,
    catalog: Catalog,
    systems: Sequence[System],
    result: SearchResult,
    *,
    chosen: frozenset[str],
    best: Option | None,
    batches: bool,
    startup_s: float,
) -> tuple[Rejection, ...]:
    answer = "batch" if batches else "token"
    options: dict[str, list[Option]] = {}
    for option in result.options:
        options.setdefault(systems[option.system].accelerator.key, []).append(option)
    outcome = Outcome(
        options=options,
        least_memory_bytes=result.least_memory_bytes,
        searched=result.with_format,
        rentable=frozenset(system.accelerator.key for system in systems),
        startup_s=startup_s,
    )
    return reject(
        catalog,
        case.limits,
        outcome,
        chosen=chosen,
        best=best,
        best_name="" if best is None else label(best, systems[best.system]),
        objective=case.objective,
        formats=result.formats,
        memory_remedy=memory_remedy(case),
        answer=answer if isinstance(case.workload, Serving) else "",
    )


def memory_remedy(case: Case) -> str:
    """Return what lowers the memory need of this workload most, smallest sacrifice first."""
    workload = case.workload
    if isinstance(workload, Serving):
        return "Serve 8-bit or 4-bit weights, shorten the context, or use more cards per replica."
    if isinstance(workload, FineTuning):
        if workload.method is FineTuningMethod.LORA:
            return "QLoRA keeps the base in 4 bits; shorter sequences save activations."
        if workload.method is FineTuningMethod.FULL:
            return "LoRA trains adapters only; 8-bit optimizer states halve the rest."
        return "Shorten the sequence or choose a smaller model."
    return "More accelerators share the states; shorter sequences save activations."


def _parameters(architecture: ModelArchitecture, result: SearchResult) -> Parameters:
    run = next(iter(result.runs.values()), None)
    return parameters_of(architecture, run)


def _assumptions(
    architecture: ModelArchitecture, result: SearchResult, estimates: dict[Option, Estimate]
) -> tuple[str, ...]:
    stated = list(architecture.assumptions)
    for run in result.runs.values():
        stated.extend(run.assumptions)
    for estimate in estimates.values():
        stated.extend(estimate.assumptions)
    return tuple(dict.fromkeys(stated))
