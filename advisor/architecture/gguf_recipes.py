"""Which tensor gets which type in a quantised GGUF file: llama.cpp's mixtures.

A file named ``Q4_K_M`` mixes types: most matrices in ``q4_k``, the output matrix and half of the
value and down projections in ``q6_k``. The rules below restate ``llama_tensor_get_type_impl`` of
``src/llama-quant.cpp`` (llama.cpp, MIT, commit 007dbbf) for transformers, with an importance
matrix and without overrides. For dense models they are exact; in routed ones the position of a
projection is taken over all layers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from advisor.architecture.ggml_types import BY_NAME
from advisor.architecture.model import ModelArchitecture
from advisor.architecture.operators import Operator, OperatorKind, Part

Where = Callable[[int, int], bool]
"""Whether the rule holds for a layer out of so many."""

GROUPED: Final = 4
"""Query heads on one key-value head from which the value projection is worth more bits."""
LARGE_LAYERS: Final = 80
LARGE_GROUP: Final = 8
"""Layers and group of Llama 70B, whose value projections are never below five bits."""
EIGHT_EXPERTS: Final = 8
TOKENS: Final = "embedding.tokens"
FP32_BYTES: Final = 4.0


def _all(layer: int, layers: int) -> bool:
    return layer < layers


def _first_eighth(layer: int, layers: int) -> bool:
    return layer < layers // 8


def _first_sixteenth(layer: int, layers: int) -> bool:
    return layer < layers // 16


def _first_two(layer: int, layers: int) -> bool:
    return layer < min(2, layers)


def _first_four(layer: int, layers: int) -> bool:
    return layer < min(4, layers)


def _middle(layer: int, layers: int) -> bool:
    return layers // 8 <= layer < 7 * layers // 8


def _more_bits(layer: int, layers: int) -> bool:
    """First and last eighth, and every third layer between."""
    first = layers // 8
    return layer < first or layer >= 7 * layers // 8 or (layer - first) % 3 == 2


class Rule(NamedTuple):
    """A projection, the type it gets, and in which layers; the first that holds decides."""

    target: str
    """q, k, v, o, gate, up or down, as ``Operator.target``."""
    type: str
    where: Where = _all
    grouped: bool | None = None
    """Holds only with (True) or without (False) grouped queries; None: with both."""


class Recipe(NamedTuple):
    """One named mixture."""

    base: str
    """Type of every matrix that no rule names."""
    rules: tuple[Rule, ...] = ()
    head: str = "q6_k"
    """Type of the output matrix; of the embedding where both are one."""
    embedding: str | None = None
    """Type of a separate embedding; None: ``base``."""
    output_of_eight: str | None = "q5_k"
    """Type of the attention output where there are eight experts; None: as the rules say."""


def _low(base: str, *, early: str, output: str | None) -> Recipe:
    """Mixture of two bits and less: embeddings, values and the first layers get more."""
    rules = [Rule("v", "q4_k", grouped=True), Rule("v", early, grouped=False)]
    rules.append(Rule("down", early, _first_eighth))
    if output is not None:
        rules.append(Rule("o", output))
    return Recipe(base, tuple(rules), head="q5_k", embedding=early)


RECIPES: Final[dict[str, Recipe]] = {
    "q8_0": Recipe("q8_0", head="q8_0", output_of_eight=None),
    "q6_k": Recipe("q6_k", output_of_eight=None),
    "q5_k_m": Recipe(
        "q5_k",
        (Rule("v", "q6_k", _more_bits), Rule("down", "q6_k", _more_bits)),
        output_of_eight=None,
    ),
    "q5_k_s": Recipe("q5_k", output_of_eight=None),
    "q5_1": Recipe("q5_1", output_of_eight=None),
    "q5_0": Recipe("q5_0", (Rule("down", "q5_1", _first_eighth),), output_of_eight=None),
    "q4_k_m": Recipe("q4_k", (Rule("v", "q6_k", _more_bits), Rule("down", "q6_k", _more_bits))),
    "q4_k_s": Recipe("q4_k", (Rule("v", "q5_k", _first_four), Rule("down", "q5_k", _first_eighth))),
    "q4_1": Recipe("q4_1", output_of_eight=None),
    "q4_0": Recipe("q4_0", (Rule("down", "q4_1", _first_eighth),), output_of_eight=None),
    "iq4_nl": Recipe("iq4_nl", (Rule("v", "q5_k", grouped=True),)),
    "iq4_xs": Recipe("iq4_xs", (Rule("v", "q5_k", grouped=True),)),
    "q3_k_l": Recipe(
        "q3_k", (Rule("v", "q5_k"), Rule("down", "q5_k"), Rule("o", "q5_k")), output_of_eight=None
    ),
    "q3_k_m": Recipe(
        "q3_k",
        (
            Rule("v", "q5_k", _first_two),
            Rule("v", "q4_k"),
            Rule("down", "q5_k", _first_sixteenth),
            Rule("down", "q4_k"),
            Rule("o", "q4_k"),
        ),
    ),
    "q3_k_s": Recipe("q3_k"),
    "iq3_m": Recipe(
        "iq3_s", (Rule("v", "q4_k"), Rule("down", "q4_k", _first_eighth), Rule("o", "q4_k"))
    ),
    "iq3_s": Recipe("iq3_s", (Rule("v", "q4_k", grouped=True),)),
    "iq3_xs": Recipe(
        "iq3_s",
        (
            Rule("v", "q4_k", grouped=True),
            Rule("k", "iq3_xxs"),
            Rule("q", "iq3_xxs"),
            Rule("gate", "iq3_xxs", _middle),
            Rule("up", "iq3_xxs", _middle),
        ),
    ),
    "iq3_xxs": Recipe(
        "iq3_xxs",
        (
            Rule("v", "q4_k", grouped=True),
            Rule("k", "iq2_s"),
            Rule("q", "iq2_s"),
            Rule("o", "iq3_s"),
        ),
        head="q5_k",
        embedding="iq3_s",
    ),
    "q2_k": Recipe(
        "q2_k",
        (
            Rule("v", "q4_k", grouped=True),
            Rule("v", "q3_k"),
            Rule("down", "q3_k"),
            Rule("o", "q3_k"),
        ),
    ),
    "q2_k_s": Recipe(
        "q2_k",
        (Rule("v", "q4_k", grouped=True), Rule("down", "q4_k", _first_eighth)),
        output_of_eight=None,
    ),
    "iq2_m": _low("iq2_s", early="iq3_s", output="iq3_s"),
    "iq2_s": _low("iq2_xs", early="iq3_s", output="iq3_s"),
    "iq2_xs": _low("iq2_xs", early="q2_k", output=None),
    "iq2_xxs": _low("iq2_xxs", early="q2_k", output=None),
    "iq1_m": _low("iq1_m", early="q2_k", output="iq2_xxs"),
    "iq1_s": _low("iq1_s", early="q2_k", output="iq2_xxs"),
}
"""Mixtures by the name in a file's name, largest first."""

