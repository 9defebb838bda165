"""A serving engine, step by step: continuous batching with a limit of tokens in each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy


@dataclass
class Request:
    """One request, with the moments of its first and last token."""

    arrived_s: float
    prompt: int
    answer: int
    left: int = 0
    written: int = 0
    first_s: float = np.nan
    last_s: float = np.nan


@dataclass
class Engine:
    """Times of a step: ``base + per_request * running + per_token * prompt tokens``. [s]"""

    base: float = 0.012
    per_request: float = 0.00004
    per_token: float = 0.00003
    budget: int = 8192
    """Prompt tokens of one step."""
    limit: int = 256
    """Requests in flight."""
    done: list[Request] = field(default_factory=list)

    def run(self, arrivals: list[Request]) -> list[Request]:
        """Serve requests in the order of their arrival."""
        world = simpy.Environment()
        waiting: deque[Request] = deque()
        bell = [world.event()]

        def source() -> Generator[Any, Any, None]:
            for request in arrivals:
                yield world.timeout(max(0.0, request.arrived_s - world.now))
                waiting.append(request)
                if not bell[0].triggered:
                    bell[0].succeed()

        def serve() -> Generator[Any, Any, None]:
            running: list[Request] = []
            reading: deque[Request] = deque()
            while len(self.done) < len(arrivals):
                while waiting and len(running) + len(reading) < self.limit:
                    request = waiting.popleft()
                    request.left = request.prompt
                    reading.append(request)
                if not running and not reading:
                    bell[0] = world.event()
                    yield bell[0]
                    continue
                room, finished = self.budget, []
                for request in reading:
                    taken = min(room, request.left)
                    request.left -= taken
                    room -= taken
                    if not request.left:
                        finished.append(request)
                    if not room:
                        break
                tokens = self.budget - room
                yield world.timeout(
                    self.base + self.per_request * len(running) + self.per_token * tokens
                )
                for request in running:
                    request.written += 1
                for request in finished:
                    reading.popleft()
                    request.written, request.first_s = 1, world.now
                    running.append(request)
                for request in running:
                    if request.written >= request.answer:
                        request.last_s = world.now
                        self.done.append(request)
                running = [one for one in running if one.written < one.answer]

        world.process(source())
        world.process(serve())
        world.run()
        return self.done


def poisson(
    rate_per_s: float,
    number: int,
    *,
    prompt: int,
    answer: int,
    seed: int,
    scv: float = 1.0,
    prompt_scv: float = 0.0,
    answer_scv: float = 0.25,
) -> list[Request]:
    """Return requests that arrive on their own, with gamma times between them.

    Parameters
    ----------
    scv, prompt_scv, answer_scv : float
        Squared coefficients of variation: of the times, and of lengths, which are log-normal.
    """
    random = np.random.default_rng(seed)

    def lengths(mean: float, spread: float) -> np.ndarray[Any, Any]:
        sigma = np.sqrt(np.log1p(spread))
        return mean * random.lognormal(-sigma * sigma / 2, sigma, number)

    gaps = random.gamma(1 / scv, scv / rate_per_s, number)
    columns = np.cumsum(gaps), lengths(prompt, prompt_scv), lengths(answer, answer_scv)
    return [
        Request(float(moment), max(1, round(read)), max(2, round(written)))
        for moment, read, written in zip(*columns, strict=True)
    ]
