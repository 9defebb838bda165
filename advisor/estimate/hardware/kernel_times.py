"""Times of the kernels of one row in one layer: forward, and for attention also backward.

The same code serves one configuration and a million.
"""

from math import gcd
from typing import Final

import numpy as np

from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part, SavedFormat
from advisor.equations.roofline import bandwidth_time_s, matmul_time_s
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.stacks import SoftwareFacts

IN_LIBRARY: Final = (OperatorKind.CONVOLUTION, OperatorKind.RECURRENCE)
"""Products that cuDNN runs."""


def queue_time(launches: Floats, hardware: HardwareArrays, software: SoftwareFacts) -> Floats:
    """Time in which a host launches kernels while its accelerator computes. [s]

    0 for processors.
    """
    queue_s = launches * software.launch_s * hardware.host_pace
    return np.where(hardware.own_host > 0, 0.0, queue_s)


def dispatch_time(launches: Floats, hardware: HardwareArrays, software: SoftwareFacts) -> Floats:
    """Time that a framework uses on a processor, where it shares threads with the kernels. [s]

    There is no driver in between. 0 for accelerators.
    """
    dispatch = launches * max(0.0, software.launch_s - kernel_facts().driver_s)
    return np.where(hardware.own_host > 0, dispatch, 0.0)


def launch_time(
    launches: Floats,
    kernels: Floats,
    hardware: HardwareArrays,
    software: SoftwareFacts,
    *,
    units: Floats | float = 0.0,
) -> Floats:
    """Time that launches add to the kernels. [s]

    Waiting time of accelerators, and dispatch time of processors. Launches run ahead of the
    kernels. Leaves out the first launch, and points where the host waits for the accelerator.

    ``units``: gathers and scatters of sharded units that the host starts.
    """
    queue_s = queue_time(launches, hardware, software)
    queue_s = queue_s + units * software.unit_host_s * hardware.host_pace
    return np.maximum(0.0, queue_s - kernels) + dispatch_time(launches, hardware, software)


def copies_time(copies: float, hardware: HardwareArrays) -> Floats:
    """Time of ``copies`` between host and accelerator, for which the host waits. [s]

    0 if both share one memory. Leaves out the bytes, which loaders copy ahead.
    """
    return np.where(hardware.shared_memory > 0, 0.0, copies * kernel_facts().copy_s)


def moving_s(moved_bytes: Floats, hardware: HardwareArrays, *, kernels: float = 1.0) -> Floats:
    """Time of kernels that memory bandwidth limits. [s]"""
    return np.asarray(
        bandwidth_time_s(
            moved_bytes=moved_bytes,
            bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
            efficiency=hardware.elementwise_bandwidth,
            overhead_s=kernels * hardware.matmul_overhead_s,
        )
    )


def matmul_forward(
    op: Operator,
    run: TrainingRun,
    candidates: Candidates,
    software: SoftwareFacts,
    tokens: Floats,
    *,
    wide: bool = False,
) -> Floats:
    """Forward time of one matmul row in one layer, in at least 16 bits if ``wide``. [s]"""
    layout, hardware = candidates.layout, candidates.hardware
    operand_bytes = FORMAT_BYTES[run.recipe.compute]
    wide = wide or op.part is not Part.BLOCK
    if wide and operand_bytes < FORMAT_BYTES["bf16"]:
        # Embedding and head stay in 16 bits.
        operand_bytes, hardware = FORMAT_BYTES["bf16"], hardware.in_16_bits()
    if op.kind in IN_LIBRARY:
        hardware = hardware.in_library()
    if uncast(op, run):
        operand_bytes, hardware = FORMAT_BYTES["fp32"], hardware.in_32_bits()
    tensor = 1.0 if op.division is Division.REPLICATED else layout.tensor
    local_experts = op.experts / layout.expert if op.experts > 1 else 1.0
    # Grouped products of all local experts fill the card together.
    rows = tokens * op.positions_per_token * op.active_experts
    weights = op.in_features * op.out_features * op.groups * local_experts / tensor
    # Row or column parallelism divides one of the two sides of a product.
    sides = (op.in_features + op.out_features) * (1 + 1 / tensor) / 2
    streamed = rows * sides
    share: Floats | float = 1.0
    if op.experts > 1:
        share = np.where(layout.dual, kernel_facts().dualpipe_grouped, software.grouped_compute)
    saved = hardware.convolution_saving if op.minimal else 1.0
    if op.kind is OperatorKind.CONVOLUTION:
        # Neighbouring outputs share their inputs, so both sides move once.
        streamed = tokens * op.moved_elements_per_token
    apart = local_experts if uncast(op, run) else 1.0
    lasting = hardware.sustained if operand_bytes >= FORMAT_BYTES["bf16"] else 1.0
    rate = hardware.matmul_compute * lasting
    if op.kind is OperatorKind.MATMUL and not software.pads_products:
        odd = misaligned(op.in_features, op.out_features, element_bytes=operand_bytes)
        rate = rate / (1.0 + hardware.unaligned * odd)
    return np.asarray(
        apart
        * matmul_time_s(
            flops=tokens * op.flops_per_token / saved / tensor / apart,
            moved_bytes=operand_bytes * (weights + streamed) / apart,
            output_elements=rows * op.out_features * op.groups / tensor / apart,
            depth=float(op.in_features),
            peak_flops_per_s=hardware.peak_flops_per_s,
            bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
            overhead_s=hardware.matmul_overhead_s,
            compute=rate * share,
            bandwidth=hardware.matmul_bandwidth,
            half_tiles=hardware.matmul_half_tiles,
            half_depth=hardware.matmul_half_depth,
        )
    )


