"""Models from weights files: what headers tell, and what they leave open."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture
from advisor.errors import InputError, UnsupportedArchitectureError
from advisor.foundation.quantities import Evidence
from advisor.nouns.case import ModelSource
from tests.weights import (
    F32,
    Q4_K,
    Q6_K,
    gguf,
    llama_gguf,
    llama_shapes,
    safetensors,
    write_gguf,
    write_safetensors,
)

ONE_B = {"layers": 16, "hidden": 2048, "width": 8192, "vocab": 128256}
ONE_B_COUNT = 1_235_814_400
"""Llama 3.2 1B, its model card's 1.23B in full (safetensors metadata on the hub)."""
TINY = {"layers": 3, "hidden": 512, "width": 1024, "vocab": 1000}
TINY_CONFIG = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "torch_dtype": "float16",
}
# 2 x 1000 x 512 + 512 + 3 x (2 x 512 x 512 + 2 x 128 x 512 + 3 x 512 x 1024 + 2 x 512)
TINY_COUNT = 7_712_256


def load(path: Path) -> ModelArchitecture:
    return resolve_model(ModelSource(config=str(path)))


def test_gguf_of_llama_1b(tmp_path: Path) -> None:
    header = gguf(*llama_gguf(heads=32, groups=8, tied=True, **ONE_B))
    model = load(write_gguf(tmp_path / "Llama-3.2-1B.Q4_K_M.gguf", header))

    assert model.total_parameters == ONE_B_COUNT
    assert (model.name, model.weight_format, model.source) == ("Tiny Llama", "q4_k_m", "weights")
    assert (model.num_attention_heads, model.num_key_value_heads) == (32, 8)
    assert model.tied_embeddings
    assert model.max_position_embeddings == 131072
    # 16 layers x 2 x 8 heads x 64.
    assert model.cache_elements_per_token == 16_384
    assert model.evidence is Evidence.DERIVED
    # The published file has 807,694,464 bytes, 7,831,552 of them tokenizer and metadata; the 128
    # bytes of rope_freqs are no parameters.
    assert "799,862,912 bytes" in model.assumptions[-1]


def test_a_file_without_the_ending_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    header = gguf(*llama_gguf(heads=8, groups=2, tied=False, **TINY))
    assert load(write_gguf(tmp_path / "blob", header)).total_parameters == TINY_COUNT
    shapes = llama_shapes(cached=128, tied=False, **TINY)
    file = write_safetensors(tmp_path / "blob2", safetensors(shapes, "F16"))
    assert load(file).total_parameters == TINY_COUNT


def test_other_parameters_than_the_shape_gives_are_told(tmp_path: Path) -> None:
    pairs, tensors = llama_gguf(heads=8, groups=2, tied=False, **TINY)
    tensors.append(("blk.0.adapter.weight", (256, 4), F32))
    model = load(write_gguf(tmp_path / "a.gguf", gguf(pairs, tensors)))
    assert model.evidence is Evidence.ASSUMED
    assert any("7,713,280 parameters" in note for note in model.assumptions)


def test_the_nearest_mixture_is_taken_and_told(tmp_path: Path) -> None:
    pairs, tensors = llama_gguf(heads=8, groups=2, tied=False, **TINY)
    pairs["general.file_type"] = 7
    tensors = [(name, shape, Q6_K if kind == Q4_K else kind) for name, shape, kind in tensors]
    model = load(write_gguf(tmp_path / "a.gguf", gguf(pairs, tensors)))
    assert model.weight_format == "q6_k"
    assert "count as q6_k, 0 % below the file's bytes" in model.assumptions[-1]


def test_split_gguf_needs_all_its_parts(tmp_path: Path) -> None:
    pairs, tensors = llama_gguf(heads=8, groups=2, tied=False, **TINY)
    first = write_gguf(
        tmp_path / "m-00001-of-00002.gguf", gguf(pairs | {"split.count": 2}, tensors[:9])
    )
    with pytest.raises(InputError, match=r"parts of the GGUF file are missing.*m-00002-of-00002"):
        load(first)
    second = write_gguf(tmp_path / "m-00002-of-00002.gguf", gguf({"split.count": 2}, tensors[9:]))
    for part in (first, second):
        assert load(part).total_parameters == TINY_COUNT
    with pytest.raises(InputError, match="its name does not show the others"):
        load(first.rename(tmp_path / "model.gguf"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"general.architecture": "mystery"}, "general.architecture is not supported"),
        ({"general.architecture": 7}, "general.architecture is not supported"),
        ({"llama.block_count": "three"}, "no usable llama.block_count"),
        ({"llama.block_count": 0}, "no usable llama.block_count"),
        ({"llama.block_count": 2**31}, "num_hidden_layers is out of bounds"),
        ({"llama.embedding_length": 1.5}, "hidden_size is not a whole number"),
        ({"llama.embedding_length": float("nan")}, "hidden_size is not a whole number"),
        ({"llama.attention.head_count": 0}, "num_attention_heads is out of bounds"),
        ({"llama.attention.head_count_kv": [2, 2, 1]}, "head_count_kv differs between layers"),
        ({"llama.feed_forward_length": []}, "feed_forward_length differs between layers"),
    ],
)
def test_unusable_metadata(tmp_path: Path, changes: dict[str, int], sentence: str) -> None:
    pairs, tensors = llama_gguf(heads=8, groups=2, tied=False, **TINY)
    file = write_gguf(tmp_path / "a.gguf", gguf(pairs | changes, tensors))
    with pytest.raises(InputError, match=sentence):
        load(file)


