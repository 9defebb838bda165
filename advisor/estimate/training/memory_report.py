"""Training memory of one or many configurations, with its range."""

import numpy as np

from advisor.architecture.table.model import Unit
from advisor.equations.training.peaks import reserved_bytes
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.fold import trainable_parameters
from advisor.estimate.results import MemoryBreakdown
from advisor.estimate.terms import memory_terms, shape_widening
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.optimizer_states import optimizer_bytes_per_parameter
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.units import trimmed
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.efficiency import Calibration, Interval
from advisor.nouns.software.links_and_memory import MemoryFacts
from advisor.nouns.software.stacks import ENOUGH_GROUPS
from advisor.nouns.training_choices import FineTuningMethod

Tensors = tuple[Floats, Floats, Floats]
"""All tensors; weights and the optimizer's states among them. [bytes]"""

MOMENTS = ("forward_end", "backward_end", "optimizer_step")


def on_accelerator(calibration: Calibration, accelerator: Accelerator) -> Calibration:
    """Return the constants for one accelerator: a processor has no driver context."""
    if accelerator.segment is not Segment.CPU:
        return calibration
    nothing = dict.fromkeys(calibration.memory.context_bytes, 0.0)
    memory = calibration.memory.changed(context_bytes=nothing)
    engines = {
        name: facts.changed(context_bytes=nothing) for name, facts in calibration.engines.items()
    }
    return calibration.changed(memory=memory, engines=engines)


def outside_bytes(layout: LayoutArrays, facts: MemoryFacts, bound: str) -> Floats:
    """Memory of the driver and the collective library, besides tensors. [bytes]

    Each kind of parallelism has its own communicator with its own buffers.
    """
    degrees = (layout.data, layout.tensor, layout.pipeline, layout.context)
    groups = np.sum([degree > 1 for degree in degrees], axis=0)
    return np.asarray(facts.context_bytes[bound] + groups * facts.communication_bytes)


def interval_name(run: TrainingRun) -> str:
    """Return the name of a run's interval: images and samples, a 4-bit base, or the rest."""
    if run.unit is not Unit.TOKEN:
        return "training_memory_samples"
    four_bit = run.method is FineTuningMethod.QLORA
    return "training_memory_4bit" if four_bit else "training_memory"


def few_peaks(run: TrainingRun, calibration: Calibration) -> bool:
    """Whether fewer than three independent published peaks are of the run's software."""
    return calibration.memory.peak_groups.get(run.software, 0) < ENOUGH_GROUPS


def memory_interval(run: TrainingRun, calibration: Calibration) -> Interval:
    """Return the interval of a run's memory, wider if few published peaks are of its software."""
    own, guessed = (
        calibration.intervals[name] for name in (interval_name(run), "training_memory_guessed")
    )
    if not few_peaks(run, calibration):
        return own
    return own.changed(low=min(own.low, guessed.low), high=max(own.high, guessed.high))


def memory_total(
    tensors: Tensors,
    layout: LayoutArrays,
    facts: MemoryFacts,
    bound: str,
    factor: float,
    *,
    guessed: bool = False,
) -> Floats:
    """Total of the fullest accelerator, with ``factor`` on what no formula fixes. [bytes]

    That is all but weights and the optimizer's states. ``guessed``: whether settings are, formats
    and copies among them: then the factor is on all tensors.
    """
    allocated, weights, optimizer = tensors
    certain = 0.0 if guessed else weights + optimizer
    widened = certain + (allocated - certain) * factor
    return np.asarray(
        reserved_bytes(
            allocated=widened,
            lasting=widened - (allocated - weights) * factor,
            fragmentation=facts.fragmentation[bound],
            outside=outside_bytes(layout, facts, bound),
        )
    )


def usual_total(
    run: TrainingRun, tensors: Tensors, layout: LayoutArrays, calibration: Calibration
) -> Floats:
    """Usual total of every configuration from its tensors, which decides what fits. [bytes]"""
    factor = memory_interval(run, calibration).most * shape_widening(run.architecture)
    return memory_total(tensors, layout, calibration.memory, "high", factor)


