"""Fleets of a hundred and two hundred workloads: how long their whole answers take."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from advisor import plan_fleet
from benchmarks.timing import show

SIZES = (100, 200)

DAY = [0.2] * 7 + [
    0.5,
    0.9,
    1.0,
    1.0,
    0.9,
    0.8,
    0.9,
    1.0,
    0.9,
    0.8,
    0.6,
    0.5,
    0.4,
    0.4,
    0.3,
    0.2,
    0.2,
]
"""Load of a service of an office over its busiest hour."""

Draw = random.Random


def company(workloads: int, seed: int = 0) -> dict[str, Any]:
    """Return the portfolio of a company: few models, many teams that use them alike."""
    draw = Draw(seed)
    kinds = draw.choices((_run, _service, _people, _batch), (35, 35, 15, 15), k=workloads)
    return {
        "name": f"A company with {workloads} workloads",
        "owned": [{"machine": "hgx-8/h100-sxm", "count": 2, "months_left": 24}],
        "workloads": [
            {"name": f"{kind.__name__[1:]} {place}"} | kind(draw)
            for place, kind in enumerate(kinds)
        ],
    }


def _run(draw: Draw) -> dict[str, Any]:
    model = draw.choice(["llama-3.1-8b", "qwen3-14b", "llama-3.1-70b", "qwen3-32b"])
    work = {"kind": "fine_tuning", "method": draw.choice(["lora", "qlora"])}
    return {
        "case": {
            "model": {"preset": model},
            "workload": work | {"tokens": draw.choice([1e7, 3e7, 1e8])},
            "limits": {"deadline_hours": draw.choice([24, 48, 96, 168])},
        },
        "runs_per_month": draw.choice([1, 2, 4, 10]),
        "preemptible": draw.random() < 0.5,
        "growth_per_year": draw.choice([0.0, 0.2]),
    }


def _service(draw: Draw) -> dict[str, Any]:
    model = draw.choice(
        ["llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "gpt-oss-120b", "gpt-oss-20b"]
    )
    work = {"kind": "serving", "concurrency": draw.choice([2, 4, 8, 16, 32, 64])}
    lengths = {"input_tokens": draw.choice([512, 2048]), "output_tokens": 256}
    return {
        "case": {
            "model": {"preset": model},
            "workload": work | lengths,
            "limits": {"max_tpot_ms": draw.choice([50, 100])},
        },
        "on_premises": draw.random() < 0.2,
        "growth_per_year": draw.choice([0.0, 0.3, 0.6]),
    } | draw.choice([{"week": DAY}, {"hours": "office"}, {}])


def _people(draw: Draw) -> dict[str, Any]:
    model = draw.choice(["llama-3.1-8b", "qwen3-14b"])
    work = {"kind": "fine_tuning", "method": "qlora", "tokens": 5e6}
    return {
        "case": {"model": {"preset": model}, "workload": work},
        "people": draw.choice([1, 2, 4]),
    }


def _batch(draw: Draw) -> dict[str, Any]:
    """Answers by night: a service whose answers nobody waits for."""
    model = draw.choice(["llama-3.1-8b", "gpt-oss-20b"])
    work = {"kind": "serving", "concurrency": draw.choice([32, 64, 128])}
    return {
        "case": {"model": {"preset": model}, "workload": work | {"input_tokens": 1024}},
        "week": [1.0] * 7 + [0.0] * 17,
    }


def main() -> None:
    """Print the fleet's figures."""
    for workloads in SIZES:
        _time(workloads)


def _time(workloads: int) -> None:
    content = company(workloads)
    start, worked = time.perf_counter(), _worked()
    reached: dict[str, float] = {}

    def tell(_: float, text: str) -> None:
        reached.setdefault(text, time.perf_counter() - start)

    plan = plan_fleet(content, tell=tell)
    bound = "at most 20" if workloads == SIZES[0] else ""
    show(
        f"whole answer of a fleet of {workloads} workloads", time.perf_counter() - start, "s", bound
    )
    show("  of that, until all are sized", reached["Choosing machines and rentals"], "s")
    show("  of that, until the plan is found", reached["Comparing other ways"], "s")
    show("  work of the processor", _worked() - worked, "s")
    show("  least present cost", plan.total_usd / 1e3, "thousand USD")
    show("  proven gap of its cost", 100 * plan.gap, "%", "at most 1")
    widest = max((item.gap for item in (*plan.alternatives, *plan.curve)), default=0.0)
    show("  widest gap of what stands beside it", 100 * widest, "%", "at most 5")


def _worked() -> float:
    """Time of all cores, worker processes that have ended included. [s]"""
    here = os.times()
    return here.user + here.system + here.children_user + here.children_system
