"""Predicting the rows of a table of training runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.calibration.scoring.report import ValidationRow, scored
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import Row, cell, choice, flag, integer, needed, number
from advisor.calibration.tables.row_layouts import row_node, settled_layout
from advisor.catalog.nodes import node_for
from advisor.errors import InputError
from advisor.estimate.results import MemoryBreakdown
from advisor.estimate.training.memory_report import describe_memory
from advisor.estimate.training.report import describe_time
from advisor.estimate.training.run import MemorySwitches, TrainingRun, recipe_named
from advisor.foundation.quantities import Range
from advisor.foundation.units import GIB, HOUR_S
from advisor.nouns.efficiency import Calibration, Interval
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.workload import (
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    GradientSync,
    Optimizer,
    Preference,
    SoftwareStack,
)

SOFTWARE = {
    "megatron": SoftwareStack.MEGATRON,
    "nemo": SoftwareStack.MEGATRON,
    "jax": SoftwareStack.COMPILED,
    "torchtitan": SoftwareStack.COMPILED,
    "fsdp": SoftwareStack.COMPILED,
    "llm_foundry": SoftwareStack.LIGER,
    "litgpt": SoftwareStack.LIGER,
    "hf_trainer": SoftwareStack.HUGGINGFACE,
    "deepspeed": SoftwareStack.DEEPSPEED,
}
"""Framework of a row -> software stack; others are plain loops over eager modules unless the row
says compiled, or is a large run."""
PLAIN_TUNING = "litgpt"
"""Pretrains with fused kernels (TinyLlama), and fine-tunes with its plain modules."""
CHUNKED_LOSS = ("torchtune", PLAIN_TUNING)
TUNED_ACCELERATORS = 256
"""Language models on as many accelerators are trained by software that their makers tuned (Meta's
and others' own), which is taken to be of Megatron's class."""

TIMED_SOFTWARE = {("hf_trainer", AttentionKernel.FLASH): SoftwareStack.LIGER}
"""Frameworks and attention whose speed, but not memory, is that of another stack: Qwen's own model
code takes FlashAttention's fused norms and rotary embedding, and keeps whole logits."""

SAMPLE_SOFTWARE = SOFTWARE | {"mlperf": SoftwareStack.LIGER}
"""The same for networks that take images: records of MLPerf run fused norms and activations."""

PRECISIONS = {"tf32": "fp32"}
APEX = "deeplearningexamples"
FP16_WEIGHTS = ("megatron", "deepspeed", APEX)
"""Frameworks whose fp16 keeps 16-bit weights beside fp32 masters (Megatron, DeepSpeed, Apex O2)."""
ATTENTION = {"llm_foundry": AttentionKernel.FLASH_1}
"""Flash attention of frameworks whose published figures are older than FlashAttention-2
(mosaicml/llm-foundry, scripts/train/benchmarking/submit_benchmarks.py: PyTorch 1.13.1 and the
Triton kernel of that time)."""
FLAT_UNITS = ("litgpt", "torchtune")
"""Frameworks on PyTorch's first FSDP ("gradient memory for both trainable and frozen parameters":
its documentation on ``use_orig_params``). Their compiled runs are on the second (torchtune 0.3)."""
OLD_BITSANDBYTES = (PLAIN_TUNING,)
"""Frameworks whose published 4-bit runs are older than release 0.44 (litgpt's tables of 2023)."""
DROPPING = (PLAIN_TUNING,)
"""Frameworks whose recipes drop elements of adapters' inputs (litgpt, ``lora_dropout`` 0.05)."""
REDUCE_FORMATS = {"nemo": "bf16"}
"""Frameworks whose recipes hold and reduce gradients in another format than their stack
(Megatron Bridge: ``grad_reduce_in_fp32=False``)."""
UNREDUCED = "unsharded_gradients"
"""Flag of rows whose gradients are summed, in fp32, after the last micro-batch alone."""
GATHERED_LOGITS = "gathered_logits"
"""Flag of rows whose tensor-parallel ranks each hold all logits (a head of ``output_layouts``
``Replicate``)."""
PLAIN_LOSS = "plain_loss"
"""Flag of compiled runs whose loss is not compiled (torchtitan before February 2025: train.py at
9dec370, "compiling loss function causes CUDA errors, turning off for now")."""
METHODS: dict[str, FineTuningMethod | None] = {
    "pretraining": None,
    "continued_pretraining": None,
    "lora": FineTuningMethod.LORA,
    "qlora": FineTuningMethod.QLORA,
    "full_finetuning": FineTuningMethod.FULL,
    "preference_tuning": FineTuningMethod.FULL,
    "cnn_training": None,
    "detection_training": None,
    "vit_training": None,
    "diffusion_training": None,
}
OPTIMIZERS = {optimizer.value: optimizer for optimizer in Optimizer} | {
    "": Optimizer.ADAMW,
    "adam": Optimizer.ADAMW,
    # Two moments, as Adam's.
    "lamb": Optimizer.ADAMW,
}
TARGETS = {
    "qkv": ("q", "k", "v"),
    "attention": ("q", "k", "v", "o"),
    "all": ("q", "k", "v", "o", "gate", "up", "down"),
}
GUESSED = frozenset({"assumed_config", "memory_unit_uncertain", "suspicious"})
"""Flags of rows whose settings or units are in doubt: their range is wider."""
RAN = "ok"
OUTCOMES = (RAN, "oom", "max_context")
"""It ran; it ran out of memory; it ran and a longer sequence would not have."""
TIME_QUANTITIES = (
    "tokens_per_s_per_accelerator",
    "samples_per_s",
    "step_time_s",
    "wall_hours",
    "accelerator_hours",
)


def predict_training_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the quantities that one training run was measured for.

    Parameters
    ----------
    row : mapping
        A row of a table of training runs.
    engine : Engine

    Returns
    -------
    list of ValidationRow
        Its primary quantity and, where the row asks for it, its peak memory; empty for a row
        that only tells whether it fitted.

    Raises
    ------
    InputError
        If the engine has no builder for the row's model or work, or a cell is unusable.
    """
    accelerator = engine.accelerator(row)
    calibration = engine.calibration
    architecture, run, layout = settled_run(row, engine)
    node = row_node(row, node_for(accelerator, None))
    quantity = cell(row, "primary_quantity")
    found: list[tuple[str, Range]] = []
    if quantity in TIME_QUANTITIES:
        timed = timed_run(row, run)
        time = describe_time(architecture, timed, layout, accelerator, node, calibration)
        # Published times of training begin with its first step.
        started = time.startup_s.expected / HOUR_S
        hours = time.run_hours.model_copy(
            update={
                name: max(0.0, getattr(time.run_hours, name) - started)
                for name in ("low", "expected", "high")
            }
        )
        per_s = {
            "tokens_per_s_per_accelerator": time.tokens_per_s_per_accelerator,
            "samples_per_s": time.step_s.reciprocal(run.global_batch),
            "step_time_s": time.step_s,
            "wall_hours": hours,
            "accelerator_hours": hours.scaled(layout.accelerators),
        }
        found.append((quantity, per_s[quantity]))
    wants_memory = quantity == "peak_memory_gib" or flag(row, "also_memory")
    outcome = cell(row, "outcome") or RAN
    if wants_memory and outcome == RAN:
        interval = row_interval(row, calibration)
        memory = describe_memory(architecture, run, layout, accelerator, calibration, interval)
        told = _as_told(memory, cell(row, "memory_basis"))
        found.append(("peak_memory_gib", told.scaled(1 / GIB)))
    results = [
        scored(
            id=cell(row, "id"),
            quantity=name,
            regime=cell(row, "regime"),
            group=cell(row, "split_group"),
            source=cell(row, "source"),
            measured=measured,
            predicted=predicted,
        )
        for name, predicted in found
        if (measured := number(row, name)) is not None and measured > 0
    ]
    if not results and outcome not in OUTCOMES[1:]:
        raise InputError(
            "the row has no measured quantity that the engine predicts",
            value=f"{quantity}, outcome {outcome}",
            allowed=", ".join((*TIME_QUANTITIES, "peak_memory_gib")),
            remedy="Leave the row out.",
        )
    return results


def settled_run(row: Row, engine: Engine) -> tuple[ModelArchitecture, TrainingRun, ParallelLayout]:
    """Return a row's model, workload and layout, with what it leaves open filled in."""
    architecture = engine.architecture(row)
    run = row_run(row, architecture.unit)
    accelerator, calibration = engine.accelerator(row), engine.calibration
    layout = settled_layout(row, architecture, run, accelerator, calibration)
    return architecture, run, layout


def timed_run(row: Row, run: TrainingRun) -> TrainingRun:
    """Return a row's workload with the software that its speed is that of."""
    software = TIMED_SOFTWARE.get((cell(row, "framework"), run.attention), run.software)
    return replace(run, software=software)


def row_interval(row: Row, calibration: Calibration) -> Interval | None:
    """Return the interval of a row whose settings are guessed; None takes the run's own."""
    guessed = set(cell(row, "flags").split(";")) & GUESSED
    return calibration.intervals["training_memory_guessed"] if guessed else None


def _as_told(memory: MemoryBreakdown, basis: str) -> Range:
    """Return what the row's tool counts: tensors, what PyTorch reserves, or all of the card."""
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


def row_run(row: Row, unit: Unit = Unit.TOKEN) -> TrainingRun:
    """Return a row's workload with its own software, precision and batch."""
    method = choice(row, "workload", METHODS)
    if method is FineTuningMethod.FULL and cell(row, "lora_rank"):
        method = FineTuningMethod.LORA
    samples = unit is not Unit.TOKEN
    sequence = 1 if samples else needed(row, "sequence_length")
    precision = cell(row, "precision")
    precision = PRECISIONS.get(precision, precision)
    framework = cell(row, "framework")
    if precision == "fp16_amp" and framework in FP16_WEIGHTS and not samples:
        precision = "fp16_mixed"
    software = _software(row, samples=samples)
    flags = cell(row, "flags").split(";")
    count = integer(row, "num_accelerators", 1)
    batch = integer(row, "global_batch", integer(row, "micro_batch", 1) * count)
    total = number(row, "total_samples") if samples else number(row, "total_tokens")
    tokens = total or batch * sequence
    return TrainingRun(
        tokens=tokens,
        sequence_length=sequence,
        global_batch=batch,
        recipe=recipe_named(precision),
        optimizer=choice(row, "optimizer", OPTIMIZERS),
        attention=_attention(row),
        software=software,
        method=method,
        lora_rank=integer(row, "lora_rank", 16),
        lora_targets=_targets(row),
        assumptions=(),
        cross_entropy=_cross_entropy(framework, method, flags),
        preference=_preference(row),
        switches=MemorySwitches(
            flat_units=framework in FLAT_UNITS and not flag(row, "compiled"),
            # Qwen's recipe: Q-LoRA on its GPTQ checkpoints, in fp16.
            unpacked_base=framework == "hf_trainer" and precision == "fp16_amp",
            reduce_format="fp32" if UNREDUCED in flags else REDUCE_FORMATS.get(framework),
            gathered_logits=GATHERED_LOGITS in flags,
            gradient_sync=GradientSync.LAST if UNREDUCED in flags else GradientSync.EACH,
            base_inputs_kept=framework in OLD_BITSANDBYTES,
            adapter_dropout=framework in DROPPING,
            # torchtune's recipe for one card.
            update_in_backward=framework == "torchtune"
            and cell(row, "optimizer") == "paged_adamw_8bit",
            trained_ends="embed" in cell(row, "lora_targets"),
            adapter_format="bf16" if precision == "bf16_pure" else "fp32",
        ),
        unit=unit,
    )


def _cross_entropy(
    framework: str, method: FineTuningMethod | None, flags: Sequence[str]
) -> CrossEntropy | None:
    """Return the loss of a row; None where it is its stack's."""
    if PLAIN_LOSS in flags:
        return CrossEntropy.PLAIN
    return CrossEntropy.CHUNKED if framework in CHUNKED_LOSS and method else None


def _preference(row: Row) -> Preference | None:
    if cell(row, "workload") != "preference_tuning":
        return None
    alone = "no_reference_model" in cell(row, "flags").split(";")
    return Preference.ORPO if alone else Preference.DPO


def _attention(row: Row) -> AttentionKernel:
    """Return the attention of a row: flash where it does not say, as old as its framework."""
    if cell(row, "attention") == "eager":
        return AttentionKernel.EAGER
    return ATTENTION.get(cell(row, "framework"), AttentionKernel.FLASH)


def _software(row: Row, *, samples: bool) -> SoftwareStack:
    """Return the software stack that a row's framework amounts to."""
    framework = cell(row, "framework")
    if framework == APEX and cell(row, "precision") == "fp16_amp" and not samples:
        # Apex in half precision: fused norms and optimizer in otherwise eager code.
        return SoftwareStack.LIGER
    known = SAMPLE_SOFTWARE if samples else SOFTWARE
    tunes = choice(row, "workload", METHODS) is not None
    if framework == "hf_trainer" and choice(row, "workload", METHODS) is FineTuningMethod.FULL:
        masters = cell(row, "precision") in ("bf16_mixed", "fp16_mixed")
        return SoftwareStack.DEEPSPEED if masters else SoftwareStack.HUGGINGFACE
    if framework in known and not (framework == PLAIN_TUNING and tunes):
        return known[framework]
    if flag(row, "compiled"):
        return SoftwareStack.COMPILED
    alone = integer(row, "num_accelerators", 1) < TUNED_ACCELERATORS
    return SoftwareStack.PLAIN if alone or samples else SoftwareStack.MEGATRON


def _targets(row: Row) -> tuple[str, ...]:
    text = (cell(row, "lora_targets") or "all").replace(" ", "").lower()
    if text in TARGETS:
        return TARGETS[text]
    names = [part.removesuffix("_proj") for part in text.replace(";", ",").split(",")]
    known = tuple(name for name in names if name in TARGETS["all"])
    return known or TARGETS["all"]
