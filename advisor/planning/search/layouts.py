"""Every layout to try on a number of accelerators, as arrays."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.estimate.candidates import (
    OFFLOAD_BITS,
    SCHEDULE_LEVEL,
    SHARDING_LEVEL,
    Floats,
    LayoutArrays,
)
from advisor.estimate.host_memory import offloads
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Schedule, Sharding, most_chunks
from advisor.nouns.software.stacks import DEGREES
from advisor.nouns.software.tool_offers import TrainingOffer
from advisor.nouns.training_choices import FineTuningMethod
from advisor.planning.search.simple import complexity

TENSOR_DEGREES = (1, 2, 4, 8)
PIPELINE_DEGREES = (1, 2, 4, 8, 16)
MOST_STAGES = 64
"""Up to here stages are also tried that share the layers evenly, or the layers with embedding and
head: 35 of 105 layers (MT-NLG 530B, arXiv:2201.11990), 12 of 70 (BLOOM, arXiv:2211.05100), 64 of
128 (Megatron 1T, arXiv:2104.04473)."""
CONTEXT_DEGREES = (1, 2, 4, 8)
EXPERT_DEGREES = (1, 2, 4, 8, 32)
WIDE_EXPERT_DEGREES = (1, 4, 8, 16, 32, 64, 128, 256)
"""Of models with many experts: DeepSeek-V3 trains over 64 ranks (arXiv:2412.19437, 3.2)."""
MANY_EXPERTS = 64
WIDE_FROM = 8
"""Ranks from which many experts are spread over at least as many, or not at all."""
MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
MICRO_BATCH_TOKENS = 131_072
SHORT_SEQUENCE = 128
"""Of short sequences more are tried: up to these tokens, as of sequences of at least this."""
SAMPLE_MICRO_BATCHES = tuple(2**power for power in range(12))
"""Images are smaller than sequences of thousands of tokens."""
CONTEXT_FROM_TOKENS = 16_384
"""Sequences from this length on are split over any number of context-parallel ranks."""
CONTEXT_CHUNK_TOKENS = 4_096
"""Shorter ones only into chunks of at least this length."""
RECOMPUTE_LEVELS: Final = len(Recompute)
FULL_STATES_BYTES: Final = 16.0
"""Weights, gradients and states of one parameter in mixed precision (Rajbhandari et al. 2020,
arXiv:1910.02054, section 3.1). [bytes]"""
SMALL_STATES_BYTES: Final = 4e9
"""Up to here DDP alone is tried: sharing so little out saves no card. PyTorch advises DDP for a
model that fits one (docs.pytorch.org, PyTorch Distributed Overview; recalled). [bytes]"""
LARGE_STATES_BYTES: Final = 512e9
"""From here on no rank holds them whole, nor half of them under ZeRO-2. [bytes]"""
WHOLE: Final = SHARDING_LEVEL[Sharding.ZERO3]
OVERLAPPED: Final = SCHEDULE_LEVEL[Schedule.OVERLAPPED]
DUAL: Final = SCHEDULE_LEVEL[Schedule.DUALPIPE]

Stated = Mapping[str, int]
"""Fields of ``LayoutArrays`` that the case states, with their values."""


def stated_values(layout: ParallelLayout | None) -> Stated:
    """Return the stated fields of a case's layout as numbers.

    >>> stated_values(ParallelLayout(tensor=4, sharding="zero1"))
    {'tensor': 4, 'sharding': 1}
    """
    if layout is None:
        return {}
    arrays = LayoutArrays.of(layout)
    return {
        name: int(getattr(arrays, name)[0])
        for name in type(layout).model_fields
        if layout.states(name) and np.isfinite(getattr(arrays, name)[0])
    }


@record
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
    complexity: Floats
    """Points of each row (``simple.complexity``): the fewer, the simpler."""


def _degrees(
    run: TrainingRun, count: int, stated: Stated
) -> Iterator[tuple[int, int, int, int, int]]:
    model = run.architecture
    heads = model.num_attention_heads
    many = model.num_experts >= MANY_EXPERTS
    wide = WIDE_EXPERT_DEGREES if many else EXPERT_DEGREES
    # Only data parallelism divides networks that take whole images or samples.
    offered = run.divides if model.unit is Unit.TOKEN else ()

    def tried(name: str, degrees: Iterable[int]) -> tuple[int, ...]:
        return (stated[name],) if name in stated else tuple(degrees)

    contexts = tried(
        "context",
        (
            degree
            for degree in (CONTEXT_DEGREES if "context" in run.divides else (1,))
            if worth_splitting(run, degree)
        ),
    )
    experts = tried("expert", wide if model.num_experts > 1 and "expert" in offered else (1,))
    stages = tried("pipeline", _stages(model) if "pipeline" in offered else (1,))
    for tensor in tried("tensor", TENSOR_DEGREES if "tensor" in offered else (1,)):
        if count % tensor or heads % tensor:
            continue
        for pipeline in stages:
            if count % (tensor * pipeline) or pipeline > model.pipeline_parts:
                continue
            for context in contexts:
                rest = count // (tensor * pipeline)
                if rest % context:
                    continue
                data = rest // context
                if data > run.global_batch or data != stated.get("data", data):
                    continue
                for expert in experts:
                    if rest % expert or model.num_experts % expert:
                        continue
                    # Many experts are spread if there are enough ranks.
                    if 1 < expert < WIDE_FROM < rest and many and "expert" not in stated:
                        continue
                    yield tensor, pipeline, context, data, expert


def offered(grid: LayoutGrid, offer: TrainingOffer, *, four_bit: bool) -> NDArray[np.bool_]:
    """Return which layouts a tool offers: recompute policies x rows of the grid."""
    rows = grid.layouts.take(slice(0, grid.rows))
    sharding = rows.sharding.astype(np.intp)

    def among(found: Iterable[Sharding]) -> NDArray[np.bool_]:
        taken = {*found}
        return np.array([one in taken for one in Sharding])[sharding]

    able = among(offer.shardings(four_bit=four_bit))
    for name in DEGREES:
        if name not in offer.divides:
            able &= getattr(rows, name) == 1
    if offer.context:
        able &= (rows.context == 1) | among(offer.context.sharding)
    for what in Offload:
        whole = what is not Offload.PARAMETERS or offer.hosts_parameters(four_bit=four_bit)
        if what not in offer.offloads or not whole:
            able &= ~offloads(rows, what)
    if not offer.hosts_lone_base:
        able &= ~offloads(rows, Offload.PARAMETERS) | (rows.accelerators > 1)
    if offer.cards:
        able &= rows.accelerators <= offer.cards
    policies = np.array([policy in offer.recompute for policy in Recompute])
    return np.asarray(policies[:, None] & able)


def worth_splitting(run: TrainingRun, context: int) -> bool:
    """Return whether sequences are long enough for this context-parallel degree."""
    enough = min(CONTEXT_FROM_TOKENS, context * CONTEXT_CHUNK_TOKENS)
    return context == 1 or run.sequence_length >= enough


def micro_batches_fed(run: TrainingRun, *, data: int, micro_batch: int) -> int:
    """Return the micro-batches that a rank takes in one step.

    The interleaved schedule runs them in groups of as many as stages.
    """
    return -(-run.global_batch // (micro_batch * data))


def _stages(architecture: ModelArchitecture) -> tuple[int, ...]:
    """Return the pipeline degrees to try."""
    layers, parts = architecture.num_hidden_layers, architecture.pipeline_parts
    even = (p for p in range(1, MOST_STAGES + 1) if layers % p == 0 or parts % p == 0)
    return tuple(sorted(p for p in {*PIPELINE_DEGREES, *even} if p <= layers))


def _micro_batches(run: TrainingRun, data: int, stated: Stated) -> list[int]:
    """Return the micro-batches to try: powers of two, and divisors of a rank's batch."""
    whole, rest = divmod(run.global_batch, data)
    if "micro_batch" in stated:
        return [size for size in (stated["micro_batch"],) if size <= whole]
    if run.switches.update_in_backward:  # what accumulates has no update of its own
        return [whole] if whole and not rest else []
    if run.architecture.unit is Unit.TOKEN:
        powers = MICRO_BATCHES
        most = max(powers[-1], MICRO_BATCH_TOKENS // max(run.sequence_length, SHORT_SEQUENCE))
    else:
        powers = SAMPLE_MICRO_BATCHES
        most = powers[-1]
    even = set() if rest else {n for n in range(1, min(whole, most) + 1) if whole % n == 0}
    return sorted({1, *even, *(n for n in powers if n <= whole)})


def _moved(run: TrainingRun, stated: Stated, *, hosted: bool) -> tuple[int, ...]:
    """Return what to keep in the host's memory, step by step: optimizer states come first."""
    if "offload" in stated:
        return (stated["offload"],) if hosted == (stated["offload"] > 0) else ()
    if not hosted:
        return (0,)
    if not run.offloads:
        return ()
    order = list(Offload)[1:] if run.frozen else list(Offload)
    bits = [int(OFFLOAD_BITS[what]) for what in order]
    steps = tuple(sum(bits[: place + 1]) for place in range(len(bits)))
    if run.method is FineTuningMethod.QLORA:  # whose weights may have to stay
        return (int(OFFLOAD_BITS[Offload.ACTIVATIONS]), *steps)
    return steps


def _levels(
    states: float,
    frozen: bool,
    shardings: tuple[tuple[Sharding, ...], ...],
    degrees: tuple[int, int, int, int, int],
    stated: Stated,
) -> tuple[int, ...]:
    """Return the levels of sharding to try that software offers, for ``states`` bytes of model.

    ZeRO-1 never costs more than DDP, and ZeRO-3 never takes less time than ZeRO-1; DDP and ZeRO-2
    are tried because they are simpler, where nothing else divides the model.
    """
    tensor, pipeline, context, data, expert = degrees
    if "sharding" in stated:
        return (stated["sharding"],)
    if frozen or data * context == 1:
        levels: tuple[int, ...] = (0, WHOLE)
    elif states <= SMALL_STATES_BYTES:
        levels = (0,)
    elif tensor * pipeline * context * expert > 1 or states > LARGE_STATES_BYTES:
        levels = (1, WHOLE)
    else:
        levels = (0, 1, 2, WHOLE)
    levels = levels if pipeline == 1 < data * context else levels[:1]
    return _offered_levels(shardings, levels)


@cache
def _offered_levels(
    shardings: tuple[tuple[Sharding, ...], ...], levels: tuple[int, ...]
) -> tuple[int, ...]:
    """Return those of some levels that tools offer; the first falls back to DDP."""
    able = [{SHARDING_LEVEL[level] for level in one} for one in shardings]
    found = {level for one in able for level in levels if level in one}
    return tuple(sorted(found | {0 for one in able if levels[0] not in one}))


def _chunks(architecture: ModelArchitecture, pipeline: int, stated: Stated) -> tuple[int, ...]:
    """Return the virtual stages to try.

    More of them mean less idle time and memory, and hidden messages: try none, the most, and, where
    those hold a single layer, half of them, which hold two.
    """
    layers, parts = architecture.num_hidden_layers, architecture.pipeline_parts
    if "virtual_stages" in stated:
        possible = pipeline * stated["virtual_stages"] <= (1 if pipeline == 1 else parts)
        return (stated["virtual_stages"],) if possible else ()
    if pipeline == 1:
        return (1,)
    most = most_chunks(layers=layers, parts=parts, pipeline=pipeline)
    if pipeline * most < layers or most == 1:
        return tuple({1, most})
    return tuple(sorted({1, most if most % 2 else most // 2, most}))


def _schedules(
    pipeline: int, expert: int, fed: int, virtual_stages: int, stated: Stated, *, overlapping: bool
) -> tuple[int, ...]:
    """Return the schedules to try: an overlapped one needs more memory, so both are."""
    beside = expert > 1 and fed > 1 and (pipeline == 1 or virtual_stages > 1)
    possible = {0, OVERLAPPED} if beside else {0}
    if "schedule" not in stated:
        return (0, OVERLAPPED) if overlapping and beside else (0,)
    if pipeline % 2 == 0 and virtual_stages == 1:
        possible.add(DUAL)
    return tuple(possible & {stated["schedule"]})


def _choices(
    run: TrainingRun,
    degrees: tuple[int, int, int, int, int],
    levels: Iterable[int],
    stated: Stated,
    *,
    hosted: bool,
    overlapping: bool,
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield sharding level, micro-batch, virtual stages, offload and schedule to try."""
    _, pipeline, _, data, expert = degrees
    moved = _moved(run, stated, hosted=hosted)
    parameters = int(OFFLOAD_BITS[Offload.PARAMETERS])
    chunks = _chunks(run.architecture, pipeline, stated)
    for micro_batch in _micro_batches(run, data, stated):
        fed = micro_batches_fed(run, data=data, micro_batch=micro_batch)
        for virtual_stages in chunks:
            if virtual_stages > 1 and fed % pipeline:
                continue
            schedules = _schedules(
                pipeline, expert, fed, virtual_stages, stated, overlapping=overlapping
            )
            for level, offload, schedule in product(levels, moved, schedules):
                # FSDP moves 4-bit weights to the host, over two ranks or more; ZeRO takes 16 bits.
                if offload & parameters and level < WHOLE and (data > 1 or run.four_bit):
                    continue
                if schedule and level == WHOLE and "sharding" not in stated:
                    continue
                yield level, micro_batch, virtual_stages, offload, schedule


COLUMNS: Final = (
    *("data", "tensor", "pipeline", "context", "expert"),
    *("sharding", "micro_batch", "virtual_stages", "offload", "schedule"),
)
"""Of :func:`_table`, after the count."""


def _table(
    run: TrainingRun, counts: Iterable[int], stated: Stated, *, hosted: bool, overlapping: bool
) -> Floats:
    """Return a row for each layout: count, then ``COLUMNS``."""
    states = FULL_STATES_BYTES * run.architecture.total_parameters
    frozen, shardings = run.frozen, run.shardings
    known: dict[tuple[object, ...], Floats] = {}
    outer, inner = [], [np.empty((0, 5))]
    for count in counts:
        for degrees in _degrees(run, count, stated):
            tensor, pipeline, context, data, expert = degrees
            levels = _levels(states, frozen, shardings, degrees, stated)
            # Of the degrees, only these decide the choices.
            key = data, pipeline, expert > 1, levels
            if key not in known:
                choices = _choices(
                    run, degrees, levels, stated, hosted=hosted, overlapping=overlapping
                )
                known[key] = np.array(list(choices), dtype=np.float64).reshape(-1, 5)
            outer.append((count, data, tensor, pipeline, context, expert))
            inner.append(known[key])
    sizes = [len(rows) for rows in inner[1:]]
    fixed = np.array(outer, dtype=np.float64).reshape(-1, 6)
    return np.hstack([np.repeat(fixed, sizes, axis=0), np.concatenate(inner)])


def layout_grid(
    run: TrainingRun,
    counts: Iterable[int],
    *,
    stated: Stated | None = None,
    hosted: bool = False,
    overlapping: bool = False,
) -> LayoutGrid:
    """Return all layouts of ``counts`` accelerators.

    ``stated``: fields that keep one value; the others are searched. ``hosted``: only layouts that
    use the host's memory, instead of those that do not. ``overlapping``: whether the software can
    run exchanges between experts beside computation (``1f1b_overlapped``); from both ends
    (``dualpipe``) none of the stacks can.
    """
    ordered, stated = sorted(set(counts)), stated or {}
    table = _table(run, ordered, stated, hosted=hosted, overlapping=overlapping)
    rows = len(table)
    count = table[:, 0]
    edges = np.searchsorted(count, [*ordered, np.inf])
    start = {n: (int(edges[i]), int(edges[i + 1])) for i, n in enumerate(ordered)}
    tripled = np.tile(table.T, RECOMPUTE_LEVELS)
    recompute = np.repeat(np.arange(RECOMPUTE_LEVELS, dtype=np.float64), rows)
    layouts = LayoutArrays(
        **dict(zip(COLUMNS, tripled[1:], strict=True)),
        recompute=recompute,
        sequence_parallel=np.full(len(recompute), stated.get("sequence_parallel", 1.0)),
        gpu_layers=np.full(RECOMPUTE_LEVELS * rows, np.inf),
        cpu_expert_layers=np.zeros(RECOMPUTE_LEVELS * rows),
    )
    return LayoutGrid(
        rows=rows,
        count=count,
        tensor=table[:, 2],
        start=start,
        layouts=layouts,
        complexity=complexity(
            layouts.take(slice(0, rows)), layers=run.architecture.num_hidden_layers
        ),
    )
