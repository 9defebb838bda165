"""Rows that every plan of whole machines keeps, and that the relaxed program breaks."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.fleet.solving.columns import Column, Cover, Use
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
        job, _, period, slot = parts[0][0]
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
