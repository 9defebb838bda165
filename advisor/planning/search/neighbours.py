"""Time and memory of each layout one step away from the chosen one."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Neighbour
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.engine import constants_of
from advisor.estimate.training.memory_report import evaluate_memory
from advisor.estimate.training.report import evaluate_run_hours
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.hardware import Node
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Schedule, Sharding
from advisor.nouns.precision import WEIGHT_FORMATS, recipe_named
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.stacks import DEGREES
from advisor.nouns.workload import Serving
from advisor.planning.search.layouts import micro_batches_fed, worth_splitting

Moves = Iterator[tuple[str, dict[str, object]]]


def neighbours(
    asked: ResolvedCase, placement: Placement, *, run: TrainingRun | None = None
) -> tuple[Neighbour, ...]:
    """Evaluate every layout one step away on the same hardware, in one array call.

    Fastest first; those that need a network the hardware lacks are left out. Empty where only data
    parallelism divides the work of a server.

    ``run``: the resolved training workload, if the caller has it already.
    """
    asked = asked.cached_in(placement.cache)
    case, architecture, calibration = asked.case, asked.architecture, asked.calibration
    if isinstance(case.workload, Serving):
        if not architecture.generates:
            return ()
        placement = placement.equipped(case, architecture)
        calibration = constants_of(
            calibration,
            placement.tool,
            placement.accelerator,
            duty_of(case.workload, architecture),
        )
        return _served(case.workload, placement, architecture, calibration)
    recipe = recipe_named(placement.precision)
    run = run or placement.training(case, architecture)
    moves = [
        (words, layout)
        for words, layout in _moved(placement.layout, _training_moves(placement.layout))
        if _divides(layout, architecture)
        and _fed(layout, placement.layout, run)
        and run.allows(layout)
    ]
    kernels, _ = calibration.kernels_for(placement.accelerator)
    candidates = Candidates.of(
        [placement.layout, *(layout for _, layout in moves)],
        placement.accelerator,
        placement.node,
        kernels,
        compute=recipe.compute,
    )
    _, time = evaluate_run_hours(run, candidates, calibration)
    need = evaluate_memory(run, candidates.layout, calibration)
    fits = need <= placement.accelerator.memory_reported_bytes
    return _described(moves, time.step, need, fits, placement.node)


def _served(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
) -> tuple[Neighbour, ...]:
    from advisor.estimate.serving.arrivals import under_arrivals
    from advisor.estimate.serving.demand import ServingLoad, served_on
    from advisor.estimate.serving.times import serving_times
    from advisor.planning.search.serving import most_replicas

    weight_format = WEIGHT_FORMATS[placement.precision]
    moves = [
        (words, layout)
        for words, layout in _moved(
            placement.layout, _degree_moves(placement.layout, ("tensor", "pipeline", "data"))
        )
        if _divides(layout, architecture)
        and layout.data <= most_replicas(workload)
        and _offered(layout, placement)
    ]
    kernels, _ = calibration.served_kernels(placement.accelerator, weight_format)
    candidates = Candidates.of(
        [placement.layout, *(layout for _, layout in moves)],
        placement.accelerator,
        placement.node,
        kernels,
        compute=compute_format(placement.accelerator, weight_format),
    )
    served = served_on(placement.accelerator, architecture, workload, weight_format)
    times = serving_times(served, ServingLoad.of(workload), candidates, calibration)
    need, fits = times.capacity.high_bytes, times.capacity.fits
    time = times.tpot_s
    if workload.requests_per_s is not None:
        found = under_arrivals(served, workload, candidates, calibration)
        time, fits = found.tpot_s, found.stable
    return _described(moves, time, need, fits, placement.node)


def _offered(layout: ParallelLayout, placement: Placement) -> bool:
    """Return whether the serving tool divides the model this way."""
    tool, card = placement.tool, placement.accelerator
    if tool is None or tool.serving is None:
        return True
    return all(getattr(layout, name) == 1 or tool.divides(card, name) for name in DEGREES)


def _described(
    moves: list[tuple[str, ParallelLayout]],
    time_s: Floats,
    need_bytes: Floats,
    fits: NDArray[np.bool_],
    node: Node,
) -> tuple[Neighbour, ...]:
    """Turn arrays, the chosen layout first, into neighbours, fastest first."""
    found = [
        Neighbour(
            change=words,
            layout=layout,
            time_s=float(time_s[place]),
            time_ratio=float(time_s[place] / time_s[0]),
            memory_bytes=float(need_bytes[place]),
            fits=bool(fits[place]),
            note=_crossing(layout, node),
        )
        for place, (words, layout) in enumerate(moves, start=1)
        if np.isfinite(time_s[place])
    ]
    return tuple(sorted(found, key=lambda item: item.time_s))


def _crossing(layout: ParallelLayout, node: Node) -> str:
    """Return a note if a tensor-parallel group is too wide for the fast links."""
    if layout.tensor > max(node.accelerators, node.intra_domain):
        return "tensor traffic crosses the network between machines"
    if 1 < node.intra_domain < layout.tensor:
        return "tensor traffic leaves the fast links and crosses PCIe"
    return ""


def _moved(layout: ParallelLayout, moves: Moves) -> Iterator[tuple[str, ParallelLayout]]:
    """Yield the consistent layouts that use as many accelerators."""
    for words, update in moves:
        moved = layout.changed(**update)
        ranks = moved.data * moved.context
        gathered = moved.data == 1 or moved.sharding is Sharding.ZERO3
        if (
            moved.accelerators == layout.accelerators
            and moved.schedulable
            and ranks % moved.expert == 0
            and (gathered or Offload.PARAMETERS not in moved.offload)
        ):
            yield words, moved


def _degree_moves(layout: ParallelLayout, names: tuple[str, ...]) -> Moves:
    """Yield exchanges of one degree with another, by factors of two."""
    degrees = {name: getattr(layout, name) for name in names}
    for wider in names:
        for narrower, degree in degrees.items():
            if narrower == wider or degree % 2 or {wider, narrower} == {"context", "pipeline"}:
                continue
            update = {wider: degrees[wider] * 2, narrower: degree // 2}
            words = ", ".join(f"{name} {degrees[name]} to {new}" for name, new in update.items())
            if update.get("pipeline") == 1:
                update["virtual_stages"] = 1
            yield words, dict(update)
    for expert in (layout.expert * 2, layout.expert // 2):
        if expert >= 1:
            yield f"expert {layout.expert} to {expert}", {"expert": expert}


def _training_moves(layout: ParallelLayout) -> Moves:
    """Yield the exchanges of degrees, and the choices that only training has."""
    yield from _degree_moves(layout, ("tensor", "pipeline", "context", "data"))
    for micro_batch in (layout.micro_batch * 2, layout.micro_batch // 2):
        if micro_batch >= 1:
            words = f"micro-batch {layout.micro_batch} to {micro_batch}"
            yield words, {"micro_batch": micro_batch}
    for recompute in Recompute:
        if recompute is not layout.recompute:
            words = f"recompute {layout.recompute.value} to {recompute.value}"
            yield words, {"recompute": recompute}
    if layout.data * layout.context > 1:
        for sharding in Sharding:
            if sharding is not layout.sharding:
                words = f"sharding {layout.sharding.value} to {sharding.value}"
                yield words, {"sharding": sharding}
    for what in layout.offload:  # more there costs time, and saves memory that a plan has
        left = tuple(item for item in layout.offload if item is not what)
        yield f"{what.value} back from the host", {"offload": left}
    if layout.pipeline > 1:
        for stages in (layout.virtual_stages * 2, layout.virtual_stages // 2):
            if stages >= 1:
                words = f"virtual stages {layout.virtual_stages} to {stages}"
                yield words, {"virtual_stages": stages}
    for schedule in (Schedule.PLAIN, Schedule.OVERLAPPED):
        if schedule is not layout.schedule and layout.expert > 1:
            yield f"schedule {layout.schedule.value} to {schedule.value}", {"schedule": schedule}


def _fed(layout: ParallelLayout, chosen: ParallelLayout, run: TrainingRun) -> bool:
    """Return whether the batch and its sequences can be divided this way, as in the search."""
    shared = layout.data * layout.micro_batch <= run.global_batch
    split = layout.context <= chosen.context or worth_splitting(run, layout.context)
    fed = micro_batches_fed(run, data=layout.data, micro_batch=layout.micro_batch)
    chunked = layout.virtual_stages == 1 or fed % layout.pipeline == 0
    return shared and split and chunked and (fed > 1 or layout.schedule is Schedule.PLAIN)


def _divides(layout: ParallelLayout, architecture: ModelArchitecture) -> bool:
    """Return whether the model's shape can be divided this way."""
    if architecture.unit is not Unit.TOKEN:
        divided = layout.tensor * layout.pipeline * layout.context * layout.expert
        return divided == 1 and layout.recompute is Recompute.NONE and not layout.offload
    return (
        architecture.num_attention_heads % layout.tensor == 0
        and architecture.num_experts % layout.expert == 0
        and layout.pipeline * layout.virtual_stages <= architecture.pipeline_parts
    )
