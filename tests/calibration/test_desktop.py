"""Engines of desktop computers: dated builds, errors on published runs, and that what ran fits."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.deployments import row_deployment, row_load
from advisor.calibration.tables.reading import Row, shipped_rows
from advisor.catalog.constants import load_calibration
from advisor.estimate.serving.memory import serving_capacity
from advisor.nouns.hardware import Segment
from advisor.nouns.software.engines import builds_at
from tests.calibration.scored import report

TABLES = (
    "desktop_runs",
    "outside_desktop",
    "outside_desktop_2",
    "outside_desktop_3",
    "outside_desktop_4",
    "outside_desktop_5",
    "outside_desktop_6",
    "offload_runs",
    "outside_offload",
    "outside_offload_2",
)
CACHED = 100_000
"""Fits of longer contexts are not asked: such runs quantise their cache."""


@pytest.mark.parametrize(
    ("date", "generations", "section"),
    [
        ("2024-05", ("Ada Lovelace 8.9", "Ada Lovelace"), "llama_cpp_2024"),
        ("2026-05", ("Ada Lovelace 8.9", "Ada Lovelace"), "llama_cpp"),
        ("", ("Ada Lovelace",), "llama_cpp"),
        # A year alone means its end. Tiles for AMD came in 2026-01 (ggml-org/llama.cpp,
        # pulls 18749 and 18666), attention in waves of 32 and the graphics queue in 2026-02 and 03
        # (pulls 19625 and 20551).
        ("2025", ("RDNA3.5 gfx1151", "RDNA3.5"), "llama_cpp_2025"),
        ("2026-02", ("RDNA3.5 gfx1151", "RDNA3.5"), "llama_cpp_early_2026"),
        ("2026-03", ("RDNA3.5 gfx1151", "RDNA3.5"), "llama_cpp"),
        ("2025-07", ("RDNA3.5 gfx1151", "RDNA3.5"), "llama_cpp_2025"),
        ("2025-07", ("RDNA3 gfx1100", "RDNA3"), "llama_cpp"),
        # CUDA's kernels of routed experts were fused on 2025-10-26 (pull 16715).
        ("2025-09", ("Ada Lovelace 8.9", "Ada Lovelace"), "llama_cpp_mid_2025"),
        # Qwen3.5 on one RTX 4090 took 29 % longer on 2026-03-17 than on 2026-04-08.
        ("2025-11", ("Ada Lovelace 8.9", "Ada Lovelace"), "llama_cpp_march_2026"),
        ("2026-03", ("Ampere 8.6", "Ampere"), "llama_cpp_march_2026"),
        ("2026-04", ("Ampere 8.6", "Ampere"), "llama_cpp"),
        # Attention tuned for ROCm on RDNA4 (pull 28102, 2026-09).
        ("2026-06", ("RDNA4 gfx1201", "RDNA4"), "llama_cpp_mid_2026"),
        ("2026-09", ("RDNA4 gfx1201", "RDNA4"), "llama_cpp"),
        # No CUDA graphs on Volta until ggml-org/llama.cpp, pull 25749 (2026-07-16).
        ("2025-06", ("Volta 7.0", "Volta"), "whisper_cpp_2025"),
        ("2026-08", ("Volta 7.0", "Volta"), "whisper_cpp"),
    ],
)
def test_a_run_is_predicted_by_the_builds_of_its_date(
    date: str, generations: tuple[str, ...], section: str
) -> None:
    name = "whisper_cpp" if section.startswith("whisper") else "llama_cpp"
    engines = load_calibration().engines

    assert builds_at(engines, name, date, generations, recurrent=True) == section


def test_builds_that_only_recurrences_tell_apart_are_one_for_other_networks() -> None:
    engines = load_calibration().engines

    found = builds_at(engines, "llama_cpp", "2026-03", ("Ampere",), recurrent=False)
    assert found == "llama_cpp"


def test_every_engine_with_own_kernels_says_how_old_its_builds_are() -> None:
    engines = load_calibration().engines
    own = {name: facts for name, facts in engines.items() if facts.backends}

    assert own
    assert all(facts.built for facts in own.values())


@pytest.mark.parametrize(
    ("table", "quantity", "rows", "median"),
    [
        # 5.7 on 393 rows, before a fifth collection came, from more sources.
        ("desktop_runs", "decode_tokens_per_s", 446, 6.2),
        ("desktop_runs", "total_output_tokens_per_s", 121, 4.2),
        ("desktop_runs", "prefill_tokens_per_s", 386, 11.9),
        ("offload_runs", "total_output_tokens_per_s", 8, 7.8),
        ("offload_runs", "decode_tokens_per_s", 30, 12.1),
        # 55 while experts came over PCIe at its full rate.
        ("offload_runs", "prefill_tokens_per_s", 18, 5.4),
        ("speech_runs", "total_output_tokens_per_s", 15, 4.2),
        ("speech_runs", "tpot_ms", 106, 7.2),
        ("speech_runs", "ttft_ms", 53, 4.8),
    ],
)
def test_errors_on_the_rows_of_the_fits(
    table: str, quantity: str, rows: int, median: float
) -> None:
    """What was seen when the constants were fitted, rounded up, in percent."""
    found = report(table).of(quantity)

    assert found is not None
    assert found.n >= rows
    assert found.median_abs_pct <= median


@pytest.mark.parametrize("table", TABLES)
def test_what_is_published_to_run_is_never_refused(table: str) -> None:
    """Every run of these tables fits its card: none of them had a screen to serve."""
    engine = shipped_engine()

    assert [row.cell("id") for row in shipped_rows(table) if not _fits(row, engine)] == []


def _fits(row: Row, engine: Engine) -> bool:
    if (row.number("input_tokens") or 0) > CACHED:
        return True
    deployment = row_deployment(row, engine)
    hardware = deployment.candidates.hardware
    card = engine.accelerator(row)
    screen = 0.0
    if card.segment is Segment.CONSUMER and not card.shares_host_memory:
        screen = 0.6e9
    capacity = serving_capacity(
        deployment.served,
        row_load(row, row.cell("kind"), deployment, engine),
        deployment.candidates.layout,
        hardware.served_memory_bytes + screen,
        engine.calibration.under(deployment.engine_name),
        np.inf,
    )
    return bool(capacity.fits[0])
