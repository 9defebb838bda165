"""Replicas that together serve a whole load: on one kind of machine, and on demand."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from advisor.fleet.solving.problem import Job, ranked_usd

SLACK: Final = 1e-6
FEW: Final = 8
"""Most replicas of a service whose load is covered as a whole."""
FINEST: Final = 512
"""Largest load that is covered as a whole."""

Replicas = tuple[tuple[int, int], ...]
"""Place of a mode among those of its job, and number of replicas."""


def coverable(job: Job, need: float) -> bool:
    """Whether few replicas serve a load, so that one choice can stand for all of them."""
    most = max((mode.serves for mode in job.modes), default=0.0)
    return 0 < need <= FEW * most and (need <= FINEST or not _whole(job))


def _whole(job: Job) -> bool:
    return all(float(mode.serves).is_integer() for mode in job.modes)


def covers(
    job: Job, platforms: Sequence[str], need: float, curve: tuple[float, ...] = ()
) -> Iterator[Replicas]:
    """Yield choices of replicas that serve a load.

    On each supply, and on demand on each platform, the one of fewest cards or least rent; then, on
    each supply, fewer replicas of its best mode with the rest on demand, on its own platform or on
    the cheapest. ``platforms``: of the supplies. ``curve``: loads that rented replicas follow.
    """
    by_supply: dict[int, list[int]] = {}
    rented: dict[str, list[int]] = {}
    for at, mode in enumerate(job.modes):
        if mode.supply is None:
            rented.setdefault(mode.platform, []).append(at)
        else:
            by_supply.setdefault(mode.supply, []).append(at)
    anywhere = rented.pop("", [])
    rents = {name: [*places, *anywhere] for name, places in rented.items()}
    if anywhere:
        rents[""] = anywhere
    usd = {}
    for name, places in rents.items():
        if cover := _rented(job, places, need, need, curve):
            usd[name] = _usd(job, cover, need, curve)
            yield cover
    cheapest = min(usd, key=lambda name: usd[name], default="")
    for supply, places in by_supply.items():
        if alone := _cover(job, places, need):
            yield alone
        best = max(places, key=lambda at: job.modes[at].serves / job.modes[at].cards)
        beside = dict.fromkeys((platforms[supply], cheapest, "")) if rents else ()
        for number in range(1, sum(count for _, count in alone)):
            rest = need - number * job.modes[best].serves
            if rest > SLACK:
                for name in beside:
                    if name in rents and (more := _rented(job, rents[name], rest, need, curve)):
                        yield ((best, number), *more)


def _usd(job: Job, replicas: Replicas, need: float, curve: tuple[float, ...]) -> float:
    """Price of an hour of rented replicas at the top of a load. [USD/h]"""
    return sum(
        float(ranked_usd(job.modes[at], need, curve)[number])
        if curve
        else number * job.modes[at].rent_usd(need).item()
        for at, number in replicas
    )


def _rented(
    job: Job, places: Sequence[int], rest: float, need: float, curve: tuple[float, ...]
) -> Replicas:
    """Return the cheapest replicas on demand for the rest of a load: of one size on a curve."""
    if not curve:
        return _cover(job, places, rest)
    alone = [((at, math.ceil(rest / job.modes[at].serves - SLACK)),) for at in places]
    return min(alone, key=lambda one: _usd(job, one, need, curve))


def _cover(job: Job, places: Sequence[int], need: float) -> Replicas:
    """Return the cheapest replicas of some modes, all on one supply or all on demand.

    Loads that are no whole numbers count in parts of the need; none if it takes too many replicas.
    """
    modes = [job.modes[at] for at in places]
    prices = [
        mode.rent_usd(need).item() if mode.supply is None else float(mode.cards) for mode in modes
    ]
    unit = 1.0 if _whole(job) else need / FINEST
    sizes = tuple(int(mode.serves / unit + SLACK) for mode in modes)
    if not any(sizes):
        return ()
    _, numbers = cheapest_cover(sizes, tuple(prices), need / unit)
    return tuple((at, number) for at, number in zip(places, numbers, strict=True) if number)


@lru_cache(maxsize=20_000)
def cheapest_cover(
    serves: tuple[int, ...], prices: tuple[float, ...], need: float
) -> tuple[float, tuple[int, ...]]:
    """Return the least price of replicas that serve a load, and the number of each size.

    ``serves`` holds what one replica of each size serves, in the unit of ``need``, and ``prices``
    its price, at least 0.

    Notes
    -----
    A covering knapsack, by dynamic programming over whole loads.

    >>> cheapest_cover((4, 16), (1.0, 3.0), 19.5)
    (4.0, (1, 1))
    """
    whole = math.ceil(need - SLACK)
    least, chosen = [0.0] + [math.inf] * whole, [0] * (whole + 1)
    for load in range(1, whole + 1):
        for at, one in enumerate(serves):
            price = prices[at] + least[max(0, load - one)]
            if price < least[load]:
                least[load], chosen[load] = price, at
    number, load = [0] * len(serves), whole
    while load > 0:
        number[chosen[load]] += 1
        load = max(0, load - serves[chosen[load]])
    return least[whole], tuple(number)
