"""Number formats as tables of measurements name them."""

from __future__ import annotations

from typing import Final

from advisor.calibration.tables import Row, cell, number
from advisor.errors import InputError
from advisor.precision import WEIGHT_FORMATS, WeightFormat

FORMATS: Final = {
    "fp32": "fp32",
    "fp16": "fp16",
    "bf16": "bf16",
    "fp8": "fp8",
    "int8": "int8",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "nf4": "nf4",
    "w4a16_awq": "w4a16",
    "w4a16_gptq": "w4a16",
    "mlc_q4f16": "w4a16",
}
"""A table's word for the weights -> the engine's."""

FILE_BITS: Final = {"gguf_q4_0": 4.55, "gguf_q4_k_m": 4.85, "gguf_q8_0": 8.5}
"""Bits per parameter of GGUF files where the row states none: llama.cpp's quantize tool tells 4.34
(Q4_0), 4.58 to 4.89 (Q4_K_M) and 8.50 (Q8_0) for Llama models; embeddings and head weigh more in
small ones."""

CACHE_BYTES: Final = {
    "": 2.0,
    "auto": 2.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "nvfp4": 0.5 + 1 / 16,
    "fp32": 4.0,
}
"""Bytes of one cached element; 16 bits where nothing is stated."""


FITTED_ENGINES: Final = ("vllm", "tensorrt_llm", "sglang")
"""Engines whose runs fixed the constants of serving; others take the wider intervals."""

LLAMA_CPP_SHARES: Final[dict[str, tuple[float, float]]] = {
    "Hopper": (0.62, 0.33),
    "RDNA3": (0.16, 0.16),
    "RDNA4": (0.07, 0.07),
    "default": (0.95, 0.58),
}
"""llama.cpp's arithmetic rate over that of the calibrated kernels, by generation: 16-bit weights,
and quantised ones, which it multiplies by integer kernels. Medians over the prefill rows of
``data/measurements/serving_runs.csv``. Its kernels use the matrix instructions of Ampere on later
NVIDIA cards, and none on Radeon cards of these runs."""


def arithmetic_share(row: Row, generation: str, stored: WeightFormat) -> float:
    """Return the row's engine's arithmetic rate over that of the calibrated kernels."""
    if cell(row, "engine") != "llama_cpp":
        return 1.0
    sixteen, quantised = LLAMA_CPP_SHARES.get(generation, LLAMA_CPP_SHARES["default"])
    return sixteen if stored.name in WEIGHT_FORMATS else quantised


def weight_format(row: Row) -> WeightFormat:
    """Return the storage format of a row's weights.

    Raises
    ------
    InputError
        If the format is unknown and the row states no bits per parameter.
    """
    name = cell(row, "weight_precision").lower()
    if name in FORMATS:
        return WEIGHT_FORMATS[FORMATS[name]]
    bits = number(row, "weight_bits_per_parameter") or FILE_BITS.get(name)
    if bits is None and name.startswith("exl2_"):
        bits = number({"bits": name.removeprefix("exl2_")}, "bits")
    if bits is None or bits <= 0:
        raise InputError(
            "the row's weight_precision has no known size",
            value=name,
            allowed=", ".join((*FORMATS, *FILE_BITS)),
            remedy="Fill weight_bits_per_parameter.",
            field="weight_precision",
        )
    return WeightFormat(name=name, title=name, bytes_per_parameter=bits / 8, compute="fp16")
