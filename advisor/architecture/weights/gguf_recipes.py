"""llama.cpp's mixtures: the type of each tensor in a quantised GGUF file.

A file named ``Q4_K_M`` mixes types: most matrices in ``q4_k``, the output matrix and half of the
value and down projections in ``q6_k``. The rules below restate ``llama_tensor_get_type_impl`` of
``src/llama-quant.cpp`` (llama.cpp, MIT, commit 007dbbf) for transformers, with an importance
matrix and without overrides. They are exact for dense models. For routed models, the position of a
projection counts over all layers.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

Where = Callable[[int, int], bool]
"""Whether a rule applies, from the layer's index and the number of layers."""


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
    """Return whether the layer is in the first or last eighth, or every third in between."""
    first = layers // 8
    return layer < first or layer >= 7 * layers // 8 or (layer - first) % 3 == 2


class Rule(NamedTuple):
    """A projection, its type, and the layers. The first rule that applies decides."""

    target: str
    """The projection: q, k, v, o, gate, up or down, as in ``Operator.target``."""
    type: str
    where: Where = _all
    grouped: bool | None = None
    """Applies only with (True) or without (False) grouped queries; None means both."""


class Recipe(NamedTuple):
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


def _low(base: str, *, early: str, output: str | None) -> Recipe:
    """Return a mixture of at most two bits; embeddings, values and first layers get more."""
    rules = [Rule("v", "q4_k", grouped=True), Rule("v", early, grouped=False)]
    rules.append(Rule("down", early, _first_eighth))
    if output is not None:
        rules.append(Rule("o", output))
    return Recipe(base, tuple(rules), head="q5_k", embedding=early)


RECIPES: Final[dict[str, Recipe]] = {
    "q8_0": Recipe("q8_0", head="q8_0", output_of_eight=None),
    "mxfp4_moe": Recipe("q8_0", head="q8_0", output_of_eight=None, experts="mxfp4"),
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
"""Mixtures by their name in file names, largest first."""

FILE_TYPES: Final[dict[int, str]] = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k",
    11: "q3_k_s", 12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s",
    17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs", 20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs",
    23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m", 28: "iq2_s",
    29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16", 38: "mxfp4_moe",
}  # fmt: skip
"""Mixtures by ``general.file_type`` (``llama_ftype`` in ``include/llama.h``)."""
