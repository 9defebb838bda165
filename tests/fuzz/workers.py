"""Shares inputs among processes of bounded memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Final

from tests.fuzz.harness import Found, run_inputs
from tests.fuzz.kinds import KINDS

MEMORY_BYTES: Final = 2 * 10**9
CHUNK: Final = 100
"""Inputs in a task: a process that dies loses no more."""

Task = tuple[str, int, int, int]
"""Name of a kind, seed, first input, and number of inputs."""


def tasks_of(count: int, seed: int, only: str | None) -> list[Task]:
    """Return shares of ``count``, the kinds in turn: an early end has seen them all."""
    chosen = [kind for kind in KINDS if only in (None, kind.name)]
    if not chosen:
        raise SystemExit(f"unknown kind {only!r}; known: {', '.join(k.name for k in KINDS)}")
    total = sum(kind.share for kind in chosen)
    shares = {kind.name: -(-count * kind.share // total) for kind in chosen}
    return [
        (name, seed, first, min(CHUNK, share - first))
        for first in range(0, max(shares.values()), CHUNK)
        for name, share in shares.items()
        if first < share
    ]


def run_tasks(tasks: list[Task], workers: int, end: float) -> Iterator[tuple[str, Found]]:
    """Yield what each task found, in order; a process that dies is a failure of its own."""
    while tasks:
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_limited)
        waiting: list[tuple[Task, Future[Found]]] = []
        waiting += ((task, pool.submit(_work, task)) for task in tasks)
        tasks = []
        for position, (task, future) in enumerate(waiting):
            try:
                yield task[0], future.result(max(0.0, end - time.monotonic()))
            except TimeoutError:
                print(f"out of time: {len(waiting) - position} parts left out", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                return
            except BrokenProcessPool:
                found = Found()
                found.note("a process died", repr(task), "", f"--seed {task[1]} --only {task[0]}")
                yield task[0], found
                tasks = [item for item, _ in waiting[position + 1 :]]
                break
        pool.shutdown()


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _work(task: Task) -> Found:
    name, seed, first, count = task
    [kind] = [item for item in KINDS if item.name == name]
    return run_inputs(kind, seed=seed, first=first, count=count)
