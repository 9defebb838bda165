"""Reads the architecture from a weights file: GGUF, safetensors, or the index of shards."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from advisor.architecture.config.fields import load_config_text
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.weights.gguf_bytes import file_bytes, gguf_facts
from advisor.architecture.weights.gguf_header import MAGIC, GgufHeader, Value, read_gguf
from advisor.architecture.weights.safetensors import (
    MAX_INDEX_BYTES,
    SafetensorsIndex,
    config_from_shapes,
    looks_like_safetensors,
    parameter_count,
    read_index,
    read_safetensors,
    read_shards,
)
from advisor.architecture.weights.tensor_table import TensorTable, joined, read_start, refuse
from advisor.errors import UnsupportedArchitectureError, refusal
from advisor.foundation.files.reading import is_file
from advisor.foundation.formatting import percent
from advisor.foundation.quantities import Evidence
from advisor.foundation.units import GB

ROUTED_THROUGHOUT: Final = frozenset({"gpt_oss", "minimax_m2", "mixtral"})
"""Families whose ``intermediate_size`` means the width of an expert."""

NOT_PARAMETERS: Final = ("rope_freqs", "rope_factors_long", "rope_factors_short")
"""Tables of the position encoding that a file stores as tensors."""


def config_from_gguf(header: GgufHeader) -> dict[str, object]:
    """Return the configuration of the model in a GGUF file.

    Fields as in ``config.json``, for ``architecture_from_config``.

    ``header``: of the whole model, with all parts if the file is split. Raises
    UnsupportedArchitectureError for another family, InputError for a missing or unusable key.
    """
    family = header.metadata.get("general.architecture")
    facts = gguf_facts()
    if not isinstance(family, str) or family not in facts.architectures:
        raise UnsupportedArchitectureError(
            "the GGUF file's general.architecture is not supported",
            value=family,
            allowed=", ".join(facts.architectures),
            remedy="Give the config.json of the model that it was converted from, "
            "or the parameter count.",
            field="model.config",
        )
    metadata, shapes = header.metadata, header.table.shapes()
    config: dict[str, object] = {
        field: _uniform(f"{family}.{key}", metadata[f"{family}.{key}"])
        for key, field in facts.fields.items()
        if f"{family}.{key}" in metadata
    }
    config["num_hidden_layers"] = block_count(metadata, family)
    config["vocab_size"] = _vocabulary(metadata, family, shapes)
    config["tie_word_embeddings"] = "output.weight" not in shapes
    kind = facts.architectures[family]
    if not config.get("num_experts"):
        # Dense files of families with routing state zero experts.
        config.pop("num_experts", None)
        config.pop("num_experts_per_tok", None)
    elif kind == "llama":
        kind = "mixtral"
    config["model_type"] = kind
    if not config.get("sliding_window"):
        config.pop("sliding_window", None)
    _biases(config, shapes)
    _experts(config, kind, shapes)
    if kind == "deepseek_v3":
        _latent(config, metadata, family, shapes)
    return config


def block_count(metadata: Mapping[str, Value], family: str) -> int:
    """Return the number of blocks, without multi-token prediction layers.

    Raises InputError if the key is missing or not a whole number.
    """
    key = f"{family}.block_count"
    blocks, further = metadata.get(key), metadata.get(f"{family}.nextn_predict_layers", 0)
    if not isinstance(blocks, int) or not isinstance(further, int) or not 0 <= further < blocks:
        refuse(f"the GGUF metadata has no usable {key}", blocks, "the number of blocks")
    return blocks - further


def counted(table: TensorTable, blocks: int) -> int:
    """Return the parameters of the first ``blocks`` blocks, the embedding and the head in a table.

    Later blocks are for multi-token prediction.
    """
    total = 0
    for tensor in table.tensors:
        first, _, rest = tensor.name.partition(".")
        index = rest.partition(".")[0]
        beyond = first == "blk" and index.isdecimal() and int(index[:9]) >= blocks
        if first not in NOT_PARAMETERS and not beyond:
            total += tensor.elements
    return total


def _uniform(key: str, value: Value) -> Value:
    """Return the single value of a key that may have one value per layer."""
    if not isinstance(value, tuple):
        return value
    if len(set(value)) != 1:
        raise refusal("gguf_layers_differ", value=value[:8], key=key)
    return value[0]


def _vocabulary(
    metadata: Mapping[str, Value], family: str, shapes: Mapping[str, tuple[int, ...]]
) -> Value:
    shape = shapes.get("token_embd.weight", ())
    if len(shape) == 2:
        return shape[0]
    stated = metadata.get(f"{family}.vocab_size")
    if stated is None:
        refuse("the GGUF file has no token embedding", shape, "token_embd.weight")
    return stated


def _biases(config: dict[str, object], shapes: Mapping[str, tuple[int, ...]]) -> None:
    config["attention_bias"] = "blk.0.attn_q.bias" in shapes
    config["mlp_bias"] = "blk.0.ffn_up.bias" in shapes
    config["use_qk_norm"] = "blk.0.attn_q_norm.weight" in shapes


def _experts(config: dict[str, object], kind: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Set the widths of experts, which older files leave out."""
    if "num_experts" not in config:
        return
    for field, part in (
        ("moe_intermediate_size", ".ffn_up_exps.weight"),
        ("shared_expert_intermediate_size", ".ffn_up_shexp.weight"),
    ):
        found = (shape for name, shape in shapes.items() if name.endswith(part))
        shape = next(found, ())
        if field not in config and len(shape) >= 2:
            config[field] = shape[-2]
    if kind in ROUTED_THROUGHOUT and "moe_intermediate_size" in config:
        config["intermediate_size"] = config["moe_intermediate_size"]


