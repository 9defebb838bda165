"""Copies of the parameters during training and their number formats.

Also the storage formats of served weights and caches, with their real bits per element.
"""

from typing import Final

from advisor.errors import InputError
from advisor.foundation.noun import Noun
from advisor.foundation.units import BITS_PER_BYTE

FORMAT_BYTES: Final[dict[str, float]] = {
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5,
    "int4": 0.5,
}
"""Bytes of one element without scales. [bytes]"""


class WeightFormat(Noun):
    """How served or frozen weights are stored."""

    name: str
    title: str
    bytes_per_parameter: float
    """Size of one parameter, including scales and zero-points. [bytes]"""
    compute: str
    """Format of the matrix product: weight-only formats multiply in 16 bits."""
    note: str = ""
    mixture: bool = False
    """Whether it is a GGUF file: every matrix is quantised, including embedding and head, by the
    rules of ``advisor.architecture.weights.gguf_recipes``. ``bytes_per_parameter`` is then the
    value of Llama 3.1 8B."""
    whole: bool = False
    """Whether every matrix is quantised, embedding and head too, and ``bytes_per_parameter`` is the
    mean over the whole file."""
    expanded: bool = False
    """Whether kernels write the weights out in 16 bits before a product of several rows
    (bitsandbytes ``MatMul4Bit``: ``dequantize_4bit``, then ``linear``; one row has its own kernel,
    ``gemv_4bit``)."""
    engine: str = ""
    """Section of ``engines`` in the calibration for the engine that reads the format; empty for
    servers."""


GGUF_ENGINE: Final = "llama_cpp"
"""Section of ``engines`` for the engine that serves GGUF files."""
MLX_ENGINE: Final = "mlx"
"""The same for files of MLX."""
MLX_BITS: Final = {"mlx_q8": 8, "mlx_q6": 6, "mlx_q4": 4}
"""Bits of one quantised weight in MLX's files. [bits]"""
MLX_GROUP_BITS: Final = 32 / 64
"""One fp16 scale and one fp16 offset for 64 weights: ml-explore/mlx-lm, ``mlx_lm/convert.py``,
``q_group_size``. [bits]"""

GGUF_BITS: Final[dict[str, float]] = {
    "q8_0": 8.5041,
    "q6_k": 6.5679,
    "q5_k_m": 5.7015,
    "q5_k_s": 5.5731,
    "q5_1": 6.0377,
    "q5_0": 5.5850,
    "q4_k_m": 4.8992,
    "q4_k_s": 4.6639,
    "q4_1": 5.1031,
    "q4_0": 4.6505,
    "iq4_nl": 4.6853,
    "iq4_xs": 4.4606,
    "q3_k_l": 4.3002,
    "q3_k_m": 3.9960,
    "iq3_m": 3.7653,
    "iq3_s": 3.6584,
    "q3_k_s": 3.6477,
    "iq3_xs": 3.4979,
    "iq3_xxs": 3.2519,
    "q2_k": 3.1556,
    "q2_k_s": 2.9738,
    "iq2_m": 2.9310,
    "iq2_s": 2.7384,
    "iq2_xs": 2.5887,
    "iq2_xxs": 2.3854,
    "iq1_m": 2.1501,
    "iq1_s": 2.0003,
    "mxfp4_moe": 8.5041,
}
"""Bits per parameter of whole files of Llama 3.1 8B: llama.cpp ``tools/quantize/README.md``
(MIT, commit 311c2c9). ``q5_1``, ``q5_0``, ``q4_1``, ``q4_0`` and ``q3_k_m`` are absent there and
follow the rules of ``gguf_recipes``. ``mxfp4_moe`` quantises experts alone, so a dense model is as
in ``q8_0``. [bits]"""


