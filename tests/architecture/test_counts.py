"""Parameters, FLOPs and cache against published numbers: difference zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.presets import load_preset
from advisor.architecture.table.operators import OperatorKind, Part
from advisor.errors import UnsupportedArchitectureError

TESTS = Path(__file__).parents[1]
CONFIGS: dict[str, dict[str, object]] = json.loads(
    (TESTS / "data" / "hf_configs.json").read_text(encoding="utf-8")
)


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(
        (TESTS / "golden" / f"{name}.yaml").read_text(encoding="utf-8")
    )
    return content


PARAMETERS = golden("parameters")
FLOPS = golden("flops")


def test_configs_are_counted_exactly() -> None:
    residuals = {}
    for key, expected in PARAMETERS["configs"].items():
        model = architecture_from_config(CONFIGS[key])
        counted = model.total_parameters
        if expected.get("without_head"):
            counted = model.parameters_without_head
        if expected.get("text_tower"):
            counted = model.text_tower_parameters
        if counted != expected["total"]:
            residuals[key] = counted - expected["total"]
    assert not residuals, residuals


def test_towers_that_only_the_class_states_are_counted_and_named() -> None:
    """Step 3.7's published file nests nothing: the class builds 1,955,848,960 + 25,165,824."""
    model = architecture_from_config(CONFIGS["stepfun-ai__Step-3.7-Flash"])
    rows = {op.name: op for op in model.operators}
    assert rows["tower.vision_tower"].parameters == 1_955_848_960
    assert rows["tower.projector"].parameters == 25_165_824
    assert model.vocab_size == 128_815
    told = " ".join(model.assumptions)
    assert "vision tower 1,955,848,960" in told
    assert "vocab_size 128815 (the file says 128896)" in told


def test_unseen_configs_are_counted_exactly() -> None:
    residuals = {
        key: counted - row["total"]
        for key, row in golden("checkpoints")["checkpoints"].items()
        if (counted := architecture_from_config(row["config"]).total_parameters) != row["total"]
    }
    assert not residuals, residuals


@pytest.mark.parametrize(("name", "row"), golden("variants")["variants"].items())
def test_fields_that_nobody_published_are_counted_exactly(name: str, row: dict[str, Any]) -> None:
    model = architecture_from_config(row["config"])
    base = row.get("without_head", False)
    assert (model.parameters_without_head if base else model.total_parameters) == row["total"]


@pytest.mark.parametrize(
    ("config", "parts", "active"),
    [
        # "10B dense transformer and 128 x 3.66B MoE MLP", 17B active (snowflake.com, 2024-04-24).
        (
            {"model_type": "arctic", "vocab_size": 32000, "hidden_size": 7168,
             "num_hidden_layers": 35,
             "intermediate_size": 4864, "num_attention_heads": 56, "num_key_value_heads": 8,
             "num_local_experts": 128, "num_experts_per_tok": 2, "moe_layer_frequency": 1,
             "parallel_attn_mlp_res": True},
            (10, 128 * 3.66),
            17,
        ),
        # 314B, without the tied table of 131,072 x 6,144 (github.com/xai-org/grok-1).
        (
            {"model_type": "grok-1", "vocab_size": 131072, "hidden_size": 6144,
             "num_hidden_layers": 64, "num_attention_heads": 48, "num_key_value_heads": 8,
             "intermediate_size": 32768, "num_experts": 8, "num_experts_per_tok": 2},
            (5.7 + 0.8, 309.2),
            84,
        ),
    ],
)  # fmt: skip
def test_models_of_remote_classes(
    config: dict[str, object], parts: tuple[float, float], active: float
) -> None:
    model = architecture_from_config(config)
    experts = model.expert_parameters
    found = ((model.total_parameters - experts) / 1e9, experts / 1e9)
    assert found == pytest.approx(parts, rel=0.01)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("key", "cached", "state"),
    [
        # Full layers x what one token leaves behind; other layers x (heads x keys x values +
        # channels x taps of the convolution), from the published fields.
        ("moonshotai__Kimi-Linear-48B-A3B-Instruct", 7 * 576, 20 * (32 * 128**2 + 12_288 * 4)),
        ("MiniMaxAI__MiniMax-Text-01-hf", 10 * 2 * 8 * 128, 70 * 64 * 128**2),
        ("ai21labs__Jamba-v0.1", 4 * 2 * 8 * 128, 28 * (8192 * 16 + 8192 * 4)),
        ("tiiuae__Falcon-H1-34B-Instruct", 72 * 2 * 4 * 128, 72 * (4096 * 256 + 5120 * 4)),
        ("ibm-granite__granite-4.0-h-small", 4 * 2 * 8 * 128, 36 * (8192 * 128 + 8448 * 4)),
        ("google__gemma-3n-E4B-text", 20 * 2 * 2 * 256, 0),
        ("zai-org__GLM-4.7-Flash", 47 * 576, 0),
        ("bigcode__starcoder", 40 * 2 * 128, 0),
        ("LiquidAI__LFM2-1.2B", 6 * 2 * 8 * 64, 10 * 2048 * 3),
    ],
)
def test_cache_of_unseen_configs(key: str, cached: int, state: int) -> None:
    model = architecture_from_config(golden("checkpoints")["checkpoints"][key]["config"])
    rows = model.operators
    assert sum(row.layers * row.cache_elements_per_token for row in rows) == cached
    assert sum(row.layers * row.state_elements_per_sequence for row in rows) == state


