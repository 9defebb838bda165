"""Speed of a run against the number of accelerators, each with its best layout."""

from dataclasses import replace

from advisor.estimate.candidates import Candidates
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.training.report import binding, evaluate_run_hours, run_goodput
from advisor.foundation.noun import Noun
from advisor.foundation.refusals import refusal
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.workload import Serving
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.systems import LADDER, System
from advisor.planning.search.training import search_training

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
    price = _hourly_usd(placement)
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


def _hourly_usd(placement: Placement) -> float | None:
    """Return the price of one instance. [USD/h]"""
    if placement.usd_per_hour is None or not placement.instances:
        return None
    return placement.usd_per_hour / placement.instances
