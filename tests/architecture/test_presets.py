"""Presets: complete, found under every spelling, and honest when they are not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.presets import find_preset, list_presets, load_preset, preset_takes
from advisor.architecture.table.model import Unit
from advisor.architecture.weights.gguf_bytes import LAYER_INPUTS, file_bytes
from advisor.errors import InputError
from advisor.foundation.quantities import Evidence
from advisor.foundation.resources import data_path
from advisor.nouns.precision import WEIGHT_FORMATS


def test_there_are_many_and_all_build() -> None:
    names = list_presets()
    assert len(names) >= 60
    for name in names:
        model = load_preset(name)
        assert model.evidence is Evidence.DERIVED, name
        assert (model.name, model.source) == (name, "preset")
        assert model.weight_format in WEIGHT_FORMATS, name


def test_names_are_lower_case_family_version_size() -> None:
    assert [name for name in list_presets() if not re.fullmatch(r"[a-z][a-z0-9.-]+", name)] == []


def test_every_preset_has_a_dated_source() -> None:
    content = yaml.safe_load(data_path("model_presets.yaml").read_text(encoding="utf-8"))
    told = {item["source"] for item in content["presets"].values()}
    assert told <= set(content["sources"])
    dates = [str(item["date"]) for item in content["sources"].values()]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", date) for date in dates)


@pytest.mark.parametrize(
    "spelling",
    [
        "llama-3.1-8b",
        "LLAMA-3.1-8B",
        " llama-3.1-8b ",
        "meta-llama/Llama-3.1-8B",
        "meta-llama/meta-llama-3.1-8b",
        "meta-llama__Meta-Llama-3.1-8B",
        "Meta-Llama-3.1-8B-Instruct",
    ],
)
def test_spellings(spelling: str) -> None:
    assert find_preset(spelling) == "llama-3.1-8b"


def test_variants_of_one_family_are_told_apart() -> None:
    assert find_preset("zai-org/GLM-5-FP8") == "glm-5-fp8"
    assert load_preset("zai-org/GLM-5-FP8").weight_format == "fp8"
    assert load_preset("zai-org/GLM-5").weight_format == "bf16"


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("deepseek-v3", "fp8"),
        ("gpt-oss-120b", "mxfp4"),
        ("kimi-k2.5-nvfp4", "nvfp4"),
        ("kimi-k2.5", "w4a16"),
        ("qwen3-32b-fp8", "fp8"),
        ("llama-3.1-8b", "bf16"),
        ("deepseek-v4-flash", "mxfp4"),
        ("deepseek-v4-pro-fp8", "fp8"),
        ("mimo-v2-flash", "fp8"),
        ("qwen3.6-27b", "bf16"),
    ],
)
def test_published_weight_formats(name: str, stored: str) -> None:
    assert load_preset(name).weight_format == stored


@pytest.mark.parametrize(
    ("asked", "preset"),
    [  # as Ollama's library and people write them
        ("qwen3:30b", "qwen3-30b-a3b"),
        ("qwen3-coder-480b", "qwen3-coder-480b-a35b"),
        ("deepseek-r1:70b", "deepseek-r1-distill-llama-70b"),
        ("gemma4:26b", "gemma-4-26b-a4b"),
        ("mistral-small-3.2-24b", "mistral-small-3.1-24b"),  # its shape: the card of 3.2
        ("llama-2-7b-chat", "llama-2-7b"),
        (
            "qwen3.5-27b",
            "qwen3.6-27b",
        ),  # THUDM/slime, scripts/models/qwen3.5-27B.sh: the same shape
        ("glm-4.7", None),  # a bigger one than glm-4.7-flash
        ("llama-70b", None),  # several generations
        ("some-org/qwen3-30b", None),
        ("30b", None),
    ],
)
def test_a_part_of_a_name_with_its_size_is_enough_where_it_means_one_model(
    asked: str, preset: str | None
) -> None:
    assert find_preset(asked) == preset


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(InputError, match=r"llama-3\.1-8b") as caught:
        load_preset("llama-3.1-8")
    assert caught.value.field == "model.preset"
    with pytest.raises(InputError, match=r"names, e\.g\. bert-base, bert-large\. Choose"):
        load_preset("BERT")
    with pytest.raises(InputError, match=r"e\.g\. mistral-small-3\.2-24b-instruct-2506\. Choose"):
        load_preset("mistral-small-3.2")
    with pytest.raises(InputError, match="unknown model preset"):
        load_preset("")


@pytest.mark.parametrize("name", ["qwen3:8b-q4_K_M", "qwen3-8b-awq", "unsloth/Qwen3-8B-bnb-4bit"])
def test_a_number_format_in_a_name_is_asked_for_apart(name: str) -> None:
    """Ollama's tags and repositories of quantised weights end with it."""
    with pytest.raises(InputError, match=r"qwen3-8b\. Name the model alone\..* --weights"):
        load_preset(name)


