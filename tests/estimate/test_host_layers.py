"""Layers and experts in the host's memory, and memory as engines of desktop computers take it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import advisor
from advisor.architecture.presets import load_preset
from advisor.architecture.weights.gguf_bytes import file_bytes
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.results import Estimate
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.memory import serving_memory
from advisor.foundation.units import GIB, MIB
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WEIGHT_FORMATS
from tests.cases import serve


def answer(
    model: str,
    weights: str,
    accelerator: str,
    *,
    count: int = 1,
    layout: dict[str, int] | None = None,
    host: Mapping[str, float] | None = None,
    tokens: tuple[int, int] = (1024, 256),
) -> Estimate:
    case = serve(
        model,
        accelerator,
        count,
        weight_format=weights,
        concurrency=1,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        host=host or {},
    ) | ({"layout": layout} if layout else {})
    return advisor.estimate(advisor.load_case(case))


def decoded(found: Estimate) -> float:
    """Return tokens per second of one stream after the first."""
    assert found.serving is not None
    return 1e3 / found.serving.tpot_ms.expected


def test_a_large_model_on_one_card_keeps_the_rest_in_the_host() -> None:
    found = answer("llama-3.3-70b", "q4_k_m", "rtx-4090", tokens=(20, 300))

    assert found.memory.fits
    assert found.layout.gpu_layers is not None
    assert 30 < found.layout.gpu_layers < 60
    assert found.memory.host_bytes.expected == pytest.approx(
        file_bytes(load_preset("llama-3.3-70b"), "q4_k_m") * (1 - found.layout.gpu_layers / 81),
        rel=0.1,
    )
    # Ryzen 9 7900X with an RTX 4090: 3.1 tokens/s (geerlingguy/ai-benchmarks at bdf9441, README).
    assert decoded(found) == pytest.approx(3.1, rel=0.25)
    told = " ".join(found.assumptions)
    assert f"-ngl {found.layout.gpu_layers}" in told
    assert "host.memory_bandwidth_bytes_per_s" in told


def test_experts_go_to_the_host_before_whole_layers() -> None:
    found = answer("gpt-oss-120b", "mxfp4_moe", "rtx-4070", host={"memory_bytes": 64e9})

    assert found.memory.fits
    assert found.layout.gpu_layers is None
    assert 24 <= found.layout.cpu_expert_layers <= 36
    assert f"--n-cpu-moe {found.layout.cpu_expert_layers}" in " ".join(found.assumptions)


def test_the_largest_mixture_runs_on_one_card_and_a_large_host() -> None:
    server = {"memory_bytes": 512e9, "memory_bandwidth_bytes_per_s": 300e9}
    found = answer("deepseek-r1", "q4_k_m", "rtx-4090", host=server)

    assert found.memory.fits
    assert found.memory.host_bytes.expected > 300 * GIB
    assert not answer("deepseek-r1", "q4_k_m", "rtx-4090", host={"memory_bytes": 64e9}).memory.fits


def test_faster_host_memory_is_never_slower_and_a_card_is_faster_than_a_host() -> None:
    speeds = [
        decoded(
            answer(
                "qwen3-30b-a3b",
                "q4_k_m",
                "rtx-5080",
                layout={"cpu_expert_layers": layers},
                host={"memory_bandwidth_bytes_per_s": rate},
            )
        )
        for layers, rate in ((48, 40e9), (48, 80e9), (24, 80e9), (24, 160e9))
    ]

    assert speeds == sorted(speeds)


@pytest.mark.parametrize(
    ("model", "weights", "accelerator", "count"),
    [
        # XiongjieDai/GPU-Benchmarks-on-LLM-Inference, README: two RTX 4090 and two RTX 3090.
        ("llama-3.3-70b", "q4_k_m", "rtx-4090", 2),
        ("llama-3.3-70b", "q4_k_m", "rtx-3090", 2),
        # geerlingguy/ai-benchmarks at bdf9441, README.
        ("gpt-oss-20b", "mxfp4_moe", "rtx-a4000", 1),
        ("gpt-oss-20b", "mxfp4_moe", "rtx-5060-ti-16gb", 1),
        ("deepseek-r1", "q4_k_m", "apple-m3-ultra", 1),
    ],
)
def test_what_is_published_to_run_is_not_refused(
    model: str, weights: str, accelerator: str, count: int
) -> None:
    found = answer(model, weights, accelerator, count=count)

    assert found.memory.fits
    assert found.memory.host_bytes.expected == 0


@pytest.mark.parametrize(
    ("model", "tokens_per_s"),
    [("llama-3.2-3b", 4.9), ("llama-3.1-8b", 2.2)],  # geerlingguy/ai-benchmarks, issue 7
)
def test_a_small_board_decodes_as_published(model: str, tokens_per_s: float) -> None:
    found = answer(model, "q4_k_m", "raspberry-pi-5", tokens=(20, 300))

    assert decoded(found) == pytest.approx(tokens_per_s, rel=0.2)


def test_unified_memory_beyond_the_systems_limit_says_how_to_raise_it() -> None:
    within = answer("deepseek-r1", "q4_k_m", "apple-m3-ultra")
    beyond = answer("deepseek-r1", "q5_k_m", "apple-m3-ultra")

    assert beyond.memory.fits
    assert "iogpu.wired_limit_mb" in " ".join(beyond.assumptions)
    assert "iogpu.wired_limit_mb" not in " ".join(within.assumptions)


def test_the_screen_takes_its_share_of_a_consumer_card() -> None:
    plain, bare = (
        answer("qwen3-8b", "q4_k_m", "rtx-5070", host=host) for host in ({}, {"display_bytes": 0})
    )

    assert bare.memory.usable_bytes - plain.memory.usable_bytes == pytest.approx(0.6e9)


def test_buffers_of_llama_cpp_are_those_that_it_logs() -> None:
    """Llama 3 8B Q4_0: CUDA0 4,095.05 MiB, CPU 281.81 MiB, compute buffer 258.50 MiB.

    That file was made without an importance matrix, which gives the first layers more bits.
    """
    model = load_preset("llama-3.1-8b")
    served = ServedModel.of(model, weight_format=WEIGHT_FORMATS["q4_0"], cache_bytes=2.0)
    load = ServingLoad(*(np.array([value]) for value in (511.0, 1.0, 1.0)))
    memory = serving_memory(
        served, load, LayoutArrays.of(ParallelLayout()), np.array([24e9]), load_calibration()
    )

    assert memory.weights[0] / MIB == pytest.approx(4095.05, rel=0.02)
    assert (file_bytes(model, "q4_0") - memory.weights[0]) / MIB == pytest.approx(281.81, rel=0.01)
    assert (memory.activations + memory.logits)[0] / MIB == pytest.approx(258.5)
    assert memory.kv_cache[0] / MIB == pytest.approx(64.0)


@pytest.mark.parametrize(("model", "gib"), [("gpt-oss-20b", 11.27), ("gpt-oss-120b", 59.02)])
def test_mxfp4_files_have_their_published_size(model: str, gib: float) -> None:
    """ggml-org/llama.cpp at 4c7e989, benches/dgx-spark.md."""
    size = file_bytes(load_preset(model), "mxfp4_moe")

    assert size / GIB == pytest.approx(gib, rel=0.005)


def test_llama_cpp_serves_gpt_oss_from_its_own_file() -> None:
    """20.9 billion parameters: the GGUF file has 11.3 GiB (ggml-org/gpt-oss-20b-GGUF, 12.1 GB)."""
    case = serve(
        "gpt-oss-20b", "rtx-4080", concurrency=1, weight_format="mxfp4", engine="llama-cpp"
    )
    found = advisor.estimate(case)
    assert found.precision == "mxfp4_moe"
    assert found.memory.weights_bytes.expected < 12.1e9


@pytest.mark.parametrize(("users", "fits"), [(256, True), (257, False)])
def test_one_llama_server_holds_256_sequences(users: int, fits: bool) -> None:
    """``LLAMA_MAX_SEQ`` of llama.cpp's src/llama-cparams.h, at commit 0349835b."""
    workload = {"weight_format": "q8_0", "concurrency": users, "input_tokens": 128}
    found = advisor.estimate(serve("llama-3.2-1b", "h200-sxm", 1, **workload))
    assert found.serving is not None
    assert found.serving.max_concurrency == 256
    assert found.memory.fits is fits


