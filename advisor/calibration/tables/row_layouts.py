"""The layouts of a table of training runs, with open settings filled in."""

from itertools import product
from math import gcd

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.calibration.tables.reading import Row, built
from advisor.catalog.nodes import node_for
from advisor.errors import refusal
from advisor.estimate.candidates import Candidates
from advisor.estimate.training.memory_report import describe_memory
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.step_time import training_time
from advisor.foundation.units import GIGABIT_PER_S
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout, Recompute, Schedule, most_chunks
from advisor.nouns.software.efficiency import Calibration

RECOMPUTES = {policy.value: policy for policy in Recompute}
FASTEST = "fastest"
"""Word of the column ``tensor`` for a layout that the row leaves open."""
MOST = "most"
"""Word for the largest number of chunks per stage that the layers allow."""
OPEN = (
    "data",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "micro_batch",
    "virtual_stages",
    "recompute",
    "schedule",
)
"""Fields that are filled here if a row leaves them empty."""


def settled_layout(
    row: Row, run: TrainingRun, accelerator: Accelerator, calibration: Calibration
) -> ParallelLayout:
    """Fill a table's open settings like its authors would.

    The least recomputation that fits, and with it the largest micro-batch: no gradient
    accumulation unless it is stated. A pipeline gets single sequences.
    """
    words = (row.cell("recompute") or Recompute.NONE.value).split(";")
    if row.cell("tensor") == FASTEST:
        return _fastest(row, run, accelerator, calibration)
    policies = [Row({"recompute": word}).choice("recompute", RECOMPUTES) for word in words]
    layout = _told(row, run.architecture, policies[0])
    micro_batches = [layout.micro_batch]
    if not row.cell("micro_batch") and layout.pipeline == 1:
        rank = max(1, run.global_batch // layout.data)
        micro_batches = [rank // parts for parts in range(1, rank + 1) if rank % parts == 0]
    *smaller, last = (
        layout.changed(recompute=policy, micro_batch=micro_batch)
        for policy, micro_batch in product(policies, micro_batches)
    )
    for tried in smaller:
        memory = describe_memory(run, tried, accelerator, calibration)
        if memory.total_bytes.expected <= memory.usable_bytes:
            return tried
    return last


def _fastest(
    row: Row, run: TrainingRun, accelerator: Accelerator, calibration: Calibration
) -> ParallelLayout:
    """Return the fastest layout that fits, for rows whose makers tuned one and told none."""
    count, batch = row.integer("num_accelerators", 1), run.global_batch
    fitting: list[ParallelLayout] = []
    for tensor, pipeline, sharding in product((1, 2, 4, 8), (1, 2, 4, 8, 16), ("zero1", "zero3")):
        cut = tensor * pipeline
        if count % cut or count // cut > batch or (pipeline > 1 and sharding == "zero3"):
            continue
        degrees = {"tensor": str(tensor), "pipeline": str(pipeline), "sharding": sharding}
        tried = settled_layout(row | degrees, run, accelerator, calibration)
        memory = describe_memory(run, tried, accelerator, calibration)
        if memory.total_bytes.expected <= memory.usable_bytes:
            fitting.append(tried)
    if not fitting:
        return settled_layout(row | {"tensor": ""}, run, accelerator, calibration)
    kernels, _ = calibration.kernels_for(accelerator)
    node = row_node(row, node_for(accelerator, None))
    candidates = Candidates.of(fitting, accelerator, node, kernels, compute=run.recipe.compute)
    facts = calibration.software[run.software]
    time = training_time(run, candidates, calibration.network, facts)
    return fitting[int(np.argmin(time.step))]


def _told(row: Row, architecture: ModelArchitecture, recompute: Recompute) -> ParallelLayout:
    """Return the layout that a filled row states."""
    count = row.integer("num_accelerators", 1)
    pipeline = row.integer("pipeline", 1)
    context = row.integer("context", 1)
    batch = row.integer("global_batch", count)
    # If the table leaves the degree open, there are at most as many ranks as sequences of a batch.
    tensor = row.integer("tensor", min(8, max(1, -(-count // batch))))
    data = row.integer("data", max(1, count // (tensor * pipeline * context)))
    if count != data * tensor * pipeline * context:
        raise refusal("row_layout_uneven", value=f"{count} / {tensor * pipeline * context}")
    micro_batch = row.integer("micro_batch", 1)
    if pipeline > 1 and micro_batch * data >= batch:
        # A pipeline gets one part per stage: the row states the batch of a rank.
        micro_batch = max(1, batch // data // pipeline)
    expert = gcd(row.integer("expert", 1), data * context)
    schedule = row.cell("schedule") or Schedule.PLAIN
    return built(
        ParallelLayout,
        row.stated(ParallelLayout, leave=OPEN)
        | {
            "data": data,
            "tensor": tensor,
            "pipeline": pipeline,
            "context": context,
            "expert": expert,
            "micro_batch": micro_batch,
            "recompute": recompute,
            "virtual_stages": _virtual_stages(row, architecture, pipeline),
            # Without expert parallelism, there is no exchange between experts.
            "schedule": Schedule.PLAIN
            if expert == 1 and schedule == Schedule.OVERLAPPED
            else schedule,
        },
    )


def _virtual_stages(row: Row, architecture: ModelArchitecture, pipeline: int) -> int:
    """Return the chunks of a stage: the stated number, or as many as the layers allow."""
    if pipeline == 1:
        return 1
    if row.cell("virtual_stages") == MOST:
        return most_chunks(
            layers=architecture.num_hidden_layers,
            parts=architecture.pipeline_parts,
            pipeline=pipeline,
        )
    return row.integer("virtual_stages", 1)


def row_node(row: Row, standard: Node) -> Node:
    """Return the accelerator's standard node with the row's number of accelerators and network."""
    count = row.integer("accelerators_per_node", standard.accelerators)
    total = row.integer("num_accelerators", 1)
    told = row.number("network_gbit_per_s")
    network = told * GIGABIT_PER_S / max(1, count) if told else standard.inter_bytes_per_s
    if network is None and total > count:
        count = total
    launch_us = row.number("host_launch_us")
    return standard.changed(
        accelerators=max(1, count),
        inter_bytes_per_s=network,
        launch_s=None if launch_us is None else launch_us * 1e-6,
    )