def test_unsupported_families_name_the_way_on(tmp_path: Path) -> None:
    pairs, tensors = llama_gguf(heads=8, groups=2, tied=False, **TINY)
    file = write_gguf(tmp_path / "a.gguf", gguf(pairs | {"general.architecture": "rwkv7"}, tensors))
    with pytest.raises(UnsupportedArchitectureError, match=r"Give the config\.json"):
        load(file)


def test_safetensors_alone_leave_the_heads_open(tmp_path: Path) -> None:
    shapes = llama_shapes(cached=512, tied=True, **ONE_B)
    model = load(write_safetensors(tmp_path / "model.safetensors", safetensors(shapes)))
    assert model.total_parameters == ONE_B_COUNT
    assert (model.weight_format, model.evidence) == ("bf16", Evidence.ASSUMED)
    assert "heads of 128 assumed" in model.assumptions[0]
    # Exact whatever the heads: 16 layers x 2 x 512.
    assert model.cache_elements_per_token == 16_384
    assert "2,471,628,800 bytes" in model.assumptions[-1]


def test_a_norm_of_one_head_tells_its_width(tmp_path: Path) -> None:
    shapes = llama_shapes(cached=256, tied=False, **TINY)
    for i in range(3):
        shapes |= {f"model.layers.{i}.self_attn.{n}_norm.weight": (32,) for n in "qk"}
    model = load(write_safetensors(tmp_path / "m.safetensors", safetensors(shapes)))
    assert (model.family, model.evidence) == ("Qwen 3", Evidence.DERIVED)
    assert (model.num_attention_heads, model.num_key_value_heads) == (16, 8)


def test_biases_tell_qwen_2(tmp_path: Path) -> None:
    shapes = llama_shapes(cached=128, tied=False, **TINY)
    for i in range(3):
        shapes |= {
            f"model.layers.{i}.self_attn.{n}_proj.bias": (512 if n == "q" else 128,) for n in "qkv"
        }
    model = load(write_safetensors(tmp_path / "m.safetensors", safetensors(shapes)))
    assert (model.family, model.total_parameters) == ("Qwen 2", TINY_COUNT + 3 * 768)


def test_the_configuration_beside_the_file_decides(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY_CONFIG), encoding="utf-8")
    shapes = llama_shapes(cached=128, tied=False, **TINY)
    model = load(write_safetensors(tmp_path / "m.safetensors", safetensors(shapes, "F16")))
    assert (model.num_attention_heads, model.evidence) == (8, Evidence.DERIVED)
    assert model.weight_format == "fp16"
    del shapes["model.norm.weight"]
    model = load(write_safetensors(tmp_path / "m.safetensors", safetensors(shapes, "F16")))
    assert model.evidence is Evidence.ASSUMED


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model.layers.1.mlp.experts.0.w1.weight": (8, 8)}, "layers differ"),
        ({f"model.layers.{i}.mlp.gate.weight": (8, 512) for i in range(3)}, "do not tell this"),
        ({"model.layers.7.input_layernorm.weight": (512,)}, "not those of a whole model"),
        ({"vision.embed_tokens.weight": (8, 8)}, "do not tell this architecture"),
        ({"model.embed_tokens.weight": (8,)}, "not a matrix"),
        ({f"model.layers.{i}.self_attn.q_proj.weight": (500, 512) for i in range(3)}, "of a head"),
    ],
)
def test_what_shapes_do_not_tell(
    tmp_path: Path, changes: dict[str, tuple[int, ...]], sentence: str
) -> None:
    shapes = llama_shapes(cached=128, tied=False, **TINY) | changes
    file = write_safetensors(tmp_path / "m.safetensors", safetensors(shapes))
    with pytest.raises(InputError, match=sentence) as caught:
        load(file)
    assert "config.json" in caught.value.remedy


def test_sharded_safetensors(tmp_path: Path) -> None:
    shapes = llama_shapes(cached=128, tied=False, **TINY)
    names = list(shapes)
    parts = {
        "model-00001-of-00002.safetensors": {n: shapes[n] for n in names[:10]},
        "model-00002-of-00002.safetensors": {n: shapes[n] for n in names[10:]},
    }
    index = tmp_path / "model.safetensors.index.json"
    weight_map = {name: file for file, part in parts.items() for name in part}
    whole = {"metadata": {"total_size": 2 * TINY_COUNT}, "weight_map": weight_map}
    first = write_safetensors(
        tmp_path / "model-00001-of-00002.safetensors", safetensors(next(iter(parts.values())))
    )
    with pytest.raises(InputError, match="one of several parts"):
        load(first)

    index.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(InputError, match="names tensors and files, but not shapes"):
        load(index)
    (tmp_path / "config.json").write_text(json.dumps(TINY_CONFIG), encoding="utf-8")
    model = load(index)
    assert model.total_parameters == TINY_COUNT
    assert "the files hold 0.02 GB in 30 tensors" in model.assumptions

    for file, part in parts.items():
        write_safetensors(tmp_path / file, safetensors(part))
    (tmp_path / "config.json").unlink()
    for path in (index, first, tmp_path):
        assert load(path).total_parameters == TINY_COUNT
    whole["metadata"] = {"total_size": 5}
    index.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(InputError, match="do not match the index"):
        load(index)


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError, match="no regular file"):
            load(path)
