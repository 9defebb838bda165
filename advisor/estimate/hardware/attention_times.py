"""Times of attention and of scans in its place, of one row in one layer.

The same code serves one configuration and a million.
"""

import numpy as np

from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import Operator, SavedFormat
from advisor.equations.flops import FLASH_BACKWARD_FLOPS
from advisor.equations.roofline import attention_time_s
from advisor.equations.training.scores import score_passes
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.fold import keys_attended
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import elementwise_forward, moving_s
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.nouns.training_choices import AttentionKernel


def attention_passes(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> tuple[Floats, Floats]:
    """Forward and backward time of one attention row in one layer. [s]"""
    layout, hardware = candidates.layout, candidates.hardware
    math = _takes_math(op, run)
    if run.attention is not AttentionKernel.EAGER and not math:
        keys = keys_attended(op, run.attended_length)
        flops = tokens * op.flops_per_token_per_key * keys / layout.tensor
        facts = kernel_facts()
        narrow = facts.softmax_elements
        width = op.flops_per_token_per_key / (4.0 * op.heads * op.positions_per_token)
        # Rows that only hold a cache compute nothing.
        dim = width or facts.usual_head
        rate: Floats | float = 1.0
        if run.stack.eager:
            # Other stacks' paces were fitted on their own kernels.
            rate = (1.0 + narrow / facts.usual_head) / (1.0 + narrow / dim)
        # FlashAttention-2 computes in 16 bits. Where it is the faster one, all stacks take it.
        portable = np.minimum(hardware.attention_portable, 1.0 if run.recipe.single else np.inf)
        faster = np.maximum(portable, 1.0)
        bound = software.portable_attention or run.switches.portable_attention
        rate = rate * (portable if bound else faster)
        if run.attention is AttentionKernel.FLASH_1:
            rate = facts.first_flash * portable
        # What it gains, it gains on long sequences.
        half_keys = faster * (hardware.attention_half_keys + facts.short_keys) - facts.short_keys

        def timed(efficiency: Floats, passes: float, kernels: int) -> Floats:
            found = attention_time_s(
                flops=passes * flops,
                keys=keys,
                peak_flops_per_s=hardware.fused_flops_per_s,
                efficiency=efficiency * rate,
                half_keys=half_keys,
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
