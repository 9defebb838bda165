"""A fleet of a hundred different workloads: how long its whole answer takes."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from advisor import plan_fleet
from benchmarks.timing import show

WORKLOADS = 100


def hundred(seed: int = 0) -> dict[str, Any]:
    """Return a portfolio of services, runs and people, all different."""
    draw = random.Random(seed)
    return {"workloads": [_workload(draw, place) for place in range(WORKLOADS)]}


def _workload(draw: random.Random, place: int) -> dict[str, Any]:
    model = {"preset": draw.choice(["llama-3.1-8b", "llama-3.1-70b"])}
    kind = draw.random()
    if kind < 0.5:
        work: dict[str, Any] = {
            "kind": "serving",
            "concurrency": draw.choice([2, 4, 8, 16, 32, 64]),
            "input_tokens": draw.choice([512, 1024, 2048]),
        }
        limits = {"max_tpot_ms": draw.choice([50, 80, 120])}
        more: dict[str, Any] = {"on_premises": draw.random() < 0.2}
    else:
        method, tokens = draw.choice(["lora", "qlora"]), draw.choice([1e7, 3e7, 1e8])
        work = {"kind": "fine_tuning", "method": method, "tokens": tokens}
        limits = {"deadline_hours": draw.choice([24, 48, 96])}
        more = {"runs_per_month": draw.choice([1, 4, 10]), "preemptible": draw.random() < 0.5}
    case = {"model": model, "workload": work, "limits": limits}
    growth = draw.choice([0.0, 0.3])
    return {"name": f"work {place}", "case": case, "growth_per_year": growth, **more}


def main() -> None:
    """Print the fleet's figures."""
    content = hundred()
    start, worked = time.perf_counter(), _worked()
    reached: dict[str, float] = {}

    def tell(_: float, text: str) -> None:
        reached.setdefault(text, time.perf_counter() - start)

    plan = plan_fleet(content, tell=tell)
    show("whole answer of a fleet of 100 workloads", time.perf_counter() - start, "s", "at most 20")
    show("  of that, until all are sized", reached["Choosing machines and rentals"], "s")
    show("  of that, until the plan is found", reached["Comparing other ways"], "s")
    show("  work of the processor", _worked() - worked, "s")
    show("  proven gap of its cost", 100 * plan.gap, "%", "at most 1")
    widest = max((item.gap for item in (*plan.alternatives, *plan.curve)), default=0.0)
    show("  widest gap of what stands beside it", 100 * widest, "%", "at most 5")


def _worked() -> float:
    """Time of all cores, worker processes that have ended included. [s]"""
    here = os.times()
    return here.user + here.system + here.children_user + here.children_system
