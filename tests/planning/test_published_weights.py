"""A plan takes weights that exist: published ones, or what its tool makes while it loads."""

from typing import Any

import pytest

import advisor
from tests.cases import serve


def answer(model: str, card: str, **workload: Any) -> advisor.Estimate:
    hardware = {"accelerator": card, "count": 1}
    case = serve(model, concurrency=8, **workload, hardware=hardware, limits={})
    return advisor.estimate(case)


@pytest.mark.parametrize(
    ("model", "card", "weights", "repository"),
    [
        # 58 and 61 GB in bf16 on 32 GB; no maker publishes all of either in nvfp4: NVIDIA's Gemma
        # keeps attention in 16 bits and takes 32.7 GB (its files on the hub, read 2026-11-29).
        ("gemma-4-31b", "rtx-5090", "w4a16", "google/gemma-4-31B-it-qat-w4a16-ct"),
        ("qwen3-coder-30b", "rtx-5090", "w4a16", "QuantTrio/Qwen3-Coder-30B-A3B-Instruct-AWQ"),
        ("qwen3-32b", "rtx-5090", "nvfp4", "nvidia/Qwen3-32B-NVFP4"),
        ("qwen2.5-7b-instruct", "v100-pcie-16gb", "w4a16", "Qwen/Qwen2.5-7B-Instruct-AWQ"),
    ],
)
def test_a_plan_is_in_a_published_format_and_its_file_loads_it(
    model: str, card: str, weights: str, repository: str
) -> None:
    found = answer(model, card)
    assert (found.precision, found.memory.fits) == (weights, True)
    assert any(repository in line for line in found.assumptions)
    used = found.software
    assert used is not None
    case = serve(model, concurrency=8, hardware={"accelerator": card, "count": 1}, limits={})
    assert repository in advisor.export(case, used.name, answer=found).content


def test_weights_that_nobody_publishes_are_made_while_the_tool_loads() -> None:
    """Yi-34B has no 4-bit weights of its makers; bitsandbytes packs them (vLLM, BitsAndBytes)."""
    found = answer("yi-34b", "rtx-5090")
    assert found.precision == "nf4"
    case = serve(
        "yi-34b", concurrency=8, hardware={"accelerator": "rtx-5090", "count": 1}, limits={}
    )
    assert "--quantization bitsandbytes" in advisor.export(case, "vllm", answer=found).content


def test_a_stated_format_that_nobody_publishes_is_estimated_and_says_how_to_make_it() -> None:
    """docs.vllm.ai, LLM Compressor and NVIDIA Model Optimizer: both write NVFP4 checkpoints."""
    found = answer("yi-34b", "rtx-5090", weight_format="nvfp4")
    assert found.precision == "nvfp4"
    [line] = [line for line in found.assumptions if "no published nvfp4 weights" in line]
    assert "llm-compressor or NVIDIA Model Optimizer" in line


def test_a_model_of_ones_own_is_quantized_first() -> None:
    case = {
        "model": {"parameters": 24e9},
        "workload": {"kind": "serving", "concurrency": 8},
        "hardware": {"accelerator": "rtx-5090", "count": 1},
    }
    found = advisor.estimate(case)
    assert found.precision in ("nvfp4", "w4a16")
    assert any("make them first with" in line for line in found.assumptions)


def test_a_unified_desktop_chip_serves_with_llama_cpp_whatever_the_users() -> None:
    """Runs of Strix Halo are of llama.cpp over Vulkan (fromthematrix.dev, llm-tracker.info)."""
    used = answer("qwen3-8b", "ryzen-ai-max-395").software
    assert used is not None
    assert used.name == "llama-cpp"
