"""Served models on cards of different kinds, against published speeds."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.terminal.estimate import fit_sentence

THREE = "rtx-3090+rtx-3060-12gb+rtx-3060-12gb"


def estimated(model: str, card: str, weights: str | None = None, **more: Any) -> advisor.Estimate:
    workload = {"kind": "serving", "input_tokens": 16, "output_tokens": 256, "concurrency": 1}
    if weights:
        workload["weight_format"] = weights
    case = {"model": {"preset": model}, "hardware": {"accelerator": card}}
    return advisor.estimate(case | {"workload": workload | more})


@pytest.mark.parametrize(
    ("model", "card", "weights", "tokens_per_s"),
    [
        # r/LocalLLaMA, "Building LocalLlama Machine, Episode 3", May 2025: the best --tensor-split.
        ("qwen3-32b", THREE, "q8_0", 15.6),
        ("llama-3.3-70b", THREE, "q4_k_m", 12.1),
        # ai-maestro.online/dual-gpu-llama-cpp-speedup, 2026-05-17: Qwen3.5 27B, the same shape.
        ("qwen3.6-27b", "rtx-4070-super+rtx-3060-12gb", "q4_k_m", 21.2),
    ],
)
def test_published_speeds(model: str, card: str, weights: str, tokens_per_s: float) -> None:
    found = estimated(model, card, weights)
    assert found.memory.fits
    assert found.serving is not None
    assert 1e3 / found.serving.tpot_ms.expected == pytest.approx(tokens_per_s, rel=0.15)


@pytest.mark.parametrize(
    ("first", "second", "model"),
    [
        ("rtx-3090", "rtx-3060-12gb", "qwen3-8b"),
        # Cards of several generations; the older one has no 16-bit units.
        ("quadro-rtx-8000", "p40", "qwen3-14b"),
        ("rtx-5090", "p40", "qwen3-14b"),
    ],
)
def test_a_model_of_one_card_is_as_fast_as_there(first: str, second: str, model: str) -> None:
    one, both = (estimated(model, card, "q8_0") for card in (first, f"{first}+{second}"))
    assert one.serving is not None
    assert both.serving is not None
    # At most 15 GiB: they stay on the first card.
    assert both.serving.tpot_ms.expected == pytest.approx(one.serving.tpot_ms.expected, rel=1e-3)
    assert both.serving.ttft_ms.expected == pytest.approx(one.serving.ttft_ms.expected, rel=1e-3)


@pytest.mark.parametrize(
    ("first", "second", "weights", "share"),
    [
        # 93 % of 47.5 GiB, of 54.1 GiB of layers and cache.
        ("quadro-rtx-8000", "p40", "q6_k", 0.815),
        # 93 % of 31.8 GiB, of 46.7 GiB.
        ("rtx-5090", "p40", "q5_k_m", 0.634),
    ],
)
def test_times_of_cards_of_several_generations_add_up(
    first: str, second: str, weights: str, share: float
) -> None:
    case = {
        "model": {"preset": "llama-3.3-70b"},
        "workload": {"kind": "serving", "input_tokens": 512, "output_tokens": 256}
        | {"concurrency": 1, "weight_format": weights},
        # All layers on the card: what does not fit states the time of a card with enough memory.
        "layout": {"gpu_layers": 80},
    }
    one, other, both = (
        advisor.estimate(case | {"hardware": {"accelerator": card}}).serving
        for card in (first, second, f"{first}+{second}")
    )
    assert one is not None
    assert other is not None
    assert both is not None
    # The host's part differs: it also holds what one card has no room for.
    steps = [
        sum(term.value for term in found.terms if "host's memory" not in term.title)
        for found in (one, other, both)
    ]
    prompts = [found.ttft_ms.expected for found in (one, other, both)]
    for times in (steps, prompts):
        assert times[2] == pytest.approx(share * times[0] + (1.0 - share) * times[1], rel=0.02)


def test_the_answer_says_what_each_card_holds() -> None:
    found = estimated("llama-3.3-70b", "rtx-3090+rtx-3060-12gb", "q3_k_m", input_tokens=1024)
    [said] = [text for text in found.assumptions if "--tensor-split" in text]
    assert "RTX 3090 69 % (22.3 of 24.0 GiB), NVIDIA GeForce RTX 3060 12 GB 31 %" in said
    assert found.layout.gpu_layers is None
    assert "usable on all cards together." in fit_sentence(found)
    owned = {"owned": [{"accelerator": "rtx-3090+rtx-3060-12gb"}]}
    workload = {"kind": "serving", "weight_format": "q3_k_m", "concurrency": 1}
    answer = advisor.recommend(
        {"model": {"preset": "llama-3.3-70b"}, "workload": workload, "limits": owned}
    )
    assert " GiB in all. " in answer.rankings[0].plans[0].sentence


def test_a_pascal_card_keeps_its_cache_in_16_bits() -> None:
    # llama.cpp's --cache-type-k is f16 on every card: 8 GB for 65,536 tokens of Llama 3.1 8B.
    found = estimated("llama-3.1-8b", "p40", "q4_k_m", input_tokens=65280)
    assert found.memory.kv_cache_bytes.expected == pytest.approx(65536 * 131072, rel=0.02)


def test_the_speed_of_a_laptop_as_published() -> None:
    # substrate.lol/site/benchmarks, 2026-03-11: Ollama on an RTX 4060 Laptop, Q4_0.
    found = estimated("llama-3.1-8b", "rtx-4060-laptop", "q4_0")
    assert found.serving is not None
    assert 1e3 / found.serving.tpot_ms.expected == pytest.approx(38, rel=0.25)


@pytest.mark.parametrize(
    ("workload", "what"),
    [
        ({"kind": "serving", "engine": "vllm"}, "unlike cards"),
        ({"kind": "fine_tuning", "method": "lora", "tokens": 1e6}, "serves models only"),
    ],
)
def test_what_no_software_does_on_unlike_cards_is_refused(
    workload: dict[str, Any], what: str
) -> None:
    hardware = {"accelerator": "rtx-3090+rtx-3060-12gb"}
    case = {"model": {"preset": "qwen3-8b"}, "workload": workload, "hardware": hardware}
    with pytest.raises(advisor.InputError, match=what):
        advisor.estimate(case)
