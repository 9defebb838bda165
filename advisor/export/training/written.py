"""The case that a training file means: the plan, changed where the program differs.

The head of every file shows the estimate of this case, so head and file agree.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil

from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.training.run import resolve_training
from advisor.export.formats import cannot
from advisor.export.setup import Setup, way_out
from advisor.export.training.described import refuse
from advisor.export.training.model_names import launch_models
from advisor.export.training.tool import Tool, descriptions
from advisor.foundation.formatting import memory
from advisor.nouns.layout import ParallelLayout, Recompute
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.stacks import DEGREES
from advisor.nouns.software.tools import backends_of, tool_choice
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import Serving, Training


def written(setup: Setup, tool: Tool) -> Setup:
    """Return the plan as the program's file states it, with its own estimate."""
    check(setup, tool)
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
            remedy=way_out(plan, tool.says),
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


def check(setup: Setup, tool: Tool) -> None:
    """Refuse a plan that the program cannot run."""
    for problems in (_network, _work, _choices):
        for wrong, what, value, allowed, remedy in problems(setup, tool):
            if wrong:
                title = tool.says.title
                raise cannot(f"{title} {what}", value=value, allowed=allowed, remedy=remedy)
        if problems is _network and setup.model.unit is not Unit.TOKEN:
            refuse(tool, setup)
    refuse(tool, setup)


_Problem = tuple[bool, str, object, str, str]
"""Whether it is one, what is wrong, the value, what is allowed, and the remedy."""


def _network(setup: Setup, tool: Tool) -> Iterator[_Problem]:
    """Yield what card and network may have that the program does not run."""
    unit, elsewhere = setup.model.unit, launch_models().elsewhere
    known = tool_choice().backends
    yield (
        not tool.says.reaches(setup.accelerator),
        f"has no file for {known[backends_of(setup.accelerator)[0]].title}",
        setup.accelerator.name,
        ", ".join(known[name].title for name in tool.says.backends),
        setup.native,
    )
    yield (
        unit not in tool.says.units,
        f"does not train {setup.model.name}",
        f"a network that takes {unit.value}s",
        " or ".join(f"{item.value}s" for item in tool.says.units),
        setup.native,
    )
    yield (
        any(op.kind is OperatorKind.RECURRENCE for op in setup.model.operators),
        "does not train recurrent networks",
        setup.model.name,
        "attention or state-space models",
        elsewhere["recurrent"],
    )


def _work(setup: Setup, tool: Tool) -> Iterator[_Problem]:
    """Yield what the kind of work may have that the program does not run."""
    run, unit = setup.run, setup.model.unit
    pretrains = run.method is None
    installed = {key: says for key, says in descriptions().items() if says.pip}
    pairing = [key for key, says in installed.items() if run.preference in says.preferences]
    yield (
        run.four_bit
        and setup.model.num_experts > 1
        and tool.row is not None
        and not tool.row.reaches_experts(run.method, setup.model.family),
        f"keeps the experts of {setup.model.family} in 16 bits",
        "qlora",
        "lora; or qlora with Unsloth, which packs them",
        "Choose --to unsloth with --count 1, or --task lora.",
    )
    yield (
        unit is Unit.TOKEN and tool.says.writes and not setup.model.generates,
        "trains only models that write text",
        setup.model.name,
        "a decoder",
        launch_models().elsewhere["other tasks"],
    )
    yield (
        run.method not in tool.says.methods,
        f"does not {'pretrain' if pretrains else f'train with {_method(run.method)}'}",
        _method(run.method),
        ", ".join(map(_method, tool.says.methods)),
        tool.says.instead
        or "Choose --to torchrun"
        + (
            " with --software megatron, or --to deepspeed for a script of your own."
            if pretrains
            else ", which fine-tunes with TRL."
        ),
    )
    yield (
        run.preference not in tool.says.preferences,
        "does not train on pairs of answers so",
        run.preference.value if run.preference else "no pairs",
        ", ".join(item.value if item else "no pairs" for item in tool.says.preferences),
        tool.says.instead or f"Choose --to {' or '.join(pairing[:2])}.",
    )
    yield (
        setup.log_to is not None and setup.log_to not in tool.says.loggers,
        "does not log there",
        setup.log_to,
        ", ".join(tool.says.loggers) or "no --log-to",
        "Leave --log-to out.",
    )


def _choices(setup: Setup, tool: Tool) -> Iterator[_Problem]:
    """Yield the choices of the plan that the program does not offer."""
    run, plan = setup.run, setup.estimate
    divided = tool.says.divided(plan.layout)
    single = " ".join(f"--{name} 1" for name in DEGREES if name not in tool.says.divides)
    whole = f"--accelerator {setup.accelerator.key} --count {plan.count}"
    rates = setup.accelerator.peak_flops_per_s
    able = [name for name in tool.says.recipes if recipe_named(name).compute in rates]
    yield (
        bool(divided),
        "does not divide a model" + (" with adapters" if run.frozen else " so"),
        ", ".join(f"{name}={getattr(plan.layout, name)}" for name in divided),
        "layouts that only share out states",
        f"Add {whole} --sharding zero3 --recompute full {single}.",
    )
    yield (
        plan.precision not in tool.says.recipes,
        "has no such recipe",
        plan.precision,
        ", ".join(tool.says.recipes),
        f"Add --precision {able[0]}." if able else "Choose --to torchrun or llama-factory.",
    )
    yield (
        run.optimizer not in tool.says.optimizers,
        "does not have this optimizer",
        run.optimizer.value,
        ", ".join(item.value for item in tool.says.optimizers),
        f"Add --optimizer {next(iter(tool.says.optimizers)).value}.",
    )
    for name, offered in (("sharding", tool.says.sharding), ("recompute", tool.says.recompute)):
        asked = getattr(plan.layout, name)
        yield (
            asked not in offered,
            f"does not offer this {name}",
            asked.value,
            ", ".join(offered),
            f"Add --{name} {next(iter(offered))}.",
        )
    missing = [item.value for item in plan.layout.offload if item not in tool.says.offload]
    yield (
        bool(missing),
        "keeps nothing of this in the host's memory",
        ", ".join(missing),
        ", ".join(tool.says.offload) or "no offload",
        "Choose more or larger cards, or --to torchrun.",
    )


def _method(method: FineTuningMethod | None) -> str:
    return "pretraining" if method is None else method.value


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
