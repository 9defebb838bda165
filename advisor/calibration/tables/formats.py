"""Number formats as tables of measurements name them."""

from typing import Final

from advisor.calibration.tables.reading import Row, cell, choice, number
from advisor.errors import InputError
from advisor.nouns.precision import GGUF_ENGINE, KV_CACHE_FORMATS, WEIGHT_FORMATS, WeightFormat

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
    "mlx_q4f16": "mlx_q4",
}
"""Weight formats by the tables' words; formats of GGUF files begin with ``GGUF``."""
GGUF: Final = "gguf_"

GGUF_READERS: Final = frozenset({"llama_cpp", "ik_llama_cpp"})
"""Engines that read only GGUF files."""
AS_GGUF: Final = {"mxfp4": "gguf_mxfp4_moe"}
"""Formats that such a file stores in its own way."""

CACHE_BYTES: Final = {
    "": 2.0,
    "auto": 2.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "q8_0": 34 / 32,
    "q4_0": 18 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "fp32": 4.0,
}
"""Bytes of one cached element; 16 bits if nothing is stated."""


def cache_bytes(row: Row) -> float:
    """Return the bytes of one cached element from ``kv_cache_format`` or ``kv_precision``."""
    if cell(row, "kv_cache_format"):
        return choice(row, "kv_cache_format", KV_CACHE_FORMATS)
    return choice(row, "kv_precision", CACHE_BYTES)


def weight_format(row: Row) -> WeightFormat:
    """Return the storage format of a row's weights: ``weight_format``, else ``weight_precision``.

    Raises InputError if the format is unknown and the row states no bits per parameter.
    """
    if cell(row, "weight_format"):
        return choice(row, "weight_format", WEIGHT_FORMATS)
    name = cell(row, "weight_precision").lower()
    if cell(row, "engine") in GGUF_READERS:
        name = AS_GGUF.get(name, name)
    known = FORMATS.get(name, name.removeprefix(GGUF) if name.startswith(GGUF) else "")
    if known in WEIGHT_FORMATS:
        return WEIGHT_FORMATS[known]
    bits = number(row, "weight_bits_per_parameter")
    if bits is None and name.startswith("exl2_"):
        bits = number({"bits": name.removeprefix("exl2_")}, "bits")
    if bits is None or bits <= 0:
        raise InputError(
            "the row's weight_precision has no known size",
            value=name,
            allowed=", ".join((*FORMATS, f"{GGUF}q4_k_m and the like")),
            remedy="Fill weight_bits_per_parameter.",
            field="weight_precision",
        )
    return WeightFormat(
        name=name,
        title=name,
        bytes_per_parameter=bits / 8,
        compute="fp16",
        # The bits of a GGUF file are its size over its parameters.
        whole=name.startswith(GGUF),
        engine=GGUF_ENGINE if name.startswith(GGUF) else "",
    )
