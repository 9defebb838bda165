"""The full estimate of one configuration, for ``advisor.estimate`` and every plan."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.estimate.batch.forward import inputs_per_answer, passes_per_answer
from advisor.estimate.cost import Prompts, cost_breakdown
from advisor.estimate.hardware.card_formats import cache_format
from advisor.estimate.placement import Placement
from advisor.estimate.refusals import (
    check_batch,
    check_context,
    check_count,
    check_layout,
    check_serves,
    check_trains,
)
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate, FlopCount, MemoryBreakdown, StepTime
from advisor.estimate.serving.images import tower_parameters
from advisor.estimate.serving.results import ServingEstimate
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.engine import constants_of
from advisor.estimate.tools.trainers import able_tools
from advisor.estimate.training.delivered import interrupted_time
from advisor.estimate.training.loading import host_note
from advisor.estimate.training.memory_report import describe_memory, few_peaks, on_accelerator
from advisor.estimate.training.report import (
    count_flops,
    describe_time,
    parameters_of,
    time_quantity,
)
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.foundation.formatting import amount, duration, memory
from advisor.foundation.quantities import Range
from advisor.foundation.record import record
from advisor.foundation.units import DAY_S, HOUR_S, trimmed
from advisor.nouns.precision import WEIGHT_FORMATS, recipe_named
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.stacks import beyond_stack
from advisor.nouns.software.tools import Tool, tool_choice
from advisor.nouns.techniques import in_words
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Pretraining, Serving, Training, Workload

METHOD_WORDS = {
    FineTuningMethod.FULL: " every parameter",
    FineTuningMethod.LORA: " with LoRA",
    FineTuningMethod.QLORA: " with QLoRA",
}
"""What follows *fine-tune* in the sentence about the work."""


@record
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


def _served(asked: ResolvedCase, workload: Serving, placement: Placement) -> _Work:
    """Estimate serving, for text with a cache or for batches."""
    from advisor.estimate.batch.report import camera_notes, describe_batch
    from advisor.estimate.serving.notes import serving_notes
    from advisor.estimate.serving.report import (
        ServingReport,
        describe_serving,
        first_quantity,
        later_quantity,
    )

    architecture, calibration = asked.architecture, asked.calibration
    accelerator = placement.accelerator
    weight_format = WEIGHT_FORMATS[placement.precision]
    check_context(workload, architecture)
    check_serves(accelerator, weight_format)
    describe: Callable[..., ServingReport] = describe_batch
    cautions: dict[str, None] = {}
    if architecture.generates:
        engine = calibration.engine_for(weight_format)
        measured = calibration.served_kernels(accelerator, weight_format)[1]
        for name in (
            later_quantity(architecture, engine, placement.layout),
            first_quantity(engine, placement.layout),
        ):
            found = calibration.served_interval(name, weight_format, measured=measured)
            cautions |= dict.fromkeys(found.caution)
        describe = describe_serving
    report = describe(
        architecture=architecture,
        workload=workload,
        layout=placement.layout,
        accelerator=accelerator,
        node=placement.node,
        weight_format=weight_format,
        calibration=calibration,
    )
    serving = report.serving.changed(spare_replicas=workload.spare_replicas)
    return _Work(
        memory=report.memory,
        flops=report.flops,
        serving=serving,
        tokens_per_hour=report.serving.output_tokens_per_s.scaled(HOUR_S),
        assumptions=(
            *camera_notes(workload, report.serving),
            *serving_notes(workload, placement, architecture, calibration, report.memory),
            *cautions,
        ),
    )


def _trained(
    asked: ResolvedCase, workload: Training, placement: Placement, run: TrainingRun | None
) -> _Work:
    """Estimate training; ``run`` is the resolved workload, if the caller has it already."""
    architecture, calibration = asked.architecture, asked.calibration
    accelerator, layout = placement.accelerator, placement.layout
    recipe = recipe_named(placement.precision)
    check_trains(accelerator, workload, recipe)
    run = run or resolve_training(workload, architecture, recipe, placement.tool)
    check_batch(layout, run)
    time = describe_time(run, layout, accelerator, placement.node, calibration)
    if placement.interrupted is not None:
        time = interrupted_time(time, placement.interrupted)
    return _Work(
        memory=describe_memory(run, layout, accelerator, calibration),
        flops=count_flops(run, layout),
        time=time,
        run=run,
        tokens_per_hour=time.run_hours.reciprocal(run.tokens),
        assumptions=tuple(training_notes(run, placement, calibration, time)),
    )


def estimate_configuration(
    asked: ResolvedCase, placement: Placement, *, run: TrainingRun | None = None
) -> Estimate:
    """Estimate memory, FLOPs, time and cost of one configuration.

    ``run``: the resolved training workload, if the caller has it already. Raises InputError if the
    accelerator lacks the precision, or the layout does not use exactly ``count`` accelerators.
    """
    check_count(placement.layout, placement.count)
    asked = asked.cached_in(placement.cache)
    case, architecture, workload = asked.case, asked.architecture, asked.case.workload
    check_layout(placement.layout, architecture)
    calibration = on_accelerator(asked.calibration, placement.accelerator)
    placement = placement.equipped(case, architecture)
    prompts, spares = None, 0
    if isinstance(workload, Serving):
        duty = duty_of(workload, architecture)
        calibration = constants_of(calibration, placement.tool, placement.accelerator, duty)
        asked = replace(asked, calibration=calibration)
        work = _served(asked, workload, placement)
        spares = workload.spare_replicas
        prompts = Prompts.of(work.serving, workload) if work.serving else None
    else:
        work = _trained(replace(asked, calibration=calibration), workload, placement, run)
    cost = cost_breakdown(
        placement,
        placement.count + spares * placement.layout.replica_cards,
        hours=work.hours,
        tokens_per_hour=work.tokens_per_hour,
        prompts=prompts,
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
    found = Estimate(
        model=architecture.name,
        workload=describe_workload(workload, work.run, architecture),
        accelerator=placement.accelerator.key,
        accelerator_name=placement.accelerator.name,
        count=placement.count,
        layout=placement.layout,
        stated=tuple(sorted(case.layout.model_fields_set)) if case.layout else (),
        precision=placement.precision,
        kv_cache_format=(
            cache_format(workload, placement.accelerator)
            if isinstance(workload, Serving) and architecture.generates
            else None
        ),
        software=placement.software(case, architecture),
        parameters=parameters_of(architecture, work.run),
        memory=work.memory,
        flops=work.flops,
        time=work.time,
        serving=work.serving,
        cost=cost,
        assumptions=tuple(dict.fromkeys(assumptions)),
        references=tuple(dict.fromkeys(item.reference for item in terms if item.reference)),
    )
    unused = unused_words(found, case.hardware.count if case.hardware else 0)
    return found.changed(assumptions=(*unused, *found.assumptions)) if unused else found


def unused_words(found: Estimate, stated: int) -> tuple[str, ...]:
    """Return that some of the stated accelerators do no work, and why; nothing if all do."""
    rest, copy = stated - found.cards, found.layout.replica_cards
    if rest <= 0:
        return ()
    why = f"one copy of the model takes {copy}" if rest < copy else "the load needs no more copies"
    stays = "stays" if rest == 1 else "stay"
    return (f"the work uses {found.cards:,} of the {stated:,}, since {why}: {rest:,} {stays} idle",)


def describe_workload(
    workload: Workload, run: TrainingRun | None, architecture: ModelArchitecture
) -> str:
    """Return the work in one line; training comes with its resolved run."""
    if not isinstance(workload, Serving):
        assert run is not None
        return _training_line(workload, run)
    if not architecture.generates:
        return _batches_line(workload, architecture)
    lengths = f"of {workload.input_tokens:,} tokens in, {workload.output_tokens:,} out"
    if workload.beam_size > 1:
        lengths += f", {workload.beam_size} beams"
    lengths += in_words(workload)
    if workload.requests_per_s is not None:
        how = workload.arrivals.label
        what = f"serve {_asked(workload.requests_per_s)} that arrive {how}"
        if speech := tool_choice().speech.get(architecture.family):
            hours = workload.requests_per_s * speech.window_s * DAY_S / HOUR_S
            what = f"transcribe {trimmed(hours, 4)} hours of sound a day: {what.split(' ', 1)[1]}"
        return f"{what}, {lengths}"
    requests = "request" if workload.concurrency == 1 else "concurrent requests"
    return f"serve {workload.concurrency:,} {requests} {lengths}"


def _asked(requests_per_s: float) -> str:
    return f"{trimmed(requests_per_s, 3)} requests/s"


def _batches_line(workload: Serving, architecture: ModelArchitecture) -> str:
    several = "" if workload.concurrency == 1 else "s"
    inputs = f"{architecture.unit.value}{several}"
    if architecture.unit is Unit.TOKEN:
        inputs = f"sequence{several} of {workload.input_tokens:,} tokens"
    text = f"serve batches of {workload.concurrency:,} {inputs}"
    if workload.requests_per_s is not None:
        asked = _asked(workload.requests_per_s)
        text = f"serve {asked} in batches of up to {workload.concurrency:,} {inputs}"
    elif not several:
        text = f"serve 1 {inputs} at a time"
    steps = passes_per_answer(architecture, workload)
    if steps > 1:
        text += f", {steps:,} denoising steps each"
    return text + (" with guidance" if inputs_per_answer(architecture, workload) > 1 else "")


def _training_line(workload: Training, run: TrainingRun) -> str:
    what = "pretrain" if isinstance(workload, Pretraining) else "fine-tune"
    method = METHOD_WORDS[workload.method] if isinstance(workload, FineTuning) else ""
    if run.preference is not None:
        method += f" by {run.preference.value.upper()}"
    each = "sequences" if run.preference is None else "pairs"
    each = each.removesuffix("s") if run.global_batch == 1 else each
    size = f"tokens in sequences of {run.sequence_length:,}, {run.global_batch:,} {each}"
    if run.unit is not Unit.TOKEN:
        size = f"{run.unit.value}s, {run.global_batch:,}"
    return f"{what}{method} on {amount(run.tokens)} {size} per step"


def training_notes(
    run: TrainingRun, placement: Placement, calibration: Calibration, time: StepTime
) -> Iterator[str]:
    """Yield what an estimate of training assumes, one sentence each."""
    spot = placement.interrupted
    if spot is not None:
        hours = f"spot: an hour of work takes {trimmed(spot.expected, 3)} hours"
        yield f"{hours} with interruptions and lost work"
    yield from run.assumptions
    if run.loading is not None and run.loading.workers is None:
        yield host_note(placement.node)
    yield f"{run.recipe.title}, {run.optimizer.value} optimizer"
    yield from calibration.beyond_training(
        placement.accelerator, compute=run.recipe.compute, count=placement.count
    )
    if run.four_bit and run.architecture.family in tool_choice().coarse:
        yield "Unsloth advises LoRA in 16 bits here: 4 bits change these weights more than usual"
    yield from _beyond(run, placement)
    yield from _few_runs(run, placement, calibration)
    if run.method is not None and (tower := tower_parameters(run.architecture)):
        trained = "" if run.frozen else ", and count as trained"
        yield f"the vision tower's {tower:,} parameters are loaded too{trained}"
    if run.frozen and (beside := encoders_beside(run.architecture, placement.tool)):
        yield (
            f"captions and pictures are encoded before training: diffusers' own scripts encode "
            f"them beside it, which takes {memory(beside)} more"
        )
    if few_peaks(run, calibration):
        yield (
            f"few published runs show the peak memory of {run.stack.title}: its range is as wide "
            "as where settings are guessed"
        )
    yield f"{duration(calibration.reliability.startup_s)} of start-up before the first step"
    yield _used(time, run)


def _few_runs(run: TrainingRun, placement: Placement, calibration: Calibration) -> tuple[str, ...]:
    """Say where the step's constants rest on fewer than three independent published runs."""
    interval = calibration.training_interval(
        time_quantity(run.architecture, frozen=run.frozen),
        placement.accelerator,
        run.software,
        adapters=run.frozen,
        measured=calibration.kernels_for(placement.accelerator)[1],
        compute=run.recipe.compute,
        count=placement.count,
    )
    text = run.unit is Unit.TOKEN
    return interval.caution + (calibration.software[run.software].caution if text else ())


