"""Predicting the rows of a table of training runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from advisor.architecture.model import ModelArchitecture
from advisor.calibration.report import SkippedRow, ValidationReport, ValidationRow, summarise
from advisor.calibration.tables import Row, flag, integer, number, row_architecture
from advisor.catalog import Catalog
from advisor.catalog.nodes import node_for
from advisor.efficiency import Calibration
from advisor.errors import AdvisorError, InputError
from advisor.estimate.run import TrainingRun, recipe_named
from advisor.estimate.training import describe_memory, describe_time
from advisor.hardware import Accelerator, Node
from advisor.layout import ParallelLayout, Recompute, Sharding
from advisor.quantities import Range
from advisor.units import GIB
from advisor.workload import AttentionKernel, FineTuningMethod, Optimizer, SoftwareStack

SOFTWARE = {
    "megatron": SoftwareStack.MEGATRON,
    "nemo": SoftwareStack.MEGATRON,
    "jax": SoftwareStack.COMPILED,
    "torchtitan": SoftwareStack.COMPILED,
}
"""Framework of a row -> software stack; others run eager Hugging Face style modules unless the
row says compiled."""

PRECISIONS = {"tf32": "fp32"}
SHARDINGS = {"": Sharding.DDP, "none": Sharding.DDP, "ddp": Sharding.DDP}
METHODS = {
    "lora": FineTuningMethod.LORA,
    "qlora": FineTuningMethod.QLORA,
    "full_finetuning": FineTuningMethod.FULL,
}
OPTIMIZERS = {"lamb": "adamw", "": "adamw", "paged_adamw_8bit": "adamw_8bit"}
TARGETS = {
    "qkv": ("q", "k", "v"),
    "attention": ("q", "k", "v", "o"),
    "all": ("q", "k", "v", "o", "gate", "up", "down"),
}
TIME_QUANTITIES = ("tokens_per_s_per_accelerator", "samples_per_s", "step_time_s")


def validate_training(
    rows: list[dict[str, str]],
    *,
    table: str,
    catalog: Catalog,
    calibration: Calibration,
    configs: Path | None = None,
) -> ValidationReport:
    """Predict every row that says it is predictable, and summarise the errors."""
    results: list[ValidationRow] = []
    skipped: list[SkippedRow] = []
    for row in rows:
        if "predictable" in row and not flag(row, "predictable"):
            skipped.append(SkippedRow(id=row["id"], reason="marked unpredictable in the table"))
            continue
        try:
            results.extend(_predict(row, catalog, calibration, configs))
        except AdvisorError as error:
            skipped.append(SkippedRow(id=row["id"], reason=str(error)))
    return ValidationReport(
        table=table, rows=tuple(results), summary=summarise(results), skipped=tuple(skipped)
    )


def _predict(
    row: Row, catalog: Catalog, calibration: Calibration, configs: Path | None
) -> list[ValidationRow]:
    architecture = row_architecture(row, configs)
    accelerator = catalog.accelerator(row["accelerator"])
    run = row_run(row)
    layout = row_layout(row)
    node = row_node(row, node_for(accelerator, None))
    quantity = row["primary_quantity"]
    found: list[tuple[str, Range]] = []
    wants_memory = quantity == "peak_memory_gib" or flag(row, "also_memory")
    if not row.get("recompute"):
        layout = _least_recompute(layout, architecture, run, accelerator, calibration)
    if quantity in TIME_QUANTITIES:
        time = describe_time(architecture, run, layout, accelerator, node, calibration)
        per_s = {
            "tokens_per_s_per_accelerator": time.tokens_per_s_per_accelerator,
            "samples_per_s": time.step_s.reciprocal(run.global_batch),
            "step_time_s": time.step_s,
        }
        found.append((quantity, per_s[quantity]))
    elif quantity in ("wall_hours", "accelerator_hours"):
        time = describe_time(architecture, run, layout, accelerator, node, calibration)
        factor = 1 if quantity == "wall_hours" else layout.accelerators
        found.append((quantity, time.run_hours.scaled(factor)))
    if wants_memory and number(row, "peak_memory_gib") and row.get("outcome", "ok") == "ok":
        memory = describe_memory(architecture, run, layout, accelerator, calibration)
        found.append(("peak_memory_gib", memory.total_bytes.scaled(1 / GIB)))
    results = []
    for name, predicted in found:
        measured = number(row, name)
        if measured is None or measured <= 0:
            continue
        results.append(
            ValidationRow(
                id=row["id"],
                quantity=name,
                regime=row.get("regime") or "unstated",
                group=row.get("split_group") or row["id"],
                source=row.get("source") or "",
                measured=measured,
                low=predicted.low,
                expected=predicted.expected,
                high=predicted.high,
            )
        )
    if not results:
        raise InputError(
            "the row has no quantity the engine predicts",
            value=quantity,
            allowed=", ".join((*TIME_QUANTITIES, "peak_memory_gib")),
            remedy="Leave the row out.",
        )
    return results


def row_run(row: Row) -> TrainingRun:
    """Return a row's workload with its own software, precision and batch."""
    method = METHODS.get(row["workload"])
    if method is None and row["workload"] not in ("pretraining", "continued_pretraining"):
        raise InputError(
            "the row's workload is not built yet",
            value=row["workload"],
            allowed="pretraining, full_finetuning, lora, qlora",
            remedy="Leave the row out.",
            field="workload",
        )
    sequence = number(row, "sequence_length")
    if not sequence:
        raise InputError(
            "the row has no sequence_length", value=None, allowed="tokens", remedy="Fill it."
        )
    precision = PRECISIONS.get(row["precision"], row["precision"])
    if precision == "fp16_amp" and row["framework"] == "megatron":
        precision = "fp16_mixed"
    compiled = flag(row, "compiled")
    software = SOFTWARE.get(
        row["framework"], SoftwareStack.COMPILED if compiled else SoftwareStack.HUGGINGFACE
    )
    count = integer(row, "num_accelerators", 1)
    batch = integer(row, "global_batch", integer(row, "micro_batch", 1) * count)
    optimizer = OPTIMIZERS.get(row["optimizer"], row["optimizer"])
    tokens = number(row, "total_tokens") or batch * sequence
    return TrainingRun(
        tokens=tokens,
        sequence_length=int(sequence),
        global_batch=batch,
        recipe=recipe_named(precision),
        optimizer=Optimizer(optimizer),
        attention=AttentionKernel.EAGER if row["attention"] == "eager" else AttentionKernel.FLASH,
        software=software,
        method=method,
        lora_rank=integer(row, "lora_rank", 16),
        lora_targets=_targets(row),
        assumptions=(),
    )


