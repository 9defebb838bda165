"""The case that a training file means: the plan, changed where the program differs.

The head of every file shows the estimate of this case, so head and file agree.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil

from advisor.architecture.table.model import Unit
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.training.run import resolve_training
from advisor.export.formats import cannot
from advisor.export.setup import Setup, way_out
from advisor.export.training.described import refuse
from advisor.export.training.tool import Tool
from advisor.foundation.formatting import memory
from advisor.nouns.layout import ParallelLayout, Recompute
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving, Training


def written(setup: Setup, tool: Tool) -> Setup:
    """Return the plan as the program's file states it, with its own estimate."""
    refuse(tool, setup)
    plan = setup.estimate
    precision = tool.precision(setup)
    meant = replace(setup, estimate=plan.changed(precision=precision))
    beside = tool.beside(setup)
    for layout in _layouts(meant, tool):
        workload = _workload(meant, tool, layout, precision)
        placement = replace(
            setup.placement,
            layout=layout,
            precision=precision,
            tool=tool.row or setup.placement.tool,
        )
        case = setup.case.changed(workload=workload, layout=layout)
        asked = ResolvedCase(case, setup.model, setup.calibration)
        estimate = estimate_configuration(asked, placement)
        needed, usable = estimate.memory.needed_bytes + beside, estimate.memory.usable_bytes
        fits = estimate.memory.fits and needed <= usable
        if fits:
            break
    notes = tuple(_changes(setup, workload, layout, precision, tool))
    if not fits:
        changes = " ".join(notes).rstrip(".")
        differs = f" as {tool.says.title} runs it: {changes or 'its memory differs'}"
        raise cannot(
            "the plan does not fit" + (differs if plan.memory.fits else ""),
            value=f"{memory(needed)} on each"
            + (f", {memory(beside)} of it for the rest of the pipeline" if beside else ""),
            allowed=f"up to {memory(usable)}",
            remedy=way_out(plan, tool.says, bound=tool.key in known_tools()),
        )
    return replace(
        setup,
        case=case,
        estimate=estimate,
        workload=workload,
        placement=placement,
        tool=tool,
        differences=(*setup.differences, *notes),
    )


def _layouts(setup: Setup, tool: Tool) -> Iterator[ParallelLayout]:
    """Yield the plan's layout as the program runs it, then smaller ones, if the plan is free.

    First with smaller micro-batches, then with full recomputation too.
    """
    first = tool.arranged(setup, arranged(tool, setup.estimate.layout))
    yield first
    stated = setup.case.layout
    policies = [first.recompute]
    if not (stated and stated.states("recompute")) and Recompute.FULL in tool.says.recompute:
        policies.append(tool.says.recompute[Recompute.FULL])
    sizes = [first.micro_batch]
    while sizes[-1] % 2 == 0 and not (stated and stated.states("micro_batch")):
        sizes.append(sizes[-1] // 2)
    for policy, size in product(dict.fromkeys(policies), sizes):
        if (policy, size) != (first.recompute, first.micro_batch):
            yield first.changed(recompute=policy, micro_batch=size)


def arranged(tool: Tool, layout: ParallelLayout) -> ParallelLayout:
    """Return a layout with the choices that the program makes instead."""
    return layout.changed(
        sharding=tool.says.sharding[layout.sharding],
        recompute=tool.says.recompute[layout.recompute],
    )


def _workload(setup: Setup, tool: Tool, layout: ParallelLayout, precision: str) -> Training:
    """Return the workload with nothing left open, in the whole steps that the program takes."""
    assert not isinstance(setup.workload, Serving)
    run, tokens = setup.run, setup.model.unit is Unit.TOKEN
    ranks = layout.data * layout.micro_batch
    batch = ceil(run.global_batch / ranks) * ranks
    amount = tool.amount(setup, batch)
    changes: dict[str, object] = {
        "precision": precision,
        "tokens": amount if tokens else None,
        "samples": None if tokens else amount,
        "epochs": None,
        "evaluation_tokens": None,
        "global_batch": batch,
        "software": tool.stack(setup),
        "reduce_format": None,
    }
    if tokens:
        changes["sequence_length"] = run.sequence_length
    return setup.workload.changed(**changes | dict(tool.means(setup)))


def _changes(
    setup: Setup, workload: Training, layout: ParallelLayout, precision: str, tool: Tool
) -> Iterator[str]:
    """Yield a sentence for each way in which the file differs from the plan."""
    plan, run = setup.estimate, setup.run
    new = resolve_training(workload, setup.model, recipe_named(precision), tool.row)
    if new.global_batch != run.global_batch:
        yield (
            f"Uses batches of {new.global_batch:,}, because the ranks cannot share "
            f"{run.global_batch:,} evenly."
        )
    for name in ("sharding", "recompute", "micro_batch", "virtual_stages", "schedule"):
        before, after = getattr(plan.layout, name), getattr(layout, name)
        if before != after:
            yield f"Uses {name.replace('_', ' ')} {after} instead of {before}."
    if set(layout.offload) != set(plan.layout.offload):
        kept = ", ".join(item.value for item in layout.offload) or "nothing"
        yield f"Keeps {kept} in the host's memory."
    if precision != plan.precision:
        yield f"Uses precision {precision} instead of {plan.precision}."
    if new.optimizer is not run.optimizer:
        yield f"Uses optimizer {new.optimizer.value}."
    if new.stack.name != run.stack.name:
        yield f"Estimated as {new.stack.title}; the plan took {run.stack.title}."
    if new.adapts_experts != run.adapts_experts:
        yield f"Puts {'' if new.adapts_experts else 'no '}adapters on the routed experts."
    if run.evaluation_tokens:
        yield "Does not evaluate during the run."
