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