def _targets(row: Row) -> tuple[str, ...]:
    text = (row.get("lora_targets") or "all").replace(" ", "").lower()
    if text in TARGETS:
        return TARGETS[text]
    names = [part.removesuffix("_proj") for part in text.replace(";", ",").split(",")]
    known = tuple(name for name in names if name in TARGETS["all"])
    return known or TARGETS["all"]


def row_layout(row: Row) -> ParallelLayout:
    """Return a row's parallel layout."""
    count = integer(row, "num_accelerators", 1)
    pipeline = integer(row, "pipeline_parallel", 1)
    context = integer(row, "context_parallel", 1)
    batch = integer(row, "global_batch", count)
    # Where the table leaves the degree open, ranks cannot outnumber the sequences of a batch.
    tensor = integer(row, "tensor_parallel", min(8, max(1, -(-count // batch))))
    model_parallel = tensor * pipeline * context
    if count % model_parallel:
        raise InputError(
            "the row's layout does not divide its accelerators",
            value=f"{count} / {model_parallel}",
            allowed="a whole number",
            remedy="Correct the row.",
        )
    data = count // model_parallel
    sharding = row["data_sharding"]
    expert = integer(row, "expert_parallel", 1)
    return ParallelLayout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert if (data * context) % expert == 0 else int(np.gcd(expert, data * context)),
        sharding=SHARDINGS.get(sharding) or Sharding(sharding),
        micro_batch=integer(row, "micro_batch", 1),
        recompute=Recompute(row["recompute"] or "none"),
        sequence_parallel=flag(row, "sequence_parallel") or not row["sequence_parallel"],
        virtual_stages=integer(row, "virtual_pipeline_stages", 1) if pipeline > 1 else 1,
    )


def _least_recompute(
    layout: ParallelLayout,
    architecture: ModelArchitecture,
    run: TrainingRun,
    accelerator: Accelerator,
    calibration: Calibration,
) -> ParallelLayout:
    """Where a table leaves recomputation open, take the least that fits, as its authors would."""
    for policy in Recompute:
        tried = layout.model_copy(update={"recompute": policy})
        memory = describe_memory(architecture, run, tried, accelerator, calibration)
        if memory.total_bytes.expected <= memory.usable_bytes:
            return tried
    return layout.model_copy(update={"recompute": Recompute.FULL})


def row_node(row: Row, standard: Node) -> Node:
    """Return the accelerator's standard node with as many accelerators as the row's."""
    count = integer(row, "accelerators_per_node", standard.accelerators)
    total = integer(row, "num_accelerators", 1)
    network = standard.inter_bytes_per_s
    if network is None and total > count:
        count = total
    return standard.model_copy(update={"accelerators": max(1, count)})
