"""Replicas of a server: every way to divide accelerators, and the fewest machines that do."""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.resolved_case import ResolvedCase
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.layouts import Stated
from advisor.planning.search.options import Option, Price, priced_options, within_limits
from advisor.planning.search.systems import System
from advisor.planning.search.training import search_training, with_range
from advisor.planning.time_ranges import TimeSpreads

TRIED_AT_ONCE = 7
"""How many numbers between two known ones each round tries."""
REPLICAS_AT_ONCE = 31
"""The same of replicas: few of them leave each another number of requests."""


def _between(too_few: int, enough: int, most: int = TRIED_AT_ONCE) -> list[int]:
    """Return the numbers to try next, evenly between the two."""
    gap, parts = enough - too_few, most + 1
    return sorted({too_few + gap * part // parts for part in range(1, parts)} - {too_few, enough})


@dataclass(slots=True)
class _Between:
    """A number of machines that is too small, and an option with the smallest known enough."""

    too_few: int
    enough: Option
    machine: int
    """Accelerators in one."""

    @property
    def tried(self) -> list[int]:
        """Numbers of accelerators to try next, evenly between the two."""
        most = self.enough.count // self.machine
        return [number * self.machine for number in _between(self.too_few, most)]

    def close(self, meeting: Sequence[Option]) -> None:
        """Narrow the gap by those of the tried numbers that meet the limits."""
        tried = self.tried
        self.enough = min(meeting, key=lambda option: option.count, default=self.enough)
        missed = [count for count in tried if count < self.enough.count]
        self.too_few = max([self.too_few, *(count // self.machine for count in missed)])


def fewest_machines(
    options: Sequence[Option],
    systems: Sequence[System],
    prices: Sequence[Price],
    spreads: TimeSpreads,
    asked: ResolvedCase,
) -> list[Option]:
    """Close the gap between the searched numbers: one machine fewer misses the limits.

    In the order of ``options``.

    ``options``: of each accelerator, the fewest of the searched numbers that meet the limits.

    A number that does not divide the batch can be slower than a smaller one, so fewer machines may
    meet the limits somewhere below a number that misses them; such islands are not looked for.
    """
    case, calibration = asked.case, asked.calibration
    gaps = [_gap(option, systems[option.system]) for option in options]
    hosted = any(option.layout.offload for option in options)
    for run in {id(gap.enough.run): gap.enough.run for gap in gaps}.values():
        if run is None:
            continue
        open_gaps = [gap for gap in gaps if gap.enough.run is run and gap.tried]
        while open_gaps:
            tried = [
                replace(systems[gap.enough.system], counts=tuple(gap.tried)) for gap in open_gaps
            ]
            counts = {count for system in tried for count in system.counts}
            space = LayoutSpace(run, counts, calibration, stated=case.layout, hosted=hosted)
            deadline = case.limits.deadline_hours or np.inf
            found = search_training(run, tried, space, calibration, deadline_hours=deadline).found
            places = [item.system for item in found]
            for place, item in zip(places, found, strict=True):
                known = open_gaps[place].enough
                with_range(item, known.system, tried[place], run, spreads, proven=known.proven)
            priced_options(found, prices)
            for place, gap in enumerate(open_gaps):
                own = (option for at, option in zip(places, found, strict=True) if at == place)
                gap.close(within_limits(own, case.limits))
            open_gaps = [gap for gap in open_gaps if gap.tried]
    return [gap.enough for gap in gaps]


def _gap(option: Option, system: System) -> _Between:
    machine = 1 if system.owned else system.node.accelerators
    below = max((count for count in system.counts if count < option.count), default=0)
    return _Between(below // machine, option, machine)


Table = NDArray[np.intp]
"""Columns: system, count, replicas, tensor, pipeline, expert, layers on the cards, layers whose
experts the host holds."""

TENSOR_DEGREES = (1, 2, 4, 8, 16)
PIPELINE_DEGREES = (1, 2, 4)
LAYER_DEGREES = (1, 2, 3, 4, 5, 6, 7, 8)
"""Cards among which an engine divides whole layers."""
ALL_LAYERS = 2**31
"""More layers than a model has."""
WIDE_EXPERTS = 8
"""Experts are kept whole, spread over one machine of this size, or over all replicas."""


def replica_table(
    architecture: ModelArchitecture,
    systems: Sequence[System],
    concurrency: int,
    stated: Stated,
    *,
    by_layers: bool,
    hosted: bool,
    spares: int = 0,
) -> Table:
    """Return every way to divide every number of accelerators into equal replicas.

    A replica answers at least one request at a time. If the replicas leave accelerators of the
    last instance idle, the count is the number of accelerators in use. Degrees in ``stated`` keep
    their values.

    ``by_layers``: the engine divides a model by whole layers alone. ``hosted``: the host's memory
    holds some layers or experts. ``spares``: replicas that stay beyond those of the row, on
    accelerators of the same count.
    """
    asked = _Asked(
        architecture.generates,
        architecture.num_attention_heads,
        architecture.num_hidden_layers,
        architecture.num_experts,
        concurrency,
        tuple(sorted(stated.items())),
        _parts(architecture, stated, hosted=hosted),
        by_layers,
        spares,
    )
    tables = [np.empty((0, 7), dtype=np.intp)]
    for system in systems:
        reach = max(system.node.accelerators, system.node.intra_domain)
        # Without a network, one replica stays on one machine. So it does under llama.cpp, whose
        # link between machines is a fragile proof of concept (its tools/rpc/README.md).
        alone = by_layers or system.node.inter_bytes_per_s is None
        span = reach if alone else np.inf
        ways = tuple(system.divides(degree) for degree in ("tensor", "pipeline", "expert"))
        machine = system.node.accelerators
        tables.append(_divisions(asked, system.counts, machine, reach, span, ways))
    index = np.repeat(np.arange(len(tables)) - 1, [len(rows) for rows in tables])
    return np.column_stack([index, np.vstack(tables)])


class _Asked(NamedTuple):
    """What decides, beside the machine, how replicas divide accelerators."""

    divided: bool
    """Whether layers and their matrices are divided."""
    heads: int
    layers: int
    experts: int
    concurrency: int
    stated: tuple[tuple[str, int], ...]
    parts: tuple[tuple[int, int], ...]
    by_layers: bool
    spares: int


@functools.lru_cache(maxsize=1024)
def _divisions(
    asked: _Asked,
    counts: tuple[int, ...],
    machine: int,
    reach: int,
    span: float,
    ways: tuple[bool, ...],
) -> Table:
    """Return the rows of one kind of machine, without its place."""
    stated, spares = dict(asked.stated), asked.spares
    heads, concurrency = asked.heads, asked.concurrency
    tensors = TENSOR_DEGREES if not asked.by_layers and asked.divided and ways[0] else (1,)
    by_stages = PIPELINE_DEGREES if not asked.by_layers else LAYER_DEGREES
    pipelines = by_stages if asked.divided and ways[1] else (1,)

    def tried(name: str, degrees: Iterable[int]) -> Iterable[int]:
        return (stated[name],) if name in stated else degrees

    rows: set[tuple[int, ...]] = set()
    for count in counts:
        for tensor in tried("tensor", tensors):
            if heads % tensor or (tensor > reach and "tensor" not in stated):
                continue
            for pipeline in tried("pipeline", pipelines):
                replica = tensor * pipeline
                if pipeline > asked.layers or replica > span:
                    continue
                most = min(count // replica // (1 + spares), concurrency)
                spread = {1, min(WIDE_EXPERTS, most), most} - {0}
                for expert in tried("expert", spread if ways[2] else (1,)):
                    replicas = min(count // replica - spares * expert, concurrency)
                    rented = (replicas + spares * expert) * replica
                    if (
                        replicas >= 1
                        and replicas == stated.get("data", replicas)
                        and rented > max(0, count - machine)
                        and replicas % expert == 0
                        and asked.experts % expert == 0
                        and expert * replica <= span
                    ):
                        row = (replicas * replica, replicas, tensor, pipeline, expert)
                        rows.update((*row, *part) for part in asked.parts)
    table = np.array(sorted(rows), dtype=np.intp).reshape(-1, 7)
    table.flags.writeable = False
    return table


def _parts(
    architecture: ModelArchitecture, stated: Stated, *, hosted: bool
) -> tuple[tuple[int, int], ...]:
    """Return layers on the cards, and layers whose experts the host holds, to try.

    Experts move to the host first, which reads few of them for each token, then whole layers. The
    engine of these files may also hold all of a model on the cards where no other can.
    """
    layers = architecture.num_hidden_layers
    whole, experts = stated.get("gpu_layers"), stated.get("cpu_expert_layers")
    if whole is not None or experts is not None or not hosted:
        return ((ALL_LAYERS if whole is None else whole, experts or 0),)
    routed = layers if architecture.num_experts > 1 else 0
    by_experts = [(ALL_LAYERS, moved) for moved in range(routed + 1)]
    return (*by_experts, *((kept, routed) for kept in range(layers, -1, -1)))


@dataclass(slots=True)
class _Gap:
    """A layout of a replica with instances that are too few, and instances that are enough."""

    row: tuple[int, ...]
    """Of the table: the smallest known number of replicas that is enough."""
    too_few: int
    enough: int
    per_instance: int
    usd: float
    """Highest price of an instance. [USD/h]"""
    kind: Hashable
    moved: bool = False

    def row_of(self, instances: int, concurrency: int, spares: int) -> tuple[int, ...] | None:
        """Return the row with all replicas that some instances hold."""
        system, _, _, tensor, pipeline, expert, *parts = self.row
        held = instances * self.per_instance // (tensor * pipeline)
        replicas = min(held - spares * expert, concurrency)
        replicas -= replicas % expert
        if replicas < 1:
            return None
        used = replicas * tensor * pipeline
        return (system, used, replicas, tensor, pipeline, expert, *parts)

    def close(self, met: dict[int, tuple[int, ...]], spares: int) -> None:
        """Narrow the gap by the tried numbers of instances that are enough, with their rows."""
        tried = _between(self.too_few, self.enough, REPLICAS_AT_ONCE)
        if met:
            self.row, self.moved = met[min(met)], True
            cards = self.row[1] + spares * self.row[3] * self.row[4] * self.row[5]
            self.enough = -(-cards // self.per_instance)
        missed = [number for number in tried if number < min(met, default=self.enough)]
        self.too_few = max([self.too_few, *missed])


def fewest_replicas(
    table: Table,
    enough: NDArray[np.bool_],
    systems: Sequence[System],
    prices: Sequence[Price],
    concurrency: int,
    judge: Callable[[Table], NDArray[np.bool_]],
    spares: int = 0,
    *,
    kinds: Sequence[Hashable],
) -> Table:
    """Close the gap between the searched numbers: one instance fewer misses a limit.

    Only layouts that can still be the cheapest of their kind are followed. Experts that are
    spread over all replicas keep the searched numbers.

    The rows that were found beside those of ``table``.

    ``enough``: rows that fit and meet the latency targets. ``judge``: the same for other rows.
    ``spares``: replicas that stay beyond those of a row. ``kinds``: accelerator and formats of each
    system.
    """
    gaps, least = _gaps(table, enough, systems, prices, spares, kinds)
    while True:
        open_gaps = [
            gap
            for gap in gaps
            if gap.enough - gap.too_few > 1 and gap.usd * (gap.too_few + 1) < least[gap.kind]
        ]
        if not open_gaps:
            found = [gap.row for gap in gaps if gap.moved]
            return np.array(found, dtype=np.intp).reshape(-1, table.shape[1])

        rows = [
            (gap, number, row)
            for gap in open_gaps
            for number in _between(gap.too_few, gap.enough, REPLICAS_AT_ONCE)
            if (row := gap.row_of(number, concurrency, spares))
        ]
        asked = np.array([row for _, _, row in rows], dtype=np.intp)
        judged = judge(asked).tolist() if rows else []
        enough_by: dict[int, dict[int, tuple[int, ...]]] = {}
        for (gap, number, row), met in zip(rows, judged, strict=True):
            if met:
                enough_by.setdefault(id(gap), {})[number] = row
        for gap in open_gaps:
            gap.close(enough_by.get(id(gap), {}), spares)
            least[gap.kind] = min(least[gap.kind], gap.usd * gap.enough)


def _gaps(
    table: Table,
    enough: NDArray[np.bool_],
    systems: Sequence[System],
    prices: Sequence[Price],
    spares: int,
    kinds: Sequence[Hashable],
) -> tuple[list[_Gap], dict[Hashable, float]]:
    """Return the layouts of a replica that fewer instances might suffice for.

    Those that could still be the cheapest of their kind, and the least price of the searched
    numbers by kind. [USD/h]
    """
    rented = np.array([not system.owned for system in systems])
    followed = rented[table[:, 0]] & ((table[:, 5] == 1) | (table[:, 5] < table[:, 2]))
    table, enough = table[followed], enough[followed]
    if not enough.any():
        return [], {}
    order = np.lexsort((table[:, 1], *table[:, :2:-1].T, table[:, 0]))
    table, enough = table[order], enough[order]
    keys = np.delete(table, (1, 2), axis=1)
    starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)])
    places = np.arange(len(table))
    first = np.minimum.reduceat(np.where(enough, places, len(table)), starts)
    ends = np.r_[starts[1:], len(table)]
    held = first < ends
    starts, first = starts[held], first[held]
    index, spare = table[first, 0], spares * table[first, 3:6].prod(axis=1)
    used = table[first, 1] + spare
    below = np.where(first > starts, table[first - 1, 1] + spare, 0)
    per_instance = np.array([system.node.accelerators for system in systems])[index]
    usd = np.array([price.usd_per_hour * price.factor for price in prices])[index]
    too_few, instances = -(-below // per_instance), -(-used // per_instance)
    codes = {kind: code for code, kind in enumerate(dict.fromkeys(kinds))}
    code = np.array([codes[kind] for kind in kinds])[index]
    least = np.full(len(codes), np.inf)
    np.minimum.at(least, code, usd * instances)
    open_ones = (instances - too_few > 1) & (usd * (too_few + 1) < least[code])
    gaps = [
        _Gap(
            row=tuple(table[first[place]].tolist()),
            too_few=int(too_few[place]),
            enough=int(instances[place]),
            per_instance=int(per_instance[place]),
            usd=float(usd[place]),
            kind=kinds[index[place]],
        )
        for place in np.flatnonzero(open_ones).tolist()
    ]
    return gaps, {kind: float(least[number]) for kind, number in codes.items()}
