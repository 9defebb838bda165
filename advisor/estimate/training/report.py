"""The full estimate of one training configuration."""

from dataclasses import replace

import numpy as np

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.equations.flops import adapter_flops_per_token, training_flops_per_token
from advisor.equations.pricing import checkpoint_interval_s
from advisor.equations.training.goodput import goodput
from advisor.errors import refusal
from advisor.estimate.candidates import Candidates, Floats, LayoutArrays
from advisor.estimate.fold import (
    as_computed,
    fold_flops,
    made_again,
    remade_by_selection,
    trainable_parameters,
)
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import IN_LIBRARY
from advisor.estimate.results import FlopCount, Parameters, StepTime
from advisor.estimate.serving.images import tower_parameters
from advisor.estimate.terms import shape_widening, term, time_terms
from advisor.estimate.training.delivered import delivered_interval, losses, machines_of, run_terms
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.step_time import TrainingTime, training_time
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import by_identity, record
from advisor.foundation.units import HOUR_S, trimmed
from advisor.nouns.hardware import Accelerator, Node, Segment
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.delivery import Reliability
from advisor.nouns.software.efficiency import Calibration, Interval


@by_identity(64)
def model_flops_per_token(run: TrainingRun) -> float:
    """Forward and backward FLOPs of one trained token, without recomputation. [FLOPs]

    The forward pass of a preference's reference model counts too.
    """
    fold = fold_flops(run.architecture, run.attended_length, run)
    reference = run.reference_passes * (fold.forward - fold.adapters)
    # Images and frozen rows need no gradients.
    spared = sum(
        op.layers * op.flops_per_token * (1 + (op.frozen and not run.frozen))
        for op in run.architecture.operators
        if not op.input_gradient
    )
    if run.frozen:
        return float(
            adapter_flops_per_token(
                forward=fold.forward,
                attention=fold.block_attention,
                adapters=fold.adapters,
                spared=spared,
                reference=reference,
            )
        )
    return float(training_flops_per_token(forward=fold.forward, spared=spared, reference=reference))


def hardware_flops_per_token(run: TrainingRun, recompute: Floats) -> Floats:
    """FLOPs of the computed model and of recomputation, per trained token. [FLOPs]"""
    run = as_computed(run)
    every = tuple(op for op in run.architecture.operators if made_again(op, run.architecture))
    some, again = (
        fold_flops(run.architecture.changed(operators=remade), run.attended_length, run).forward
        for remade in (remade_by_selection(run), every)
    )
    once_more = np.where(recompute >= 2, again, np.where(recompute >= 1, some, 0.0))
    return model_flops_per_token(run) + once_more


TRAINING_INTERVAL = "training_time"
"""Name of the interval of dense models' training times."""
GUESSED_TIME = "training_time_guessed"
"""Name of the widening for published runs whose settings are guessed."""


def run_goodput(reliability: Reliability, accelerators: Floats) -> Floats:
    """Share of wall-clock time spent on training. [fraction]"""
    return np.asarray(
        goodput(
            accelerators=accelerators,
            interruptions_per_accelerator_hour=reliability.interruptions_per_accelerator_hour,
            checkpoint_s=reliability.checkpoint_s,
            restart_s=reliability.restart_s,
        )
    )


def time_quantity(architecture: ModelArchitecture, *, frozen: bool) -> str:
    """Name of the interval for this model's training times; ``frozen``: only adapters train."""
    if frozen:
        work = "_adapters"
    elif architecture.num_experts > 1:
        work = "_routed"
    elif architecture.unit is not Unit.TOKEN:
        # Only detectors work on the host between their passes.
        work = "_detection" if architecture.detects else "_samples"
    else:
        scores = [op for op in architecture.operators if op.kind is OperatorKind.ATTENTION]
        work = "_encoder" if any(not op.causal for op in scores) else ""
    return f"{TRAINING_INTERVAL}{work}"