def _used(time: StepTime, run: TrainingRun) -> str:
    """Say which of the two numbers for a run deadline and cost use."""
    steps, whole = (hours.scaled(HOUR_S) for hours in (time.benchmark_hours, time.run_hours))
    return (
        f"deadline and cost use {duration(whole)}, which whole runs deliver (--operator "
        f"{run.operator.value}); in a tuned benchmark the steps alone take {duration(steps)}"
    )


def _beyond(run: TrainingRun, placement: Placement) -> tuple[str, ...]:
    """Say what the layout asks that the software does not offer."""
    offer = run.offer_of(placement.tool)
    if placement.tool is None or offer is None:
        return beyond_stack(run.stack, placement.layout)
    missing = offer.lacking(placement.layout, four_bit=run.four_bit)
    if not missing:
        return ()
    able = able_tools(placement.tool, placement.accelerator, placement.layout, run)
    does = f"; {' or '.join(able)} does" if able else ""
    return (f"{placement.tool.title} offers no {' and no '.join(missing)}{does}",)


def encoders_beside(architecture: ModelArchitecture, tool: Tool | None) -> float:
    """Return what scripts of adapters keep on the card beside a diffusion network. [bytes]"""
    ahead = tool is not None and tool.training is not None and tool.training.encodes_ahead
    if ahead or not architecture.denoises:
        return 0.0
    from advisor.architecture.families.diffusion import beside_bytes

    return beside_bytes(architecture)
