"""Images in prompts, against published sizes of models, token counts and times of servers."""

from __future__ import annotations

import pytest

import advisor
from advisor.architecture.presets import load_preset
from advisor.errors import InputError
from advisor.estimate.serving.images import image_work, tower_of, with_images
from advisor.nouns.serving import Serving
from tests.cases import serve, tune

# Parameters of the published checkpoints, with their vision towers. [1e9]
WHOLE = {
    "qwen2-vl-7b": 8.29,
    "qwen2.5-vl-3b": 3.75,
    "qwen2.5-vl-7b": 8.29,
    "qwen2.5-vl-32b": 33.45,
    "qwen2.5-vl-72b": 73.41,
    "qwen3-vl-2b": 2.13,
    "qwen3-vl-8b": 8.77,
    "gemma-3-4b": 4.30,
    "gemma-3-27b": 27.43,
    "llama-4-scout": 108.64,
    "pixtral-12b": 12.68,
    "mistral-small-3.1-24b": 24.01,
    # unsloth/issues/4907: 25,865,209,648 with 59,275,776 of adapters.
    "gemma-4-26b-a4b": 25.806,
}
EXACT = {
    "qwen2-vl-7b": 8_291_375_616,
    "qwen2.5-vl-7b": 8_292_166_656,
    "qwen3-vl-8b": 8_767_123_696,
    "gemma-3-4b": 4_300_079_472,
    "gemma-3-27b": 27_432_406_640,
    "gemma-4-26b-a4b": 25_805_933_872,
    "llama-4-scout": 108_641_793_536,
    "mistral-small-3.1-24b": 24_011_361_280,
}
"""Parameters that the hub shows of the published safetensors."""


@pytest.mark.parametrize("name", EXACT)
def test_an_answer_tells_the_text_and_the_whole(name):
    found = advisor.estimate(tune(name, "h200-sxm", 8))
    assert found.parameters.with_vision == EXACT[name]
    assert any("vision tower's" in line for line in found.assumptions)


def test_training_holds_the_tower_and_in_full_its_states():
    """Tower and projector of Qwen2.5-VL 7B: 676,550,144 parameters."""
    model, tower = load_preset("qwen2.5-vl-7b"), 676_550_144
    adapters = advisor.estimate(tune("qwen2.5-vl-7b", "h200-sxm", 1, method="lora")).memory
    held = 2 * (model.total_parameters + tower)
    assert adapters.weights_bytes.expected == pytest.approx(held, rel=0.02)
    full = tune("qwen2.5-vl-7b", "h200-sxm", 1, method="full", precision="bf16_pure")
    states = advisor.estimate(full).memory
    assert states.optimizer_bytes.expected == pytest.approx(2 * held, rel=0.001)


@pytest.mark.parametrize("name", WHOLE)
def test_text_and_tower_are_the_published_model(name):
    model = load_preset(name)
    tower = tower_of(model)
    assert tower is not None
    parts = tower.block_parameters + tower.projector_parameters(model.hidden_size)
    assert (model.total_parameters + parts) / 1e9 == pytest.approx(WHOLE[name], rel=0.004)


def weights_bytes(engine: str, precision: str) -> float:
    case = serve("qwen2.5-vl-7b", "h100-sxm", 1, engine=engine, weight_format=precision)
    return advisor.estimate(case).memory.weights_bytes.expected


def test_servers_load_the_tower_without_images_and_text_files_do_not():
    """Qwen/Qwen2.5-VL-7B-Instruct: 8,292,166,656 parameters in 16 bits."""
    whole = 2 * 8_292_166_656
    for engine in ("vllm", "sglang"):
        assert weights_bytes(engine, "bf16") == pytest.approx(whole, rel=0.001)
    # Of 8 bits and a half each: the text's 7,615,616,512 alone.
    assert weights_bytes("llama-cpp", "q8_0") < 8.6 / 8 * 7_615_616_512


# Qwen2-VL (arXiv:2409.12191, section 2.1): 224 x 224 pixels are 66 tokens with the two around them.
# Gemma 3: mm_tokens_per_image. Pixtral (arXiv:2410.07073, section 2.2): 64 x 64 patches, a break
# or an end after each row. Llama 4: 16 tiles and the whole image, 144 tokens each.
@pytest.mark.parametrize(
    ("name", "side", "tokens"),
    [
        ("qwen2-vl-7b", 224, 66),
        ("gemma-3-27b", 2000, 258),
        ("pixtral-12b", 1024, 64 * 64 + 64),
        ("pixtral-12b", 4000, 64 * 64 + 64),
        ("llama-4-scout", 1344, 17 * 144 + 2),
        ("llama-4-scout", 300, 144 + 2),
    ],
)
def test_an_image_takes_the_published_tokens(name, side, tokens):
    model = load_preset(name)
    tower = tower_of(model)
    assert tower is not None
    assert image_work(tower, 1, side, model).tokens == tokens
    assert image_work(tower, 3, side, model).tokens == 3 * tokens


# vllm-project/vllm issue 41267: Qwen2.5-VL 7B, vLLM 0.19.1, H100, 1920 x 1080.
# yhyang201/sgl-bench @5123d54, records/20260327/20260327_042330: Qwen3-VL 8B, SGLang 0.5.9, H200.
FIRST_TOKENS = [
    ("qwen2.5-vl-7b", "vllm", "h100-sxm", 27, 1, 1440, 293),
    ("qwen3-vl-8b", "sglang", "h200-sxm", 256, 1, 960, 201),
    ("qwen3-vl-8b", "sglang", "h200-sxm", 256, 4, 960, 636),
    ("qwen3-vl-8b", "sglang", "h200-sxm", 256, 1, 1440, 423),
    ("qwen3-vl-8b", "sglang", "h200-sxm", 256, 4, 1440, 1313),
    ("qwen3-vl-8b", "sglang", "h200-sxm", 256, 2, 1920, 1388),
]


@pytest.mark.parametrize(
    ("model", "engine", "card", "text", "images", "side", "measured"), FIRST_TOKENS
)
def test_measured_first_tokens_lie_in_the_range(model, engine, card, text, images, side, measured):
    """``side``: root of the pixels of a published image."""
    serving = advisor.estimate(
        {
            "model": {"preset": model},
            "workload": {
                "kind": "serving",
                "engine": engine,
                "concurrency": 1,
                "input_tokens": text,
                "output_tokens": 32,
                "images_per_request": images,
                "prompt_image_size": side,
            },
            "hardware": {"accelerator": card, "count": 1},
        }
    ).serving
    assert serving is not None
    assert serving.ttft_ms.low <= measured <= serving.ttft_ms.high
    assert serving.ttft_ms.expected == pytest.approx(measured, rel=0.3)


def test_images_are_counted_once():
    model = load_preset("qwen3-vl-8b")
    once = with_images(Serving(images_per_request=2, input_tokens=100), model)
    assert once.input_tokens == 100 + 2 * (32 * 32 + 2)
    assert with_images(once, model) is once
    with pytest.raises(InputError, match="image_work does not follow"):
        with_images(once.changed(images_per_request=3), model)
    with pytest.raises(InputError, match="image_work describes images"):
        with_images(once.changed(images_per_request=None), model)


@pytest.mark.parametrize(
    ("model", "stated"),
    [("qwen3-8b", {"images_per_request": 1}), ("qwen3-vl-8b", {"prompt_image_size": 512})],
)
def test_images_without_a_tower_and_sizes_without_images_are_refused(model, stated):
    with pytest.raises(InputError, match="image"):
        with_images(Serving.model_validate(stated), load_preset(model))
