"""Predictions for tables of training runs."""

from dataclasses import replace

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.calibration.scoring.report import FitVerdict, ValidationRow, scored
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.guesses import filled
from advisor.calibration.tables.reading import Row, built, measurement_tables
from advisor.calibration.tables.row_layouts import row_node, settled_layout
from advisor.catalog.nodes import node_for
from advisor.errors import refusal
from advisor.estimate.results import MemoryBreakdown
from advisor.estimate.sample import LOADING_FIELDS, SIZES
from advisor.estimate.training.memory_report import describe_memory
from advisor.estimate.training.report import GUESSED_TIME, describe_time
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.foundation.quantities import Range
from advisor.foundation.record import by_identity
from advisor.foundation.units import GIB, HOUR_S
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.efficiency import Calibration, Interval
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.workload import FineTuning, Pretraining, Training

WORK: dict[str, type[Training]] = {"pretraining": Pretraining, "fine_tuning": FineTuning}
"""Workload of a case by its kind."""
ADAPTER_FORMATS = {"": "fp32", "fp32": "fp32", "bf16": "bf16"}
CHANNELS_LAST = {"": None, "0": False, "1": True}
KEPT_GRADIENTS = {"": False, "none": False, "zero": True}
LEAN_BITSANDBYTES = (0, 44)
"""From this release on, a 4-bit base keeps no inputs (bitsandbytes pull request 1270)."""
UNSHIFTED = (4, 49)
"""From this release on, the loss shifts labels instead of logits (transformers pull 35646)."""
UNSTATED = frozenset({"assumed_config", "suspicious"})
"""Flags of rows with doubtful settings, whose range is wider."""
GUESSED = UNSTATED | {"memory_unit_uncertain"}
"""The same for memory, whose unit may be doubtful too."""
RAN = "ok"
OUTCOMES = (RAN, "oom", "max_context")
"""Outcomes: it ran; it ran out of memory; it ran, but a longer sequence did not."""
TIME_QUANTITIES = (
    "tokens_per_s_per_accelerator",
    "samples_per_s",
    "step_time_s",
    "wall_hours",
    "accelerator_hours",
)


ON_PAPER = "analytic_not_measured"
"""Flag of rows whose memory was computed by their authors: it may exceed the card."""


def predict_training_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the quantities that one training run was measured for.

    Its primary quantity and, if the row asks for it, its peak memory; empty for a row that only
    states whether it fitted. Raises InputError if the engine has no builder for the row's model or
    work, or a cell is unusable.
    """
    accelerator = engine.accelerator(row)
    calibration = engine.calibration
    run, layout = settled_run(row, engine)
    node = row_node(row, node_for(accelerator, None))
    quantity = row.cell("primary_quantity")
    found: list[tuple[str, Range]] = []
    if quantity in TIME_QUANTITIES:
        timed = timed_run(row, run)
        time = describe_time(timed, layout, accelerator, node, calibration)
        # Published training times start with the first step.
        started = time.startup_s.expected / HOUR_S
        hours = time.run_hours.model_copy(
            update={
                name: max(0.0, getattr(time.run_hours, name) - started)
                for name in ("low", "expected", "high")
            }
        )
        per_s = {
            "tokens_per_s_per_accelerator": time.tokens_per_s_per_accelerator.scaled(
                max(0.0, min(1.0, row.number("counted_share") or 1.0))
            ),
            "samples_per_s": time.step_s.reciprocal(run.global_batch),
            "step_time_s": time.step_s,
            "wall_hours": hours,
            "accelerator_hours": hours.scaled(layout.accelerators),
        }
        found.append((quantity, _widened(per_s[quantity], quantity, row, calibration)))
    wants_memory = quantity == "peak_memory_gib" or row.flag("also_memory")
    outcome = row.cell("outcome") or RAN
    if wants_memory and outcome == RAN:
        interval = row_interval(row, calibration)
        memory = describe_memory(run, layout, accelerator, calibration, interval)
        counted = _counted_by_tool(memory, row.cell("memory_basis"))
        found.append(("peak_memory_gib", counted.scaled(1 / GIB)))
    results = [
        scored(
            *(row, name, measured, predicted),
            regime=row.cell("regime"),
            group=row.cell("split_group"),
        )
        for name, predicted in found
        if (measured := row.positive(name))
    ]
    if not results and outcome not in OUTCOMES[1:]:
        raise refusal(
            "row_without_quantity",
            value=f"{quantity}, outcome {outcome}",
            allowed=(*TIME_QUANTITIES, "peak_memory_gib"),
        )
    return results


@by_identity(1_000)
def settled_run(row: Row, engine: Engine) -> tuple[TrainingRun, ParallelLayout]:
    """Return a row's workload and layout, with open settings filled in."""
    architecture = engine.architecture(row)
    row = filled(row, "training", unit=architecture.unit.value)
    run = row_run(row, architecture)
    accelerator, calibration = engine.accelerator(row), engine.calibration
    layout = settled_layout(row, run, accelerator, calibration)
    return run, layout


def timed_run(row: Row, run: TrainingRun) -> TrainingRun:
    """Return a row's workload with the software of the timed run."""
    row = filled(row, "training", unit=run.unit.value)
    stacks = {"": run.software} | {name: name for name in known_stacks()}
    return replace(run, software=row.choice("timed_software", stacks))


