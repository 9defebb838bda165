"""Predictions for tables of memory peaks: bytes that PyTorch allocates in a training step."""

from dataclasses import replace
from typing import Final

from advisor.architecture.table.model import Unit
from advisor.calibration.scoring.report import ValidationRow, scored
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.guesses import table_words
from advisor.calibration.tables.reading import Row, built
from advisor.calibration.tables.training_rows import ADAPTER_FORMATS, KEPT_GRADIENTS
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.sample import SIZES
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.peak_moments import TrainingMemory
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.switches import MemorySwitches
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import (
    LORA_TARGETS,
    AttentionKernel,
    FineTuningMethod,
    Optimizer,
)
from advisor.nouns.workload import Pretraining

GATHERED_BF16: Final = RECIPES["bf16_mixed"].changed(
    name="fp32 shards, gathered in bf16", working="fp32", master=None, gradients="fp32"
)
"""PyTorch's FSDP mixed precision: the shards are the master weights; gathered weights are cast, and
the network runs in bf16 without autocast."""

GATHERED: Final = "gathered"
"""Word for this recipe, and for logits that tensor parallelism gathers."""
TENSORS: Final = {
    "one card": "tensors_alone",
    "images": "tensors_images",
    "FSDP": "tensors_fsdp",
    "DDP": "tensors_ddp",
    "tensor parallel": "tensors_tensor_parallel",
    "LoRA": "tensors_lora",
    "QLoRA": "tensors_qlora",
}
"""Name of the interval by kind of row."""


def predict_memory_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the peak of the allocated bytes of one training step.

    ``peak_total`` in bytes. Only tensors, without driver context, libraries and the allocator's
    reserve. Raises InputError if the model is unknown or a cell unusable.

    ``row``: a row of a table of peaks: one card, FSDP, DDP, tensor parallelism or adapters.
    """
    measured = row.positive("peak_total")
    if measured is None:
        raise row.unusable("the row has no peak_total", "peak_total", "bytes", "Fill the cell.")
    kind, layout, memory = predicted_tensors(row, engine)
    interval = engine.calibration.intervals[TENSORS[kind]]
    recompute = "recompute=full" if layout.recompute is Recompute.FULL else "recompute=none"
    return [
        scored(
            *(row, "peak_total", measured, interval.around(float(memory.allocated[0]))),
            regime=f"{kind}|{recompute}",
        )
    ]


def predict_image_memory_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict a row that names the batch and the side of its images instead of a length.

    As :func:`predict_memory_row`; ``attn`` is read too, if stated.
    """
    names = (row.cell(name) for name in ("model", "batch", "px", "mode"))
    known = {
        "id": row.cell("id") or "-".join(names),
        "seq_len": row.cell("px"),
        "micro_batch": row.cell("batch"),
        "attn_request": row.cell("attn"),
    }
    return predict_memory_row(row | known, engine)


def predicted_tensors(row: Row, engine: Engine) -> tuple[str, ParallelLayout, TrainingMemory]:
    """Return a row's kind, layout, and the tensors of its fullest moment. [bytes]

    Raises InputError if the model is unknown or a cell unusable.
    """
    kind, layout = _layout(row)
    run = predicted_run(row, engine)
    # The accounting of tensors does not include libraries.
    facts = engine.calibration.memory.changed(
        workspace_bytes=0.0, communication_bytes=0.0, minimal_filter_workspace=0.0
    )
    if run.unit is Unit.IMAGE and kind == "one card":
        kind = "images"
    return kind, layout, training_memory(run, LayoutArrays.of(layout), facts)