@pytest.mark.parametrize(
    ("name", "cached"),
    [
        # Latents of 512 and 64 rotated on the layers that own one; keys of 32 where one is picked.
        ("mistral_large4_text", 3 * (512 + 64) + 3 * 32),
        # Latents of three layers; keys, gates and a mark of the two that pick.
        ("glm5_next_text", 3 * 512 + 2 * (2 * 128 + 1)),
        # Two attentions in each of 28 blocks.
        ("longcat_flash_chat", 56 * (512 + 64)),
        # Full layers alone: 8 heads of 64, keys and values; the others keep a state.
        ("olmo_hybrid_three", 2 * 512),
    ],
)
def test_cache_of_what_nobody_published(name: str, cached: int) -> None:
    model = architecture_from_config(golden("variants")["variants"][name]["config"])
    assert model.cache_elements_per_token == cached


def test_presets_are_counted_exactly() -> None:
    residuals = {
        name: load_preset(name).total_parameters - expected
        for name, expected in PARAMETERS["presets"].items()
        if load_preset(name).total_parameters != expected
    }
    assert not residuals, residuals


@pytest.mark.parametrize(("name", "expected"), PARAMETERS["active"].items())
def test_active_parameters(name: str, expected: int) -> None:
    assert load_preset(name).active_parameters == expected


@pytest.mark.parametrize(("name", "row"), PARAMETERS["published_active"].items())
def test_active_parameters_as_published(name: str, row: dict[str, Any]) -> None:
    known = golden("checkpoints")["checkpoints"].get(name)
    model = architecture_from_config(known["config"]) if known else load_preset(name)
    counted = {
        None: model.active_parameters,
        "input": model.active_without_embedding,
        "both": model.active_without_embedding - model.vocab_size * model.hidden_size,
    }[row.get("leaves_out")]
    digits = len(row["active"].partition(".")[2])
    assert round(counted / 1e9, digits) == float(row["active"])
    if not row.get("coarse"):
        assert counted / 1e9 == pytest.approx(float(row["active"]), rel=0.01)


@pytest.mark.parametrize(
    "row", FLOPS["forward"], ids=lambda row: f"{row['preset']}-{row['tokens']}"
)
def test_forward_flops(row: dict[str, Any]) -> None:
    tokens = row["tokens"]
    per_token = sum(
        op.layers * (op.flops_per_token + tokens * op.flops_per_token_per_key)
        for op in load_preset(row["preset"]).operators
    )
    assert tokens * per_token == row["flops"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Bytes per token in 16 bits: 2 x layers x key-value heads x head dimension x 2; of latent
        # attention layers x (rank + rotary dimension) x 2 (arXiv:2412.19437, section 2.1).
        ("llama-3.1-8b", 131_072),
        ("llama-2-7b", 524_288),
        ("qwen2.5-7b", 57_344),
        ("mixtral-8x7b", 131_072),
        ("gemma-2-9b", 344_064),
        ("gpt-oss-20b", 49_152),
        ("gpt2", 36_864),
        ("deepseek-v2-lite", 31_104),
        ("deepseek-v3", 70_272),
        # The indexer caches one key of 128 elements besides (DeepSeek-V3.2 report).
        ("deepseek-v3.2", 70_272 + 61 * 128 * 2),
        ("falcon-7b", 2 * 32 * 64 * 2),
    ],
)
def test_cache_bytes_per_token(name: str, expected: int) -> None:
    assert 2 * load_preset(name).cache_elements_per_token == expected


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("gemma-2-9b", {None: 21, 4096: 21}),
        ("gemma-3-27b", {None: 10, 1024: 52}),
        ("gpt-oss-120b", {None: 18, 128: 18}),
        ("mistral-7b", {4096: 32}),
        ("llama-3.1-70b", {None: 80}),
        ("qwen2.5-72b", {None: 80}),
    ],
)
def test_windows(name: str, windows: dict[int | None, int]) -> None:
    rows = [op for op in load_preset(name).operators if op.kind is OperatorKind.ATTENTION]
    assert {op.window: op.layers for op in rows} == windows


def test_latent_cache_is_one_head() -> None:
    rows = [op for op in load_preset("deepseek-v3").operators if op.cache_elements_per_token]
    assert [(op.cache_heads, op.cache_elements_per_token) for op in rows] == [(1, 576)]


def test_sparse_attention_caches_more_than_it_reads() -> None:
    rows = {
        op.name: op
        for op in load_preset("deepseek-v3.2").operators
        if op.kind is OperatorKind.ATTENTION
    }
    assert rows["block.attention.scores"].window == 2048
    assert rows["block.attention.scores"].cache_elements_per_token == 0
    assert rows["block.attention.cache"].window is None
    assert rows["block.attention.cache"].cache_elements_per_token == 576


