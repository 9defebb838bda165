"""The engine inside one process: loading, recommending, candidates per second, memory.

Each `recommend` is also told in sweeps of NumPy on the same machine (see `timing.SWEEP`), so that
readings of different machines compare.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import numpy as np

from advisor.api import load_case, load_catalog, recommend, resolve_model
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.training.memory_report import evaluate_memory
from advisor.estimate.training.report import evaluate_run_hours
from advisor.estimate.training.run import resolve_training
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import RECIPES
from advisor.nouns.workload import Pretraining
from advisor.planning.search.layout_space import CHUNK
from benchmarks.cases import CASES, LARGE
from benchmarks.timing import SWEEP, median_s, show, sweep_s

ASKED_MS = {"lora 8B": 100, "pretrain 7B": 130, "serve 70B": 130, "pretrain DeepSeek-V3": 220}
"""What a quiet machine should take."""

LOAD = (
    "import time; start = time.perf_counter(); from advisor.catalog import load_catalog; "
    "imported = time.perf_counter(); load_catalog(); "
    "print(time.perf_counter() - imported, imported - start)"
)


def cold_load_s() -> tuple[float, float]:
    """Return the time to load the catalog in a fresh process, and to import its code. [s]"""
    text = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, check=True
    ).stdout
    load, imported = text.split()
    return float(load), float(imported)


def candidates_per_s(total: int) -> float:
    """Evaluate ``total`` configurations in chunks, memory and time, on one core. [1/s]"""
    catalog, calibration = load_catalog(), load_calibration()
    architecture = resolve_model(load_case(CASES["lora 8B"]).model)
    run = resolve_training(
        Pretraining(tokens=300e9, sequence_length=4096), architecture, RECIPES["bf16_mixed"]
    )
    accelerator = catalog.accelerator("h100-sxm")
    from advisor.catalog.nodes import node_for

    hardware = HardwareArrays.of(
        accelerator,
        node_for(accelerator, None),
        calibration.kernels_for(accelerator)[0],
        compute="bf16",
    )
    layout = LayoutArrays.of(ParallelLayout(data=8, tensor=4, pipeline=2))
    chunk = Candidates(
        layout=layout.take(np.zeros(CHUNK, dtype=np.intp)),
        hardware=hardware.take(np.zeros(CHUNK, dtype=np.intp)),
    )
    rounds = max(1, total // CHUNK)

    def evaluate() -> None:
        for _ in range(rounds):
            evaluate_memory(run, chunk.layout, calibration)
            evaluate_run_hours(run, chunk, calibration)

    return rounds * CHUNK / median_s(evaluate, repeats=3)


def _recommended(label: str, mapping: dict[str, Any], asked_ms: float | None) -> tuple[float, int]:
    """Print an answer's time, also in sweeps of NumPy; return it [s], and what was searched."""
    case = load_case(mapping)
    searched = recommend(case).searched
    before = sweep_s()
    spent = median_s(lambda: recommend(case))
    sweeps = spent / ((before + sweep_s()) / 2)
    show(label, spent * 1e3, "ms", f"at most {asked_ms}" if asked_ms else "")
    show(f"{label}: over one sweep of NumPy", sweeps, "x")
    show(f"{label}: configurations searched", searched, "")
    return spent, searched


def main() -> None:
    """Print the engine's figures."""
    load, imported = cold_load_s()
    show("catalog, cold load", load * 1e3, "ms", "at most 150")
    show("catalog, import of its code", imported * 1e3, "ms")
    show(f"NumPy: {SWEEP}", sweep_s() * 1e3, "ms")
    for name, mapping in CASES.items():
        _recommended(f"recommend, {name}", mapping, ASKED_MS[name])
    for name, mapping in LARGE.items():
        for most in (512, 4_096, 16_384):
            case = {**mapping, "limits": {"max_accelerators": most}}
            label = f"recommend, {name}, up to {most:,}"
            spent, searched = _recommended(label, case, ASKED_MS.get(name))
            show(f"{label}: per million configurations", spent * 1e9 / searched, "ms", "no growth")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    show("candidates, memory and time, 0.1 M", candidates_per_s(100_000), "1/s", "at least 1.5e6")
    small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    show("candidates, memory and time, 1 M", candidates_per_s(1_000_000), "1/s", "at least 1.5e6")
    large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    show("peak memory before, after 0.1 M", (small - before) / 1024, "MiB more")
    show("peak memory after 1 M instead of 0.1 M", (large - small) / 1024, "MiB more", "about 0")
