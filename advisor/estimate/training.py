"""One training configuration in full: nouns in, ``Estimate`` parts out."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.sample import Unit
from advisor.efficiency import Calibration, Reliability
from advisor.equations.goodput import goodput
from advisor.errors import InputError
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.fold import fold_flops, trainable_parameters
from advisor.estimate.results import FlopCount, MemoryBreakdown, Parameters, StepTime
from advisor.estimate.run import TrainingRun
from advisor.estimate.shape import shape_widening
from advisor.estimate.terms import TRAINING_MEMORY, TRAINING_TIME, term
from advisor.estimate.training_memory import training_memory
from advisor.estimate.training_time import (
    TrainingTime,
    hardware_flops_per_token,
    model_flops_per_token,
    training_time,
)
from advisor.hardware import Accelerator, Node
from advisor.layout import ParallelLayout
from advisor.quantities import Evidence, Range, Term
from advisor.units import HOUR_S

MOMENTS = ("forward_end", "backward_end", "optimizer_step")


def memory_totals(
    allocated: Floats,
    calibration: Calibration,
    *,
    measured: bool,
    widening: float,
) -> tuple[Floats, Floats, Floats]:
    """Low, expected and high total of the fullest accelerator, from its tensors. [bytes]"""
    facts = calibration.memory
    interval = calibration.interval("training_memory", measured=measured)
    low_factor, high_factor = interval.low / widening, interval.high * widening
    return (
        allocated * low_factor * (1 + facts.fragmentation["low"]) + facts.context_bytes["low"],
        allocated * (1 + facts.fragmentation["expected"]) + facts.context_bytes["expected"],
        allocated * high_factor * (1 + facts.fragmentation["high"]) + facts.context_bytes["high"],
    )


def run_goodput(reliability: Reliability, accelerators: Floats) -> Floats:
    """Share of wall-clock time that trains. [fraction]"""
    return np.asarray(
        goodput(
            accelerators=accelerators,
            interruptions_per_accelerator_hour=reliability.interruptions_per_accelerator_hour,
            checkpoint_s=reliability.checkpoint_s,
            restart_s=reliability.restart_s,
        )
    )


def time_quantity(architecture: ModelArchitecture) -> str:
    """Name of the interval that training times of this model have."""
    return "training_time" if architecture.num_experts == 1 else "training_time_routed"


def evaluate_memory(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: LayoutArrays,
    measured: bool,
    calibration: Calibration,
) -> Floats:
    """High end of the total of every configuration, the one that decides what fits. [bytes]"""
    allocated = training_memory(architecture, run, layout, calibration.memory).allocated
    return memory_totals(
        allocated, calibration, measured=measured, widening=shape_widening(architecture)
    )[2]


def evaluate_run_hours(
    architecture: ModelArchitecture,
    run: TrainingRun,
    candidates: Candidates,
    calibration: Calibration,
) -> tuple[Floats, TrainingTime]:
    """Wall-clock hours of the whole run, start-up included, and the shares of a step. [h], [s]"""
    time = training_time(
        architecture, run, candidates, calibration.network, calibration.software[run.software]
    )
    steps = np.ceil(run.tokens / run.tokens_per_step)
    share = run_goodput(calibration.reliability, candidates.layout.accelerators)
    startup = calibration.reliability.startup_s
    return (startup + steps * time.step / share) / HOUR_S, time


def count_flops(
    architecture: ModelArchitecture, run: TrainingRun, layout: ParallelLayout
) -> FlopCount:
    """Exact operation counts of one optimizer step."""
    fold = fold_flops(architecture, run.sequence_length, run)
    per_token = model_flops_per_token(architecture, run)
    recompute = LayoutArrays.of(layout).recompute
    hardware = float(hardware_flops_per_token(architecture, run, recompute)[0])
    tokens = run.tokens_per_step
    backward = "2 x forward" if not run.frozen else "1 x forward + adapters (frozen weights)"
    parts = (
        ("matmul", "Matrix products of the blocks, forward", fold.block_matmul),
        ("attention", "Attention scores and values, forward", fold.block_attention),
        ("head", "Vocabulary projection, forward", fold.head),
        ("adapters", "Adapters, forward", fold.adapters),
    )
    return FlopCount(
        model_per_step=per_token * tokens,
        hardware_per_step=hardware * tokens,
        per_token=per_token,
        terms=tuple(
            Term(
                name=name,
                title=title,
                value=value * tokens,
                unit="FLOPs",
                formula=f"tokens per step x FLOPs per token; backward: {backward}",
                substituted=f"{tokens:.4g} x {value:.4g}",
                reference="kaplan2020",
            )
            for name, title, value in parts
            if value
        ),
    )


def parameters_of(architecture: ModelArchitecture, run: TrainingRun | None) -> Parameters:
    """Parameter counts for display."""
    return Parameters(
        total=architecture.total_parameters,
        active=architecture.active_parameters,
        trainable=0 if run is None else trainable_parameters(architecture, run),
        evidence=architecture.evidence,
    )


def describe_memory(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: ParallelLayout,
    accelerator: Accelerator,
    calibration: Calibration,
) -> MemoryBreakdown:
    """Memory of one configuration with ranges and terms."""
    _, measured = calibration.kernels_for(accelerator)
    widening = shape_widening(architecture)
    facts = calibration.memory
    interval = calibration.interval("training_memory", measured=measured)
    arrays = LayoutArrays.of(layout)
    memory = training_memory(architecture, run, arrays, facts)
    low, expected, high = (
        float(value[0])
        for value in memory_totals(
            memory.allocated, calibration, measured=measured, widening=widening
        )
    )
    evidence = interval.evidence.weakest(architecture.evidence)
    names = ("weights", "gradients", "optimizer", "activations", "logits", "workspace")
    values = {name: float(getattr(memory, name)[0]) for name in names}

    def spread(value: float) -> Range:
        return Range(
            low=value * interval.low / widening,
            expected=value,
            high=value * interval.high * widening,
            evidence=evidence,
        )

    allocated = sum(values.values())
    fragmentation = Range(
        low=allocated * interval.low / widening * facts.fragmentation["low"],
        expected=allocated * facts.fragmentation["expected"],
        high=allocated * interval.high * widening * facts.fragmentation["high"],
        evidence=evidence,
    )
    context = Range(**facts.context_bytes, evidence=Evidence.ASSUMED)
    texts = _memory_substitutions(architecture, run, layout)
    shown = {**values, "context": context.expected, "fragmentation": fragmentation.expected}
    return MemoryBreakdown(
        weights_bytes=spread(values["weights"]),
        gradients_bytes=spread(values["gradients"]),
        optimizer_bytes=spread(values["optimizer"]),
        activations_bytes=spread(values["activations"]),
        logits_bytes=spread(values["logits"]),
        kv_cache_bytes=Range.exact(0.0),
        workspace_bytes=spread(values["workspace"]),
        context_bytes=context,
        fragmentation_bytes=fragmentation,
        total_bytes=Range(low=low, expected=expected, high=high, evidence=evidence),
        usable_bytes=accelerator.memory_reported_bytes,
        fits=high <= accelerator.memory_reported_bytes,
        peak_moment=MOMENTS[int(memory.moment[0])],
        limiting_stage="all"
        if layout.pipeline == 1
        else ("last" if memory.last_stage[0] else "first"),
        terms=tuple(
            term(TRAINING_MEMORY, name, value, "bytes", texts.get(name, ""))
            for name, value in shown.items()
        ),
    )


def _memory_substitutions(
    architecture: ModelArchitecture, run: TrainingRun, layout: ParallelLayout
) -> dict[str, str]:
    recipe = run.recipe
    split = f"tensor {layout.tensor} x pipeline {layout.pipeline}"
    parameters = f"{architecture.total_parameters:,} parameters / ({split})"
    trained = trainable_parameters(architecture, run)
    group = layout.data * layout.context
    sharding = f"{layout.sharding.value} over {group}"
    tokens = layout.micro_batch * run.sequence_length // layout.context
    return {
        "weights": (
            f"{parameters}, working {recipe.working}"
            + (f", master {recipe.master}" if recipe.master and not run.frozen else "")
            + f", {sharding}"
        ),
        "gradients": f"{trained:,} trained parameters / ({split}), {sharding}",
        "optimizer": (
            f"{trained:,} trained parameters x {run.optimizer_bytes_per_parameter:.4g} bytes "
            f"({run.optimizer.value}), {sharding}"
        ),
        "activations": (
            f"{tokens:,} {run.unit.value}s x {architecture.num_hidden_layers} layers, recompute "
            f"{layout.recompute.value}, software {run.software.value}"
        ),
        "logits": (
            f"{tokens:,} {run.unit.value}s x {architecture.vocab_size:,} entries / {layout.tensor}"
        ),
    }


def describe_time(
    architecture: ModelArchitecture,
    run: TrainingRun,
    layout: ParallelLayout,
    accelerator: Accelerator,
    node: Node,
    calibration: Calibration,
) -> StepTime:
    """Time of one configuration with ranges and terms."""
    kernels, measured = calibration.kernels_for(accelerator)
    candidates = Candidates(
        layout=LayoutArrays.of(layout),
        hardware=HardwareArrays.of(accelerator, node, kernels, compute=run.recipe.compute),
    )
    hours_array, time = evaluate_run_hours(architecture, run, candidates, calibration)
    interval = calibration.interval(time_quantity(architecture), measured=measured)
    evidence = interval.evidence.weakest(kernels.evidence, architecture.evidence)
    widening = shape_widening(architecture)

    def spread(value: float, floor: float) -> Range:
        return Range(
            low=min(value, max(floor, value * interval.low / widening)),
            expected=value,
            high=value * interval.high * widening,
            evidence=evidence,
        )

    step = float(time.step[0])
    if not np.isfinite(step):
        raise InputError(
            "the layout spans machines that no network joins",
            value=f"{layout.accelerators} accelerators, {node.accelerators} in a machine",
            allowed=f"up to {node.accelerators} {accelerator.name} in one machine",
            remedy="Lower the count, or choose an accelerator that is offered with a network.",
            field="hardware.count",
        )
    tokens_per_step = run.tokens_per_step
    share = float(run_goodput(calibration.reliability, candidates.layout.accelerators)[0])
    useful = model_flops_per_token(architecture, run) * tokens_per_step
    peak = float(candidates.hardware.peak16_flops_per_s[0])
    if run.recipe.compute not in ("bf16", "fp16"):
        peak = float(candidates.hardware.peak_flops_per_s[0])
    # No end of the range beats the data sheet's peak.
    least_s = useful / layout.accelerators / peak
    steps = float(np.ceil(run.tokens / tokens_per_step))
    step_range = spread(step, least_s)
    shares = {item.name: float(getattr(time, item.name)[0]) for item in fields(TrainingTime)}
    return StepTime(
        step_s=step_range,
        tokens_per_step=tokens_per_step,
        steps=steps,
        tokens_per_s=step_range.reciprocal(tokens_per_step),
        tokens_per_s_per_accelerator=step_range.reciprocal(tokens_per_step / layout.accelerators),
        unit=run.unit,
        images_per_s=step_range.reciprocal(tokens_per_step) if run.unit is Unit.IMAGE else None,
        model_flops_utilization=step_range.reciprocal(least_s),
        goodput=Range.exact(share, Evidence.ASSUMED),
        startup_s=Range.exact(calibration.reliability.startup_s, Evidence.ASSUMED),
        run_hours=spread(float(hours_array[0]), steps * least_s / HOUR_S),
        bound_by=binding(shares),
        terms=tuple(
            term(TRAINING_TIME, name, value, "s") for name, value in shares.items() if value > 0
        ),
    )


_BINDING = {
    "compute": ("matmul", "attention", "recompute"),
    "bandwidth": ("elementwise", "optimizer"),
    "network": (
        "tensor_traffic",
        "expert_traffic",
        "context_traffic",
        "pipeline_traffic",
        "data_traffic",
    ),
    "bubble": ("bubble",),
    "launch": ("launch",),
}


def binding(shares: dict[str, float]) -> str:
    """Return the resource with the largest share of a step."""
    totals = {
        resource: sum(shares.get(name, 0.0) for name in names)
        for resource, names in _BINDING.items()
    }
    return max(totals, key=lambda resource: totals[resource])
