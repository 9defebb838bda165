"""Rates of a card and its machine, as the equations take them."""

from typing import Final

from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import by_identity
from advisor.nouns.hardware import Accelerator, Node, Segment
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.kernels import KernelEfficiency, MatmulEfficiency

CURVE: Final = ("overhead_s", "compute", "bandwidth", "half_tiles", "half_depth")
ATTENTION: Final = ("overhead_s", "forward", "backward", "half_keys", "portable", "scan")
KINDS: Final = ("", "prompt_", "norm_", "routed_", "scan_", "beam_")
LAUNCHES: Final = (
    *(f"{kind}layer_overhead_s" for kind in KINDS),
    "state_passes",
    "shared_reading",
    "bf16_expert_passes",
)
"""Fields of the kernels' nouns that ``HardwareArrays`` holds too."""


def _curve(name: str, matmul: MatmulEfficiency, saturation: float) -> dict[str, float]:
    """Return the fields of a curve.

    Filling and draining a tile takes a fixed time, so at a lower peak it is less work.
    """
    return {
        f"{name}_{part}": getattr(matmul, part) * (saturation if "half" in part else 1.0)
        for part in CURVE
    }


@by_identity(2048)
def card_rates(
    accelerator: Accelerator, kernels: KernelEfficiency, compute: str
) -> dict[str, float]:
    """Return the fields of ``HardwareArrays`` that no machine changes."""
    facts, matmul = kernel_facts(), kernels.matmul.get(compute, kernels.matmul["default"])
    peaks = accelerator.peak_flops_per_s
    peak16 = next(peaks[name] for name in ("bf16", "fp16", "fp32") if name in peaks)
    peak, library = peaks.get(compute), library_peak(accelerator, compute)
    single = FORMAT_BYTES[compute] == FORMAT_BYTES["fp32"]
    depthwise = kernels.depthwise["fp32" if single else "default"]
    vector, rounds = compute == "fp32", library != peak
    processor = accelerator.segment is Segment.CPU
    # Formats without a curve of their own take the 16-bit curve.
    own = compute in kernels.matmul
    backend = kernels.backend
    saturation = 1.0 if own else (peak or peak16) / peak16
    expert = kernels.experts.get(kernels.expert_format, kernels.experts.get("default", matmul))
    half, saturation16 = kernels.matmul["default"], (library or peak16) / peak16 if single else 1.0
    return {
        "memory_bytes": accelerator.memory_reported_bytes,
        "peak_flops_per_s": peak or 0.0,
        "library_flops_per_s": library or 0.0,
        "peak32_flops_per_s": peaks.get("tf32") or peaks.get("fp32") or peak16,
        "peak16_flops_per_s": min(peak16, peak or peak16) if single else peak16,
        "fused_flops_per_s": _fused_peak(accelerator, peak16) if single else peak16,
        "memory_bandwidth_bytes_per_s": accelerator.memory_bandwidth_bytes_per_s,
        **_curve("matmul", matmul, saturation),
        **_curve("matmul16", half, saturation16),
        **_curve("expert", expert, saturation),
        **{f"depthwise_{part}": share for part, share in depthwise if part != "fit"},
        "vector_flops_per_s": peaks.get("fp32", peak16),
        "single_access_s": _single_access_s(accelerator),
        "convolution_saving": facts.winograd_saving
        if vector and not (processor or rounds)
        else 1.0,
        # Vector units draw less power than matrix units, so their clocks stay high.
        "sustained": 1.0 if vector else kernels.sustained,
        "unaligned": 0.0 if vector else kernels.unaligned,
        "trained_convolutions": 1.0 if vector else kernels.trained_convolutions,
        **{f"attention_{part}": getattr(kernels.attention, part) for part in ATTENTION},
        # Measured on attention; a card whose kernels nobody measured has no generation before.
        "portable_products": 1.0
        if kernels.evidence is Evidence.ASSUMED
        else min(1.0, kernels.attention.portable),
        "elementwise_bandwidth": kernels.elementwise_bandwidth,
        "fresh_memory": kernels.fresh_memory,
        "cache_bandwidth": kernels.attention.cache_bandwidth or kernels.elementwise_bandwidth,
        **{part: getattr(backend, part) if backend else 0.0 for part in LAUNCHES},
        "grouped_half_rows": kernels.grouped_half_rows,
        "short_layers": float(kernels.short_layers),
        "weight_expansion_s": kernels.weight_operations / peaks.get("fp32", peak16),
        "cache_bytes": accelerator.cache_bytes or 0.0,
        "staged": float(not accelerator.peer_to_peer),
        "own_host": float(processor),
        "shared_memory": float(accelerator.shares_host_memory),
    }


def _single_access_s(accelerator: Accelerator) -> float:
    """Time of one element of a tensor that kernels reach one by one, as fast as cores issue them.

    In proportion to cores and their clock, both of which the peak of the vector units counts; 0
    without such a peak.
    """
    facts = kernel_facts()
    lanes = facts.fewer_lanes.get(accelerator.compute_capability or "", facts.usual_lanes)
    peak = accelerator.peak_flops_per_s.get("fp32")
    return 2.0 * lanes / peak / facts.single_accesses if peak else 0.0


def node_rates(accelerator: Accelerator, node: Node, kernels: KernelEfficiency) -> dict[str, float]:
    """Return the other fields."""
    usual_s = kernel_facts().usual_launch_s
    return {
        "served_memory_bytes": accelerator.memory_raised_bytes - node.display_bytes
        if kernels.backend
        else accelerator.memory_free_bytes,
        "node_accelerators": node.accelerators,
        "intra_bytes_per_s": node.intra_bytes_per_s,
        "intra_domain": node.intra_domain,
        "inter_bytes_per_s": node.inter_bytes_per_s or 0.0,
        "pcie_bytes_per_s": node.pcie_bytes_per_s,
        "host_cores": node.host_cores / node.accelerators,
        "host_pace": (node.launch_s or kernels.launch_s or usual_s) / usual_s,
        "host_memory_bytes": node.host_memory_bytes,
        "host_bytes_per_s": node.host_memory_bandwidth_bytes_per_s,
    }


def library_peak(accelerator: Accelerator, compute: str) -> float | None:
    """Return the dense peak of convolutions and recurrences, or None if the card lacks the format.

    In fp32, PyTorch lets cuDNN round their operands to TF32, but not cuBLAS those of matrix
    products (docs.pytorch.org, notes/cuda.html, TensorFloat-32; read 2026-11-27). [FLOPs/s]
    """
    peaks = accelerator.peak_flops_per_s
    rounds = compute == "fp32" and accelerator.vendor == "NVIDIA" and "tf32" in peaks
    return peaks.get("tf32" if rounds else compute)


def _fused_peak(accelerator: Accelerator, peak16: float) -> float:
    """Return the peak of attention kernels on fp32 operands.

    Those of PyTorch sum three TF32 products for each one, whatever the setting (CUTLASS,
    OpMultiplyAddFastF32; pytorch/pytorch, mem_eff_attention/gemm_kernel_utils.h; read 2026-11-27).
    """
    peaks = accelerator.peak_flops_per_s
    return min(peak16, max(peaks.get("fp32", 0.0), peaks.get("tf32", 0.0) / 3.0) or peak16)