WEIGHT_FORMATS: Final[dict[str, WeightFormat]] = {
    item.name: item
    for item in (
        WeightFormat(name="fp32", title="fp32", bytes_per_parameter=4.0, compute="fp32"),
        WeightFormat(name="bf16", title="bf16", bytes_per_parameter=2.0, compute="bf16"),
        WeightFormat(name="fp16", title="fp16", bytes_per_parameter=2.0, compute="fp16"),
        WeightFormat(
            name="fp8",
            title="fp8 (e4m3, one scale per tensor or channel)",
            bytes_per_parameter=1.0,
            compute="fp8",
        ),
        WeightFormat(
            name="int8",
            title="int8 weights and activations",
            bytes_per_parameter=1.0,
            compute="int8",
        ),
        WeightFormat(
            name="w4a16",
            title="4-bit weights, 16-bit compute (AWQ, GPTQ; groups of 128)",
            bytes_per_parameter=(4 + (16 + 4) / 128) / 8,
            compute="fp16",
            note="one fp16 scale and one 4-bit zero-point for 128 weights",
        ),
        WeightFormat(
            name="nf4",
            title="NF4 with double quantisation (bitsandbytes)",
            bytes_per_parameter=0.5 + 1 / 64 + 4 / 16384,
            compute="bf16",
            note="one 8-bit constant for 64 weights, one fp32 constant for 256 of those",
            expanded=True,
        ),
        WeightFormat(
            name="mxfp4",
            title="MXFP4 (one 8-bit scale for 32 weights)",
            bytes_per_parameter=0.5 + 1 / 32,
            compute="fp4",
        ),
        WeightFormat(
            name="nvfp4",
            title="NVFP4 (one fp8 scale for 16 weights)",
            bytes_per_parameter=0.5 + 1 / 16,
            compute="fp4",
        ),
        *(
            WeightFormat(
                name=name,
                title=f"{name.upper()} (GGUF)",
                bytes_per_parameter=bits / BITS_PER_BYTE,
                compute="fp16",
                note="llama.cpp's mixture of types; scales included",
                mixture=True,
                engine=GGUF_ENGINE,
            )
            for name, bits in GGUF_BITS.items()
        ),
        *(
            WeightFormat(
                name=name,
                title=f"MLX {bits} bit (groups of 64)",
                bytes_per_parameter=(bits + MLX_GROUP_BITS) / BITS_PER_BYTE,
                compute="fp16",
                note="Apple silicon; one fp16 scale and one fp16 offset for 64 weights",
                whole=True,
                engine=MLX_ENGINE,
            )
            for name, bits in MLX_BITS.items()
        ),
    )
}
"""Storage formats of weights by name."""

KV_CACHE_FORMATS: Final[dict[str, float]] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "q8_0": 34 / 32,
    "fp8": 1.0,
    "q4_0": 18 / 32,
}
"""Bytes of one cached element; llama.cpp's ``q8_0`` and ``q4_0`` have one fp16 scale for 32.
[bytes]"""


class PrecisionRecipe(Noun):
    """The copies of the parameters during training, and their formats."""

    name: str
    title: str
    compute: str
    """Format of the matrix products."""
    working: str
    """Format of the weights that the forward pass reads."""
    master: str | None
    """Format of a separate high-precision copy that the optimizer updates; None without one."""
    gradients: str
    optimizer_states: str
    stream: str
    """Format of the residual stream between blocks."""
    autocast: bool = False
    """Whether fp32 weights are cast on the fly, so that the casts are saved for backward."""


def _autocast(name: str, compute: str) -> PrecisionRecipe:
    """Return a recipe with fp32 parameters that are cast on the fly."""
    return PrecisionRecipe(
        name=name,
        title=f"{compute} autocast, fp32 parameters",
        compute=compute,
        working="fp32",
        master=None,
        gradients="fp32",
        optimizer_states="fp32",
        stream="fp32",
        autocast=True,
    )


def _mixed(name: str, title: str, *, compute: str, working: str = "bf16") -> PrecisionRecipe:
    """Return a recipe with an fp32 master copy; weights, gradients and stream have 16 bits."""
    return PrecisionRecipe(
        name=name,
        title=title,
        compute=compute,
        working=working,
        master="fp32",
        gradients=working,
        optimizer_states="fp32",
        stream=working,
    )


RECIPES: Final[dict[str, PrecisionRecipe]] = {
    item.name: item
    for item in (
        PrecisionRecipe(
            name="fp32",
            title="fp32 (tf32 matmuls where the card has them)",
            compute="fp32",
            working="fp32",
            master=None,
            gradients="fp32",
            optimizer_states="fp32",
            stream="fp32",
        ),
        _autocast("fp16_amp", "fp16"),
        _autocast("bf16_amp", "bf16"),
        _mixed("bf16_mixed", "bf16 weights and gradients, fp32 master", compute="bf16"),
        _mixed(
            "fp16_mixed",
            "fp16 weights and gradients, fp32 master (loss scaling)",
            compute="fp16",
            working="fp16",
        ),
        PrecisionRecipe(
            name="bf16_pure",
            title="everything bf16",
            compute="bf16",
            working="bf16",
            master=None,
            gradients="bf16",
            optimizer_states="bf16",
            stream="bf16",
        ),
        _mixed("fp8", "fp8 matmuls, bf16 weights, fp32 master", compute="fp8"),
        _mixed("mxfp8", "mxfp8 matmuls, bf16 weights, fp32 master", compute="fp8"),
        _mixed("nvfp4", "nvfp4 matmuls, bf16 weights, fp32 master", compute="fp4"),
    )
}
"""Named training recipes."""


def recipe_named(name: str) -> PrecisionRecipe:
    """Return the recipe ``name``; ``InputError`` with the existing ones if it is unknown."""
    if name not in RECIPES:
        raise InputError(
            "unknown precision recipe",
            value=name,
            allowed=", ".join(RECIPES),
            remedy="Choose one of the allowed names.",
            field="workload.precision",
        )
    return RECIPES[name]