def _latent(
    config: dict[str, object],
    metadata: Mapping[str, Value],
    family: str,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Set the dimensions of latent attention. Older files cache full heads."""
    rope = metadata.get(f"{family}.rope.dimension_count")
    key = metadata.get(
        f"{family}.attention.key_length_mla", metadata.get(f"{family}.attention.key_length")
    )
    if not isinstance(rope, int) or not isinstance(key, int):
        what = "the GGUF metadata has no usable rope.dimension_count and key length"
        refuse(what, (rope, key), "whole numbers")
    config["qk_rope_head_dim"] = rope
    config["qk_nope_head_dim"] = key - rope
    config["v_head_dim"] = metadata.get(
        f"{family}.attention.value_length_mla", metadata.get(f"{family}.attention.value_length")
    )
    config["kv_lora_rank"] = metadata.get(f"{family}.attention.kv_lora_rank")
    config["q_lora_rank"] = metadata.get(f"{family}.attention.q_lora_rank") or None
    config["num_key_value_heads"] = config.get("num_attention_heads")
    config.pop("head_dim", None)
    if not any(name.endswith("exp_probs_b.bias") for name in shapes):
        config["model_type"] = "deepseek_v2"


SNIFFED_BYTES: Final = 16
CONFIG: Final = "config.json"
INDEX_SUFFIX: Final = ".safetensors.index.json"
SOURCE: Final = "weights"

CLOSE: Final = 0.02
"""Largest relative difference between a file and the mixture that its metadata names."""

_PART: Final = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf|\.safetensors)")
_PLAIN: Final = {"bf16": "bf16", "f16": "fp16", "f32": "fp32"}
_UNPACKED: Final = frozenset({"bf16", "f16", "f32", "f64"})
"""Types whose elements are parameters. Smaller types may pack several or hold scales."""


def is_weights_file(path: Path, start: bytes) -> bool:
    """Return whether a file holds weights, by its first nine bytes, or indexes such files."""
    return (
        start.startswith(MAGIC) or looks_like_safetensors(start) or path.name.endswith(INDEX_SUFFIX)
    )


def architecture_from_weights(path: Path, start: bytes) -> ModelArchitecture:
    """Return the architecture of the model in a weights file, from its header only.

    ``start`` is at least the first nine bytes. ``evidence`` is ``derived`` if the parameters agree
    with the tensor table. Raises InputError if the file is unusable, or does not show the
    architecture.
    """
    if start.startswith(MAGIC):
        return _from_gguf(path)
    if path.name.endswith(INDEX_SUFFIX):
        return _from_index(read_index(read_start(path, MAX_INDEX_BYTES + 1)), path)
    part = _PART.fullmatch(path.name)
    index = path.with_name(f"{part[1]}{INDEX_SUFFIX}") if part else None
    if index is not None and is_file(index):
        return _from_index(read_index(read_start(index, MAX_INDEX_BYTES + 1)), index)
    table = read_safetensors(path)
    return _from_table(table, path, whole=part is None)


def _from_gguf(path: Path) -> ModelArchitecture:
    header = _whole_gguf(path)
    config = config_from_gguf(header)
    name = header.metadata.get("general.name")
    shown = name.strip() if isinstance(name, str) else ""
    built = architecture_from_config(config, name=shown or path.stem, source=SOURCE)
    family = str(header.metadata["general.architecture"])
    found = counted(header.table, block_count(header.metadata, family))
    built = _compared(built, found)
    stored, note = _mixture(built, header)
    return built.changed(
        weight_format=stored, assumptions=(*built.assumptions, _sizes(header.table), *note)
    )


def _whole_gguf(path: Path) -> GgufHeader:
    """Return the header of a file with the tensors of all its parts."""
    header = read_gguf(path)
    parts = header.metadata.get("split.count", 1)
    if not isinstance(parts, int) or parts <= 1:
        return header
    match = _PART.fullmatch(path.name)
    if match is None or int(match[3]) != parts or parts > 1000:
        many = (
            f"a name like model-00001-of-{parts:05}.gguf" if parts <= 1000 else "up to 1000 parts"
        )
        raise refusal("gguf_part_unnamed", value=path.name, allowed=many)
    paths = [path.with_name(f"{match[1]}-{i:05}-of-{match[3]}.gguf") for i in range(1, parts + 1)]
    missing = [item.name for item in paths if not is_file(item)]
    if missing:
        raise refusal("gguf_parts_missing", value=", ".join(missing[:3]), parts=parts)
    headers = [header if item == path else read_gguf(item) for item in paths]
    # The first part holds the metadata of the model.
    return headers[0]._replace(table=joined(item.table for item in headers))


def _mixture(model: ModelArchitecture, header: GgufHeader) -> tuple[str, tuple[str, ...]]:
    """Return the weight format of a file, and its difference from the file's own bytes."""
    number = header.metadata.get("general.file_type")
    named = gguf_facts().files.get(number) if isinstance(number, int) else None
    stored = header.table.bytes
    if named in ("fp32", "fp16", "bf16"):
        return named, ()
    if named is not None and abs(file_bytes(model, named) / stored - 1) <= CLOSE:
        return named, ()
    largest = next(iter(header.table.bytes_by_type()))
    if largest in _PLAIN:
        return _PLAIN[largest], ()
    nearest = min(gguf_facts().mixtures, key=lambda name: abs(file_bytes(model, name) - stored))
    apart = file_bytes(model, nearest) / stored - 1
    side = "above" if apart > 0 else "below"
    off = percent(round(abs(apart), 3))
    return nearest, (f"served weights count as {nearest}, {off} {side} the file's bytes",)


def _from_index(index: SafetensorsIndex, path: Path) -> ModelArchitecture:
    table = read_shards(index, path.parent)
    if table is not None:
        if table.bytes != index.total_bytes or len(table.tensors) != index.tensors:
            refuse(
                "the shards do not match the index",
                f"{table.bytes:,} bytes in {len(table.tensors):,} tensors",
                f"{index.total_bytes:,} bytes in {index.tensors:,} tensors",
            )
        return _from_table(table, path, whole=True)
    built = _configured(path)
    if built is None:
        raise refusal("index_without_shards", value=path.name)
    note = f"the files hold {index.total_bytes / GB:,.2f} GB in {index.tensors:,} tensors"
    return built.changed(assumptions=(*built.assumptions, note))


def _configured(path: Path) -> ModelArchitecture | None:
    """Return the architecture of the configuration in the same folder, or None."""
    beside = path.with_name(CONFIG)
    if not is_file(beside):
        return None
    config = load_config_text(read_start(beside))
    built = architecture_from_config(config, name=path.parent.name or None, source=SOURCE)
    note = f"shape from the {CONFIG} beside the file"
    return built.changed(assumptions=(*built.assumptions, note))


def _from_table(table: TensorTable, path: Path, *, whole: bool) -> ModelArchitecture:
    """Return the architecture of a table, from the configuration in its folder or its shapes."""
    kinds = table.bytes_by_type()
    built = _configured(path)
    if built is None:
        if not whole:
            raise refusal("weights_part", value=path.name, index=INDEX_SUFFIX[1:])
        config, notes = config_from_shapes(table)
        built = architecture_from_config(config, name=path.stem, source=SOURCE)
        stored = _PLAIN.get(next(iter(kinds)), "bf16")
        built = built.changed(
            weight_format=stored,
            assumptions=(*built.assumptions, *notes),
            evidence=Evidence.ASSUMED if notes else built.evidence,
        )
    if whole and _UNPACKED.issuperset(kinds):
        built = _compared(built, parameter_count(table))
    return built.changed(assumptions=(*built.assumptions, _sizes(table)))


def _compared(model: ModelArchitecture, found: int) -> ModelArchitecture:
    """Return the model, marked as assumed if the file's parameters differ."""
    if model.total_parameters == found:
        return model
    note = f"the file holds {found:,} parameters, the shape gives {model.total_parameters:,}"
    return model.changed(evidence=Evidence.ASSUMED, assumptions=(*model.assumptions, note))


def _sizes(table: TensorTable) -> str:
    """Return a note on the bytes of each storage type."""
    each = ", ".join(f"{size:,} in {kind}" for kind, size in table.bytes_by_type().items())
    return f"the file's tensors take {table.bytes:,} bytes: {each}"
