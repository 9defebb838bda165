"""Every layout worth trying on a number of accelerators, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.sample import Unit
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.run import TrainingRun

TENSOR_DEGREES = (1, 2, 4, 8)
PIPELINE_DEGREES = (1, 2, 4, 8, 16)
CONTEXT_DEGREES = (1, 2, 4, 8)
EXPERT_DEGREES = (1, 2, 4, 8, 32)
WIDE_EXPERT_DEGREES = (1, 8, 32, 64, 128, 256)
"""Of models with many experts: DeepSeek-V3 trains over 64 ranks (arXiv:2412.19437, 3.2)."""
MANY_EXPERTS = 64
VIRTUAL_STAGES = (1, 2, 4, 8)
MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
SAMPLE_MICRO_BATCHES = (*MICRO_BATCHES, 64, 128, 256, 512)
"""Images are smaller than sequences of thousands of tokens."""
CONTEXT_FROM_TOKENS = 16_384
"""Sequences from this length on are split over any number of context-parallel ranks."""
CONTEXT_CHUNK_TOKENS = 4_096
"""Shorter ones only into chunks of at least this length."""
RECOMPUTE_LEVELS = 3


@dataclass(frozen=True, slots=True)
class LayoutGrid:
    """Layouts for several counts, ordered by count.

    Each row stands for three recompute policies; ``layouts`` holds them as three blocks one
    after the other (none, selective, full), each with the rows in the same order.
    """

    rows: int
    count: Floats
    tensor: Floats
    start: dict[int, tuple[int, int]]
    """Count -> first row and end."""
    layouts: LayoutArrays


def _degrees(
    architecture: ModelArchitecture, run: TrainingRun, count: int
) -> Iterator[tuple[int, int, int, int, int, int]]:
    heads, layers = architecture.num_attention_heads, architecture.num_hidden_layers
    contexts = [
        degree
        for degree in CONTEXT_DEGREES
        if degree == 1
        or run.sequence_length >= CONTEXT_FROM_TOKENS
        or run.sequence_length >= degree * CONTEXT_CHUNK_TOKENS
    ]
    many = architecture.num_experts >= MANY_EXPERTS
    wide = WIDE_EXPERT_DEGREES if many else EXPERT_DEGREES
    experts = wide if architecture.num_experts > 1 else (1,)
    # What takes whole images or samples is divided over data alone.
    divided = architecture.unit is Unit.TOKEN
    for tensor in TENSOR_DEGREES if divided else (1,):
        if count % tensor or heads % tensor:
            continue
        for pipeline in PIPELINE_DEGREES if divided else (1,):
            if count % (tensor * pipeline) or pipeline > layers:
                continue
            for context in contexts:
                rest = count // (tensor * pipeline)
                if rest % context:
                    continue
                data = rest // context
                if data > run.global_batch:
                    continue
                for expert in experts:
                    if rest % expert or architecture.num_experts % expert:
                        continue
                    yield tensor, pipeline, context, data, expert, count


def _rows(
    architecture: ModelArchitecture, run: TrainingRun, counts: Iterable[int]
) -> Iterator[tuple[int, ...]]:
    layers = architecture.num_hidden_layers
    micro_batches = MICRO_BATCHES if architecture.unit is Unit.TOKEN else SAMPLE_MICRO_BATCHES
    for count in counts:
        for tensor, pipeline, context, data, expert, _ in _degrees(architecture, run, count):
            # ZeRO-1 never costs more than DDP, and ZeRO-3 never less time than ZeRO-1.
            if data * context == 1:
                levels: tuple[int, ...] = (0,)
            elif run.frozen:
                levels = (0, 3) if pipeline == 1 else (0,)
            else:
                levels = (1, 3) if pipeline == 1 else (1,)
            # Most chunks that leave the fullest stage no fuller: the shortest bubble.
            fullest = -(-layers // pipeline)
            virtual = max(
                v
                for v in VIRTUAL_STAGES
                if v == 1 or (pipeline > 1 and v * pipeline <= layers)
                if v * -(-layers // (pipeline * v)) <= fullest
            )
            for virtual_stages in sorted({1, virtual}):
                for micro_batch in micro_batches:
                    if micro_batch > 1 and micro_batch * data > run.global_batch:
                        break
                    for level in levels:
                        yield (
                            count,
                            data,
                            tensor,
                            pipeline,
                            context,
                            expert,
                            level,
                            micro_batch,
                            virtual_stages,
                        )


def layout_grid(
    architecture: ModelArchitecture, run: TrainingRun, counts: Iterable[int]
) -> LayoutGrid:
    """Return all layouts of ``counts`` accelerators.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    counts : iterable of int
        Numbers of accelerators.

    Returns
    -------
    LayoutGrid
    """
    ordered = sorted(set(counts))
    table = np.array(list(_rows(architecture, run, ordered)), dtype=np.float64).reshape(-1, 9)
    rows = len(table)
    count = table[:, 0]
    edges = np.searchsorted(count, [*ordered, np.inf])
    start = {n: (int(edges[i]), int(edges[i + 1])) for i, n in enumerate(ordered)}
    tripled = np.tile(table, (RECOMPUTE_LEVELS, 1))
    recompute = np.repeat(np.arange(RECOMPUTE_LEVELS, dtype=np.float64), rows)
    return LayoutGrid(
        rows=rows,
        count=count,
        tensor=table[:, 2],
        start=start,
        layouts=LayoutArrays(
            data=tripled[:, 1],
            tensor=tripled[:, 2],
            pipeline=tripled[:, 3],
            context=tripled[:, 4],
            expert=tripled[:, 5],
            sharding=tripled[:, 6],
            micro_batch=tripled[:, 7],
            recompute=recompute,
            sequence_parallel=np.ones(RECOMPUTE_LEVELS * rows),
            virtual_stages=tripled[:, 8],
            offload=np.zeros(RECOMPUTE_LEVELS * rows),
            schedule=np.zeros(RECOMPUTE_LEVELS * rows),
        ),
    )
