r"""Requests that wait for one another and then pass in batches: a queue with bulk service.

Arrays of one element for each server.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.equations.serving.queueing import weighted_quantile

Floats = NDArray[np.float64]

QUEUES: Final = ((0.5, 2, 12), (1.0, 4, 40))
"""Load, batches, and requests besides, that may wait up to that load."""
BLOCK: Final = 256
"""Servers computed at once."""
MOMENTS: Final = (np.arange(6) + 0.5) / 6
"""Parts of a batch's time at which a request is taken to arrive."""


def batched_answers_s(
    *, rate_per_s: Floats, one_s: Floats, full_s: Floats, most: int, shares: Sequence[float]
) -> tuple[Floats, list[Floats]]:
    r"""Time from a request's arrival to the end of its batch: mean, and percentiles. [s]

    Infinite for a server that does not keep up.

    Parameters
    ----------
    rate_per_s : Poisson arrivals, :math:`\lambda`. [requests/s]
    one_s, full_s : Time of a batch of one request and of ``most``; between them it is linear,
        :math:`T(b)`. [s]
    most : Requests of a batch at most, :math:`B`.
    shares : Between 0 and 1.

    Notes
    -----
    A free server starts with all that wait, up to :math:`B`, or with the next to arrive. The number
    :math:`n` that waits when a batch ends is a Markov chain with

    .. math:: n' = (n - B)^+ + \mathrm{Poisson}(\lambda\,T(b)), \qquad b = \max(1, \min(n, B))

    Its stationary distribution :math:`\pi` gives the mean by Little's law,

    .. math:: W = \frac{\sum_n \pi_n \left(\max(n, 1)\,T(b) + \lambda T(b)^2 / 2\right)}
        {\lambda \sum_n \pi_n \left(T(b) + [n = 0] / \lambda\right)}

    The percentiles take the mean number of other arrivals for each moment of a batch.

    References
    ----------
    .. [1] Bailey, On queueing processes with bulk service, 1954,
       doi:10.1111/j.2517-6161.1954.tb00149.x.

    Examples
    --------
    >>> mean, [half] = batched_answers_s(  # M/D/1: 1 + 0.5 / (2 (1 - 0.5))
    ...     rate_per_s=np.array([0.5]), one_s=np.ones(1), full_s=np.ones(1), most=1, shares=[0.5]
    ... )
    >>> round(float(mean[0]), 3), float(half[0])
    (1.5, 1.0)
    """
    load = rate_per_s * full_s / most
    found = np.full((1 + len(shares), len(load)), np.inf)
    least = 0.0
    for highest, batches, besides in QUEUES:
        places = np.flatnonzero((load >= least) & (load < highest))
        least, last = highest, most * batches + besides
        for first in range(0, len(places), BLOCK):
            at = places[first : first + BLOCK]
            found[:, at] = _answers_s(rate_per_s[at], one_s[at], full_s[at], most, last, shares)
    return found[0], list(found[1:])


def _answers_s(
    rate_per_s: Floats, one_s: Floats, full_s: Floats, most: int, last: int, shares: Sequence[float]
) -> list[Floats]:
    """Return mean and percentiles of servers that keep up; ``last`` requests wait at most."""
    rate = rate_per_s[:, None]
    waiting = np.arange(last + 1)
    size = np.clip(waiting, 1, most)
    slope = (full_s - one_s) / max(most - 1, 1)
    taken = one_s[:, None] + slope[:, None] * (size - 1)
    left = np.maximum(waiting - most, 0)
    held = _stationary(rate * taken, left, last)
    arrived = rate * taken
    idle = held[:, 0]
    time = (held * taken).sum(axis=1) + idle / rate[:, 0]
    present = (held * (np.maximum(waiting, 1) * taken + arrived * taken / 2)).sum(axis=1)
    mean = present / (rate[:, 0] * time)

    moment = MOMENTS[:, None]
    ahead = left + arrived[:, None] * moment
    after = left + arrived[:, None] + 1
    before = np.floor(ahead / most)
    own = np.clip(after - before * most, 1, most)
    service = one_s[:, None, None] + slope[:, None, None] * (own - 1)
    wait = taken[:, None] * (1 - moment) + before * full_s[:, None, None]
    weight = held[:, None] * arrived[:, None] / len(MOMENTS) + 0 * wait
    rows = len(rate)
    times = np.concatenate([one_s[:, None], (wait + service).reshape(rows, -1)], axis=1)
    weights = np.concatenate([idle[:, None], weight.reshape(rows, -1)], axis=1)
    order = np.argsort(times, axis=1)
    times, weights = (np.take_along_axis(part, order, 1) for part in (times, weights))
    return [mean, *(weighted_quantile(times, weights, share) for share in shares)]


def _stationary(arrivals: Floats, left: NDArray[np.intp], last: int) -> Floats:
    """Return how often each number waits; the last counts for all beyond it."""
    number = np.arange(last + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, last + 1)))])
    # Rows of one transition are Poisson numbers, moved by what is left.
    moved = number[None, :] - left[:, None]
    mean = arrivals[:, :, None]
    chance = np.where(
        moved >= 0,
        np.exp(np.maximum(moved, 0) * np.log(mean) - mean - logs[np.maximum(moved, 0)]),
        0.0,
    )
    chance[:, :, -1] += np.maximum(1 - chance.sum(axis=2), 0.0)
    system = np.swapaxes(chance, 1, 2) - np.eye(last + 1)
    system[:, -1] = 1.0
    right = np.zeros((len(arrivals), last + 1, 1))
    right[:, -1] = 1.0
    return np.maximum(np.asarray(np.linalg.solve(system, right)[..., 0], np.float64), 0.0)
