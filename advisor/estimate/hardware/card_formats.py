"""Number formats in which a card stores and multiplies what it serves."""

from typing import Final

from advisor.estimate.hardware.rates import matmul_peak
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WeightFormat
from advisor.nouns.workload import Serving

SIXTEEN_BIT: Final = ("bf16", "fp16")
"""Formats in the order in which attention and 16-bit matmuls choose their peak."""


def compute_format(accelerator: Accelerator, weight_format: WeightFormat) -> str:
    """Return the format in which ``accelerator`` multiplies weights stored as ``weight_format``.

    If the card has no matrix units for the format, engines expand the weights to 16 bits inside
    the kernel (Marlin in vLLM, weight-only kernels in TensorRT-LLM). Memory and traffic stay
    small, and arithmetic runs at the 16-bit rate. Cards without 16-bit units use fp32.
    """
    for name in (weight_format.compute, *SIXTEEN_BIT):
        if matmul_peak(accelerator, name) is not None:
            return name
    return "fp32"


def stored_format(accelerator: Accelerator, name: str) -> str:
    """Return the format in which ``accelerator`` stores weights published as ``name``.

    Engines convert 16-bit weights on loading if the card lacks their format: vLLM runs bf16
    checkpoints as fp16 below compute capability 8.0. Cards without 16-bit units store fp32, as in
    training. Other formats stay as they are: see :func:`compute_format`.
    """
    if name not in SIXTEEN_BIT:
        return name
    able = (item for item in (name, *SIXTEEN_BIT) if matmul_peak(accelerator, item) is not None)
    return next(able, "fp32")


def serves_in(accelerator: Accelerator, name: str) -> bool:
    """Return whether engines serve a weight format on a card: 16 bits needs 16-bit units."""
    return name not in SIXTEEN_BIT or matmul_peak(accelerator, name) is not None


def cache_format(workload: Serving, accelerator: Accelerator) -> str:
    """Return the format of the key-value cache: the asked one, or 16 bits.

    Engines for cards without 16-bit units keep it in fp16 (``--cache-type-k`` of llama.cpp).
    """
    usual = stored_format(accelerator, "bf16")
    return workload.kv_cache_format or ("fp16" if usual == "fp32" else usual)
