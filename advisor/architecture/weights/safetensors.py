"""Reads the header of a ``.safetensors`` file and the index of shards, but never the weights.

Format: github huggingface/safetensors, README (Apache-2.0): eight bytes with the length of the
header, little-endian; the header, a JSON object from tensor names to type, shape and offsets;
the tensors without holes. The format allows headers up to 100 MB; published ones stay under 20.
The shapes show a Llama-like model's widths, layers, biases and tying. They do not show the number
of heads (unless a norm per head exists) or how many experts a token visits.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from advisor.architecture.config.fields import load_config_text
from advisor.architecture.weights.tensor_table import (
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    MAX_NAME,
    MAX_TENSORS,
    Tensor,
    TensorTable,
    element_count,
    joined,
    refuse,
    weights,
)
from advisor.errors import refusal
from advisor.foundation.files.reading import is_file
from advisor.foundation.files.structured import NotPlainError, read_json

LIKELY_HEAD_DIMS: Final = (128, 64)
"""Head dimensions of published Llama-like models. From 3B parameters on, 128 is the usual one."""

_EMBEDDING: Final = "embed_tokens.weight"
_BUFFERS: Final = ".rotary_emb.inv_freq"
_BLOCK: Final = re.compile(r"layers\.(\d{1,5})\.(.+)")
_PLAIN: Final = frozenset(
    f"{name}.weight"
    for name in (
        *(f"self_attn.{name}_proj" for name in ("q", "k", "v", "o")),
        *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
        *("input_layernorm", "post_attention_layernorm"),
    )
)
_BIASES: Final = frozenset(f"self_attn.{name}_proj.bias" for name in "qkv")
_NORMS: Final = frozenset({"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
_KNOWN: Final = {_PLAIN: "llama", _PLAIN | _BIASES: "qwen2", _PLAIN | _NORMS: "qwen3"}
_REMEDY: Final = "Put the model's config.json beside the file, or give it instead."


def config_from_shapes(table: TensorTable) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the configuration of a Llama-like model, as in ``config.json``, and assumptions.

    Raises InputError if the tensors are not those of a Llama, Qwen 2 or Qwen 3 model.
    """
    shapes = {name: shape for name, shape in table.shapes().items() if not name.endswith(_BUFFERS)}
    prefix = _prefix(shapes)
    block, layers = _first_block(shapes, prefix)
    kind = _KNOWN.get(frozenset(block))
    if kind is None:
        extra = ", ".join(sorted(frozenset(block) ^ _PLAIN)[:4]) or "other tensors"
        _untold(extra, "the tensors of Llama, Qwen 2 or Qwen 3")
    vocabulary, hidden = _matrix(shapes, prefix + _EMBEDDING)
    queries, _ = _matrix(block, "self_attn.q_proj.weight")
    keys, _ = _matrix(block, "self_attn.k_proj.weight")
    width, _ = _matrix(block, "mlp.gate_proj.weight")
    head_dim, notes = _head_dim(block, queries, keys)
    config: dict[str, object] = {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": queries // head_dim,
        "num_key_value_heads": keys // head_dim,
        "head_dim": head_dim,
        "intermediate_size": width,
        "vocab_size": vocabulary,
        "tie_word_embeddings": "lm_head.weight" not in shapes,
    }
    return config, notes


def parameter_count(table: TensorTable) -> int:
    """Return the elements of all tensors, without tables of the position encoding."""
    return sum(item.elements for item in table.tensors if not item.name.endswith(_BUFFERS))


def _prefix(shapes: Mapping[str, tuple[int, ...]]) -> str:
    found = [name for name in shapes if name == _EMBEDDING or name.endswith("." + _EMBEDDING)]
    if len(found) != 1:
        _untold(f"{len(found)} tensors named {_EMBEDDING}", "the tensors of a Llama-like model")
    return found[0].removesuffix(_EMBEDDING)


def _untold(value: str, allowed: str) -> NoReturn:
    refuse("the tensors alone do not tell this architecture", value, allowed, _REMEDY)