def test_a_host_does_not_hold_the_cache_of_thousands() -> None:
    """4,000 users of 70B on one H100: fewer at a time, and no server with 1.5 TB of memory."""
    limits = {"accelerators": ["h100-sxm"], "max_accelerators": 1}
    case = {
        "model": {"preset": "llama-3.1-70b"},
        "workload": {"kind": "serving", "concurrency": 4000},
        "limits": limits,
    }
    found = advisor.recommend(case)
    assert not found.rankings[0].plans
    assert found.nearest is not None
    assert any("at a time instead of 4,000" in way.change for way in found.nearest.ways_out)


@pytest.mark.parametrize(("size", "rate"), [(256e9, "89.6 GB/s"), (512e9, "307.2 GB/s")])
def test_more_memory_than_two_channels_hold_comes_with_a_servers_channels(
    size: float, rate: str
) -> None:
    """Two channels of DDR5 take four modules of 64 GB; eight of DDR5-4800 give 8 x 38.4 GB/s."""
    found = answer("deepseek-r1", "q2_k", "rtx-4090", host={"memory_bytes": size})
    assert any(rate in text for text in found.assumptions)


def test_cards_of_llama_cpp_wait_for_each_other() -> None:
    """unslothai/llama.cpp, pull 187: with 32 users each of two was busy 41 to 47 % of the time."""
    case = serve("qwen3-30b-a3b", "a100-sxm-80gb", 2, weight_format="q8_0", concurrency=32)
    case["workload"]["engine"] = "llama-cpp"
    two = advisor.estimate(case | {"layout": {"pipeline": 2}}).serving
    one = advisor.estimate(case | {"hardware": {"accelerator": "a100-sxm-80gb"}}).serving
    assert one is not None
    assert two is not None
    assert two.output_tokens_per_s.expected <= 1.1 * one.output_tokens_per_s.expected
