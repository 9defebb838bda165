"""The full estimate of one configuration, for ``advisor.estimate`` and every plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.estimate.batch.forward import generates, inputs_per_answer, passes_per_answer
from advisor.estimate.batch.report import describe_batch
from advisor.estimate.cost import Prompts, cost_breakdown
from advisor.estimate.refusals import (
    check_batch,
    check_context,
    check_count,
    check_layout,
    check_serves,
    check_trains,
)
from advisor.estimate.results import (
    Estimate,
    FlopCount,
    MemoryBreakdown,
    ServingEstimate,
    SoftwareUse,
    StepTime,
)
from advisor.estimate.serving.demand import mean_bytes_per_parameter, stores_as_published
from advisor.estimate.serving.notes import engine_notes, limit_notes, technique_notes
from advisor.estimate.serving.report import ServingReport, describe_serving
from advisor.estimate.serving.times import cache_format
from advisor.estimate.software import able_tools, engine_of, tool_of
from advisor.estimate.spot import interrupted_time
from advisor.estimate.training.loading import host_note
from advisor.estimate.training.memory_report import describe_memory, on_accelerator
from advisor.estimate.training.report import (
    count_flops,
    describe_time,
    parameters_of,
    time_quantity,
)
from advisor.estimate.training.run import TrainingRun, recipe_named, resolve_training
from advisor.foundation.formatting import duration
from advisor.foundation.quantities import Range
from advisor.foundation.units import BITS_PER_BYTE, HOUR_S
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, Node, Offer
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import KV_CACHE_FORMATS, WEIGHT_FORMATS, WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.quality import quality_words
from advisor.nouns.software.stacks import beyond_stack
from advisor.nouns.software.tools import Tool
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Pretraining, Serving, Training, Workload

METHOD_WORDS = {
    FineTuningMethod.FULL: " every parameter",
    FineTuningMethod.LORA: " with LoRA",
    FineTuningMethod.QLORA: " with QLoRA",
}
"""What follows *fine-tune* in the sentence about the work."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Hardware, layout, precision and price of a configuration."""

    accelerator: Accelerator
    node: Node
    count: int
    layout: ParallelLayout
    precision: str
    """Recipe (training) or weight format (serving)."""
    offer: Offer | None = None
    usd_per_hour: float | None = None
    """All instances together; None if no offer rents this hardware. [USD/h]"""
    instances: int = 0
    owned: bool = False
    interrupted: Range | None = None
    """Spot: hours of the run for each hour of work."""
    tool: Tool | None = None
    """What does the work; None leaves the choice to the case."""

    def equipped(self, case: Case, architecture: ModelArchitecture) -> Placement:
        """Return the placement with the tool that does the work of a case."""
        if self.tool is not None:
            return self
        form = self.precision if isinstance(case.workload, Serving) else None
        return replace(self, tool=tool_of(case, architecture, self.accelerator, form))

    def training(self, case: Case, architecture: ModelArchitecture) -> TrainingRun:
        """Return the resolved training workload of a case under this placement's tool."""
        if isinstance(case.workload, Serving):
            msg = "serving has no training run"
            raise TypeError(msg)
        tool = self.equipped(case, architecture).tool
        return resolve_training(case.workload, architecture, recipe_named(self.precision), tool)


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
        if workload.requests_per_s is not None:
            how = workload.arrivals.label
            return (
                f"serve {workload.requests_per_s:,.3g} requests/s that arrive {how}, of "
                f"{workload.input_tokens:,} tokens in, {workload.output_tokens:,} out"
            )
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
    if run.preference is not None:
        method += f" by {run.preference.value.upper()}"
    if run.unit is not Unit.TOKEN:
        return (
            f"{what}{method} on {run.tokens:,.0f} {run.unit.value}s, {run.global_batch:,} per step"
        )
    return (
        f"{what}{method} on {run.tokens:,.0f} tokens in sequences of {run.sequence_length:,}, "
        f"{run.global_batch:,} {'sequences' if run.preference is None else 'pairs'} per step"
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """The part of an estimate from training or serving, without parameters and cost."""

    memory: MemoryBreakdown
    flops: FlopCount
    tokens_per_hour: Range
    assumptions: tuple[str, ...]
    run: TrainingRun | None = None
    time: StepTime | None = None
    serving: ServingEstimate | None = None

    @property
    def hours(self) -> Range | None:
        """Hours of the whole run; None for serving."""
        return self.time.run_hours if self.time else None


def _served(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
) -> _Work:
    """Estimate serving, for text with a cache or for batches."""
    weight_format = WEIGHT_FORMATS[placement.precision]
    check_context(workload, architecture)
    check_serves(placement.accelerator, weight_format)
    cached = generates(architecture)
    describe = _served_text if cached else _served_batches
    report = describe(workload, placement, architecture, calibration, weight_format)
    notes = _text_notes if cached else _batch_notes
    layout, node = placement.layout, placement.node
    more = (
        *engine_notes(layout, node, architecture, weight_format, calibration),
        *technique_notes(workload),
        *limit_notes(placement.accelerator, report.memory),
    )
    return _Work(
        memory=report.memory,
        flops=report.flops,
        serving=report.serving,
        tokens_per_hour=report.serving.output_tokens_per_s.scaled(HOUR_S),
        assumptions=(*notes(workload, placement, architecture, weight_format), *more),
    )


def _served_text(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
    weight_format: WeightFormat,
) -> ServingReport:
    return describe_serving(
        architecture=architecture,
        workload=workload,
        layout=placement.layout,
        accelerator=placement.accelerator,
        node=placement.node,
        weight_format=weight_format,
        cache_bytes=KV_CACHE_FORMATS[cache_format(workload, placement.accelerator)],
        calibration=calibration,
    )


def _served_batches(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
    weight_format: WeightFormat,
) -> ServingReport:
    return describe_batch(
        architecture=architecture,
        workload=workload,
        layout=placement.layout,
        accelerator=placement.accelerator,
        node=placement.node,
        weight_format=weight_format,
        calibration=calibration,
    )


def _text_notes(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    weight_format: WeightFormat,
) -> tuple[str, ...]:
    title = weight_format.title
    if stores_as_published(architecture, weight_format):
        mean = BITS_PER_BYTE * mean_bytes_per_parameter(architecture, weight_format)
        title = f"{weight_format.name} as the file stores them ({mean:.3g} bits on average)"
    cache = cache_format(workload, placement.accelerator)
    loss = quality_words(weight_format.name)
    if weight_format.name == architecture.weight_format or not loss:
        return (f"weights in {title}, cache in {cache}",)
    open_choice = "the largest format that fits; " if workload.weight_format is None else ""
    return (
        f"weights in {title}, cache in {cache}",
        f"{open_choice}published loss of quality in {weight_format.name}: {loss}",
    )


def _batch_notes(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    weight_format: WeightFormat,
) -> tuple[str, ...]:
    notes = [f"weights in {weight_format.title}, plain eager inference"]
    steps = passes_per_answer(architecture, workload)
    if steps > 1:
        guided = "with" if inputs_per_answer(architecture, workload) > 1 else "without"
        notes.append(f"{steps:,} denoising steps {guided} guidance for an image")
    if architecture.denoises:
        notes.append(
            "published pipelines on an A100 took 1.2 to 2.2 times the time expected here in eager "
            "PyTorch, 1.0 to 1.9 times compiled, 0.9 to 1.1 times in TensorRT"
        )
    return tuple(notes)


def _trained(
    workload: Training,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
    run: TrainingRun | None,
) -> _Work:
    """Estimate training; ``run`` is the resolved workload, if the caller has it already."""
    accelerator, layout = placement.accelerator, placement.layout
    recipe = recipe_named(placement.precision)
    check_trains(accelerator, workload, recipe)
    run = run or resolve_training(workload, architecture, recipe, placement.tool)
    check_batch(layout, run)
    time = describe_time(architecture, run, layout, accelerator, placement.node, calibration)
    if placement.interrupted is not None:
        time = interrupted_time(time, placement.interrupted)
    return _Work(
        memory=describe_memory(architecture, run, layout, accelerator, calibration),
        flops=count_flops(architecture, run, layout),
        time=time,
        run=run,
        tokens_per_hour=time.run_hours.reciprocal(run.tokens),
        assumptions=_training_notes(run, placement, architecture, calibration, time),
    )


def _few_runs(
    run: TrainingRun,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
) -> tuple[str, ...]:
    """Say where the step's constants rest on fewer than three independent published runs."""
    interval = calibration.training_interval(
        time_quantity(architecture, frozen=run.frozen),
        placement.accelerator,
        measured=calibration.kernels_for(placement.accelerator)[1],
        compute=run.recipe.compute,
        count=placement.count,
    )
    text = run.unit is Unit.TOKEN
    return interval.caution + (calibration.software[run.software].caution if text else ())


def _training_notes(
    run: TrainingRun,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
    time: StepTime,
) -> tuple[str, ...]:
    interruptions: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    spot = placement.interrupted
    if spot is not None:
        hours = f"spot: an hour of work takes {spot.expected:.3g} hours"
        interruptions = (f"{hours} with interruptions and lost work",)
    if run.loading is not None and run.loading.workers is None:
        host = (host_note(placement.node),)
    startup = duration(calibration.reliability.startup_s)
    return (
        *interruptions,
        *run.assumptions,
        *host,
        f"{run.recipe.title}, {run.optimizer.value} optimizer",
        *calibration.beyond_training(
            placement.accelerator, compute=run.recipe.compute, count=placement.count
        ),
        *_beyond(run, placement),
        *_few_runs(run, placement, architecture, calibration),
        f"{startup} of start-up before the first step",
        _used(time, run),
    )


def _used(time: StepTime, run: TrainingRun) -> str:
    """Say which of the two numbers for a run deadline and cost use."""
    steps, whole = (hours.scaled(HOUR_S) for hours in (time.benchmark_hours, time.run_hours))
    return (
        f"deadline and cost use {duration(whole)}, which whole runs deliver (operator: "
        f"{run.operator.value}); in a tuned benchmark the steps alone take {duration(steps)}"
    )


def _software(placement: Placement) -> SoftwareUse | None:
    tool = placement.tool
    if tool is None:
        return None
    backend, support = tool.support(placement.accelerator) or ("", None)
    return SoftwareUse(
        name=tool.name,
        title=tool.title,
        release=tool.release,
        backend=backend,
        note=" ".join(item for item in (tool.ended, support.note if support else "") if item),
    )


def _beyond(run: TrainingRun, placement: Placement) -> tuple[str, ...]:
    """Say what the layout asks that the software does not offer."""
    offer = None if placement.tool is None else placement.tool.training
    if placement.tool is None or offer is None:
        return beyond_stack(run.stack, placement.layout)
    missing = offer.lacking(placement.layout, four_bit=run.four_bit)
    if not missing:
        return ()
    able = able_tools(placement.tool, placement.accelerator, placement.layout, run)
    does = f"; {' or '.join(able)} does" if able else ""
    return (f"{placement.tool.title} offers no {' and no '.join(missing)}{does}",)


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
    run : TrainingRun, optional
        The resolved training workload, if the caller has it already.

    Raises
    ------
    InputError
        If the accelerator lacks the precision, or the layout does not use exactly ``count``
        accelerators.
    """
    check_count(placement.layout, placement.count)
    check_layout(placement.layout, architecture)
    workload = case.workload
    calibration = on_accelerator(calibration, placement.accelerator)
    placement = placement.equipped(case, architecture)
    if isinstance(workload, Serving):
        engine = engine_of(placement.tool, placement.accelerator)
        work = _served(workload, placement, architecture, calibration.under(engine))
    else:
        work = _trained(workload, placement, architecture, calibration, run)
    cost = cost_breakdown(
        accelerator=placement.accelerator,
        count=placement.count,
        hours=work.hours,
        tokens_per_hour=work.tokens_per_hour,
        offer=placement.offer,
        usd_per_hour=placement.usd_per_hour,
        instances=placement.instances,
        owned=placement.owned,
        prompts=(
            Prompts.of(work.serving, workload)
            if work.serving and isinstance(workload, Serving)
            else None
        ),
    )
    timed = work.time or work.serving
    terms = (*work.memory.terms, *work.flops.terms, *cost.terms, *(timed.terms if timed else ()))
    quote = placement.offer.quote if placement.offer else None
    assumptions = (
        *architecture.assumptions,
        *placement.node.assumptions,
        *((quote.sentence,) if quote else ()),
        *work.assumptions,
    )
    return Estimate(
        model=architecture.name,
        workload=describe_workload(workload, work.run, architecture),
        accelerator=placement.accelerator.key,
        accelerator_name=placement.accelerator.name,
        count=placement.count,
        layout=placement.layout,
        stated=tuple(sorted(case.layout.model_fields_set)) if case.layout else (),
        precision=placement.precision,
        software=_software(placement),
        parameters=parameters_of(architecture, work.run),
        memory=work.memory,
        flops=work.flops,
        time=work.time,
        serving=work.serving,
        cost=cost,
        assumptions=tuple(dict.fromkeys(assumptions)),
        references=tuple(dict.fromkeys(item.reference for item in terms if item.reference)),
    )
