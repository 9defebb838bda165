"""Start-up logs of serving engines: what each release leaves for its cache."""

from __future__ import annotations

import pytest

from advisor.calibration.tables.cache_rows import (
    Share,
    engine_release,
    fit_cache_interval,
    predict_cache_row,
    read_log,
)
from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.reading import Row
from advisor.catalog.constants import load_calibration
from advisor.foundation.units import GIB


@pytest.fixture(scope="module")
def engine() -> Engine:
    return shipped_engine()


def log(**cells: str) -> Row:
    row = Row(
        {
            "id": "log",
            "engine": "vllm",
            "architecture_key": "meta-llama__Meta-Llama-3.1-8B",
            "weight_precision": "bf16",
            "kv_precision": "bf16",
            "reported_device_memory_gib": "23.58",
            "tensor_parallel": "1",
        }
    )
    return row | cells


@pytest.mark.parametrize(
    ("version", "length", "logged_gib", "cells"),
    [
        # vLLM issue 10517: one prompt of the whole context.
        ("vLLM V0", "20000", 2.07, {}),
        ("vLLM V0", "29000", 2.99, {}),
        # Contexts beyond 32,768 were cut into steps of 2,048, without sampling.
        ("vLLM V0", "131072", 0.22, {}),
        # Sorting samplers of 256 sequences.
        ("vLLM 0.7", "4096", 1.40, {"architecture_key": "Qwen__Qwen2.5-1.5B"}),
        ("vLLM 0.7", "32768", 2.02, {"architecture_key": "Qwen__Qwen2.5-1.5B"}),
        ("vLLM 0.7", "2048", 1.83, {"architecture_key": "microsoft__Phi-4-mini-instruct"}),
        # Eight GPUs, four ranks of attention heads: the sampler is not divided.
        (
            "vLLM 0.10.2",
            "32768",
            1.40,
            {"architecture_key": "Qwen__Qwen3-235B-A22B", "tensor_parallel": "8"},
        ),
    ],
)
def test_activation_peaks_of_published_logs(
    engine: Engine, version: str, length: str, logged_gib: float, cells: dict[str, str]
) -> None:
    row = log(
        engine_version=version,
        max_model_len=length,
        primary_quantity="activation_peak_gib",
        activation_peak_gib=str(logged_gib),
        **cells,
    )
    (scored,) = predict_cache_row(row, engine)
    assert scored.expected == pytest.approx(logged_gib, rel=0.06)


def test_a_log_that_tells_tokens_is_scored_on_them_too(engine: Engine) -> None:
    row = log(
        engine_version="vLLM V0",
        max_model_len="20000",
        gpu_memory_utilization="0.9",
        kv_cache_gib="3.81",
        kv_tokens="31232",
        primary_quantity="kv_cache_gib",
    )
    cache, tokens = predict_cache_row(row, engine)
    assert (cache.quantity, tokens.quantity) == ("kv_cache_gib", "kv_tokens")
    # 2 x 32 layers x 8 heads x 128 x 2 bytes.
    assert tokens.expected == pytest.approx(cache.expected * 2**30 / 131_072)


def test_the_interval_reaches_the_farthest_of_few_logs(engine: Engine) -> None:
    # Of 16 groups, the 15.3th and more is the last: RTX 3090, vLLM V1, 1.5 GiB of graphs.
    farthest = read_log(
        log(engine_version="vLLM V1", accelerator="rtx-3090", gpu_memory_utilization="0.9"),
        engine,
        "kv_cache_gib",
    )
    found = fit_cache_interval(engine)
    assert found.high == pytest.approx(farthest.factor(3.78 * GIB), abs=0.01)
    assert farthest.room(farthest.factor(3.78 * GIB)) == pytest.approx(3.78 * GIB)


def test_before_release_0_4_the_context_comes_out_of_the_share() -> None:
    facts = load_calibration().serving
    counted = {
        version: engine_release(
            Row({"engine": "vllm", "engine_version": version}), facts, 80e9
        ).counts_context
        for version in ("vLLM 0.3", "vLLM Dec-2023", "vLLM 0.4 ROCm", "vLLM 0.7")
    }
    assert [version for version, inside in counted.items() if inside] == [
        "vLLM 0.3",
        "vLLM Dec-2023",
    ]


@pytest.mark.parametrize(
    ("gigabytes", "fraction"),
    [
        # srt/server_args.py: 1.5 MB for each token of a step, 2 for each graphed sequence.
        (24, 1 - (2048 * 1.5 + 24 * 2) / (24 * 1024)),
        (80, 1 - (8192 * 1.5 + 256 * 2) / (80 * 1024)),
        (180, 1 - (16384 * 1.5 + 512 * 2) / (180 * 1024)),
    ],
)
def test_sglang_reserves_by_the_size_of_the_card(gigabytes: int, fraction: float) -> None:
    facts = load_calibration().serving
    release = engine_release(Row({"engine": "sglang"}), facts, gigabytes * 2.0**30)
    assert release.share is Share.AT_START
    assert release.facts.memory_fraction == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("version", "fraction", "graphs"),
    [
        ("vLLM 0.10.2", 0.9, False),
        ("vLLM Dec-2025", 0.9, False),
        ("vLLM 0.21", 0.92, True),
        ("vLLM Aug-2026", 0.92, True),
        ("", 0.92, True),
    ],
)
def test_graphs_and_the_default_share_changed_together(
    version: str, fraction: float, graphs: bool
) -> None:
    facts = load_calibration().serving
    release = engine_release(Row({"engine": "vllm", "engine_version": version}), facts, 80e9)
    assert release.facts.memory_fraction == fraction
    assert (release.facts.graph_bytes > 0) is graphs
