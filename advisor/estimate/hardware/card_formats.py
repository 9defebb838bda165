"""Number formats in which a card stores and multiplies what it serves."""

from typing import Final

from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.kernels import generations
from advisor.nouns.workload import Serving

SIXTEEN_BIT: Final = ("bf16", "fp16")
"""Formats in the order in which attention and 16-bit matmuls choose their peak."""
UNPADDED: Final = (1, 1)


def compute_format(accelerator: Accelerator, weight_format: WeightFormat) -> str:
    """Return the format in which ``accelerator`` multiplies weights stored as ``weight_format``.

    If the card has no matrix units for the format, engines expand the weights to 16 bits inside
    the kernel (Marlin in vLLM, weight-only kernels in TensorRT-LLM). Memory and traffic stay
    small, and arithmetic runs at the 16-bit rate. Cards without 16-bit units use fp32. TensorRT,
    ONNX Runtime and llama.cpp let products of fp32 weights run in TF32 (their documentation of
    ``kTF32``, ``use_tf32`` and ``CUBLAS_TF32_TENSOR_OP_MATH``; recalled).
    """
    wanted = weight_format.compute
    for name in ("tf32" if wanted == "fp32" else wanted, wanted, *SIXTEEN_BIT):
        if name in accelerator.peak_flops_per_s:
            return name
    return "fp32"


def padded_widths(accelerator: Accelerator, weight_format: WeightFormat) -> tuple[int, int]:
    """Return the multiples that widths of routed experts fill on a card, outside and inside."""
    known = dict(weight_format.padded_to)
    return next((known[name] for name in generations(accelerator) if name in known), UNPADDED)


def stored_format(accelerator: Accelerator, name: str) -> str:
    """Return the format in which ``accelerator`` stores weights published as ``name``.

    Engines convert 16-bit weights on loading if the card lacks their format: vLLM runs bf16
    checkpoints as fp16 below compute capability 8.0. Cards without 16-bit units store fp32, as in
    training. Other formats stay as they are: see :func:`compute_format`.
    """
    if name not in SIXTEEN_BIT:
        return name
    able = (item for item in (name, *SIXTEEN_BIT) if item in accelerator.peak_flops_per_s)
    return next(able, "fp32")


def serves_in(accelerator: Accelerator, name: str) -> bool:
    """Return whether engines serve a weight format on a card: 16 bits needs 16-bit units."""
    return name not in SIXTEEN_BIT or name in accelerator.peak_flops_per_s


def cache_format(workload: Serving, accelerator: Accelerator) -> str:
    """Return the format of the key-value cache: the asked one, or 16 bits.

    Engines for cards without 16-bit units keep it in fp16 (``--cache-type-k`` of llama.cpp).
    """
    usual = stored_format(accelerator, "bf16")
    return workload.kv_cache_format or ("fp16" if usual == "fp32" else usual)
