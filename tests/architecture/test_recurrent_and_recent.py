"""State-space, hybrid, windowed and routed families: parameters, cache and state, exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import OperatorKind
from advisor.errors import InputError
from advisor.nouns.case import ModelSource

TESTS = Path(__file__).parents[1]
CONFIGS: dict[str, dict[str, Any]] = json.loads(
    (TESTS / "data" / "hf_configs.json").read_text(encoding="utf-8")
)
GOLDEN = yaml.safe_load((TESTS / "golden" / "parameters.yaml").read_text(encoding="utf-8"))


def model(key: str) -> ModelArchitecture:
    return architecture_from_config(CONFIGS[key])


def state_elements(architecture: ModelArchitecture) -> float:
    return sum(op.layers * op.state_elements_per_sequence for op in architecture.operators)


@pytest.mark.parametrize("name", GOLDEN["variants"])
def test_unseen_shapes_of_the_families(name: str) -> None:
    """Counted by building each class of transformers 5.23.0 from these fields."""
    row = GOLDEN["variants"][name]
    assert architecture_from_config(row["config"]).total_parameters == row["total"]


@pytest.mark.parametrize(
    ("key", "cached", "state"),
    [
        # Full layers x 2 x heads x dimension; other layers x (heads x keys x values + channels x
        # taps of the convolution).
        ("Qwen__Qwen3.5-122B-A10B", 12 * 2 * 2 * 256, 36 * (64 * 128 * 128 + 12_288 * 4)),
        ("nvidia__Qwen3.6-27B-NVFP4", 16 * 2 * 4 * 256, 48 * (48 * 128 * 128 + 10_240 * 4)),
        (
            "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
            8 * 2 * 2 * 128,
            40 * (8192 * 128 + 10_240 * 4),
        ),
        # 13,107,200 bytes in 16 bits, as the class of transformers 5.23.0 allocates them.
        ("state-spaces__mamba-2.8b-hf", 0, 13_107_200 // 2),
        # Keys of 192 and values of 128 elements.
        ("XiaomiMiMo__MiMo-V2-Flash", 9 * 4 * 320 + 39 * 8 * 320, 0),
        ("google__gemma-4-26B-A4B", 25 * 2 * 8 * 256 + 5 * 2 * 2 * 512, 0),
        ("meta-llama__Llama-4-Scout-17B-16E-Instruct", 48 * 2 * 8 * 128, 0),
        ("stepfun-ai__Step-3.7-Flash", 45 * 2 * 8 * 128, 0),
        # One key that is the value: 512 elements in the window of every layer, 512 for 4 tokens
        # and an index key of 128 on 21 layers, 512 for 128 tokens on 20.
        ("deepseek-ai__DeepSeek-V4-Flash", 43 * 512 + 21 * (512 + 128) // 4 + 20 * 512 // 128, 0),
    ],
)
def test_cache_and_state(key: str, cached: int, state: int) -> None:
    built = model(key)
    assert built.cache_elements_per_token == cached
    assert state_elements(built) == state


@pytest.mark.parametrize(
    ("key", "windows"),
    [
        ("meta-llama__Llama-4-Scout-17B-16E-Instruct", {None: 12, 8192: 36}),
        ("google__gemma-4-26B-A4B", {None: 5, 1024: 25}),
        ("XiaomiMiMo__MiMo-V2-Flash", {None: 9, 128: 39}),
        ("stepfun-ai__Step-3.7-Flash", {None: 12, 512: 33}),
        ("Qwen__Qwen3.5-122B-A10B", {None: 12}),
    ],
)
def test_windows(key: str, windows: dict[int | None, int]) -> None:
    rows = [op for op in model(key).operators if op.kind is OperatorKind.ATTENTION]
    assert {op.window: op.layers for op in rows} == windows


def test_compressed_attention_reads_few_of_many_entries() -> None:
    """DeepSeek V4 Flash picks 512 entries of 4 tokens each; all of them stay cached."""
    rows = {op.name: op for op in model("deepseek-ai__DeepSeek-V4-Flash").operators}
    assert rows["block.mixer.scores"].window == 128
    assert rows["block.mixer_2.entries"].window == 2048
    assert rows["block.mixer_2.entries"].cache_elements_per_token == 0
    assert rows["block.mixer_2.entry_cache"].cache_elements_per_token == 128
    assert rows["block.mixer_3.entries"].window is None
    # 64 heads x 4 FLOPs x 512 elements, one entry for 128 tokens.
    assert rows["block.mixer_3.entries"].flops_per_token_per_key == 1024


def test_states_in_fp32_are_counted_in_fp32() -> None:
    """Nemotron's ``mamba_ssm_cache_dtype`` and Qwen 3.5's ``mamba_ssm_dtype`` say float32."""
    for key in ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "Qwen__Qwen3.5-122B-A10B"):
        sizes = {op.kind: op.state_bytes_per_element for op in model(key).operators}
        assert sizes[OperatorKind.SCAN] == 4
        assert sizes[OperatorKind.CONVOLUTION] == 2


@pytest.mark.parametrize(
    ("key", "flops"),
    [
        # 5120 channels x (7 x 16 states + 2).
        ("state-spaces__mamba-2.8b-hf", 583_680),
        # 2 x 128 x (8 groups x 128 + 8192) + 4 x 128 x 8192.
        ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 6_553_600),
        # 64 heads x (64 x (6 x 128 + 4 x 128) + 6 x 128 x 128).
        ("Qwen__Qwen3.5-122B-A10B", 11_534_336),
    ],
)
def test_scans_cost_what_their_papers_say(key: str, flops: float) -> None:
    rows = [op for op in model(key).operators if op.kind is OperatorKind.SCAN]
    assert [op.flops_per_token for op in rows] == [flops]


def test_latent_experts_work_in_the_latent_width() -> None:
    """Nemotron 3 Super: 512 experts of 2 x 2688 x 1024 elements on 40 layers, 22 of them active."""
    built = model("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8")
    assert built.expert_parameters == 40 * 512 * 2 * 2688 * 1024
    assert (built.num_experts, built.experts_per_token) == (512, 22)


def test_layers_of_one_branch_reduce_once() -> None:
    """Nemotron 3 Super has 88 layers of one branch, Qwen 3.5 122B has 48 of two."""
    assert model("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8").branches == 88
    assert model("Qwen__Qwen3.5-122B-A10B").branches == 96


def test_row_names_are_unique() -> None:
    for key in CONFIGS:
        try:
            names = [op.name for op in model(key).operators]
        except InputError:
            continue
        assert len(names) == len(set(names)), key


NEMOTRON = CONFIGS["nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8"]
QWEN = CONFIGS["nvidia__Qwen3.6-27B-NVFP4"]["text_config"]
GEMMA = CONFIGS["google__gemma-4-26B-A4B"]["text_config"]
MIMO = CONFIGS["XiaomiMiMo__MiMo-V2-Flash"]
DEEPSEEK = CONFIGS["deepseek-ai__DeepSeek-V4-Flash"]
LLAMA4 = CONFIGS["meta-llama__Llama-4-Scout-17B-16E-Instruct"]["text_config"]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (NEMOTRON | {"hybrid_override_pattern": "EEEE"}, "no layer that mixes tokens"),
        (NEMOTRON | {"hybrid_override_pattern": "MX"}, "hybrid_override_pattern is not usable"),
        (NEMOTRON | {"hybrid_override_pattern": ""}, "hybrid_override_pattern is not usable"),
        (NEMOTRON | {"mamba_ssm_cache_dtype": "int1"}, "is not a known format"),
        (NEMOTRON | {"n_groups": 7}, "n_groups does not divide"),
        (QWEN | {"linear_num_key_heads": 7}, "linear_num_key_heads does not divide"),
        (QWEN | {"layer_types": ["mamba"] * 64}, "layer_types has an unknown value"),
        (GEMMA | {"num_kv_shared_layers": 29}, "without a cache"),
        (GEMMA | {"num_kv_shared_layers": 30}, "num_kv_shared_layers is out of bounds"),
        (GEMMA | {"num_global_key_value_heads": 5}, "num_global_key_value_heads does not divide"),
        (MIMO | {"moe_layer_freq": [1]}, "moe_layer_freq does not match"),
        (MIMO | {"hybrid_layer_pattern": [1, 0]}, "hybrid_layer_pattern does not match"),
        (MIMO | {"swa_num_key_value_heads": 7}, "swa_num_key_value_heads does not divide"),
        (DEEPSEEK | {"compress_ratios": [4, 128]}, "compress_ratios does not match"),
        (DEEPSEEK | {"compress_ratios": [5] * 43}, "compress_ratios does not match"),
        (DEEPSEEK | {"o_groups": 7}, "o_groups does not divide"),
        (LLAMA4 | {"no_rope_layers": [1, 0]}, "no_rope_layers does not match"),
    ],
)
def test_broken_configs(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        architecture_from_config(config)


def test_embedding_models_write_nothing() -> None:
    """README.md of Text Embeddings Inference lists Qwen3-Embedding: a vector for each text."""
    found = resolve_model(ModelSource(preset="qwen3-embedding-8b"))

    assert not found.generates
    # Qwen/Qwen3-Embedding-8B says 8 billion parameters; its files hold no output head.
    assert found.total_parameters == 7_567_295_488
    best = advisor.recommend(
        {
            "model": {"preset": "qwen3-embedding-8b"},
            "workload": {"kind": "serving", "requests_per_s": 5},
            "limits": {"accelerators": ["l4"]},
        }
    )
    assert "Text Embeddings Inference" in best.answer


def test_a_bare_class_with_a_head_in_its_own_code_writes() -> None:
    """THUDM/chatglm3-6b: architectures ChatGLMModel, auto_map to AutoModelForCausalLM."""
    config = {
        "model_type": "chatglm",
        "architectures": ["ChatGLMModel"],
        "auto_map": {"AutoModelForCausalLM": "modeling_chatglm.ChatGLMForConditionalGeneration"},
        "hidden_size": 4096,
        "num_layers": 28,
        "num_attention_heads": 32,
        "ffn_hidden_size": 13696,
        "kv_channels": 128,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "padded_vocab_size": 65024,
        "add_qkv_bias": True,
    }
    assert architecture_from_config(config).generates


def test_one_number_for_each_layer_counts_as_that_number() -> None:
    """tencent/Hunyuan-A13B-Instruct states lists: 80 billion parameters, 13 active (its README)."""
    config = {
        "model_type": "hunyuan_v1_moe",
        "hidden_size": 4096,
        "intermediate_size": 3072,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_experts": 64,
        "moe_topk": [8] * 32,
        "vocab_size": 128167,
        "tie_word_embeddings": True,
    }
    found = architecture_from_config(config)
    assert found.total_parameters == pytest.approx(80e9, rel=0.02)
    assert found.active_parameters == pytest.approx(13e9, rel=0.05)
