"""Memory and speed of one configuration against batch and length, and of a run against cards."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from advisor.architecture.table.model import Unit
from advisor.errors import refusal
from advisor.estimate.beside_results import Curve, CurvePoint, Variable
from advisor.estimate.candidates import Candidates
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.training.report import binding, evaluate_run_hours, run_goodput
from advisor.foundation.noun import Noun
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.workload import Serving
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.systems import LADDER, System
from advisor.planning.search.training import search_training

KNEE_SHARE: Final = 0.95
"""The knee is the smallest value that reaches this share of the best speed that fits."""
PAST_THE_LIMIT: Final = 2
"""Doublings shown beyond the last value that fits."""
SHORTEST: Final = 256
LARGEST_BATCH: Final = 4096


def memory_curves(asked: ResolvedCase, placement: Placement) -> tuple[Curve, ...]:
    """Return memory and speed of one configuration at other batches and lengths.

    One curve over the micro-batch (training) or the concurrent requests (serving). One over the
    length of a sequence, if the model takes tokens.

    ``placement``: the configuration; everything but the batch or the length stays.
    """
    case, architecture = asked.case, asked.architecture
    workload, layout = case.workload, placement.layout
    if isinstance(workload, Serving) and workload.requests_per_s is not None:
        # At a rate, nothing would grow with the requests at once: they follow from it.
        served = estimate_configuration(asked, placement).serving
        held = served.arrivals.in_flight if served is not None and served.arrivals else 1.0
        workload = workload.changed(
            requests_per_s=None, demand=None, concurrency=max(1, round(held))
        )

    def with_work(**fields: object) -> Estimate:
        changed = asked.of(case.changed(workload=workload.changed(**fields)))
        return estimate_configuration(changed, placement)

    has_length = architecture.unit is Unit.TOKEN
    if isinstance(workload, Serving):
        curves = [
            _curve(
                "concurrency",
                workload.concurrency,
                _doublings(1, LARGEST_BATCH),
                lambda value: with_work(concurrency=value),
            )
        ]
        longest = architecture.max_position_embeddings or 0
        if architecture.generates and longest > SHORTEST + workload.output_tokens:
            answer = workload.output_tokens
            curves.append(
                _curve(
                    "context",
                    workload.input_tokens + answer,
                    _doublings(SHORTEST, longest, above=answer),
                    lambda value: with_work(input_tokens=value - answer),
                )
            )
        return tuple(curves)
    run = placement.training(case, architecture)

    def with_micro_batch(value: int) -> Estimate:
        arranged = layout.changed(micro_batch=value)
        return estimate_configuration(asked, replace(placement, layout=arranged))

    per_rank = max(1, run.global_batch // layout.data)
    curves = [_curve("micro_batch", layout.micro_batch, _doublings(1, per_rank), with_micro_batch)]
    longest = architecture.max_position_embeddings or run.sequence_length
    if has_length and longest > SHORTEST:
        curves.append(
            _curve(
                "sequence_length",
                run.sequence_length,
                _doublings(SHORTEST, longest),
                # The batch stays as it is, even if its default at another length differs.
                lambda value: with_work(sequence_length=value, global_batch=run.global_batch),
            )
        )
    return tuple(curves)


def _doublings(first: int, last: int, *, above: int = 0) -> list[int]:
    """Values above ``above`` of the doubling series from ``first``; then ``last``."""
    values, value = [], first
    while value < last:
        values.append(value)
        value *= 2
    return [value for value in (*values, last) if value > above]


def _curve(
    variable: Variable, chosen: int, values: Iterable[int], estimate: Callable[[int], Estimate]
) -> Curve:
    points: dict[int, CurvePoint] = {}

    def at(value: int) -> CurvePoint:
        if value not in points:
            points[value] = _point(value, estimate(value))
        return points[value]

    wanted = sorted({*values, chosen})
    beyond = 0
    usable = at(chosen).usable_bytes
    for value in wanted:
        beyond = 0 if at(value).fits else beyond + 1
        if beyond >= PAST_THE_LIMIT and value > chosen:
            break
    fitting = [value for value, point in sorted(points.items()) if point.fits]
    limit = fitting[-1] if fitting else 0
    failing = [value for value in points if value > limit]
    shown = tuple(points[value] for value in sorted(points))
    if limit and failing:
        limit = _last_fit(limit, min(failing), lambda value: at(value).fits)
    return Curve(
        variable=variable,
        chosen=chosen,
        points=shown,
        usable_bytes=usable,
        limit=limit,
        open_ended=bool(limit) and not failing,
        knee=_knee([points[value] for value in fitting]),
    )


def _point(value: int, estimate: Estimate) -> CurvePoint:
    if estimate.time is not None:
        speed, unit = estimate.time.tokens_per_s, estimate.time.unit
    elif estimate.serving is not None:
        speed, unit = estimate.serving.output_tokens_per_s, estimate.serving.unit
    else:
        raise ValueError("an estimate has a time of training or of serving")
    return CurvePoint(
        value=value,
        memory_bytes=estimate.memory.total_bytes,
        usable_bytes=estimate.memory.usable_bytes,
        speed_per_s=speed,
        unit=unit,
        fits=estimate.memory.fits,
    )


def _last_fit(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Largest whole number below ``high`` that fits, if all smaller ones fit."""
    while high - low > max(1, low // 64):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _knee(fitting: list[CurvePoint]) -> int | None:
    if not fitting:
        return None
    best = max(point.speed_per_s.expected for point in fitting)
    return next(point.value for point in fitting if point.speed_per_s.expected >= KNEE_SHARE * best)


MOST_ACCELERATORS = 16_384


class ScalingPoint(Noun):
    """The fastest layout of one number of accelerators. The batch stays the same."""

    count: int
    layout: ParallelLayout
    step_s: float
    run_hours: float
    """Failures, checkpoints and start-up included. [h]"""
    tokens_per_s: float
    """Tokens of the whole job, or samples for networks that take samples. [1/s]"""
    efficiency: float
    """Throughput of each accelerator over that of the smallest number that fits. [fraction]"""
    goodput: float
    """Share of wall-clock time spent on training. [fraction]"""
    cost_usd: float | None
    """At the price of the estimate's offer; None without an offer. [USD]"""
    bound_by: str
    """Largest share of the step, named as in an estimate."""


class Scaling(Noun):
    """One accelerator in one kind of machine, at every searched number of them."""

    accelerator: str
    accelerator_name: str
    provider: str | None
    points: tuple[ScalingPoint, ...]
    """Ordered by count; empty if the model fits on no number of them."""


def scaling(asked: ResolvedCase, placement: Placement) -> Scaling:
    """Search the layouts of every number of one accelerator in one array pass.

    Raises InputError if the workload serves.

    ``placement``: fixes accelerator, machine, precision and price.
    """
    case, architecture, calibration = asked.case, asked.architecture, asked.calibration
    if isinstance(case.workload, Serving):
        raise refusal("scaling_of_servers", value=case.workload.kind)
    accelerator, node = placement.accelerator, placement.node
    run = placement.training(case, architecture)
    numbers = {1, 2, 4, *(step * node.accelerators for step in LADDER)}
    reach = MOST_ACCELERATORS if node.inter_bytes_per_s is not None else node.accelerators
    counts = tuple(sorted(number for number in numbers if number <= reach))
    system = System(accelerator, node, (), counts, owned=True)
    space = LayoutSpace(run, counts, calibration)
    system = replace(system, counts=tuple(n for n in counts if space.has_layouts(n)))
    found = search_training(run, [system], space, calibration).found
    name = {"accelerator": accelerator.key, "accelerator_name": accelerator.name}
    provider = placement.offer.provider if placement.offer else None
    if not found:
        return Scaling(**name, provider=provider, points=())
    kernels, _ = calibration.kernels_for(accelerator)
    chosen = [item.layouts.layout(item.row) for item in found]
    candidates = Candidates.of(chosen, accelerator, node, kernels, compute=run.recipe.compute)
    hours, time = evaluate_run_hours(run, candidates, calibration)
    count = candidates.layout.accelerators
    share = run_goodput(calibration.reliability, count)
    rate = run.tokens_per_step / time.step
    efficiency = rate / count / (rate[0] / count[0])
    hourly, instances = placement.usd_per_hour, placement.instances
    price = hourly / instances if hourly is not None and instances else None
    return Scaling(
        **name,
        provider=provider,
        points=tuple(
            ScalingPoint(
                count=int(count[place]),
                layout=chosen[place],
                step_s=float(time.step[place]),
                run_hours=float(hours[place]),
                tokens_per_s=float(rate[place]),
                efficiency=float(efficiency[place]),
                goodput=float(share[place]),
                cost_usd=None
                if price is None
                else -(-int(count[place]) // node.accelerators) * price * float(hours[place]),
                bound_by=binding(time.row(place)),
            )
            for place in range(len(found))
        ),
    )
