"""Bytes of a model's tensors in llama.cpp's mixtures, which ``name`` names as in ``RECIPES``.

A quantised tensor is stored in blocks along its first dimension: a few scales, then the values.
The sizes come from ``GGML_QUANT_SIZES`` in ``gguf-py/gguf/constants.py`` of llama.cpp (MIT), which
restates the structures of ``ggml/src/ggml-common.h``; read on 2026-11-21.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.architecture.weights.gguf_recipes import RECIPES, Recipe

QK: Final = 256
"""Values in a super-block of the K-quants and most IQ types."""


class GgmlType(NamedTuple):
    """Storage layout of one tensor type."""

    name: str
    block: int
    """Values in a block."""
    block_bytes: int
    """Size of a block, including scales. [bytes]"""

    @property
    def bytes_per_value(self) -> float:
        """Bytes of one value, including its share of the scales."""
        return self.block_bytes / self.block


GGML_TYPES: Final[dict[int, GgmlType]] = {
    0: GgmlType("f32", 1, 4),
    1: GgmlType("f16", 1, 2),
    2: GgmlType("q4_0", 32, 2 + 16),
    3: GgmlType("q4_1", 32, 2 + 2 + 16),
    6: GgmlType("q5_0", 32, 2 + 4 + 16),
    7: GgmlType("q5_1", 32, 2 + 2 + 4 + 16),
    8: GgmlType("q8_0", 32, 2 + 32),
    9: GgmlType("q8_1", 32, 4 + 4 + 32),
    10: GgmlType("q2_k", QK, 2 + 2 + QK // 16 + QK // 4),
    11: GgmlType("q3_k", QK, 2 + QK // 4 + QK // 8 + 12),
    12: GgmlType("q4_k", QK, 2 + 2 + QK // 2 + 12),
    13: GgmlType("q5_k", QK, 2 + 2 + QK // 2 + QK // 8 + 12),
    14: GgmlType("q6_k", QK, 2 + QK // 2 + QK // 4 + QK // 16),
    15: GgmlType("q8_k", QK, 4 + QK + QK // 8),
    16: GgmlType("iq2_xxs", QK, 2 + QK // 4),
    17: GgmlType("iq2_xs", QK, 2 + QK // 4 + QK // 32),
    18: GgmlType("iq3_xxs", QK, 2 + QK // 4 + QK // 8),
    19: GgmlType("iq1_s", QK, 2 + QK // 8 + QK // 16),
    20: GgmlType("iq4_nl", 32, 2 + 16),
    21: GgmlType("iq3_s", QK, 2 + QK // 4 + QK // 8 + QK // 32 + 4),
    22: GgmlType("iq2_s", QK, 2 + QK // 4 + QK // 16),
    23: GgmlType("iq4_xs", QK, 2 + 2 + QK // 2 + QK // 64),
    24: GgmlType("i8", 1, 1),
    25: GgmlType("i16", 1, 2),
    26: GgmlType("i32", 1, 4),
    27: GgmlType("i64", 1, 8),
    28: GgmlType("f64", 1, 8),
    29: GgmlType("iq1_m", QK, QK // 8 + QK // 16 + QK // 32),
    30: GgmlType("bf16", 1, 2),
    34: GgmlType("tq1_0", QK, 2 + 4 * 13),
    35: GgmlType("tq2_0", QK, 2 + 64),
    39: GgmlType("mxfp4", 32, 1 + 16),
    40: GgmlType("nvfp4", 64, 4 + 32),
    41: GgmlType("q1_0", 128, 2 + 16),
    42: GgmlType("q2_0", 64, 2 + 16),
}
"""Tensor types by their number in a file. Numbers 4, 5, 31 to 33 and 36 to 38 were removed."""

BY_NAME: Final[dict[str, GgmlType]] = {item.name: item for item in GGML_TYPES.values()}
"""The same types by name."""


GROUPED: Final = 4
"""From this many query heads per key-value head on, the value projection gets more bits."""
LARGE_LAYERS: Final = 80
LARGE_GROUP: Final = 8
"""Layers and query group of Llama 70B, whose value projections get at least five bits."""
EIGHT_EXPERTS: Final = 8
TOKENS: Final = "embedding.tokens"
FP32_BYTES: Final = 4.0
_LOW_BASES: Final = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s"})
NARROW: Final = {
    "iq1_s": "iq4_nl",
    "iq1_m": "iq4_nl",
    "iq2_xxs": "iq4_nl",
    "iq2_xs": "iq4_nl",
    "iq2_s": "iq4_nl",
    "iq3_xxs": "iq4_nl",
    "iq3_s": "iq4_nl",
    "iq4_xs": "iq4_nl",
    "q2_k": "q4_0",
    "q3_k": "q4_0",
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
}
"""Type with blocks of 32 that replaces a type whose blocks of 256 do not divide the rows."""


class Mixture(NamedTuple):
    """Facts of a model on which the rules depend."""

    layers: int
    query_group: int
    """Query heads per key-value head."""
    experts: int


@lru_cache(maxsize=4096)
def matrix_bytes(name: str, target: str | None, width: int, model: Mixture) -> float:
    """Return the bytes per value of a block's matrix, averaged over the layers. [bytes]

    ``target`` is its projection (``Operator.target``). Quantisation blocks run along its ``width``
    input features.
    """
    recipe = RECIPES[name]
    total = sum(
        stored(_layer_type(recipe, target, layer, model), width) for layer in range(model.layers)
    )
    return total / model.layers


def _layer_type(recipe: Recipe, target: str | None, layer: int, model: Mixture) -> str:
    """Return the type of one projection in one layer."""
    if model.experts == EIGHT_EXPERTS and recipe.base not in _LOW_BASES:
        if target in ("k", "v"):
            return "q8_0"
        if target == "o" and recipe.output_of_eight is not None:
            return recipe.output_of_eight
    grouped = model.query_group >= GROUPED or model.experts >= GROUPED
    found = recipe.base
    for rule in recipe.rules:
        if (
            rule.target == target
            and rule.where(layer, model.layers)
            and rule.grouped in (None, grouped)
        ):
            found = rule.type
            break
    large = model.layers == LARGE_LAYERS and model.query_group == LARGE_GROUP
    return "q5_k" if target == "v" and large and found in ("q3_k", "q4_k") else found


def head_bytes(name: str, width: int) -> float:
    """Return the bytes per value of the output matrix, or of an embedding tied to it. [bytes]"""
    recipe = RECIPES[name]
    # llama.cpp checks whether blocks of the base type divide the rows, not blocks of the head's.
    if width % BY_NAME[recipe.base].block:
        return stored("q8_0", width)
    return stored(recipe.head, width)


def embedding_bytes(name: str, width: int) -> float:
    """Return the bytes per value of an embedding that is not the output matrix. [bytes]"""
    recipe = RECIPES[name]
    return stored(recipe.embedding or recipe.base, width)


def stored(type_name: str, width: int) -> float:
    """Return the bytes per value of a type, replaced if its blocks do not divide the rows. [bytes]

    Examples
    --------
    >>> stored("q4_k", 4096)
    0.5625
    >>> stored("q4_k", 2880)
    0.6875
    """
    kept = BY_NAME[type_name]
    if width % kept.block:
        kept = BY_NAME[NARROW.get(type_name, "f16")]
    if width % kept.block:
        kept = BY_NAME["f16"]
    return kept.bytes_per_value


def row_bytes(row: Operator, name: str, model: ModelArchitecture) -> float:
    """Return the bytes of one stored parameter of an operator. [bytes]

    Norms, routers, position tables and all else that is not a matrix stay in fp32, as the converter
    leaves them. The biases of a matrix count in its type.
    """
    if row.kind is OperatorKind.EMBEDDING:
        if row.name != TOKENS:
            return FP32_BYTES
        size = head_bytes if model.tied_embeddings else embedding_bytes
        return size(name, model.hidden_size)
    if row.kind is not OperatorKind.MATMUL or not row.in_features:
        return FP32_BYTES
    if row.part is Part.HEAD:
        return head_bytes(name, row.in_features)
    experts = RECIPES[name].experts
    if experts is not None and row.experts > 1:
        return stored(experts, row.in_features)
    mixture = Mixture(
        layers=model.num_hidden_layers,
        query_group=model.num_attention_heads // model.num_key_value_heads,
        experts=model.num_experts,
    )
    return matrix_bytes(name, row.target, row.in_features, mixture)


def file_bytes(model: ModelArchitecture, name: str) -> float:
    """Return the bytes of all parameters of a model in one mixture. [bytes]

    Tokenizer and metadata take a few megabytes more.
    """
    return sum(row.layers * row.parameters * row_bytes(row, name, model) for row in model.operators)
