"""One configuration in full: the function behind ``advisor.estimate`` and behind every plan."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.architecture.pairs import writes_apart
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.errors import InputError
from advisor.estimate.batch.forward import generates, inputs_per_answer, passes_per_answer
from advisor.estimate.batch.report import describe_batch
from advisor.estimate.candidates import matmul_peak
from advisor.estimate.cost import cost_breakdown
from advisor.estimate.results import Estimate
from advisor.estimate.sample import check_sample_fields
from advisor.estimate.serving.demand import mean_bytes_per_parameter, stores_as_published
from advisor.estimate.serving.report import ServingReport, describe_serving
from advisor.estimate.serving.times import cache_format, serves_in, stored_format
from advisor.estimate.spot import interrupted_time
from advisor.estimate.training.loading import host_note
from advisor.estimate.training.memory_report import describe_memory, on_accelerator
from advisor.estimate.training.report import (
    count_flops,
    describe_time,
    parameters_of,
)
from advisor.estimate.training.run import TrainingRun, recipe_named, resolve_training
from advisor.foundation.formatting import duration
from advisor.foundation.quantities import Range
from advisor.foundation.units import BITS_PER_BYTE
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.hardware import Accelerator, Node, Offer
from advisor.nouns.layout import ParallelLayout, Recompute
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS
from advisor.nouns.stacks import beyond_stack
from advisor.nouns.workload import FineTuning, FineTuningMethod, Pretraining, Serving, Workload

METHOD_WORDS = {
    FineTuningMethod.FULL: " every parameter",
    FineTuningMethod.LORA: " with LoRA",
    FineTuningMethod.QLORA: " with QLoRA",
}
"""What follows *fine-tune* in the sentence about the work."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a configuration runs, how it is arranged and what is paid for it."""

    accelerator: Accelerator
    node: Node
    count: int
    layout: ParallelLayout
    precision: str
    """Recipe (training) or weight format (serving)."""
    offer: Offer | None = None
    usd_per_hour: float | None = None
    """All instances together; None where nothing rents this hardware. [USD/h]"""
    instances: int = 0
    owned: bool = False
    interrupted: Range | None = None
    """Spot: hours of the run for an hour of work."""


def _described_batch(workload: Serving, architecture: ModelArchitecture) -> str:
    if architecture.unit is Unit.TOKEN:
        inputs = f"sequences of {workload.input_tokens:,} tokens"
    else:
        inputs = f"{architecture.unit.value}s"
    text = f"serve batches of {workload.concurrency:,} {inputs}"
    steps = passes_per_answer(architecture, workload)
    if steps > 1:
        text += f", {steps:,} denoising steps each"
    return text + (" with guidance" if inputs_per_answer(architecture, workload) > 1 else "")


def describe_workload(
    workload: Workload, run: TrainingRun | None, architecture: ModelArchitecture
) -> str:
    """Return the work in one line."""
    if isinstance(workload, Serving):
        if not generates(architecture):
            return _described_batch(workload, architecture)
        requests = "request" if workload.concurrency == 1 else "concurrent requests"
        return (
            f"serve {workload.concurrency:,} {requests} of {workload.input_tokens:,} tokens in, "
            f"{workload.output_tokens:,} out"
        )
    if run is None:
        msg = "a training workload comes with its resolved run"
        raise ValueError(msg)
    what = "pretrain" if isinstance(workload, Pretraining) else "fine-tune"
    method = METHOD_WORDS[workload.method] if isinstance(workload, FineTuning) else ""
    if run.unit is not Unit.TOKEN:
        return (
            f"{what}{method} on {run.tokens:,.0f} {run.unit.value}s, {run.global_batch:,} per step"
        )
    return (
        f"{what}{method} on {run.tokens:,.0f} tokens in sequences of {run.sequence_length:,}, "
        f"{run.global_batch:,} sequences per step"
    )


def _data_remedy(count: int, layout: ParallelLayout) -> str:
    """Say which degree of data parallelism fills the count, or that none does."""
    model_parallel = layout.accelerators // layout.data
    if count % model_parallel == 0:
        return f"Set data to {count // model_parallel} or change the count."
    return f"Choose tensor, pipeline and context so that their product divides {count}."