def evaluate_run_hours(
    run: TrainingRun, candidates: Candidates, calibration: Calibration
) -> tuple[Floats, TrainingTime]:
    """Hours that a whole run takes with start-up, and the shares of a tuned step. [h], [s]"""
    time = training_time(run, candidates, calibration.network, calibration.software[run.software])
    steps = np.ceil(run.tokens / run.tokens_per_step)
    share = run_goodput(calibration.reliability, candidates.layout.accelerators)
    startup = calibration.reliability.startup_s
    busy = steps * time.step + evaluation_s(run, time.step, candidates.layout.accelerators)
    lost = losses(run.operator, candidates, calibration.delivery).total
    return (startup + busy * (1.0 + lost) / share) / HOUR_S, time


def evaluation_s(run: TrainingRun, step_s: Floats | float, accelerators: Floats | float) -> Floats:
    """Time of all evaluation: forward passes, and the host's work on a detector's boxes. [s]"""
    boxes_s = run.evaluation_tokens * kernel_facts().boxes_s * run.architecture.detects
    steps = _evaluation_steps(run)
    # A layout that nothing connects never ends a step.
    passes_s = steps * step_s if steps else np.zeros_like(step_s)
    return np.asarray(passes_s + boxes_s / accelerators)


@by_identity(64)
def _evaluation_steps(run: TrainingRun) -> float:
    """Training steps that take as long as the forward passes of all evaluation."""
    fold = fold_flops(run.architecture, run.attended_length, run)
    forward = fold.forward / model_flops_per_token(run)
    return run.evaluation_tokens / run.tokens_per_step * forward


def count_flops(run: TrainingRun, layout: ParallelLayout) -> FlopCount:
    """Exact operation counts of one optimizer step."""
    fold = fold_flops(run.architecture, run.attended_length, run)
    per_token = model_flops_per_token(run)
    recompute = LayoutArrays.of(layout).recompute
    hardware = float(hardware_flops_per_token(run, recompute)[0])
    tokens = run.tokens_per_step
    backward = "2 x forward" if not run.frozen else "1 x forward + adapters (frozen weights)"
    parts = {
        "matmul": fold.block_matmul,
        "attention": fold.block_attention,
        "head": fold.head,
        "adapters": fold.adapters,
    }
    return FlopCount(
        model_per_step=per_token * tokens,
        hardware_per_step=hardware * tokens,
        per_token=per_token,
        terms=tuple(
            term(
                *("training_flops", name, each * tokens, "FLOPs"),
                backward=backward,
                tokens=trimmed(tokens, 4),
                each=trimmed(each, 4),
            )
            for name, each in parts.items()
            if each
        ),
    )


def parameters_of(architecture: ModelArchitecture, run: TrainingRun | None) -> Parameters:
    """Parameter counts for display."""
    return Parameters(
        total=architecture.total_parameters,
        without_head=architecture.parameters_without_head,
        text_tower=architecture.text_tower_parameters,
        with_vision=architecture.total_parameters + tower_parameters(architecture),
        active=architecture.active_parameters,
        active_without_embedding=architecture.active_without_embedding,
        trainable=0 if run is None else trainable_parameters(run),
        evidence=architecture.evidence,
    )


@record
class _Spread:
    """Range of a time around its expected value."""

    interval: Interval
    widening: float
    """Factor for an assumed shape."""
    evidence: Evidence

    def range(self, value: float, floor: float) -> Range:
        """Return the range of a time that cannot be below ``floor``. [s], or as ``value``"""
        return Range(
            low=min(value, max(floor, value * self.interval.low / self.widening)),
            expected=value,
            high=value * self.interval.high * self.widening,
            evidence=self.evidence,
        )


