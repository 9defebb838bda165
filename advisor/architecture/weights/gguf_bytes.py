"""Bytes of a model's tensors in llama.cpp's mixtures of types, which ``data/gguf.yaml`` describes.

A quantised tensor is stored in blocks along its first dimension: a few scales, then the values.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.foundation.noun import Noun, shipped


class GgmlType(Noun):
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


def _more_bits(layer: int, layers: int) -> bool:
    """Return whether the layer is in the first or last eighth, or every third in between."""
    first = layers // 8
    return layer < first or layer >= 7 * layers // 8 or (layer - first) % 3 == 2


_LAYERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "all": lambda layer, layers: layer < layers,
    "first_two": lambda layer, _: layer < 2,
    "first_four": lambda layer, _: layer < 4,
    "first_sixteenth": lambda layer, layers: layer < layers // 16,
    "first_eighth": lambda layer, layers: layer < layers // 8,
    "middle": lambda layer, layers: layers // 8 <= layer < 7 * layers // 8,
    "more_bits": _more_bits,
}
"""Whether a rule is for a layer, from its index and the number of layers."""


class Rule(Noun):
    """A projection, its type, and the layers."""

    target: str
    """The projection: q, k, v, o, gate, up or down, as in ``Operator.target``."""
    type: str
    layers: Literal[
        "all", "first_two", "first_four", "first_sixteenth", "first_eighth", "middle", "more_bits"
    ] = "all"
    grouped: bool | None = None
    """Applies only with (True) or without (False) grouped queries; None means both."""


class Recipe(Noun):
    """One named mixture."""

    base: str
    """Type of every matrix without a rule."""
    rules: tuple[Rule, ...] = ()
    head: str = "q6_k"
    """Type of the output matrix, also if it is tied to the embedding."""
    embedding: str | None = None
    """Type of a separate embedding; None means ``base``."""
    output_of_eight: str | None = "q5_k"
    """Type of the attention output in models with eight experts; None follows the rules."""
    experts: str | None = None
    """Type of routed experts; None follows the rules."""


class GgufFacts(Noun):
    """Contents of ``data/gguf.yaml``, which explains them."""

    types: dict[int, GgmlType]
    narrow: dict[str, str]
    files: dict[int, str]
    mixtures: dict[str, Recipe]
    architectures: dict[str, str]
    fields: dict[str, str]

    def named(self, name: str) -> GgmlType:
        """Return a tensor type by its name."""
        return next(item for item in self.types.values() if item.name == name)


gguf_facts = shipped("gguf.yaml", GgufFacts)
"""Returns what llama.cpp's files can hold."""

GROUPED: Final = 4
"""From this many query heads per key-value head on, the value projection gets more bits."""
LARGE_LAYERS: Final = 80
LARGE_GROUP: Final = 8
"""Layers and query group of Llama 70B, whose value projections get at least five bits."""
EIGHT_EXPERTS: Final = 8
TOKENS: Final = "embedding.tokens"
LAYER_INPUTS: Final = "embedding.layer_inputs"
"""Table of per-layer embeddings, which files give the type of the output matrix:
gemma-4-E2B-it-Q4_K_M has 3.18 GiB and E4B 5.03 (llama-bench, gist of selfup, 2026-05-11). Its rows
are whole blocks."""
LARGEST_BLOCK: Final = 256
FP32_BYTES: Final = 4.0
_LOW_BASES: Final = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s"})


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
    recipe = gguf_facts().mixtures[name]
    total = sum(
        stored(_layer_type(recipe, target, layer, model), width) for layer in range(model.layers)
    )
    return total / model.layers


def _layer_type(recipe: Recipe, target: str | None, layer: int, model: Mixture) -> str:
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
            and _LAYERS[rule.layers](layer, model.layers)
            and rule.grouped in (None, grouped)
        ):
            found = rule.type
            break
    large = model.layers == LARGE_LAYERS and model.query_group == LARGE_GROUP
    return "q5_k" if target == "v" and large and found in ("q3_k", "q4_k") else found


def head_bytes(name: str, width: int) -> float:
    """Return the bytes per value of the output matrix, or of an embedding tied to it. [bytes]"""
    recipe = gguf_facts().mixtures[name]
    # llama.cpp checks whether blocks of the base type divide the rows, not blocks of the head's.
    if width % gguf_facts().named(recipe.base).block:
        return stored("q8_0", width)
    return stored(recipe.head, width)


def embedding_bytes(name: str, width: int) -> float:
    """Return the bytes per value of an embedding that is not the output matrix. [bytes]"""
    recipe = gguf_facts().mixtures[name]
    return stored(recipe.embedding or recipe.base, width)


def stored(type_name: str, width: int) -> float:
    """Return the bytes per value of a type, replaced if its blocks do not divide the rows. [bytes]

    >>> stored("q4_k", 4096)
    0.5625
    >>> stored("q4_k", 2880)
    0.6875
    """
    facts = gguf_facts()
    kept = facts.named(type_name)
    if width % kept.block:
        kept = facts.named(facts.narrow.get(type_name, "f16"))
    if width % kept.block:
        kept = facts.named("f16")
    return kept.bytes_per_value


def row_bytes(row: Operator, name: str, model: ModelArchitecture) -> float:
    """Return the bytes of one stored parameter of an operator. [bytes]

    Norms, routers, position tables and all else that is not a matrix stay in fp32, as the converter
    leaves them. The biases of a matrix count in its type.
    """
    if row.kind is OperatorKind.EMBEDDING:
        if row.name == LAYER_INPUTS:
            return head_bytes(name, LARGEST_BLOCK)
        if row.name != TOKENS:
            return FP32_BYTES
        size = head_bytes if model.tied_embeddings else embedding_bytes
        return size(name, model.hidden_size)
    if row.kind is not OperatorKind.MATMUL or not row.in_features:
        return FP32_BYTES
    if row.part is Part.HEAD:
        return head_bytes(name, row.in_features)
    experts = gguf_facts().mixtures[name].experts
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
