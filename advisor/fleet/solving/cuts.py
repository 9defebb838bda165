"""What columns do and need, and the rows that every plan of whole machines keeps."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.solving.columns import Buy, Column, Cover, Use
from advisor.fleet.solving.covers import SLACK
from advisor.fleet.solving.problem import Problem

Uses = Sequence[tuple[Use, int]]
"""Replicas or runs of a column, with their number."""


def whole_machines(
    problem: Problem,
    columns: Iterable[tuple[Column, Uses]],
    there: Mapping[tuple[int, int], Mapping[int, float]],
) -> tuple[Any, NDArray[np.float64]]:
    r"""Return rows over the columns, and their upper bounds: work needs machines as a whole.

    Notes
    -----
    The relaxed program buys a tenth of a server for work on a tenth of its cards. For a share
    :math:`x_c` of a job in a slot on :math:`n_c` machines of one supply,

    .. math:: \sum_c n_c x_c \le N

    with :math:`N` machines there, since a job is done once. Loads that are served by many replicas
    have no such rows: their replicas are numbers.

    References
    ----------
    .. [1] Balinski, Integer programming: methods, uses, computations, Management Science 12, 1965,
       doi:10.1287/mnsc.12.3.253: the same rows for plants and their customers.
    """
    from scipy.sparse import csr_array

    places: dict[tuple[int, int, int, int], int] = {}
    entries: list[tuple[int, int, float]] = []
    most: list[float] = []
    for at, (column, parts) in enumerate(columns):
        if not parts:
            continue
        job, _, period, slot, _ = parts[0][0]
        for supply, machines in _machines(problem, column, parts):
            key = supply, period, job, slot
            if key not in places:
                places[key] = len(most)
                owned = problem.supplies[supply].owned
                most.append(float(owned[period]) if owned else 0.0)
                bought = there.get((supply, period), {})
                entries += [(places[key], buy, -number) for buy, number in bought.items()]
            entries.append((places[key], at, machines))
    rows, places_of, values = zip(*entries, strict=True) if entries else ((), (), ())
    shape = len(most), at + 1
    return csr_array((values, (rows, places_of)), shape=shape), np.array(most)


def _machines(problem: Problem, column: Column, parts: Uses) -> Iterator[tuple[int, float]]:
    """Yield the supplies that a column works on, and the machines."""
    modes = problem.jobs[parts[0][0].job].modes
    if isinstance(column, Use) and column.slot < 0:
        mode = modes[column.mode]
        if mode.supply is not None:
            yield mode.supply, float(mode.machines)
    elif isinstance(column, Cover):
        held: dict[int, float] = {}
        for use, number in parts:
            mode = modes[use.mode]
            if mode.supply is not None:
                held[mode.supply] = held.get(mode.supply, 0.0) + number * mode.cards
        for supply, cards in held.items():
            yield supply, float(math.ceil(cards / problem.supplies[supply].cards - SLACK))


def groups_of(uses: Iterable[Uses]) -> NDArray[np.int64]:
    """Return the number of the job, period and slot whose work each column does; -1 for no work."""
    known: dict[tuple[int, int, int], int] = {}
    works = (
        (parts[0][0].job, parts[0][0].period, parts[0][0].slot) if parts else () for parts in uses
    )
    return np.array([known.setdefault(work, len(known)) if work else -1 for work in works])


def needs_of(
    problem: Problem, columns: Iterable[tuple[Column, Uses]], first_modes: Sequence[int]
) -> Any:
    """Return which supplies and modes each column needs, as a sparse matrix.

    ``first_modes``: place of the first mode of each job behind the supplies, and the end.
    """
    from scipy.sparse import csr_array

    pairs: list[tuple[int, int]] = []
    number = 0
    for at, (column, parts) in enumerate(columns):
        number = at + 1
        if isinstance(column, Buy):
            pairs.append((at, column.supply))
        for use, _ in parts:
            pairs.append((at, first_modes[use.job] + use.mode))
            supply = problem.jobs[use.job].modes[use.mode].supply
            if supply is not None:
                pairs.append((at, supply))
    rows, places = np.array(pairs, dtype=int).reshape(-1, 2).T
    return csr_array((np.ones(len(pairs)), (rows, places)), shape=(number, first_modes[-1]))
