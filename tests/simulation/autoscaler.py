"""A day of an autoscaler: requests at random moments, a controller that counts them, its bill."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

HOUR_S = 3600.0


def rate_at(hourly: tuple[float, ...], moments: Any) -> Any:
    """Return the rate, linear between the middles of the hours. [requests/s]"""
    hours = np.arange(len(hourly)) + 0.5
    return np.interp(np.asarray(moments) / HOUR_S, hours, hourly, period=len(hourly))


def replica_seconds(
    hourly: tuple[float, ...],
    needed: Callable[[float], int],
    *,
    start_s: float,
    hold_s: float,
    least: int,
    seed: int,
    window_s: float = 120.0,
    poll_s: float = 30.0,
) -> tuple[float, float]:
    """Return billed replica-seconds, and the share of requests that found too few replicas."""
    random = np.random.default_rng(seed)
    end, most = HOUR_S * len(hourly), max(hourly)
    drawn = np.sort(random.uniform(0, end, random.poisson(most * end)))
    moments = drawn[random.uniform(0, most, len(drawn)) < rate_at(hourly, drawn)]
    world = simpy.Environment()
    asked = ready = max(needed(float(rate_at(hourly, 0.0))), least)
    billed, changes = 0.0, [(0.0, ready)]

    def start(number: int) -> Generator[Any, Any, None]:
        nonlocal ready
        yield world.timeout(start_s)
        ready = min(ready + number, asked)
        changes.append((world.now, ready))

    def control() -> Generator[Any, Any, None]:
        nonlocal asked, ready, billed
        history: deque[tuple[float, int]] = deque()
        while world.now < end:
            yield world.timeout(poll_s)
            billed += asked * poll_s
            since = max(0.0, world.now - window_s)
            count = np.searchsorted(moments, [since, world.now])
            seen = float(count[1] - count[0]) / (world.now - since)
            history.append((world.now, max(needed(seen), least)))
            while history[0][0] < world.now - hold_s:
                history.popleft()
            wanted = max(number for _, number in history)
            if wanted > asked:
                world.process(start(wanted - asked))
            asked = wanted
            if ready > asked:
                ready = asked
                changes.append((world.now, ready))

    world.process(control())
    world.run(until=end)
    times, numbers = np.array(changes).T
    running = numbers[np.searchsorted(times, moments, side="right") - 1]
    wanted = np.array([needed(rate) for rate in rate_at(hourly, moments[::10])])
    return billed, float(np.maximum(1 - running[::10] / np.maximum(wanted, 1), 0.0).mean())