def test_a_title_of_the_page_is_a_name() -> None:
    assert load_preset("Llama 3.1 8B") is load_preset("llama-3.1-8b")


def test_multi_token_prediction_is_left_out_and_said() -> None:
    assert any("multi-token prediction" in note for note in load_preset("deepseek-v3").assumptions)


def test_multimodal_models_count_their_text_tower() -> None:
    """Qwen3-VL-8B's text tower is Qwen3-8B."""
    vision = load_preset("qwen3-vl-8b")
    assert vision.total_parameters == load_preset("qwen3-8b").total_parameters
    assert any("text tower" in note for note in vision.assumptions)


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        # Experts in another format than the rest, as expert_dtype or modelopt's groups say.
        ("deepseek-ai__DeepSeek-V4-Flash", "mxfp4"),
        ("nvidia__DeepSeek-V4-Pro-NVFP4", "nvfp4"),
        ("nvidia__Qwen3.6-27B-NVFP4", "nvfp4"),
    ],
)
def test_mixed_formats_count_as_most_weights_are_stored(key: str, stored: str) -> None:
    path = Path(__file__).parents[1] / "data" / "hf_configs.json"
    model = architecture_from_config(json.loads(path.read_text(encoding="utf-8"))[key])
    assert model.weight_format == stored
    assert any("mixed formats" in note for note in model.assumptions)


def test_what_presets_take_is_what_they_are_built_for() -> None:
    wrong = [name for name in list_presets() if load_preset(name).unit is not preset_takes(name)]
    assert not wrong
    listed = [name for unit in Unit for name in list_presets(unit)]
    assert sorted(listed) == sorted(list_presets())
    assert {"resnet-50", "sd-1.5-unet"} <= set(list_presets(Unit.IMAGE))


@pytest.mark.parametrize(
    ("name", "parameters", "tokens"),
    [
        # Metadata of KerasHub 0.32: all_minilm_l6_v2_en, bge_base_en, bert_large_en_uncased.
        ("all-minilm-l6-v2", 22_713_216, 512),
        ("bge-base-en-v1.5", 109_482_240, 512),
        ("bge-large-en-v1.5", 335_141_888, 512),
        # The model cards: 33.4, 560 and 568 million; bge-m3 reads 8,192 tokens.
        ("bge-small-en-v1.5", 33_400_000, 512),
        ("multilingual-e5-large", 560_000_000, 512),
        ("bge-m3", 568_000_000, 8192),
        ("bge-reranker-v2-m3", 568_000_000, 8192),
    ],
)
def test_models_for_embeddings(name: str, parameters: int, tokens: int) -> None:
    model = load_preset(name)
    rounded = parameters % 100_000 == 0
    assert model.total_parameters == pytest.approx(parameters, rel=2e-3 if rounded else 0.0)
    assert model.max_position_embeddings == tokens


@pytest.mark.parametrize(
    ("name", "billions", "effective", "gib"),
    [
        # Google's model cards: 5.1 and 8 billion with the encoders for images and sound, 2.3 and
        # 4.5 billion effective ones, which leave out the per-layer embeddings. llama-bench counts
        # 4.65 and 7.52 billion, with keys and values that no layer reads, in files of 3.18 and
        # 5.03 GiB (Q4_K_M, gist of selfup, 2026-05-11).
        ("gemma-4-e2b", 4.65, 2.3, 3.18),
        ("gemma-4-e4b", 7.52, 4.5, 5.03),
    ],
)
def test_per_layer_embeddings_are_counted_and_stored_in_few_bits(
    name: str, billions: float, effective: float, gib: float
) -> None:
    model = load_preset(name)
    tables = sum(row.parameters for row in model.operators if row.name == LAYER_INPUTS)

    assert model.total_parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert (model.total_parameters - tables) / 1e9 == pytest.approx(effective, rel=0.04)
    assert file_bytes(model, "q4_k_m") / 2**30 == pytest.approx(gib, rel=0.03)


@pytest.mark.parametrize("asked", ["sdxl", "SDXL", "sd-1.5"])
def test_a_diffusion_pipeline_is_known_by_its_own_name(asked: str) -> None:
    assert find_preset(asked) == f"{asked.lower()}-unet"


@pytest.mark.parametrize(
    "name", ["wan2.2-5b", "Wan2.1-T2V-14B", "hunyuanvideo", "LTX-Video", "cogvideox-5b"]
)
def test_models_of_video_are_refused_with_what_is_estimated(name: str) -> None:
    """Their hub pages call these models text-to-video."""
    with pytest.raises(InputError, match="makes video") as refused:
        load_preset(name)
    able = str(refused.value.allowed).replace(" or ", ", ").split(", ")
    assert all(load_preset(each).denoises for each in able)
