"""A serving engine, step by step: continuous batching with a limit of tokens in each step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np


@dataclass
class Request:
    """One request, with the moments of its first and last token."""

    number: int
    """Its place among all arrivals."""
    arrived_s: float
    prompt: int
    answer: int
    read: int = 0
    """Tokens of the prompt that steps have read."""
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
        now, steps, came = 0.0, 0, 0
        reading: deque[Request] = deque()
        running: list[tuple[int, int]] = []
        """The steps after which requests have their answer, each with the request's number."""
        while len(self.done) < len(arrivals):
            if not running and not reading:
                now = max(now, arrivals[came].arrived_s)
            while (
                came < len(arrivals)
                and arrivals[came].arrived_s <= now
                and len(running) + len(reading) < self.limit
            ):
                reading.append(arrivals[came])
                came += 1
            room, finished = self.budget, 0
            for request in reading:
                taken = min(room, request.prompt - request.read)
                request.read += taken
                room -= taken
                finished += request.read == request.prompt
                if not room:
                    break
            tokens = self.budget - room
            now += self.base + self.per_request * len(running) + self.per_token * tokens
            steps += 1
            for _ in range(finished):
                request = reading.popleft()
                request.first_s = now
                heappush(running, (steps + request.answer - 1, request.number))
            while running and running[0][0] <= steps:
                request = arrivals[heappop(running)[1]]
                request.last_s = now
                self.done.append(request)
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
        Request(number, float(moment), max(1, round(read)), max(2, round(written)))
        for number, (moment, read, written) in enumerate(zip(*columns, strict=True))
    ]
