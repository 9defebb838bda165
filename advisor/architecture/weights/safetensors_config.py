"""Derives the configuration of a Llama-like model from its tensor names and shapes.

Shapes show widths, layers, biases and tying. They do not show the number of heads (unless a norm
per head exists) or how many experts a token visits.
"""

import re
from collections.abc import Mapping
from typing import Final

from advisor.architecture.weights.tensor_table import TensorTable, refuse

LIKELY_HEAD_DIMS: Final = (128, 64)
"""Head dimensions of published Llama-like models. From 3B parameters on, 128 is the usual one."""

_EMBEDDING: Final = "embed_tokens.weight"
_BUFFERS: Final = ".rotary_emb.inv_freq"
_BLOCK: Final = re.compile(r"layers\.(\d{1,5})\.(.+)")
_PLAIN: Final = frozenset(
    {
        "self_attn.q_proj.weight",
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.o_proj.weight",
        "mlp.gate_proj.weight",
        "mlp.up_proj.weight",
        "mlp.down_proj.weight",
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
    }
)
_BIASES: Final = frozenset(f"self_attn.{name}_proj.bias" for name in "qkv")
_NORMS: Final = frozenset({"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
_KNOWN: Final = {_PLAIN: "llama", _PLAIN | _BIASES: "qwen2", _PLAIN | _NORMS: "qwen3"}
_REMEDY: Final = "Put the model's config.json beside the file, or give it instead."


def config_from_shapes(table: TensorTable) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the configuration of a Llama-like model.

    Raises InputError if the tensors are not those of a Llama, Qwen 2 or Qwen 3 model.

    Parameters
    ----------
    table : TensorTable
        All tensors of the model.

    Returns
    -------
    dict
        Fields as in ``config.json``.
    tuple of str
        Assumptions.
    """
    shapes = {name: shape for name, shape in table.shapes().items() if not name.endswith(_BUFFERS)}
    prefix = _prefix(shapes)
    block, layers = _first_block(shapes, prefix)
    kind = _KNOWN.get(frozenset(block))
    if kind is None:
        extra = sorted(frozenset(block) ^ _PLAIN)
        refuse(
            "the tensors alone do not tell this architecture",
            ", ".join(extra[:4]) or "other tensors",
            "the tensors of Llama, Qwen 2 or Qwen 3",
            _REMEDY,
        )
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
        refuse(
            "the tensors alone do not tell this architecture",
            f"{len(found)} tensors named {_EMBEDDING}",
            "the tensors of a Llama-like model",
            _REMEDY,
        )
    return found[0].removesuffix(_EMBEDDING)


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
        refuse(
            "the tensors are not those of a whole model",
            f"layers {sorted(blocks)[:8]}",
            "layers 0, 1, 2 and so on",
            "Give the index file of all parts, or the model's config.json.",
        )
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
    return refuse(
        "the shapes do not show the width of a head",
        (queries, keys),
        "projections that heads of 128 or 64 divide",
        _REMEDY,
    )