def _first_block(
    shapes: Mapping[str, tuple[int, ...]], prefix: str
) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return the shapes of one block and the number of blocks, which must all be equal."""
    blocks: dict[int, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        match = _BLOCK.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if match is not None:
            blocks.setdefault(int(match[1]), {})[match[2]] = shape
    if sorted(blocks) != list(range(len(blocks))) or not blocks:
        raise refusal("layers_missing", value=f"layers {sorted(blocks)[:8]}")
    if any(block != blocks[0] for block in blocks.values()):
        refuse("the layers differ from each other", len(blocks), "layers that are alike", _REMEDY)
    return blocks[0], len(blocks)


def _matrix(shapes: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, int]:
    shape = shapes[name]
    if len(shape) != 2:
        refuse(f"tensor {name[:60]} is not a matrix", shape, "two dimensions", _REMEDY)
    return shape[0], shape[1]


def _head_dim(
    block: Mapping[str, tuple[int, ...]], queries: int, keys: int
) -> tuple[int, tuple[str, ...]]:
    """Return the width of a head, with a note if it is assumed because no norm shows it."""
    norm = block.get("self_attn.q_norm.weight")
    candidates = norm if norm is not None and len(norm) == 1 else LIKELY_HEAD_DIMS
    for size in candidates:
        if size and queries % size == 0 and keys % size == 0 and 0 < keys <= queries:
            note = f"heads of {size} assumed (shapes do not show them); cache and FLOPs are exact"
            return size, () if norm is not None else (note,)
    raise refusal("heads_unknown", value=(queries, keys), remedy=_REMEDY)


MAX_HEADER_BYTES: Final = 20_000_000
PREFIX: Final = 8
MAX_SHARDS: Final = 1_000
MAX_INDEX_BYTES: Final = 5_000_000
MAX_LEVELS: Final = 20
MAX_PARTS: Final = 1_000_000
"""Most names, fields and values in a header: 80,000 tensors. Reading them takes 60 MB."""

BITS: Final[dict[str, int]] = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Bits of one element by type, ``Dtype::bitsize`` in ``safetensors/src/tensor.rs``. [bits]"""

_WANTED: Final = "a complete .safetensors file"


class SafetensorsIndex(NamedTuple):
    """A ``model.safetensors.index.json``: the file of each tensor."""

    total_bytes: int
    """Size of all tensors. [bytes]"""
    files: tuple[str, ...]
    tensors: int


def looks_like_safetensors(start: bytes) -> bool:
    """Return whether a file starts like a safetensors header; nine bytes are enough."""
    return len(start) > PREFIX and start[PREFIX:][:1] == b"{" and start.lstrip()[:1] != b"{"


def read_safetensors(path: Path) -> TensorTable:
    """Return the tensor table of a ``.safetensors`` file, in the order of the header.

    Raises InputError if the file cannot be read, is truncated or violates the format.
    """
    with weights(path) as (stream, size):
        prefix = stream.read(PREFIX)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < PREFIX or length > size - PREFIX:
            refuse("the safetensors file is truncated", f"{size:,} bytes", _WANTED)
        if length > MAX_HEADER_BYTES:
            most = f"at most {MAX_HEADER_BYTES:,} bytes"
            refuse("the safetensors header is too large", f"{length:,} bytes", most)
        text = _decoded(stream.read(length))
    tensors = _tensors(_parsed(text), data_bytes=size - PREFIX - length)
    return TensorTable(tensors)


def _decoded(raw: bytes) -> str:
    # One other character would make every character take four bytes.
    if len(raw) > MAX_HEADER_BYTES // 4 and not raw.isascii():
        refuse("the safetensors header is not ASCII text", f"{len(raw):,} bytes", "plain names")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        refuse("the safetensors header is not UTF-8 text", f"{len(raw):,} bytes", "UTF-8 JSON")


def _parsed(text: str) -> dict[str, object]:
    try:
        parsed = read_json(text, deepest=MAX_LEVELS, most=MAX_PARTS)
    except NotPlainError as error:
        raise error.as_input_error(
            "the safetensors header",
            form="JSON",
            value=f"{len(text):,} characters",
            allowed="a tensor table",
            field="model.config",
        ) from None
    if not isinstance(parsed, dict):
        refuse("the safetensors header is not a JSON object", type(parsed).__name__, "an object")
    parsed.pop("__metadata__", None)
    if not parsed:
        refuse("the safetensors file holds no tensors", 0, "a model's weights")
    if len(parsed) > MAX_TENSORS:
        refuse("the safetensors file holds too many tensors", len(parsed), f"{MAX_TENSORS:,}")
    return parsed