def test_heads_of_sparse_attention_share_the_latents() -> None:
    """Multi-query mode (DeepSeek-V3.2-Exp report, section 2.1): 128 heads score 576 and sum 512."""
    (scores,) = (
        op for op in load_preset("deepseek-v3.2").operators if op.name == "block.attention.scores"
    )
    assert scores.flops_per_token_per_key == 2 * 128 * (576 + 512)


def test_shared_indexers_are_counted_once() -> None:
    """GLM-5.2 shares 57 of GLM-5's 78 indexers: 9,371,904 parameters each."""
    own, shared = load_preset("glm-5"), load_preset("glm-5.2")
    assert own.total_parameters - shared.total_parameters == 57 * 9_371_904


def test_expert_rows_hold_all_experts_and_use_few() -> None:
    model = load_preset("deepseek-v3")
    rows = [op for op in model.operators if op.experts > 1]
    assert {op.layers for op in rows} == {58}
    assert {(op.experts, op.active_experts) for op in rows} == {(256, 8)}
    # 58 layers x 256 experts x 3 matrices of 7168 x 2048.
    assert model.expert_parameters == 653_908_770_816


def test_head_rows() -> None:
    tied, untied = load_preset("llama-3.2-1b"), load_preset("llama-3.1-8b")
    for model in (tied, untied):
        loss = next(op for op in model.operators if op.kind is OperatorKind.CROSS_ENTROPY)
        assert (loss.part, loss.out_features) == (Part.HEAD, 128_256)
    logits = {m.name: m.in_part(Part.HEAD)[1] for m in (tied, untied)}
    assert (logits["llama-3.2-1b"].parameters, logits["llama-3.2-1b"].active_parameters) == (
        0,
        128_256 * 2048,
    )
    assert logits["llama-3.1-8b"].parameters == 128_256 * 4096


def test_row_names_are_unique() -> None:
    for name in ("llama-3.1-8b", "deepseek-v3.2", "gpt-oss-120b", "qwen1.5-moe-a2.7b", "opt-350m"):
        names = [op.name for op in load_preset(name).operators]
        assert len(names) == len(set(names)), name


def test_biases_are_where_the_family_has_them() -> None:
    """Qwen 2 has biases on queries, keys and values only: 3584 + 2 x 512 in each layer of 7B."""
    rows = {op.name: op for op in load_preset("qwen2.5-7b").operators}
    biases = {
        name: rows[name].parameters - rows[name].in_features * rows[name].out_features
        for name in rows
        if name.startswith("block.") and rows[name].kind is OperatorKind.MATMUL
    }
    assert {name: bias for name, bias in biases.items() if bias} == {
        "block.attention.query": 3584,
        "block.attention.key": 512,
        "block.attention.value": 512,
    }


@pytest.mark.parametrize(
    ("key", "cached"),
    [
        # Layers times keys and values, times heads, times the head dimension; by window.
        ("odd_kolibri1", {None: 2 * 2 * 4 * 128, 513: 5 * 2 * 4 * 128}),
        ("odd_flint", {None: 4 * 2 * 4 * 128, 513: 3 * 2 * 4 * 128}),
        ("odd_laguna", {None: 2 * 2 * 8 * 128, 512: 3 * 2 * 8 * 128}),
        ("odd_afmoe", {None: 3 * 2 * 2 * 128, 1024: 6 * 2 * 2 * 128}),
        ("odd_lfm3", {None: 2 * 2 * 2 * 128, 256: 2 * 2 * 2 * 128}),
        ("odd_inkling_text", {None: 1 * 2 * 2 * 128, 256: 7 * 2 * 4 * 64}),
        ("odd_sarvam_mla", {None: 5 * (512 + 64)}),
        ("odd_bailing_hybrid", {None: 2 * (512 + 64)}),
        # The indexer keeps a key of 128, and in Qwen 4 of 256.
        ("odd_dots3_note_text", {None: 3 * (512 + 64 + 128), 128: 5 * (256 + 64)}),
        ("odd_hy_v4", {None: 7 * (512 + 64) + 4 * 128}),
        ("odd_qwen4_exp_text", {None: 2 * (2 * 2 * 256 + 256)}),
    ],
)
def test_caches_are_those_of_the_classes(key: str, cached: dict[int | None, int]) -> None:
    model = architecture_from_config(golden("checkpoints")["checkpoints"][key]["config"])
    found: dict[int | None, float] = {}
    for row in model.operators:
        if row.cache_elements_per_token:
            held = row.layers * row.cache_elements_per_token
            found[row.window] = found.get(row.window, 0) + held
    assert found == cached


def test_a_part_of_a_multimodal_model_is_no_llama() -> None:
    config = golden("checkpoints")["checkpoints"]["odd_granite_swa"]["config"]
    with pytest.raises(UnsupportedArchitectureError, match="it is an encoder or a part of"):
        architecture_from_config({**config, "model_type": "wav2vec2", "intermediate_size": 4096})