def row_interval(row: Row, calibration: Calibration) -> Interval | None:
    """Return the interval of a row with guessed settings; None takes the run's own."""
    guessed = set(row.cell("flags").split(";")) & GUESSED
    return calibration.intervals["training_memory_guessed"] if guessed else None


def guesses_settings(row: Row) -> bool:
    """Whether nobody published the settings of a row's run."""
    return bool(set(row.cell("flags").split(";")) & UNSTATED)


def _widened(time: Range, quantity: str, row: Row, calibration: Calibration) -> Range:
    """Return a time or a rate with the wider range of guessed settings."""
    if not guesses_settings(row):
        return time
    found = calibration.intervals[GUESSED_TIME]
    wider = Range(low=found.low, expected=1.0, high=found.high, evidence=time.evidence)
    return time.times(wider.reciprocal() if "_per_s" in quantity else wider)


def _counted_by_tool(memory: MemoryBreakdown, basis: str) -> Range:
    """Return the memory that the row's tool counts: tensors, PyTorch's reserve, or all."""
    parts = [memory.context_bytes]
    if basis not in ("allocated", "reserved"):
        return memory.total_bytes
    if basis == "allocated":
        parts.append(memory.fragmentation_bytes)
    total = memory.total_bytes
    return Range(
        low=total.low - sum(part.low for part in parts),
        expected=total.expected - sum(part.expected for part in parts),
        high=total.high - sum(part.high for part in parts),
        evidence=total.evidence,
    )


def row_run(row: Row, architecture: ModelArchitecture) -> TrainingRun:
    """Return a filled row's workload with its own software, precision and batch."""
    workload = _workload(row, architecture.unit)
    run = resolve_training(workload, architecture, recipe_named(workload.precision or ""))
    if run.unit is Unit.TOKEN:
        # The published run shows that the model takes sequences of that length.
        run = replace(run, sequence_length=row.needed("sequence_length"))
    if not workload.model_fields_set & set(LOADING_FIELDS):
        # Published rates of image networks are rates of the step, unless the row states otherwise.
        run = replace(run, loading=None)
    switches = replace(
        run.switches,
        flat_units=row.number("fsdp_version") == 1,
        kept_gradients=row.choice("zero_grad", KEPT_GRADIENTS),
        base_inputs_kept=row.release("bitsandbytes_version", LEAN_BITSANDBYTES) < LEAN_BITSANDBYTES,
        adapter_dropout=bool(row.number("adapter_dropout")),
        adapter_format=row.choice("adapter_format", ADAPTER_FORMATS),
        shifted_logits=row.release("transformers_version", UNSHIFTED) < UNSHIFTED,
        gathered_logits=row.flag("gathered_logits"),
        unpacked_base=row.flag("unpacked_base"),
        update_in_backward=row.flag("update_in_backward"),
        trained_ends=row.flag("trained_ends"),
        fused_softmax=row.flag("fused_softmax"),
        widened_norms=row.flag("widened_norms"),
        portable_attention=row.flag("portable_attention"),
        channels_last=row.choice("channels_last", CHANNELS_LAST),
        answered_share=min(1.0, row.number("answered_share") or 1.0),
        layers_in_16_bits=min(row.integer("layers_in_16_bits", 0), architecture.num_hidden_layers),
        expert_capacity=max(1.0, row.number("expert_capacity") or 1.0),
    )
    return replace(run, switches=switches)


def _workload(row: Row, unit: Unit) -> Training:
    """Return the workload of a case that a filled row describes."""
    noun = WORK[row.choice("workload", measurement_tables().work)]
    count = row.integer("num_accelerators", 1)
    batch = row.integer("global_batch", row.integer("micro_batch", 1) * count)
    # The network is built for the sizes of its input.
    fields = {"optimizer": "adamw"} | row.stated(noun, leave=SIZES) | {"global_batch": batch}
    if unit is Unit.TOKEN:
        sequence = row.needed("sequence_length")
        amount = {"tokens": row.number("total_tokens") or batch * sequence}
    else:
        amount = {"samples": row.number("total_samples") or batch}
    return built(noun, fields if {"tokens", "samples"} & set(fields) else fields | amount)


def judge_training_row(row: Row, engine: Engine) -> FitVerdict | None:
    """Predict whether a run fits, if the table states whether it did.

    None if the row states neither a memory nor that it ran out. Raises InputError if the engine has
    no builder for the row's model or work, or a cell is unusable.
    """
    outcome = row.cell("outcome") or RAN
    states_outcome = row.number("peak_memory_gib") is not None or outcome != RAN
    if not states_outcome or outcome not in OUTCOMES or ON_PAPER in row.cell("flags").split(";"):
        return None
    run, layout = settled_run(row, engine)
    interval = row_interval(row, engine.calibration)
    memory = describe_memory(run, layout, engine.accelerator(row), engine.calibration, interval)
    needed = memory.total_bytes.scaled(1 / GIB)
    return FitVerdict(
        id=row.cell("id"),
        outcome=outcome,
        low_gib=needed.low,
        expected_gib=needed.expected,
        high_gib=needed.high,
        usable_gib=memory.usable_bytes / GIB,
    )
