"""Encoders and encoder-decoder models, from their configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.table.model import SampleSize, Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.errors import InputError

TESTS = Path(__file__).parents[1]
CONFIGS: dict[str, dict[str, Any]] = json.loads(
    (TESTS / "data" / "hf_configs.json").read_text(encoding="utf-8")
)
GOLDEN = yaml.safe_load((TESTS / "golden" / "parameters.yaml").read_text(encoding="utf-8"))
WHISPER = CONFIGS["openai__whisper-tiny"]
BERT = CONFIGS["google-bert__bert-base-uncased"]
VIT = CONFIGS["google__vit-base-patch16-224"]
CLIP = CONFIGS["openai__clip-vit-base-patch32"]


@pytest.mark.parametrize("name", GOLDEN["towers"])
def test_classes_of_each_family(name: str) -> None:
    """Counted by building each class of transformers 5.23.0 from these fields."""
    row = GOLDEN["towers"][name]
    assert architecture_from_config(row["config"]).total_parameters == row["total"]


@pytest.mark.parametrize(
    ("key", "both", "decoder"),
    [
        # WhisperForConditionalGeneration and WhisperForCausalLM of transformers 5.23.0.
        ("openai__whisper-tiny", 37_760_640, 29_552_256),
        ("openai__whisper-large-v3", 1_543_490_560, 906_521_600),
    ],
)
def test_both_towers_of_whisper(key: str, both: int, decoder: int) -> None:
    model = architecture_from_config(CONFIGS[key])
    assert model.total_parameters == both
    rows = [op for op in model.operators if op.name.startswith("decoder.")]
    assert sum(op.layers * op.parameters for op in rows) == decoder
    alone = architecture_from_config(CONFIGS[key] | {"architectures": ["WhisperForCausalLM"]})
    assert alone.total_parameters == decoder


def test_text_tower_of_clip() -> None:
    """CLIPTextModel of transformers 5.23.0, without the projection of 512 x 512."""
    rows = [op for op in architecture_from_config(CLIP).operators if op.name.startswith("text.")]
    assert sum(op.layers * op.parameters for op in rows) - 512 * 512 == 63_165_952


def test_decoders_cache_their_own_keys() -> None:
    """Whisper tiny: 4 layers x 2 x 384 for each of 448 tokens; encoders and CLIP cache nothing."""
    assert architecture_from_config(WHISPER).cache_elements_per_token == 3072 * 448
    for config in (BERT, VIT, CLIP):
        assert architecture_from_config(config).cache_elements_per_token == 0


def test_matmul_flops_of_vit_are_twice_its_matrices() -> None:
    """ViT-B/16: 12 x (4 x 768^2 + 2 x 768 x 3072) for 197 tokens, and the pooler for one."""
    rows = architecture_from_config(VIT).matmuls()
    assert sum(op.layers * op.flops_per_token for op in rows) == 2 * (197 * 84_934_656 + 768**2)


def test_the_text_tower_of_a_pair_is_told_beside_the_total() -> None:
    """CLIPTextModelWithProjection and SiglipTextModel of transformers 5.23.0."""
    siglip = architecture_from_config({"model_type": "siglip"})
    assert architecture_from_config(CLIP).text_tower_parameters == 63_428_096
    assert siglip.text_tower_parameters == 110_271_744
    assert architecture_from_config(BERT).text_tower_parameters == 109_482_240


def test_what_each_takes() -> None:
    units = [architecture_from_config(config).unit for config in (BERT, WHISPER, VIT, CLIP)]
    assert units == [Unit.TOKEN, Unit.SAMPLE, Unit.IMAGE, Unit.SAMPLE]


def test_decoders_attend_to_what_encoders_read() -> None:
    """Whisper reads 30 s as 1500 positions, T5 what the work says."""
    model = architecture_from_config(WHISPER, sample=SampleSize(decoder_sequence_length=100))
    keys = {op.name: op.keys for op in model.operators if op.kind is OperatorKind.ATTENTION}
    assert keys == {"encoder.scores": 1500, "decoder.scores": 100, "decoder.scores_2": 1500}
    size = SampleSize(sequence_length=300, decoder_sequence_length=20)
    t5 = architecture_from_config({"model_type": "t5"}, sample=size)
    keys = {op.name: op.keys for op in t5.operators if op.kind is OperatorKind.ATTENTION}
    assert keys == {"encoder.scores": 300, "decoder.scores": 20, "decoder.scores_2": 300}


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (BERT | {"num_attention_heads": 7}, "num_attention_heads does not divide"),
        (BERT | {"add_cross_attention": True}, "add_cross_attention is not supported"),
        (BERT | {"hidden_act": "mystery"}, "hidden_act is not a known activation"),
        (WHISPER | {"encoder_attention_heads": 5}, "encoder_attention_heads does not divide"),
        (VIT | {"patch_size": 1000}, "patch_size is out of bounds"),
        (VIT | {"qkv_bias": 1}, "qkv_bias is not a boolean"),
        (CLIP | {"vision_config": [1]}, "vision_config is not an object"),
        (
            {"model_type": "t5", "feed_forward_proj": "gated-mystery"},
            "feed_forward_proj is not a known activation",
        ),
    ],
)
def test_broken_configs(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        architecture_from_config(config)