def describe_time(
    run: TrainingRun,
    layout: ParallelLayout,
    accelerator: Accelerator,
    node: Node,
    calibration: Calibration,
) -> StepTime:
    """Time of one configuration with ranges and terms."""
    kernels, _ = calibration.kernels_for(accelerator)
    candidates = Candidates.of([layout], accelerator, node, kernels, compute=run.recipe.compute)
    hours_array, time = evaluate_run_hours(run, candidates, calibration)
    hours, step = float(hours_array[0]), float(time.step[0])
    if not np.isfinite(step):
        raise refusal("machines_without_network", layout=layout, node=node, card=accelerator)
    spread = _spread(run, layout, accelerator, calibration)
    # The range never goes beyond the data sheet's peak.
    least_s = _least_step_s(run, candidates)
    steps = float(np.ceil(run.tokens / run.tokens_per_step))
    step_range = spread.range(step, least_s)
    tokens_per_s = step_range.reciprocal(run.tokens_per_step)
    shares = time.row()
    reliability = calibration.reliability
    run_hours = replace(
        spread,
        interval=delivered_interval(
            spread.interval, run.operator, float(machines_of(candidates)[0]), calibration
        ),
    ).range(hours, steps * least_s / HOUR_S)
    failures_per_hour = reliability.interruptions_per_accelerator_hour * layout.accelerators
    return StepTime(
        step_s=step_range,
        tokens_per_step=run.tokens_per_step,
        steps=steps,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_accelerator=step_range.reciprocal(
            run.tokens_per_step / layout.accelerators
        ),
        unit=run.unit,
        images_per_s=tokens_per_s if run.unit is Unit.IMAGE else None,
        model_flops_utilization=step_range.reciprocal(least_s),
        goodput=Range.exact(
            float(run_goodput(reliability, candidates.layout.accelerators)[0]), Evidence.ASSUMED
        ),
        startup_s=Range.exact(reliability.startup_s, Evidence.ASSUMED),
        run_hours=run_hours,
        benchmark_hours=step_range.scaled(steps / HOUR_S),
        delivered_tokens_per_s=run_hours.scaled(HOUR_S).reciprocal(run.tokens),
        interruptions=failures_per_hour * hours,
        checkpoint_interval_s=float(
            checkpoint_interval_s(
                interruptions_per_hour=failures_per_hour, checkpoint_s=reliability.checkpoint_s
            )
        ),
        run_terms=run_terms(
            reliability,
            losses(run.operator, candidates, calibration.delivery),
            accelerators=layout.accelerators,
            training_s=steps * step,
            evaluation_s=float(evaluation_s(run, step, layout.accelerators)),
        ),
        bound_by=binding(shares),
        terms=time_terms("training_time", shares),
    )


def _spread(
    run: TrainingRun, layout: ParallelLayout, accelerator: Accelerator, calibration: Calibration
) -> _Spread:
    """Return the errors of published runs of such work, wider if nothing was measured."""
    kernels, measured = calibration.kernels_for(accelerator)
    slower = run.processor_slowdown if accelerator.segment is Segment.CPU else 1.0
    interval = calibration.training_interval(
        time_quantity(run.architecture, frozen=run.frozen),
        accelerator,
        run.software,
        adapters=run.frozen,
        measured=measured,
        compute=run.recipe.compute,
        count=layout.accelerators,
    )
    return _Spread(
        interval=interval,
        widening=shape_widening(run.architecture) * slower,
        evidence=interval.evidence.weakest(kernels.evidence, run.architecture.evidence),
    )


def _least_step_s(run: TrainingRun, candidates: Candidates) -> float:
    """Time of a step's model FLOPs at the data sheet's peak. [s]

    Divided by the real time, it is the utilisation of model FLOPs (Chowdhery et al. 2022,
    arXiv:2204.02311, appendix B).
    """
    hardware = candidates.hardware
    library = any(op.kind in IN_LIBRARY for op in run.architecture.operators)
    peak = hardware.library_flops_per_s if library else hardware.peak_flops_per_s
    flops = model_flops_per_token(run) * run.tokens_per_step
    return flops / float(candidates.layout.accelerators[0]) / float(peak[0])


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
    "bubble": ("bubble", "jitter"),
    "launch": ("launch",),
    "host": ("offload",),
}


def binding(shares: dict[str, float]) -> str:
    """Return the resource with the largest share of a step, or the one that the step waits for."""
    if shares.get("input", 0.0) > 0.0:
        return "input"
    totals = {
        resource: sum(shares.get(name, 0.0) for name in names)
        for resource, names in _BINDING.items()
    }
    return max(totals, key=lambda resource: totals[resource])