def _tensors(header: dict[str, object], *, data_bytes: int) -> tuple[Tensor, ...]:
    """Return the checked tensors, whose offsets must fill the data without holes."""
    placed = [(_tensor(name, entry), _offsets(name, entry)) for name, entry in header.items()]
    end = 0
    for tensor, (start, stop) in sorted(placed, key=lambda item: item[1]):
        name = tensor.name[:60]
        if start != end:
            refuse(
                f"tensor {name} overlaps another or leaves a hole", start, f"an offset of {end:,}"
            )
        if stop - start != tensor.bytes:
            refuse(
                f"tensor {name} has other bytes than its shape", stop - start, f"{tensor.bytes:,}"
            )
        end = stop
    if end != data_bytes:
        what = "is truncated" if end > data_bytes else "has bytes that belong to no tensor"
        refuse(f"the safetensors file {what}", f"{data_bytes:,} bytes", f"{end:,} bytes of tensors")
    return tuple(tensor for tensor, _ in placed)


def _tensor(name: str, entry: object) -> Tensor:
    shown = name[:60]
    if len(name) > MAX_NAME:
        refuse("a tensor's name is too long", shown, f"at most {MAX_NAME} characters")
    if not isinstance(entry, dict):
        refuse(f"tensor {shown} is not described by an object", entry, "dtype, shape, data_offsets")
    kind, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(kind, str) or kind not in BITS:
        refuse(f"tensor {shown} has an unknown type", kind, ", ".join(BITS))
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_whole, shape)):
        refuse(f"tensor {shown} has an unusable shape", shape, "a list of whole numbers")
    sizes = tuple(shape)
    count = element_count(name, sizes)
    bits = count * BITS[kind]
    if bits % 8:
        refuse(f"tensor {shown} does not end on a byte", sizes, "whole bytes")
    return Tensor(name, sizes, kind.lower(), count, bits // 8)


def _offsets(name: str, entry: object) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_whole, offsets)):
        refuse(f"tensor {name[:60]} has unusable offsets", offsets, "[begin, end]")
    return offsets[0], offsets[1]


def _whole(value: object) -> bool:
    """Return whether a value is a whole number that can be a size or an offset."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 8 * MAX_ELEMENTS


def read_index(text: bytes) -> SafetensorsIndex:
    """Read a ``model.safetensors.index.json``.

    Raises InputError if the text is not a usable JSON object, or the total size or the map is
    missing or unusable.
    """
    parsed = load_config_text(text, most=MAX_INDEX_BYTES)
    metadata, weight_map = parsed.get("metadata"), parsed.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        refuse("the index has no weight_map", weight_map, "an object of tensors and files")
    files: dict[str, None] = {}
    for name, file in weight_map.items():
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".", ".."):
            refuse(f"the index puts {name[:60]} into an unusable file", file, "a file beside it")
        files[file] = None
    if len(files) > MAX_SHARDS:
        refuse("the index names too many files", len(files), f"at most {MAX_SHARDS:,}")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        # Some exporters write 1.6e10.
        total = int(total)
    if not _whole(total):
        refuse("the index has no usable metadata.total_size", total, "bytes of all tensors")
    assert isinstance(total, int)
    return SafetensorsIndex(total, tuple(files), len(weight_map))


def read_shards(index: SafetensorsIndex, folder: Path) -> TensorTable | None:
    """Return the tensor table of all shards, or None if the index's ``folder`` lacks one of them.

    Raises InputError if a shard is unusable, or the shards together have too many tensors.
    """
    paths = [folder / name for name in index.files]
    if not all(map(is_file, paths)):
        return None
    table = joined(read_safetensors(path) for path in paths)
    if len(table.tensors) > MAX_TENSORS:
        refuse("the shards hold too many tensors", len(table.tensors), f"{MAX_TENSORS:,}")
    return table