def _layout(row: Row) -> tuple[str, ParallelLayout]:
    """Return the method of the row's table, and its layout."""
    micro_batch = row.needed("micro_batch")
    recompute = Recompute.FULL if row.flag("ckpt") else Recompute.NONE
    data = tensor = 1
    kind, sharding, sequence_parallel = "one card", Sharding.DDP, True
    if "reshard" in row:
        kind, sharding = "FSDP", Sharding(_meant(row, "reshard"))
        data = _shard_group(row)
    elif "bucket_view" in row:
        kind, data = "DDP", row.needed("world")
    elif "tp" in row:
        kind, tensor, data = "tensor parallel", row.needed("tp"), row.integer("fsdp", 1)
        sharding = Sharding.ZERO3 if data > 1 else Sharding.DDP
        sequence_parallel = row.flag("seq_parallel")
    elif "base" in row:
        kind = "QLoRA" if _meant(row, "base") == FineTuningMethod.QLORA else "LoRA"
    columns = {
        "data": data,
        "tensor": tensor,
        "sharding": sharding,
        "micro_batch": micro_batch,
        "recompute": recompute,
        "sequence_parallel": sequence_parallel,
    }
    return kind, built(ParallelLayout, columns | row.stated(ParallelLayout))


def _meant(row: Row, column: str, **others: str) -> str:
    """Return the meaning of a cell's word."""
    return row.choice(column, {**table_words().memory[column], **others})


def _shard_group(row: Row) -> int:
    """Ranks that share one copy: the world, or the second dimension of a mesh like ``8x8``."""
    mesh = row.cell("mesh")
    if "x" not in mesh:
        return row.needed("world")
    shards = mesh.rpartition("x")[2]
    return Row({"mesh": shards}).integer("mesh", 1)


def predicted_run(row: Row, engine: Engine) -> TrainingRun:
    """Return a row's workload."""
    layout = _layout(row)[1]
    architecture = engine.architecture(row)
    frozen = "base" in row
    mode = row.cell("mode")
    recipe = "bf16_mixed" if frozen else _meant(row, "mode")
    # The table's own columns come first; fields of a case replace them.
    case = built(Pretraining, row.stated(Pretraining, leave=("optimizer", *SIZES)))
    recipe = case.precision or recipe
    method = FineTuningMethod(_meant(row, "base")) if frozen else None
    optimizer = row.cell("optimizer")
    switches = MemorySwitches(
        foreach_optimizer=optimizer.endswith("foreach"),
        gradient_bucket_view=row.flag("bucket_view"),
        reduce_format=case.reduce_format or table_words().memory["reduced"].get(mode),
        gradient_sync=case.gradient_sync,
        kept_gradients=row.choice("zero_grad", KEPT_GRADIENTS),
        gathered_logits=_meant(row, "loss") == GATHERED,
        ends_apart=_meant(row, "wrap") == "apart" if "wrap" in row else layout.tensor > 1,
    )
    if frozen:
        switches = replace(
            switches,
            adapter_format=row.choice("adapter", ADAPTER_FORMATS),
            adapter_autocast=mode == "autocast",
            adapter_dropout=bool(row.number("dropout")),
            base_raised=row.cell("base") == "nf4_prep",
        )
    return TrainingRun(
        architecture=architecture,
        tokens=1.0,
        sequence_length=row.needed("seq_len") if architecture.unit is Unit.TOKEN else 1,
        global_batch=layout.micro_batch * layout.data,
        recipe=GATHERED_BF16 if recipe == GATHERED else RECIPES[recipe],
        optimizer=Optimizer(
            _meant(row, "optimizer", **{one.value: one.value for one in Optimizer})
        ),
        attention=case.attention
        if row.cell("attention")
        else AttentionKernel(_meant(row, "attn_request")),
        software=case.software or "huggingface",
        cross_entropy=case.cross_entropy,
        method=method,
        lora_rank=row.needed("rank") if frozen else 0,
        lora_targets=_targets(row) if frozen else (),
        switches=switches,
    )


def _targets(row: Row) -> tuple[str, ...]:
    words = [word.strip().removesuffix("_proj") for word in row.cell("targets").split(",")]
    if words in (["all"], [""]):
        return LORA_TARGETS
    for word in words:
        Row({"targets": word}).choice("targets", dict.fromkeys(LORA_TARGETS, True))
    return tuple(words)
