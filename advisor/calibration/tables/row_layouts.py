"""The layouts of a table of training runs, with what it leaves open filled in."""

from __future__ import annotations

from math import gcd

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.calibration.tables.reading import Row, cell, choice, flag, integer
from advisor.errors import InputError
from advisor.estimate.training.memory_report import describe_memory
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.efficiency import Calibration
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Schedule, Sharding, most_chunks

SHARDINGS = {sharding.value: sharding for sharding in Sharding} | {
    "": Sharding.DDP,
    "none": Sharding.DDP,
}
OFFLOADS: dict[str, tuple[Offload, ...]] = {"": (), "none": ()} | {
    what.value: (what,) for what in Offload
}
RECOMPUTES = {policy.value: policy for policy in Recompute} | {"": Recompute.NONE}
OPEN_RECOMPUTES = {
    "nemo": (Recompute.NONE, Recompute.SELECTIVE),
    "fsdp": (Recompute.NONE, Recompute.FULL),
}
"""What a framework's recipes recompute where they do not say. NeMo's Megatron Bridge names single
modules (norms, activations, up-projections), keeps 8-bit inputs, and reduces gradients in 16 bits,
so that whole layers need not be computed again; checkpointing of FSDP is of whole layers."""
OVERLAPPING = ("nemo",)
"""Frameworks whose recipes overlap exchanges between experts where stages are virtual (Megatron
Bridge, ``overlap_moe_expert_parallel_comm``, which needs them)."""
INTERLEAVED = ("interleaved_1f1b", 2)
"""Flag of rows that name the interleaved schedule without chunks, and the stages that a rank then
has (torchtitan, ``pipeline_llama``: one, or two where the schedule takes several)."""
OWN_SCHEDULE = "other"
"""Software of the runs' own makers, which has no published default: they interleave as far as the
layers allow (Llama team 2024, arXiv:2407.21783, section 3.3.2). Megatron, torchtitan and FSDP do
not unless they are told to."""


def settled_layout(
    row: Row,
    architecture: ModelArchitecture,
    run: TrainingRun,
    accelerator: Accelerator,
    calibration: Calibration,
) -> ParallelLayout:
    """Fill what a table leaves open as its authors would.

    The least recomputation that fits, and with it the largest micro-batch: no accumulation of
    gradients if none is told of. A pipeline is fed in single sequences.
    """
    layout = _told(row, architecture)
    policies, micro_batches = [layout.recompute], [layout.micro_batch]
    if not cell(row, "recompute") and architecture.unit is Unit.TOKEN:
        policies = list(OPEN_RECOMPUTES.get(cell(row, "framework"), Recompute))
    if not cell(row, "micro_batch") and layout.pipeline == 1:
        rank = max(1, run.global_batch // layout.data)
        micro_batches = [rank // parts for parts in range(1, rank + 1) if rank % parts == 0]
    for policy in policies:
        for micro_batch in micro_batches:
            tried = layout.model_copy(update={"recompute": policy, "micro_batch": micro_batch})
            memory = describe_memory(architecture, run, tried, accelerator, calibration)
            if memory.total_bytes.expected <= memory.usable_bytes:
                return tried
    return layout.model_copy(update={"recompute": policies[-1], "micro_batch": micro_batches[-1]})


def _told(row: Row, architecture: ModelArchitecture) -> ParallelLayout:
    """Return the layout that a row states."""
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
    expert = integer(row, "expert_parallel", 1)
    micro_batch = integer(row, "micro_batch", 1)
    if pipeline > 1 and micro_batch * data >= batch:
        # A pipeline is fed in parts, one for each stage: the row tells the batch of a rank.
        micro_batch = max(1, batch // data // pipeline)
    virtual_stages = _virtual_stages(row, architecture, pipeline)
    expert = expert if (data * context) % expert == 0 else gcd(expert, data * context)
    recompute = choice(row, "recompute", RECOMPUTES)
    overlaps = (
        cell(row, "framework") in OVERLAPPING
        and min(virtual_stages, expert) > 1
        and recompute is not Recompute.FULL
    )
    return ParallelLayout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        sharding=choice(row, "data_sharding", SHARDINGS),
        micro_batch=micro_batch,
        recompute=recompute,
        # Stacks with unfused attention are older than sequence parallelism.
        sequence_parallel=flag(row, "sequence_parallel")
        or (not cell(row, "sequence_parallel") and cell(row, "attention") != "eager"),
        virtual_stages=virtual_stages,
        schedule=Schedule.OVERLAPPED if overlaps else Schedule.PLAIN,
        offload=choice(row, "offload", OFFLOADS),
    )


def _virtual_stages(row: Row, architecture: ModelArchitecture, pipeline: int) -> int:
    """Return the chunks of a stage: stated, or what the software does by itself."""
    if pipeline == 1:
        return 1
    if cell(row, "framework") == OWN_SCHEDULE:
        open_chunks = most_chunks(
            layers=architecture.num_hidden_layers,
            parts=architecture.pipeline_parts,
            pipeline=pipeline,
        )
    else:
        name, chunks = INTERLEAVED
        open_chunks = chunks if name in cell(row, "flags").split(";") else 1
    return integer(row, "virtual_pipeline_stages", open_chunks)


def row_node(row: Row, standard: Node) -> Node:
    """Return the accelerator's standard node with as many accelerators as the row's."""
    count = integer(row, "accelerators_per_node", standard.accelerators)
    total = integer(row, "num_accelerators", 1)
    network = standard.inter_bytes_per_s
    if network is None and total > count:
        count = total
    return standard.model_copy(update={"accelerators": max(1, count)})