FILE_TYPES: Final[dict[int, str]] = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k",
    11: "q3_k_s", 12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s",
    17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs", 20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs",
    23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m", 28: "iq2_s",
    29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16",
}  # fmt: skip
"""Mixtures by ``general.file_type`` (``llama_ftype`` in ``include/llama.h``)."""

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
"""Type with blocks of 32 that replaces one whose blocks of 256 do not divide the rows."""


class Mixture(NamedTuple):
    """What the rules of a model depend on."""

    layers: int
    query_group: int
    """Query heads on one key-value head."""
    experts: int


@lru_cache(maxsize=4096)
def matrix_bytes(name: str, target: str | None, width: int, model: Mixture) -> float:
    """Bytes of one value of a block's matrix, averaged over the layers.

    Parameters
    ----------
    name : str
        Key into ``RECIPES``.
    target : str or None
        Projection: q, k, v, o, gate, up, down; None for every other one.
    width : int
        Input features, along which blocks lie. [elements]
    model : Mixture
        Layers, query group and experts.

    Returns
    -------
    float
        [bytes]
    """
    recipe = RECIPES[name]
    total = sum(
        stored(_layer_type(recipe, target, layer, model), width) for layer in range(model.layers)
    )
    return total / model.layers


def _layer_type(recipe: Recipe, target: str | None, layer: int, model: Mixture) -> str:
    """Type of one projection in one layer."""
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


_LOW_BASES: Final = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s"})


def head_bytes(name: str, width: int) -> float:
    """Bytes of one value of the output matrix, or of an embedding that is also the output.

    Parameters
    ----------
    name : str
        Key into ``RECIPES``.
    width : int
        Hidden size. [elements]
    """
    recipe = RECIPES[name]
    # llama.cpp asks whether the base type's blocks divide the rows, not the head's.
    if width % BY_NAME[recipe.base].block:
        return stored("q8_0", width)
    return stored(recipe.head, width)


def embedding_bytes(name: str, width: int) -> float:
    """Bytes of one value of an embedding that is not the output matrix.

    Parameters
    ----------
    name : str
        Key into ``RECIPES``.
    width : int
        Hidden size. [elements]
    """
    recipe = RECIPES[name]
    return stored(recipe.embedding or recipe.base, width)


def stored(type_name: str, width: int) -> float:
    """Bytes of one value of ``type_name`` in rows of ``width`` values, replaced where it must be.

    Parameters
    ----------
    type_name : str
        Key into ``ggml_types.BY_NAME``.
    width : int
        Values in a row. [elements]

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
    """Bytes of one stored parameter of an operator.

    Parameters
    ----------
    row : Operator
        A row of ``model``.
    name : str
        Key into ``RECIPES``.
    model : ModelArchitecture

    Returns
    -------
    float
        [bytes]

    Notes
    -----
    Norms, routers, position tables and whatever else is no matrix stay in fp32, as the converter
    leaves them. Biases of a matrix are counted in its type.
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
    mixture = Mixture(
        layers=model.num_hidden_layers,
        query_group=model.num_attention_heads // model.num_key_value_heads,
        experts=model.num_experts,
    )
    return matrix_bytes(name, row.target, row.in_features, mixture)


def file_bytes(model: ModelArchitecture, name: str) -> float:
    """Bytes of all parameters of a model in one mixture.

    Parameters
    ----------
    model : ModelArchitecture
    name : str
        Key into ``RECIPES``.

    Returns
    -------
    float
        Tokenizer and metadata, a few megabytes, left out. [bytes]
    """
    return sum(row.layers * row.parameters * row_bytes(row, name, model) for row in model.operators)