def _check_layout(layout: ParallelLayout, architecture: ModelArchitecture) -> None:
    """Refuse degrees that the model's shape cannot be divided by."""
    stages = layout.pipeline * layout.virtual_stages
    heads, experts = architecture.num_attention_heads, architecture.num_experts
    problems: tuple[tuple[bool, str, str], ...] = (
        (
            stages > architecture.pipeline_parts,
            "pipeline",
            f"at most {architecture.pipeline_parts} stages, one for each layer, embedding and head",
        ),
        (
            heads % layout.tensor != 0,
            "tensor",
            f"a divisor of the {heads} attention heads"
            if heads > 1
            else "1: it has no attention heads to divide",
        ),
        (
            experts % layout.expert != 0,
            "expert",
            f"a divisor of the {experts} experts" if experts > 1 else "1: no routed experts",
        ),
    )
    if architecture.unit is not Unit.TOKEN:
        takes = f"1: {architecture.name} takes {architecture.unit.value}s, which only data "
        takes += "parallelism divides"
        divided = ("tensor", "pipeline", "context")
        problems += tuple((getattr(layout, name) > 1, name, takes) for name in divided)
        blocks = any(op.segment for op in architecture.operators)
        problems += (
            (
                layout.recompute is Recompute.SELECTIVE
                or (layout.recompute is Recompute.FULL and not blocks),
                "recompute",
                "none or full: a block is made again as a whole"
                if blocks
                else "none: no residual blocks that could be made again",
            ),
        )
    for wrong, name, allowed in problems:
        if wrong:
            raise InputError(
                f"layout.{name} does not suit {architecture.name}",
                value=stages if name == "pipeline" else getattr(layout, name),
                allowed=allowed,
                remedy="Choose what is allowed, or leave it out.",
                field=f"layout.{name}",
            )


def check_context(workload: Serving, architecture: ModelArchitecture) -> None:
    """Refuse requests longer than the model's context.

    Raises
    ------
    InputError
    """
    check_sample_fields(workload, architecture)
    longest = architecture.max_position_embeddings
    if architecture.unit is not Unit.TOKEN or longest is None:
        return
    what, length, exceed = "input_tokens", workload.input_tokens, "exceeds"
    if writes_apart(architecture):
        what, length = "output_tokens", workload.output_tokens
    elif generates(architecture):
        what, exceed = "input_tokens + output_tokens", "exceed"
        length += workload.output_tokens
    if length > longest:
        raise InputError(
            f"{what} {exceed} the model's context",
            value=length,
            allowed=f"at most {longest:,} tokens for {architecture.name}",
            remedy="Shorten the prompt or the answer, or choose a long-context model.",
            field=f"workload.{what.split()[0]}",
        )


def _check_batch(layout: ParallelLayout, run: TrainingRun) -> None:
    """Refuse more ranks than a batch has sequences for."""
    taken = layout.data * layout.micro_batch
    if taken > run.global_batch:
        raise InputError(
            "data x micro_batch exceeds the batch",
            value=taken,
            allowed=f"at most the {run.global_batch:,} sequences of a step",
            remedy="Lower data or micro_batch, divide the model further, or raise global_batch.",
            field="layout.data",
        )


def _served(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
    assumptions: list[str],
) -> ServingReport:
    """Estimate serving: of text with a cache, or of batches."""
    weight_format = WEIGHT_FORMATS[placement.precision]
    check_context(workload, architecture)
    if not serves_in(placement.accelerator, weight_format.name):
        raise InputError(
            f"{placement.accelerator.name} has no {weight_format.name} rate for the weights",
            value=weight_format.name,
            allowed=stored_format(placement.accelerator, weight_format.name),
            remedy="Choose that format or a narrower one, or another accelerator.",
            field="workload.weight_format",
        )
    if not generates(architecture):
        assumptions.append(f"weights in {weight_format.title}, plain eager inference")
        steps = passes_per_answer(architecture, workload)
        if steps > 1:
            guided = "with" if inputs_per_answer(architecture, workload) > 1 else "without"
            assumptions.append(f"{steps:,} denoising steps {guided} guidance for an image")
        if architecture.denoises:
            assumptions.append(
                "published pipelines on an A100 took 1.2 to 2.2 times what is expected here in "
                "eager PyTorch, 1.0 to 1.9 compiled, 0.9 to 1.1 in TensorRT"
            )
        return describe_batch(
            architecture=architecture,
            workload=workload,
            layout=placement.layout,
            accelerator=placement.accelerator,
            node=placement.node,
            weight_format=weight_format,
            calibration=calibration,
        )
    cache = cache_format(workload, placement.accelerator)
    title = weight_format.title
    if stores_as_published(architecture, weight_format):
        mean = BITS_PER_BYTE * mean_bytes_per_parameter(architecture, weight_format)
        title = f"{weight_format.name} as the file stores them ({mean:.3g} bits on average)"
    assumptions.append(f"weights in {title}, cache in {cache}")
    return describe_serving(
        architecture=architecture,
        workload=workload,
        layout=placement.layout,
        accelerator=placement.accelerator,
        node=placement.node,
        weight_format=weight_format,
        cache_bytes=KV_CACHE_FORMATS[cache],
        calibration=calibration,
    )


