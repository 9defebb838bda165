"""Times of the kernels of one row in one layer: forward, and for attention also backward.

The same code serves one configuration and a million.
"""

from functools import cache
from math import gcd
from typing import Final

import numpy as np

from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part, SavedFormat
from advisor.equations.flops import FLASH_BACKWARD_FLOPS
from advisor.equations.roofline import (
    attention_time_s,
    bandwidth_time_s,
    launch_wait_s,
    matmul_time_s,
)
from advisor.equations.training.scores import score_passes
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays
from advisor.estimate.fold import adapted, keys_attended
from advisor.estimate.training.activations import WRITES_STREAM
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.data_records import read_record
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.nouns.training_choices import AttentionKernel

IN_LIBRARY: Final = (OperatorKind.CONVOLUTION, OperatorKind.RECURRENCE)
"""Products that cuDNN runs."""


class KernelFacts(Noun):
    """Contents of the file, which says what each entry is."""

    driver_s: float
    copy_s: float
    step_copies: float
    answer_copies: float
    expanded_bytes: float
    unpacked_bytes: float
    scan_keys: float
    scan_backward: float
    dualpipe_grouped: float
    first_flash: float
    math_score_passes: float
    aligned_bytes: int
    cast_bytes: float


@cache
def kernel_facts() -> KernelFacts:
    """Return what published sources say of kernels that no table measures."""
    return read_record(data_path("kernel_facts.yaml"), KernelFacts)


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
    launches: Floats, kernels: Floats, hardware: HardwareArrays, software: SoftwareFacts
) -> Floats:
    """Time that launches add to the kernels. [s]

    Waiting time of accelerators, and dispatch time of processors.
    """
    queue_s = queue_time(launches, hardware, software)
    waits = np.asarray(launch_wait_s(queue_s=queue_s, kernels_s=kernels))
    return waits + dispatch_time(launches, hardware, software)


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
    lasting = hardware.sustained if operand_bytes >= FORMAT_BYTES["bf16"] else 1.0
    rate = hardware.matmul_compute * lasting
    if op.kind is OperatorKind.MATMUL and not software.pads_products:
        odd = misaligned(op.in_features, op.out_features, element_bytes=operand_bytes)
        rate = rate / (1.0 + hardware.unaligned * odd)
    return np.asarray(
        matmul_time_s(
            flops=tokens * op.flops_per_token / saved / tensor,
            moved_bytes=operand_bytes * (weights + streamed),
            output_elements=rows * op.out_features * op.groups / tensor,
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


def adapter_forward(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> Floats | float:
    """Forward time of a row's adapter, which is memory-bound because the rank is small. [s]"""
    if not adapted(op, run):
        return 0.0
    hardware = candidates.hardware
    # The product is added to the layer's output, in the same kernel or in another one.
    writes = 2 if software.fused_elementwise else 3
    sides = (op.in_features + writes * op.out_features) * op.active_experts * op.positions_per_token
    return moving_s(2.0 * tokens * sides / candidates.layout.tensor, hardware, kernels=3)


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


def attention_passes(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> tuple[Floats, Floats]:
    """Forward and backward time of one attention row in one layer. [s]"""
    layout, hardware = candidates.layout, candidates.hardware
    math = _takes_math(op, run)
    if run.attention is not AttentionKernel.EAGER and not math:
        keys = keys_attended(op, run.sequence_length)
        flops = tokens * op.flops_per_token_per_key * keys / layout.tensor
        rate = hardware.attention_portable if software.portable_attention else 1.0
        if run.attention is AttentionKernel.FLASH_1:
            rate = kernel_facts().first_flash * hardware.attention_portable

        def timed(efficiency: Floats, passes: float, kernels: int) -> Floats:
            found = attention_time_s(
                flops=passes * flops,
                keys=keys,
                peak_flops_per_s=hardware.fused_flops_per_s,
                efficiency=efficiency * rate,
                half_keys=hardware.attention_half_keys,
                overhead_s=kernels * hardware.attention_overhead_s,
            )
            return np.asarray(found)

        forward = timed(hardware.attention_forward, 1.0, 1)
        return forward, timed(hardware.attention_backward, FLASH_BACKWARD_FLOPS, 2)
    keys = run.sequence_length if op.keys is None else op.keys
    square = tokens * keys / layout.tensor
    products = (
        square
        * op.flops_per_token_per_key
        / (hardware.peak16_flops_per_s * hardware.matmul_compute)
    )
    scores = square * op.positions_per_token * op.heads
    passes = score_passes(
        # Counted so, networks that take images are met worse (mean error held out 17.0 % for 16.2).
        fused=software.fused_softmax or run.switches.fused_softmax or run.unit is Unit.IMAGE,
        dropped=any(tensor.format is SavedFormat.BYTE for tensor in op.saved),
        widened=_widens_scores(op, run),
        mask_share=1.0 / run.recipe.element_bytes,
    )
    # Keys and values are repeated for every query head: written and read, each a quarter of the
    # operations (two products, a multiplication and an addition each).
    repeated = tokens * op.flops_per_token_per_key / layout.tensor

    def passed(times: float, written: float) -> Floats:
        moved = (
            times * (kernel_facts().math_score_passes * scores + repeated)
            if math
            else written * scores
        )
        return np.asarray(
            times * products
            + moving_s(run.recipe.element_bytes * moved, hardware, kernels=4 * times)
        )

    return passed(1.0, passes[0]), passed(2.0, passes[1])


def _widens_scores(op: Operator, run: TrainingRun) -> bool:
    """Whether the softmax of 16-bit scores runs in fp32: in the module, or under autocast."""
    kept = [tensor.format for tensor in op.saved if tensor.per_key]
    stated = SavedFormat.FP32 in kept or (SavedFormat.STREAM in kept and run.recipe.autocast)
    return stated and not run.recipe.single


def _widens_logits(run: TrainingRun) -> bool:
    """Whether the loss of 16-bit logits runs in fp32: in the class, or under autocast."""
    stated = run.architecture.upcast_logits or run.recipe.autocast
    return stated and not run.recipe.single


def _takes_math(op: Operator, run: TrainingRun) -> bool:
    """Whether PyTorch has no fused attention for a row.

    Flash kernels compute in 16 bits, and the memory-efficient fp32 kernel needs as many heads of
    keys as of queries.
    """
    if not 0 < op.cache_heads < op.heads:
        return False
    # Latents are cached as one head, and expanded to all of them before attention.
    keys_and_values = op.cache_elements_per_token * op.heads / op.cache_heads
    grouped = 2.0 * keys_and_values == op.flops_per_token_per_key
    wanted = run.attention is not AttentionKernel.EAGER and run.stack.eager
    return wanted and grouped and run.recipe.single


def scan_passes(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> tuple[Floats, Floats]:
    """Forward and backward time of one scan in one layer: arithmetic or memory traffic. [s]"""
    hardware = candidates.hardware
    arithmetic = attention_time_s(
        flops=tokens * op.flops_per_token / candidates.layout.tensor,
        keys=kernel_facts().scan_keys,
        peak_flops_per_s=hardware.peak16_flops_per_s,
        efficiency=hardware.attention_forward * hardware.attention_scan,
        half_keys=hardware.attention_half_keys,
        overhead_s=hardware.attention_overhead_s,
    )
    moved = elementwise_forward(op, run, candidates, software, tokens)
    forward = np.maximum(arithmetic, moved)
    return forward, kernel_facts().scan_backward * forward


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


def autocasts(run: TrainingRun) -> bool:
    """Whether modules run one by one and cast their inputs from an fp32 stream."""
    stated = run.recipe.autocast and not run.frozen and run.unit is Unit.TOKEN
    return stated and run.stack.eager


def _on_stream(op: Operator) -> bool:
    """Whether a memory-bound row moves elements of the residual stream's format.

    Rotations do: cosines and sines have that format (huggingface/transformers, modeling_llama.py).
    Unfused RMSNorm counts its fp32 steps already.
    """
    if op.kind is OperatorKind.NORMALIZATION and op.launches > 1:
        return False
    if op.saved and not any(tensor.format is SavedFormat.BYTE for tensor in op.saved):
        return any(tensor.format is SavedFormat.STREAM for tensor in op.saved)
    return op.division is Division.REPLICATED or op.kind is OperatorKind.ELEMENTWISE


def cast_passes(op: Operator, candidates: Candidates, tokens: Floats) -> tuple[Floats, int]:
    """Time of one product's casts under eager autocast, in one layer, and their kernels. [s]

    Weights and each reader's input go to 16 bits; their gradients come back. What the last product
    of a branch reads, other products wrote, and convolutions read what is in 16 bits already.
    """
    weights = op.in_features * op.out_features * op.groups * op.experts
    moved = np.asarray(float(weights))
    kernels = 1
    for tensor in op.saved:
        readers = [reader for reader in tensor.read_by or () if reader not in WRITES_STREAM]
        if op.kind is OperatorKind.MATMUL:
            kernels += len(readers)
            moved = moved + tokens * tensor.elements_per_token * len(readers)
    each = moving_s(
        kernel_facts().cast_bytes * moved / candidates.layout.tensor, candidates.hardware
    )
    return 2.0 * each, kernels
