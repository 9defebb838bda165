"""Broken, hostile and unsupported configurations end in one sentence, never in a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.architecture.config.fields import load_config_text
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.families.registry import refused_types, supported_types
from advisor.architecture.resolve import resolve_model
from advisor.errors import InputError, UnsupportedArchitectureError
from advisor.nouns.case import ModelSource

CONFIGS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "hf_configs.json").read_text(encoding="utf-8")
)
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
MIXTRAL = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
DEEPSEEK = CONFIGS["deepseek-ai__DeepSeek-V3"]
GEMMA2 = CONFIGS["google__gemma-2-9b"]
GLM = CONFIGS["zai-org__GLM-5.2"]

BROKEN: list[tuple[dict[str, Any], str]] = [
    (LLAMA | {"hidden_size": 0}, "hidden_size is out of bounds"),
    (LLAMA | {"hidden_size": -4096}, "hidden_size is out of bounds"),
    (LLAMA | {"hidden_size": 4096.0}, "hidden_size is not a whole number"),
    (LLAMA | {"hidden_size": "4096"}, "hidden_size is not a whole number"),
    (LLAMA | {"hidden_size": True}, "hidden_size is not a whole number"),
    (LLAMA | {"hidden_size": [4096]}, "hidden_size is not a whole number"),
    (LLAMA | {"hidden_size": {"a": 1}}, "hidden_size is not a whole number"),
    (LLAMA | {"hidden_size": None}, "hidden_size is missing"),
    (LLAMA | {"hidden_size": 10**7}, "hidden_size is out of bounds"),
    (LLAMA | {"hidden_size": 10**400}, "hidden_size is out of bounds"),
    (LLAMA | {"hidden_size": float("inf")}, "hidden_size is not a whole number"),
    (LLAMA | {"hidden_size": 4097}, "does not divide hidden_size"),
    (LLAMA | {"num_hidden_layers": 10_001}, "num_hidden_layers is out of bounds"),
    (LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers is out of bounds"),
    (LLAMA | {"vocab_size": 10**9}, "vocab_size is out of bounds"),
    (LLAMA | {"vocab_size": None}, "vocab_size is missing"),
    (LLAMA | {"intermediate_size": None}, "intermediate_size is missing"),
    (LLAMA | {"num_key_value_heads": 7}, "num_key_value_heads does not divide"),
    (LLAMA | {"num_key_value_heads": 64}, "num_key_value_heads does not divide"),
    (LLAMA | {"num_attention_heads": 0}, "num_attention_heads is out of bounds"),
    (LLAMA | {"head_dim": 0}, "head_dim is out of bounds"),
    (LLAMA | {"head_dim": 10**6}, "head_dim is out of bounds"),
    (LLAMA | {"hidden_act": "frobnicate"}, "hidden_act is not a known activation"),
    (LLAMA | {"hidden_act": 3}, "hidden_act is not text"),
    (LLAMA | {"attention_bias": "yes"}, "attention_bias is not a boolean"),
    (LLAMA | {"tie_word_embeddings": 1}, "tie_word_embeddings is not a boolean"),
    (LLAMA | {"max_position_embeddings": "long"}, "max_position_embeddings is not a whole"),
    (LLAMA | {"quantization_config": "fp8"}, "quantization_config is not an object"),
    (LLAMA | {"quantization_config": {"quant_method": 8}}, "quant_method is not text"),
    (LLAMA | {"model_type": 5}, "model_type is not text"),
    (LLAMA | {"text_config": [1]}, "text_config is not an object"),
    (MIXTRAL | {"num_local_experts": 100_000}, "num_local_experts is out of bounds"),
    (MIXTRAL | {"num_local_experts": 1}, "num_local_experts is out of bounds"),
    (MIXTRAL | {"num_experts_per_tok": 9}, "num_experts_per_tok exceeds the experts"),
    (MIXTRAL | {"num_local_experts": None}, "num_experts is missing"),
    (DEEPSEEK | {"kv_lora_rank": None}, "kv_lora_rank is missing"),
    (DEEPSEEK | {"first_k_dense_replace": -1}, "first_k_dense_replace is out of bounds"),
    (DEEPSEEK | {"v_head_dim": 0}, "v_head_dim is out of bounds"),
    (GEMMA2 | {"layer_types": ["full_attention"]}, "layer_types does not match the layers"),
    (GEMMA2 | {"layer_types": ["conv"] * 42}, "layer_types has an unknown value"),
    (GEMMA2 | {"layer_types": [[]] * 42}, "layer_types has an unknown value"),
    (GEMMA2 | {"layer_types": "full_attention"}, "layer_types does not match the layers"),
    (GLM | {"indexer_types": ["shared"] * 78}, "no layer with its own indexer"),
    (
        CONFIGS["Qwen__Qwen3-235B-A22B"] | {"mlp_only_layers": [999]},
        "mlp_only_layers is not usable",
    ),
    (CONFIGS["openai-community__gpt2"] | {"resid_pdrop": 2}, "resid_pdrop is not usable"),
    (
        {"_class_name": "UNet2DConditionModel", "attention_head_dim": []},
        "attention_head_dim is not usable",
    ),
    ({}, "model_type is unknown and hidden_size, num_hidden_layers"),
    (LLAMA | {"model_type": "mystery", "vocab_size": None}, "unknown and vocab_size is missing"),
    (LLAMA | {"model_type": "mystery", "num_experts": 8}, "num_experts says that it is not"),
    (LLAMA | {"model_type": "mystery", "is_encoder_decoder": True}, "is_encoder_decoder says"),
]


@pytest.mark.parametrize(("config", "sentence"), BROKEN, ids=range(len(BROKEN)))
def test_broken_configs(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        resolve_model(ModelSource(config=config))
    assert caught.value.field.startswith("model.config")
    assert caught.value.remedy


UNREADABLE: list[tuple[str | bytes, str]] = [
    ("", "not valid JSON"),
    ("{", "not valid JSON"),
    ("{'model_type': 'llama'}", "not valid JSON"),
    ("[1, 2]", "not a JSON object"),
    ("3", "not a JSON object"),
    ("null", "not a JSON object"),
    ('{"hidden_size": NaN}', "holds NaN"),
    (b'{"model_type": "\xff\xfe"}', "not UTF-8"),
    ('{"a":' * 100 + "1" + "}" * 100, "more than 40 levels"),
    ("[" * 100_000, "more than 40 levels"),
    ('{"a": ' + "9" * 5000 + "}", "a whole number of more than 30 digits"),
    ('{"a": "' + "x" * 2_500_001 + '"}', "too large"),
]


@pytest.mark.parametrize(("text", "sentence"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_unreadable_texts(text: str | bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_config_text(text)


def test_infinities_in_irrelevant_fields_pass() -> None:
    """Published files have them, e.g. Nemotron's ``time_step_limit``."""
    text = json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]})
    assert architecture_from_config(load_config_text(text)).total_parameters == 8_030_261_248


@pytest.mark.parametrize("path", ["", "no/such/file.json", "a\0b", "x" * 5000, "~nobody-here/c"])
def test_unreadable_paths(path: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        resolve_model(ModelSource(config=path))


def test_messages_do_not_show_files(tmp_path: Path) -> None:
    """A web page must not become a way to read the server's files."""
    secret = tmp_path / "secret"
    secret.write_text("password: hunter2", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        resolve_model(ModelSource(config=str(secret)))
    assert "hunter2" not in str(caught.value)


def test_other_families_are_refused_with_the_way_on() -> None:
    for kind in refused_types():
        familiar = {**CONFIGS["meta-llama__Meta-Llama-3.1-8B"], "model_type": kind}
        with pytest.raises(UnsupportedArchitectureError, match="not supported yet") as caught:
            architecture_from_config(familiar)
        assert "parameter count" in caught.value.remedy, kind
        assert "python -m advisor.architecture" in caught.value.allowed, kind


def test_supported_and_refused_do_not_overlap() -> None:
    assert not set(supported_types()) & set(refused_types())
