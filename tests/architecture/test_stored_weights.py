"""Bytes of published quantised checkpoints: groups, zero-points, modules at 16 bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.presets import load_preset
from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.serving.stored_bytes import bytes_per_parameter
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.published_weights import listed_weights
from tests.cases import serve

TESTS = Path(__file__).parents[1]
PUBLISHED: dict[str, Any] = yaml.safe_load(
    (TESTS / "golden" / "stored_weights.yaml").read_text(encoding="utf-8")
)
CONFIGS: dict[str, dict[str, object]] = json.loads(
    (TESTS / "data" / "hf_configs.json").read_text(encoding="utf-8")
)
LLAMA = PUBLISHED["gptq"]["llama_2_7b"]["config"]
SPARSE = PUBLISHED["gptq"]["mixtral_8x7b"]["config"]


def size(model: ModelArchitecture) -> float:
    stored = WEIGHT_FORMATS[model.weight_format]
    return sum(
        row.layers * row.parameters * bytes_per_parameter(row, stored, model)
        for row in model.operators
    )


def bits(config: dict[str, object], block: dict[str, object]) -> dict[str, float]:
    model = architecture_from_config({**config, "quantization_config": block})
    return {
        row.name.removeprefix("block."): 8 * row.stored_bytes
        for row in model.operators
        if row.stored_bytes is not None
    }


@pytest.mark.parametrize(
    ("name", "stored", "published"),
    [
        (name, stored, published)
        for name, row in PUBLISHED["gptq"].items()
        for stored, published in row["sizes"].items()
    ],
)
def test_gptq_files_have_their_published_size(name: str, stored: str, published: float) -> None:
    """Within the printed digits and the biases of zeros that older files hold (0.1 %)."""
    width, _, _, group = stored.split()
    block = {"quant_method": "gptq", "bits": int(width), "group_size": int(group)}
    config = PUBLISHED["gptq"][name]["config"]
    counted = size(architecture_from_config({**config, "quantization_config": block})) / 1e9
    assert counted == pytest.approx(published, abs=0.005 + 0.001 * published)


@pytest.mark.parametrize(("key", "gib"), PUBLISHED["gib"].items())
def test_checkpoints_have_their_published_size(key: str, gib: float) -> None:
    assert size(architecture_from_config(CONFIGS[key])) / 2**30 == pytest.approx(gib, rel=0.002)


def test_groups_zero_points_and_indices() -> None:
    """Bits of an output projection of 4096 x 4096."""
    cases: list[tuple[dict[str, object], float]] = [
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, 4 + 20 / 64),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": False}, 4 + 16 / 64),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, 3 + 19 / 128 + 32 / 4096),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4 + 20 / 4096 + 32 / 4096),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}, 4.5),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
        (
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_use_double_quant": True,
            },
            4 + 8 / 64 + 32 / (64 * 256),
        ),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
        ({"quant_method": "exl2", "bits": 4.65}, 4.65),
        ({"quant_algo": "NVFP4"}, 4.5),
    ]
    for block, expected in cases:
        assert bits(LLAMA, block)["attention.output"] == pytest.approx(expected, abs=1e-9), block


def test_compressed_tensors_state_zero_points() -> None:
    def block(**weights: object) -> dict[str, object]:
        group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", **weights}}
        return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}

    assert bits(LLAMA, block(group_size=32))["attention.output"] == 4.5
    assert bits(LLAMA, block(group_size=32, symmetric=False))["attention.output"] == 4.625
    # Every linear layer is a target, the head too, unless the file leaves it out.
    assert bits(LLAMA, block(group_size=32))["head.logits"] == 4.5
    assert bits(LLAMA, {**block(group_size=32), "ignore": ["lm_head"]})["head.logits"] == 16


@pytest.mark.parametrize(
    ("skipped", "wide"),
    [
        (["lm_head"], set()),
        (["model.layers.*.self_attn", "lm_head"], {"query", "key", "value", "output"}),
        (["re:.*self_attn.*"], {"query", "key", "value", "output"}),
        (["re:.*self_attn\\.(q|k)_proj"], {"query", "key"}),
        (["re:.*block_sparse_moe\\.experts.*"], {"up", "gate", "down"}),
        # Names of what the table has not, or never quantises.
        (["model.layers.0.mlp.gate", "visual.blocks.0.attn", "mtp.layers.0.self_attn"], set()),
        (["(" * 50 + "a+" * 50 + ")" * 50, "re:(a+)+$", ".", "", "re:", "*"], set()),
    ],
)
def test_modules_left_out_stay_at_16_bits(skipped: list[str], wide: set[str]) -> None:
    block = {"quant_method": "awq", "bits": 4, "modules_to_not_convert": skipped}
    found = bits(SPARSE, block)
    del found["head.logits"]
    assert {name.rpartition(".")[2] for name, width in found.items() if width == 16} == wide


def test_modules_left_out_of_some_layers() -> None:
    """Eight of 32 layers at 16 bits, by number and by the beginning of one (2, 20 to 29)."""
    block = {"quant_method": "awq", "bits": 4, "group_size": 128}
    listed = [f"model.layers.{layer}.self_attn.q_proj" for layer in range(8)]
    narrow = 4 + 20 / 128
    found = bits(LLAMA, {**block, "modules_to_not_convert": listed})
    assert found["attention.query"] == pytest.approx((8 * 16 + 24 * narrow) / 32)
    assert found["attention.key"] == pytest.approx(narrow)
    found = bits(LLAMA, {**block, "modules_to_not_convert": ["model.layers.2*"]})
    assert found["feed_forward.up"] == pytest.approx((11 * 16 + 21 * narrow) / 32)


def test_routed_experts_may_be_narrower_than_the_rest() -> None:
    model = architecture_from_config(CONFIGS["deepseek-ai__DeepSeek-V4-Flash"])
    stored = {row.name: row.stored_bytes for row in model.operators}
    assert stored["block.feed_forward.experts.up"] == 0.5 + 1 / 32
    assert stored["block.mixer.query"] == 1 + 4 / 128**2


def test_kimi_quantises_experts_alone() -> None:
    """Kimi K2.5: 1,014,686,023,680 weights of experts at 4.5 bits, the others at 16."""
    model = load_preset("kimi-k2.5")
    experts = 60 * 384 * 3 * 7168 * 2048
    assert size(model) == pytest.approx(
        experts * 4.5 / 8 + 2 * (model.total_parameters - experts), rel=1e-9
    )


def test_another_format_than_the_published_one_follows_its_rule() -> None:
    block = {"quant_method": "awq", "bits": 4, "group_size": 32}
    model = architecture_from_config({**LLAMA, "quantization_config": block})
    row = next(op for op in model.operators if op.name == "block.attention.output")
    assert bytes_per_parameter(row, WEIGHT_FORMATS["nvfp4"], model) == 0.5625
    assert bytes_per_parameter(row, WEIGHT_FORMATS["w4a16"], model) == (4 + 20 / 32) / 8


def test_the_answer_tells_what_the_file_stores() -> None:
    """Kimi K2.5: 594.2 GB for 1,026 billion parameters."""
    estimate = advisor.estimate(
        serve("kimi-k2.5", "h200-sxm", 8, input_tokens=100, output_tokens=100, layout={"tensor": 8})
    )
    told = "weights in w4a16 as the file stores them (4.63 bits on average)"
    assert any(note.startswith(told) for note in estimate.assumptions)


def in_format(name: str, stored: str) -> dict[str, float]:
    """Bytes of each row of a preset in published weights of a format."""
    model = load_preset(name)
    return {
        row.name.removeprefix("block."): row.layers
        * row.parameters
        * bytes_per_parameter(row, WEIGHT_FORMATS[stored], model)
        for row in model.operators
    }


def test_published_nvfp4_weights_keep_attention_at_16_bits() -> None:
    """Kimi-K2.5-NVFP4: 11.49 GiB of projections (ai-dynamo/aiconfigurator, from vLLM's log)."""
    found = in_format("kimi-k2.5", "nvfp4")
    attention = sum(size for name, size in found.items() if name.startswith("attention."))
    assert attention / 2**30 == pytest.approx(11.49, rel=0.001)
    assert found["feed_forward_2.experts.up"] == 60 * 384 * 7168 * 2048 * 0.5625


def test_published_nvfp4_weights_of_gemma_take_what_their_page_says() -> None:
    """31 GiB with the vision tower of 1.1 GB (hub page of gemma-4-31B-it-NVFP4-turbo)."""
    assert (sum(in_format("gemma-4-31b", "nvfp4").values()) + 1.1e9) / 2**30 == pytest.approx(
        31, rel=0.025
    )


def test_published_nvfp4_weights_may_quantise_the_last_projection_of_attention() -> None:
    """DeepSeek-V3.2-NVFP4 leaves out all projections but ``o_proj`` (hf_quant_config.json)."""
    found, model = in_format("deepseek-v3.2", "nvfp4"), load_preset("deepseek-v3.2")
    held = {row.name.removeprefix("block."): row.layers * row.parameters for row in model.operators}
    wide = {name for name, size in found.items() if held[name] and size == 2 * held[name]}
    assert found["attention.output"] == 0.5625 * held["attention.output"]
    assert {"attention.query", "attention.key_value", "attention.index_query"} <= wide
    assert not any(
        "feed_forward" in name and "router" not in name and "norm" not in name for name in wide
    )


def test_published_nvfp4_weights_of_qwen_have_attention_in_fp8_and_a_narrow_head() -> None:
    found, model = in_format("qwen3.6-27b", "nvfp4"), load_preset("qwen3.6-27b")
    held = {row.name.removeprefix("block."): row.layers * row.parameters for row in model.operators}
    assert found["attention.query"] == held["attention.query"]
    assert found["mixer.output"] == held["mixer.output"]
    assert found["mixer.decay"] == 2 * held["mixer.decay"]
    assert found["head.logits"] == 0.5625 * held["head.logits"]


def test_an_export_loads_what_the_estimate_counts() -> None:
    """Every entry of ``parts`` is the published weights of some model."""
    listed = listed_weights()
    assert set(listed.parts) <= {name for row in listed.names.values() for name in row.values()}
