"""The search for serving: every system, count, replica layout and weight format in arrays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.foundation.record import record
from advisor.nouns.workload import Serving
from advisor.planning.search.options import Miss, Price
from advisor.planning.search.replicas import Table, fewest_replicas
from advisor.planning.search.served_rows import Figures, ServedWork, evaluator, layouts_of
from advisor.planning.search.simple import Indices, distinct, first_least

MOST_REPLICAS = 10**6
"""More than a search reaches."""

Row = tuple[int, tuple[float, float, float, float, tuple[float, float]]]


@record
class ServingSearch:
    """Results of the search, and the nearest misses."""

    layouts: LayoutArrays
    """Of fitting rows that no other beats, system by system."""
    ends: list[int]
    """Rows before each system, and all."""
    rows: list[Row]
    """Of each: accelerators; time per token, its high end and time to the first token [s], tokens
    per second, and both latencies where the limits judge them [s]."""
    searched: list[int]
    """Number of configurations of each system."""
    misses: dict[int, Miss]
    """Smallest need of any layout by system, for those on which none fits. [bytes]"""
    carried: dict[int, float]
    """Most of a stated rate that a layout carries by system, if none carries all. [requests/s]"""


def most_replicas(workload: Serving) -> int:
    """Return how many replicas have work: a request at a time for each of them."""
    return workload.concurrency if workload.requests_per_s is None else MOST_REPLICAS


def search_serving(
    work: ServedWork, table: Table, prices: Sequence[Price], *, free: bool
) -> ServingSearch:
    """Evaluate weight formats of one kind, one on each system.

    For each system and count: the configuration with the least of each latency, and the one nearest
    to both targets.

    ``table``: of :func:`replica_table`. ``free``: the number of replicas is open: between the
    searched numbers, the fewest are looked for.
    """
    searched = np.bincount(table[:, 0], minlength=len(work.systems)).tolist()
    if not len(table):
        ends = [0] * (len(searched) + 1)
        return ServingSearch(layouts_of(table), ends, [], searched, {}, {})
    evaluate = evaluator(work)
    figures = evaluate(table)
    enough = work.met(figures)
    if free and enough.any():
        tried: list[tuple[Table, Figures]] = []

        def judge(rows: Table) -> NDArray[np.bool_]:
            tried.append((rows, evaluate(rows)))
            return work.met(tried[-1][1])

        most, spares = most_replicas(work.workload), work.workload.spare_replicas
        more = fewest_replicas(
            table, enough, work.systems, prices, most, judge, spares, kinds=work.kinds
        )
        if len(more):
            known = {
                tuple(row): place
                for place, row in enumerate(np.vstack([rows for rows, _ in tried]).tolist())
            }
            every = Figures.joined([found for _, found in tried])
            found = every.take(np.array([known[tuple(row)] for row in more.tolist()]))
            figures = Figures.joined([figures, found])
            table = np.vstack([table, more])
    places = _best_places(table, figures.fits, _merits(work, figures))
    places = places[np.argsort(table[places, 0], kind="stable")]
    return ServingSearch(
        layouts=layouts_of(table[places]),
        ends=np.searchsorted(table[places, 0], range(len(searched) + 1)).tolist(),
        rows=_rows(table[places], figures.take(places), work),
        searched=searched,
        misses=_misses(table, figures),
        carried=_carried(table, figures, work),
    )


def _rows(table: Table, figures: Figures, work: ServedWork) -> list[Row]:
    times = figures.tpot, figures.tpot_high, figures.ttft, figures.throughput
    judged = zip(*(each.tolist() for each in work.judged(figures)), strict=True)
    found = zip(*(each.tolist() for each in times), judged, strict=True)
    return [*zip(table[:, 1].tolist(), found, strict=True)]


def _merits(work: ServedWork, figures: Figures) -> list[Floats]:
    """Return what the best rows have the least of."""
    tpot, ttft, limits = figures.tpot, figures.ttft, work.limits
    if limits.max_tpot_ms is None or limits.max_ttft_ms is None:
        return [tpot, ttft]
    # If any layout meets both targets, the one with the smallest worse miss does.
    later, first = work.judged(figures)
    worse = np.maximum(later / limits.max_tpot_ms, first / limits.max_ttft_ms)
    return [tpot, ttft, worse]


def _misses(table: Table, figures: Figures) -> dict[int, Miss]:
    """Return the smallest need of each system on which nothing fits."""
    need, usable, systems = figures.need, figures.usable, table[:, 0]
    fitting = np.zeros(systems.max() + 1, dtype=bool)
    fitting[systems[figures.fits]] = True
    # A missing link or format excludes a layout that would fit.
    running = np.isfinite(figures.tpot) | (need > usable)
    short = np.flatnonzero(running & ~fitting[systems])
    leanest = short[np.lexsort((need[short], systems[short]))]
    names, first = np.unique(systems[leanest], return_index=True)
    return {
        index: Miss(float(need[place]), float(usable[place]))
        for index, place in zip(names.tolist(), leanest[first], strict=True)
    }


def _carried(table: Table, figures: Figures, work: ServedWork) -> dict[int, float]:
    """Return the most that each system carries whose memory is enough, but not its speed."""
    most = np.zeros(int(table[:, 0].max()) + 1)
    np.maximum.at(
        most, table[:, 0], np.where(figures.need <= figures.usable, figures.throughput, 0)
    )
    most[table[figures.fits, 0]] = 0.0
    each = work.workload.output_tokens if work.architecture.generates else 1
    return {system: float(most[system]) / each for system in np.flatnonzero(most).tolist()}


def _best_places(table: Table, fits: NDArray[np.bool_], merits: Sequence[Floats]) -> Indices:
    """Return, for each system and count, the rows with the least value of each figure."""
    places = np.flatnonzero(fits)
    key = table[places, 0] * (table[:, 1].max() + 1) + table[places, 1]
    order = np.argsort(key, kind="stable")
    places, segment = places[order], np.cumsum(np.diff(key[order], prepend=-1) > 0) - 1
    return distinct(places[first_least(merit[places], segment)] for merit in merits)