def estimate_configuration(
    case: Case,
    placement: Placement,
    *,
    architecture: ModelArchitecture,
    calibration: Calibration,
    run: TrainingRun | None = None,
) -> Estimate:
    """Estimate memory, FLOPs, time and cost of one configuration.

    Parameters
    ----------
    case : Case
    placement : Placement
    architecture : ModelArchitecture
    calibration : Calibration
    run : TrainingRun, optional
        The resolved training workload, where the caller has it already.

    Returns
    -------
    Estimate

    Raises
    ------
    InputError
        If the accelerator lacks the precision, or the layout does not occupy ``count``
        accelerators.
    """
    accelerator, layout = placement.accelerator, placement.layout
    calibration = on_accelerator(calibration, accelerator)
    if layout.accelerators != placement.count:
        raise InputError(
            "the layout does not occupy the accelerators",
            value=f"data {layout.data} x tensor {layout.tensor} x pipeline {layout.pipeline} x "
            f"context {layout.context} = {layout.accelerators}",
            allowed=f"a product of {placement.count}",
            remedy=_data_remedy(placement.count, layout),
            field="layout.data",
        )
    _check_layout(layout, architecture)
    workload = case.workload
    assumptions = [*architecture.assumptions, *placement.node.assumptions]
    if placement.offer is not None and placement.offer.quote is not None:
        assumptions.append(placement.offer.quote.sentence)
    if isinstance(workload, Serving):
        parts = _served(workload, placement, architecture, calibration, assumptions)
        memory, flops, time, serving = parts.memory, parts.flops, None, parts.serving
        hours = None
        tokens_per_hour = serving.output_tokens_per_s.scaled(3600.0)
    else:
        if accelerator.inference_only:
            raise InputError(
                f"{accelerator.name} serves models only: no training software runs on it",
                value=workload.kind,
                allowed="serving",
                remedy="Choose another accelerator for training.",
                field="hardware.accelerator",
            )
        recipe = recipe_named(placement.precision)
        if matmul_peak(accelerator, recipe.compute) is None:
            able = [
                item.name
                for item in RECIPES.values()
                if matmul_peak(accelerator, item.compute) is not None
            ]
            raise InputError(
                f"{accelerator.name} has no {recipe.compute} rate for the precision",
                value=recipe.name,
                allowed=", ".join(able) or "none of the recipes",
                remedy="Choose another precision or accelerator.",
                field="workload.precision",
            )
        run = run or resolve_training(workload, architecture, recipe)
        _check_batch(layout, run)
        memory = describe_memory(architecture, run, layout, accelerator, calibration)
        flops = count_flops(architecture, run, layout)
        time = describe_time(architecture, run, layout, accelerator, placement.node, calibration)
        if placement.interrupted is not None:
            time = interrupted_time(time, placement.interrupted)
            assumptions.append(
                f"spot: {placement.interrupted.expected:.3g} hours for an hour of work, "
                "interruptions and lost work included"
            )
        serving = None
        assumptions.extend(run.assumptions)
        if run.loading is not None and run.loading.workers is None:
            assumptions.append(host_note(placement.node))
        assumptions.append(f"{recipe.title}, {run.optimizer.value} optimizer")
        assumptions.extend(
            calibration.beyond_training(accelerator, compute=recipe.compute, count=placement.count)
        )
        assumptions.extend(beyond_stack(run.stack, layout))
        startup = duration(calibration.reliability.startup_s)
        assumptions.append(f"{startup} of start-up before the first step")
        hours = time.run_hours
        tokens_per_hour = time.run_hours.reciprocal(run.tokens)
    cost = cost_breakdown(
        accelerator=accelerator,
        count=placement.count,
        hours=hours,
        tokens_per_hour=tokens_per_hour,
        offer=placement.offer,
        usd_per_hour=placement.usd_per_hour,
        instances=placement.instances,
        owned=placement.owned,
    )
    terms = [*memory.terms, *flops.terms, *cost.terms]
    terms.extend(time.terms if time else ())
    terms.extend(serving.terms if serving else ())
    return Estimate(
        model=architecture.name,
        workload=describe_workload(workload, run, architecture),
        accelerator=accelerator.key,
        accelerator_name=accelerator.name,
        count=placement.count,
        layout=layout,
        precision=placement.precision,
        parameters=parameters_of(architecture, run),
        memory=memory,
        flops=flops,
        time=time,
        serving=serving,
        cost=cost,
        assumptions=tuple(dict.fromkeys(assumptions)),
        references=tuple(dict.fromkeys(item.reference for item in terms if item.reference)),
    )