def evaluate_memory(
    run: TrainingRun, layout: LayoutArrays, calibration: Calibration, lengths: Floats | None = None
) -> Floats:
    """Usual total of every configuration. [bytes]

    ``lengths``: sequence length of each configuration, if it is not the run's. [tokens]
    """
    tensors = training_memory(run, layout, calibration.memory, lengths).tensors
    return usual_total(run, tensors, layout, calibration)


def describe_memory(
    run: TrainingRun,
    layout: ParallelLayout,
    accelerator: Accelerator,
    calibration: Calibration,
    interval: Interval | None = None,
) -> MemoryBreakdown:
    """Memory of one configuration with ranges and terms.

    ``interval``: replaces the run's interval if its settings are guessed.
    """
    guessed = interval is not None
    interval = interval or memory_interval(run, calibration)
    widening = shape_widening(run.architecture)
    facts = calibration.memory
    arrays = LayoutArrays.of(layout)
    memory = training_memory(run, arrays, facts)
    low, expected, usual, high = (
        float(memory_total(memory.tensors, arrays, facts, bound, factor, guessed=guessed)[0])
        for bound, factor in (
            ("low", interval.low / widening),
            ("expected", 1.0),
            ("high", interval.most * widening),
            ("high", interval.high * widening),
        )
    )
    evidence = interval.evidence.weakest(run.architecture.evidence)
    names = ("weights", "gradients", "optimizer", "activations", "logits", "workspace")
    values = {name: float(getattr(memory, name)[0]) for name in names}

    def spread(value: float) -> Range:
        return Range(
            low=value * interval.low / widening,
            expected=value,
            high=value * interval.high * widening,
            evidence=evidence,
        )

    loose = sum(values.values()) - values["weights"]
    fragmentation = Range(
        low=loose * interval.low / widening * facts.fragmentation["low"],
        expected=loose * facts.fragmentation["expected"],
        high=loose * interval.high * widening * facts.fragmentation["high"],
        evidence=evidence,
    )
    context = Range(
        **{name: float(outside_bytes(arrays, facts, name)[0]) for name in facts.context_bytes},
        evidence=Evidence.ASSUMED,
    )
    shown = {**values, "context": context.expected, "fragmentation": fragmentation.expected}
    spreads = {name: spread(value) for name, value in values.items()}
    if not guessed:
        for name in ("weights", "optimizer"):
            spreads[name] = Range.exact(values[name], run.architecture.evidence)
    return MemoryBreakdown(
        **{f"{name}_bytes": value for name, value in spreads.items()},
        context_bytes=context,
        fragmentation_bytes=fragmentation,
        total_bytes=Range(low=low, expected=expected, high=high, evidence=evidence),
        usable_bytes=accelerator.memory_reported_bytes,
        usual_bytes=usual,
        fits=usual <= accelerator.memory_reported_bytes,
        host_bytes=spread(float(memory.host[0])),
        peak_moment=MOMENTS[int(memory.moment[0])],
        limiting_stage="all"
        if layout.pipeline == 1
        else ("last" if memory.last_stage[0] else "first"),
        terms=memory_terms("training_memory", shown, **_facts(run, layout)),
    )


def _facts(run: TrainingRun, layout: ParallelLayout) -> dict[str, object]:
    """Return the facts in the formulas of the memory."""
    recipe, model = run.recipe, run.architecture
    return {
        "parameters": model.total_parameters,
        "split": f"tensor {layout.tensor} x pipeline {layout.pipeline}",
        "working": recipe.working,
        "master": f", master {recipe.master}" if recipe.master and not run.frozen else "",
        "sharding": f"{layout.sharding.value} over {layout.data * layout.context}",
        "trained": trainable_parameters(run),
        "state_bytes": trimmed(optimizer_bytes_per_parameter(run), 4),
        "optimizer": run.optimizer.value,
        "units": layout.micro_batch * run.tokens_per_sample // layout.context,
        "unit": run.unit.value,
        "layers": model.num_hidden_layers,
        "recompute": layout.recompute.value,
        "software": run.software,
        "vocabulary": model.vocab_size,
        "tensor": layout.tensor,
    }
