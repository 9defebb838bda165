"""Sweeps: estimates per second with one worker process and with two, and the processor's share."""

from __future__ import annotations

import resource
import time
from typing import Any

import advisor
from advisor.sweeps.crew import Chunk, LocalCrew
from advisor.sweeps.sweep import questions_of
from benchmarks.timing import show

GRID: dict[str, Any] = {
    "model": {"preset": ["llama-3.1-8b", "qwen3-8b"]},
    "workload": {
        "kind": "serving",
        "input_tokens": {"from": 1024, "to": 8192, "step": 1024},
        "concurrency": {"from": 1, "to": 64, "factor": 4},
    },
    "hardware": {
        "accelerator": ["rtx-4090", "l40s", "a100-sxm-80gb", "h100-sxm", "h200-sxm"],
        "count": [1, 2, 4, 8],
    },
}
SIZE = 20
"""Rows of a chunk."""


def chunks() -> list[Chunk]:
    """Return the grid as a sweep hands it to workers."""
    rows = list(questions_of(GRID).read())
    parts = [rows[first : first + SIZE] for first in range(0, len(rows), SIZE)]
    return [
        Chunk(number, *map(tuple, zip(*part, strict=True))) for number, part in enumerate(parts)
    ]


def rate(workers: int) -> tuple[float, float]:
    """Return rows per second once all workers work, and processor time for each row. [1/s, s]"""
    found = iter(LocalCrew(workers)(iter(chunks()), advisor.load_catalog()))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(workers):
        next(found)
    start, rows = time.perf_counter(), 0
    for chunk, _ in found:
        rows += len(chunk.cases)
    spent = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return rows / spent, used / (rows + workers * SIZE)


def main() -> None:
    """Print the figures of sweeps."""
    one, used = rate(1)
    two, _ = rate(2)
    show("sweep, estimates with one worker", one, "1/s", "at least 83")
    show("sweep, estimates with two workers", two, "1/s", "at least 167")
    show("sweep, two workers over one", two / one, "x", "at least 1.8")
    show("sweep, processor for an estimate", used * 1e3, "ms")
