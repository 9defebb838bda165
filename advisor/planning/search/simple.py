"""Simple wins near ties: which of two layouts has fewer parts to set up and to go wrong."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.candidates import Floats, LayoutArrays

Indices = NDArray[np.intp]

TIE: Final = 1.03
"""Layouts within this factor of the fastest count as equally fast: their order changes with a
release of the software, and every range is wider."""

KIND: Final = 100.0
"""Points of one kind of parallelism besides data: each needs its own groups of ranks, checkpoints
and tests. Weighs more than everything below together."""
HOSTED: Final = 20.0
"""Points of each thing in the host's memory."""
SHARDED: Final = np.array([0.0, 3.0, 4.0, 8.0])
"""Points of DDP, ZeRO-1, ZeRO-2 and ZeRO-3. The last gathers weights and saves them in parts."""
CHUNKED: Final = 4.0
"""Points of virtual stages."""
ONE_LAYER: Final = 8.0
"""More points where each of them holds one layer at most."""
SCHEDULED: Final = 4.0
"""Points of a schedule that overlaps two micro-batches."""
RECOMPUTED: Final = np.array([0.0, 0.0, 2.0])
"""Points of recomputing nothing, selectively and everything. The second is a switch without much
cost, so it weighs no more than nothing."""
ODD: Final = 1.0
"""Points of a micro-batch that is no power of two."""


def complexity(layouts: LayoutArrays, *, layers: int) -> Floats:
    """Return the points of each layout without those of its recomputation.

    ``layers``: layers of the model.

    >>> from advisor.nouns.layout import ParallelLayout
    >>> two = [ParallelLayout(data=8, sharding="zero3"), ParallelLayout(data=4, tensor=2)]
    >>> complexity(LayoutArrays.stack(two), layers=32).tolist()
    [8.0, 100.0]
    """
    degrees = (layouts.tensor, layouts.pipeline, layouts.context, layouts.expert)
    kinds = sum((degree > 1).astype(np.float64) for degree in degrees)
    hosted = sum(layouts.offload // bit % 2 for bit in (1, 2, 4))
    power = np.log2(layouts.micro_batch)
    chunked = layouts.virtual_stages > 1
    return np.asarray(
        KIND * kinds
        + HOSTED * hosted
        + SHARDED[layouts.sharding.astype(np.intp)]
        + CHUNKED * chunked
        + ONE_LAYER * (chunked & (layouts.pipeline * layouts.virtual_stages >= layers))
        + SCHEDULED * (layouts.schedule > 0)
        + ODD * (power != np.floor(power))
    )


def simplest(
    points: Floats, steps: Floats, busy: Floats, late: NDArray[np.bool_], segment: Indices
) -> Indices:
    """Return the simplest layout of each segment that is nearly as fast as its fastest.

    Place of one layout of each segment.

    ``points``: complexity of layouts, recomputation included. ``busy``: the same without the wait
    for input, which decides between layouts that are equally simple and fast. [s] ``late``: whether
    they miss the deadline. None of these wins over one that meets it. ``segment``: their segments,
    ascending.

    >>> points, steps = np.array([3.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.02, 1.01, 2.0])
    >>> simplest(points, steps, steps, steps > 1.5, np.zeros(4, int)).tolist()
    [2]
    >>> simplest(points, steps, steps, steps > 1.0, np.zeros(4, int)).tolist()
    [0]
    """
    begins = np.flatnonzero(np.diff(segment, prepend=-1))
    place = np.cumsum(np.diff(segment, prepend=-1) > 0) - 1
    # Layouts that miss a link take infinite time.
    ratio = np.full(len(steps), np.inf)
    np.divide(steps, np.minimum.reduceat(steps, begins)[place], ratio, where=np.isfinite(steps))
    near = np.flatnonzero(ratio <= TIE)
    keys = (busy, ratio.round(9), points, late, segment)
    order = near[np.lexsort([key[near] for key in keys])]
    _, first = np.unique(segment[order], return_index=True)
    return np.asarray(order[first])


def first_least(values: Floats, segment: Indices) -> Indices:
    """Return the place of the first smallest value of each segment.

    ``segment``: number of the segment of each value, ascending from 0.

    >>> first_least(np.array([2.0, 1.0, 1.0, 5.0]), np.array([0, 0, 0, 1])).tolist()
    [1, 3]
    """
    begins = np.flatnonzero(np.diff(segment, prepend=-1))
    least = np.minimum.reduceat(values, begins)
    at_least = np.flatnonzero(values == least[segment])
    return np.asarray(at_least[np.diff(segment[at_least], prepend=-1) > 0])


def distinct(places: Iterable[Indices]) -> Indices:
    """Return each place once, ascending. ``np.unique`` would import ``numpy.ma`` for it."""
    return np.flatnonzero(np.bincount(np.concatenate(tuple(places))))