def uncast(op: Operator, run: TrainingRun) -> bool:
    """Whether grouped products stay in the fp32 of their weights: autocast's list lacks them.

    They run expert by expert then, in TF32 if that is on, which exports see to
    (huggingface/transformers, integrations/moe.py; pytorch issue 174763; read 2026-11-28).
    """
    grouped = op.kind is OperatorKind.MATMUL and op.experts > 1
    return grouped and run.recipe.autocast and run.stack.eager and not run.frozen


def misaligned(*sides: int, element_bytes: float) -> float:
    """How far the rows of a matrix are from steps of 16 bytes: 0 at each, 1 at any element.

    >>> misaligned(768, 50304, element_bytes=2), misaligned(768, 50257, element_bytes=2)
    (0.0, 1.0)
    """
    whole = max(1, int(kernel_facts().aligned_bytes / element_bytes))
    return (whole / gcd(whole, *sides) - 1) / max(1, whole - 1)


def recurrence_passes(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> tuple[Floats, Floats]:
    """Forward and backward time of one recurrence of products in one layer. [s]

    Each step of the sequence multiplies the states of the micro-batch alone. Backward, the
    gradients of the states go back step by step; those of the weights are one product over all
    steps.
    """
    steps = float(run.sequence_length)
    forward = steps * matmul_forward(op, run, candidates, software, tokens / steps)
    return forward, forward + matmul_forward(op, run, candidates, software, tokens)


def is_product(op: Operator) -> bool:
    """Whether a row runs as matrix products: matrices, and convolutions that mix channels.

    A depthwise convolution has one channel in each group: data movement limits it.
    """
    if op.kind is OperatorKind.CONVOLUTION:
        return op.out_features > 1
    return op.kind is OperatorKind.MATMUL


def is_depthwise(op: Operator) -> bool:
    """Whether a row is a convolution of each channel alone over the positions of an image."""
    return op.kind is OperatorKind.CONVOLUTION and op.out_features == 1


def dequantise_time(op: Operator, run: TrainingRun, candidates: Candidates) -> Floats:
    """Time to expand a row's 4-bit weights to 16 bits. [s]"""
    hardware, layout = candidates.hardware, candidates.layout
    degree = layout.tensor * (layout.expert if op.experts > 1 else 1.0)
    each = (
        kernel_facts().unpacked_bytes
        if run.switches.unpacked_base
        else kernel_facts().expanded_bytes
    )
    return moving_s(each * op.parameters / degree, hardware)


def _widens_logits(run: TrainingRun) -> bool:
    """Whether the loss of 16-bit logits runs in fp32: in the class, or under autocast."""
    stated = run.architecture.upcast_logits or run.recipe.autocast
    return stated and not run.recipe.single


def elementwise_forward(
    op: Operator,
    run: TrainingRun,
    candidates: Candidates,
    software: SoftwareFacts,
    tokens: Floats,
    *,
    casts: bool = False,
) -> Floats | float:
    """Forward time of one memory-bound row in one layer; ``casts``: see `autocasts`. [s]"""
    layout, hardware = candidates.layout, candidates.hardware
    # A chunked recurrence is a chain of kernels in every stack.
    fused = software.fused_elementwise and op.kind is not OperatorKind.SCAN
    if op.kind is OperatorKind.CROSS_ENTROPY:
        fused = fused or not _widens_logits(run)
    moved = op.moved_elements_per_token if fused else op.moved_elements_per_token_unfused
    if moved == 0.0:
        return 0.0
    if op.division is Division.REPLICATED:
        degree = np.where(layout.sequence_parallel > 0, layout.tensor, 1.0)
    else:
        degree = layout.tensor
    width = run.recipe.element_bytes
    if not fused and casts and _on_stream(op):
        width = FORMAT_BYTES[run.recipe.stream]
    return moving_s(width * tokens * moved / degree, hardware)


def _on_stream(op: Operator) -> bool:
    """Whether a memory-bound row moves elements of the residual stream's format.

    Rotations do: cosines and sines have that format (huggingface/transformers, modeling_llama.py).
    Unfused RMSNorm counts its fp32 steps already.
    """
    if op.moved_format is not None:
        return op.moved_format is SavedFormat.STREAM
    if op.kind is OperatorKind.NORMALIZATION and op.launches > 1:
        return False
    if op.saved and not any(tensor.format is SavedFormat.BYTE for tensor in op.saved):
        return any(tensor.format is SavedFormat.STREAM for tensor in op.saved)
    return op.division is Division.REPLICATED or op.kind is OperatorKind.ELEMENTWISE
