"""What is kept for the backward pass, against PyTorch's own accounting of real models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.presets import load_preset
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Part
from advisor.estimate.training.activations import (
    SavedBytes,
    fold_saved_bytes,
    selective_saved_bytes,
)
from advisor.estimate.training.report import hardware_flops_per_token
from advisor.estimate.training.run import resolve_training
from advisor.nouns.precision import RECIPES
from advisor.nouns.training_choices import AttentionKernel
from advisor.nouns.workload import FineTuning, Pretraining

GOLDEN: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "golden" / "saved_bytes.yaml").read_text(encoding="utf-8")
)
LAYERS = 3
SIZES = {"h": 4096, "q": 32 * 96, "k": 8 * 96, "f": 11008, "H": 32, "G": 8}
GPT2_SIZES = {"h": 768, "q": 768, "k": 768, "f": 3000, "H": 12, "G": 12}
LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 96,
    "intermediate_size": 11008,
    "vocab_size": 1000,
}
GPT2: dict[str, object] = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": LAYERS,
    "n_head": 12,
    "n_inner": 3000,
    "vocab_size": 50257,
}
CONFIGS: dict[str, dict[str, object]] = {
    "llama": LLAMA,
    "llama_mha": LLAMA | {"num_key_value_heads": 32},
    "qwen2": LLAMA | {"model_type": "qwen2"},
    "qwen3": LLAMA | {"model_type": "qwen3"},
    "gemma2": LLAMA | {"model_type": "gemma2"},
    "gpt2": GPT2,
    "gpt2_no_dropout": GPT2 | {"resid_pdrop": 0.0, "attn_pdrop": 0.0},
}


def value(formula: str, **letters: float) -> float:
    """Evaluate a formula of the golden file."""
    return float(eval(formula, {"__builtins__": {}}, letters))


def per_layer(
    model: ModelArchitecture, recipe: str, stack: str = "huggingface", attention: str = "flash"
) -> SavedBytes:
    run = resolve_training(
        Pretraining(
            tokens=1e9, sequence_length=1024, software=stack, attention=AttentionKernel(attention)
        ),
        model,
        RECIPES[recipe],
    )
    total = fold_saved_bytes(model.in_part(Part.BLOCK), run)
    return SavedBytes().plus(total, 1 / model.num_hidden_layers)


@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: "-".join(row[:4]))
def test_formulas(row: list[str]) -> None:
    name, recipe, stack, attention, formula, per_key = row
    saved = per_layer(architecture_from_config(CONFIGS[name]), recipe, stack, attention)
    letters = GPT2_SIZES if name.startswith("gpt2") else SIZES
    if name == "llama_mha":
        letters = SIZES | {"k": SIZES["q"], "G": 32}
    assert saved.per_token_bytes == pytest.approx(value(formula, **letters), rel=1e-12)
    assert saved.per_key_bytes == pytest.approx(value(per_key, **letters), rel=1e-12)


@pytest.mark.parametrize("row", GOLDEN["routed"], ids=lambda row: str(row[0]))
def test_routed_layers(row: list[str]) -> None:
    recipe, formula = row
    model = architecture_from_config(
        {
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "moe_intermediate_size": 704,
            "num_experts": 16,
            "num_experts_per_tok": 3,
            "vocab_size": 1000,
        }
    )
    expected = value(formula, h=2048, a=3, e=704)
    # The published constant has three digits: 50 of 20,600.
    assert per_layer(model, recipe).per_token_bytes == pytest.approx(expected, abs=50)


@pytest.mark.parametrize("row", GOLDEN["lora"], ids=lambda row: f"{row[0]}-{row[1]}")
def test_adapters(row: list[str]) -> None:
    method, targets, formula = row
    model = architecture_from_config(LLAMA)
    workload = FineTuning.model_validate(
        {
            "method": method,
            "lora_rank": 16,
            "lora_targets": targets.split(","),
            "software": "huggingface",
        }
    )
    run = resolve_training(workload, model, RECIPES["bf16_mixed"])
    saved = fold_saved_bytes(model.in_part(Part.BLOCK), run)
    expected = LAYERS * value(formula, r=16, **SIZES)
    assert saved.per_token_bytes == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("row", GOLDEN["models"], ids=lambda row: str(row["preset"]))
def test_whole_models(row: dict[str, Any]) -> None:
    model = load_preset(row["preset"])
    workload = Pretraining(attention=AttentionKernel(row["attention"]), software="huggingface")
    run = resolve_training(workload, model, RECIPES[row["recipe"]])
    total = fold_saved_bytes(model.operators, run)
    tokens = row["batch"] * row["length"]
    logits = 4 * tokens * model.vocab_size
    kept = tokens * (total.per_token_bytes + row["length"] * total.per_key_bytes)
    assert kept + logits + row.get("casts", 0) == pytest.approx(row["bytes"], rel=1e-3)


def test_tensor_parallelism_divides_as_measured() -> None:
    """Per token and layer: 4h + (12h + 4q + 4k + 8f + 4H)/t under sequence parallelism.

    Without it 16h + (4q + 4k + 8f + 4H)/t, from whole tensor-parallel training steps.
    """
    saved = per_layer(architecture_from_config(LLAMA), "bf16_pure")
    assert saved.gathered_bytes == 4 * 4096
    assert saved.replicated_bytes == 12 * 4096 + 8
    assert saved.divided_bytes == value("4*q + 4*k + 8*f + 4*H", **SIZES)


def test_megatron_shards_what_others_gather() -> None:
    """Korthikanti et al. 2022, section 4.2.2: sequence parallelism divides every tensor."""
    saved = per_layer(architecture_from_config(LLAMA), "bf16_mixed", "megatron")
    assert saved.gathered_bytes == 0
    assert saved.replicated_bytes == 8 * 4096 + 8


def test_liger_casts_for_each_consumer() -> None:
    """Fused kernels in eager code: fp32 inputs of both norms (8h), five bf16 casts (10h)."""
    saved = per_layer(architecture_from_config(LLAMA), "bf16_amp", "liger")
    assert saved.replicated_bytes + saved.gathered_bytes == 18 * 4096 + 8
    assert saved.divided_bytes == value("4*q + 4*k + 6*f + 4*H", **SIZES)


@pytest.mark.parametrize(
    ("stack", "formula"),
    [
        # Megatron: the norms' inputs, gate and up, and what flash attention needs.
        ("megatron", "4*h + 4*q + 4*k + 4*f + 4*H + 8"),
        # torchtitan's policy: of q, k, v, o, gate, up and down every second product, from the
        # first on, and what the attention kernel writes. No backward pass needs the last product.
        ("compiled", "2*q + 2*k + 2*f + 2*q + 4*H"),
        *((stack, "2*q + 2*k + 2*f + 2*h + 2*q + 4*H") for stack in ("plain", "liger")),
    ],
)
def test_what_selective_recomputation_keeps(stack: str, formula: str) -> None:
    model = architecture_from_config(LLAMA)
    workload = Pretraining(tokens=1e9, software=stack)
    run = resolve_training(workload, model, RECIPES["bf16_mixed"])
    saved = selective_saved_bytes(model.in_part(Part.BLOCK), run)
    assert saved.per_token_bytes == LAYERS * value(formula, **SIZES)
    assert saved.per_key_bytes == 0


@pytest.mark.parametrize(
    ("stack", "elements"), [("megatron", "0*h"), ("compiled", "k*h + q*h + f*h")]
)
def test_products_that_selective_recomputation_makes_again(stack: str, elements: str) -> None:
    """Of q, k, v, o, gate, up and down: k, o and up; down is made for the next block alone."""
    model = architecture_from_config(LLAMA)
    run = resolve_training(Pretraining(tokens=1e9, software=stack), model, RECIPES["bf16_mixed"])
    none, some = hardware_flops_per_token(run, np.array([0.0, 1.0]))
    expected = 2 * LAYERS * value(elements, **SIZES)
    assert some - none == pytest.approx(expected, rel=1e-9)


def test_selective_recomputation_drops_the_scores() -> None:
    model = architecture_from_config(LLAMA)
    workload = Pretraining(tokens=1e9, attention=AttentionKernel.EAGER)
    run = resolve_training(workload, model, RECIPES["bf16_mixed"])
    assert fold_saved_bytes(model.in_part(Part.BLOCK), run).per_key_bytes == LAYERS * 6 * 32
    assert selective_saved_bytes(model.in_part(Part.BLOCK), run).per_key_bytes == 0
