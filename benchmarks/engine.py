"""The engine inside one process: loading, recommending, candidates per second, memory."""

from __future__ import annotations

import resource
import subprocess
import sys

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
from benchmarks.timing import median_s, show

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


def main() -> None:
    """Print the engine's figures."""
    load, imported = cold_load_s()
    show("catalog, cold load", load * 1e3, "ms", "at most 150")
    show("catalog, import of its code", imported * 1e3, "ms")
    for name, mapping in CASES.items():
        case = load_case(mapping)
        result = recommend(case)
        spent = median_s(lambda case=case: recommend(case))  # type: ignore[misc]
        show(f"recommend, {name}", spent * 1e3, "ms", "at most 150")
        show(f"recommend, {name}: configurations searched", result.searched, "")
    for name, mapping in LARGE.items():
        for most in (512, 4_096, 16_384):
            case = load_case({**mapping, "limits": {"max_accelerators": most}})
            searched = recommend(case).searched
            spent = median_s(lambda case=case: recommend(case))  # type: ignore[misc]
            label = f"recommend, {name}, up to {most:,}"
            show(label, spent * 1e3, "ms", "at most 300")
            show(f"{label}: per million configurations", spent * 1e9 / searched, "ms", "no growth")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    show("candidates, memory and time, 0.1 M", candidates_per_s(100_000), "1/s", "at least 1e6")
    small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    show("candidates, memory and time, 1 M", candidates_per_s(1_000_000), "1/s", "at least 1e6")
    large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    show("peak memory before, after 0.1 M", (small - before) / 1024, "MiB more")
    show("peak memory after 1 M instead of 0.1 M", (large - small) / 1024, "MiB more", "about 0")
