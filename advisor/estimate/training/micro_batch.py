"""Kernels of one micro-batch: a fold of operator times over the rows of one pipeline stage."""

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.fold import (
    LAST_PRODUCT,
    adapted,
    as_computed,
    made_again,
    remade_by_selection,
)
from advisor.estimate.hardware.attention_times import attention_passes, scan_passes
from advisor.estimate.hardware.caching import step_in_cache
from advisor.estimate.hardware.eager_modules import (
    adapter_passes,
    autocasts,
    backward_sums,
    cast_passes,
)
from advisor.estimate.hardware.image_kernels import (
    beside_image_rows,
    depthwise_passes,
    layout_cost,
    turned_round,
)
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import (
    IN_LIBRARY,
    dequantise_time,
    elementwise_forward,
    is_depthwise,
    is_product,
    matmul_forward,
    recurrence_passes,
    uncast,
)
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.nouns.training_choices import AttentionKernel, FineTuningMethod

FUSED_BACKWARD: Final = 2.0
"""Backward over forward traffic of fused memory-bound kernels: gradients are read and written, and
the saved input is read."""


@dataclass(slots=True)
class KernelTimes:
    """Times of one micro-batch through one stage, accumulated over rows. [s]"""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    recompute: Floats
    launches: Floats
    """How many."""
    host: Floats
    """Time of the host while the device waits."""

    @property
    def device(self) -> Floats:
        """Sum of the device's computation."""
        return self.matmul + self.attention + self.elementwise + self.recompute


@record
class _Pass:
    """One micro-batch and the software that runs it."""

    run: TrainingRun
    candidates: Candidates
    software: SoftwareFacts
    tokens: Floats
    selected: frozenset[str]
    """Products that selective recomputation runs a second time."""
    casts: bool
    """Whether products cast their inputs and weights."""
    all_again: NDArray[np.bool_]
    """Whether whole blocks run forward twice."""
    some_again: NDArray[np.bool_]
    """Whether cheap work and selected products run forward twice."""

    @property
    def reference(self) -> float:
        """Forward passes of a frozen second model."""
        return self.run.reference_passes


def one_micro_batch(
    run: TrainingRun, candidates: Candidates, software: SoftwareFacts, share: Floats, tokens: Floats
) -> KernelTimes:
    """Kernels and launches of one micro-batch through a stage with ``share`` of the layers.

    Each sum is affine in ``share`` and does not depend on data parallelism.
    """
    run = as_computed(run)
    if run.unit is Unit.IMAGE and not software.fuses_images:
        software = software.changed(fused_elementwise=False)
    one = _Pass(
        run=run,
        candidates=step_in_cache(run, candidates, tokens),
        software=software,
        tokens=tokens,
        selected=frozenset(op.name for op in remade_by_selection(run)),
        casts=autocasts(run),
        all_again=candidates.layout.recompute >= 2,
        some_again=candidates.layout.recompute >= 1,
    )
    columns = (tokens, share, candidates.layout.recompute, candidates.hardware.memory_bytes)
    zero = np.zeros(np.broadcast_shapes(*(column.shape for column in columns)))
    total = KernelTimes(*(zero.copy() for _ in fields(KernelTimes)))
    head = replace(one, tokens=tokens * run.switches.answered_share)
    for op in run.architecture.operators:
        held = op.layers * share if op.part is Part.BLOCK else float(op.layers)
        other = _add_mixer if op.kind in _PASSES or is_depthwise(op) else _add_elementwise
        add = _add_product if is_product(op) else other
        add(total, op, head if op.part is Part.HEAD else one, held)
        _add_launches(total, op, one, held)
    total.elementwise /= one.candidates.hardware.fresh_memory
    return total


def _add_product(total: KernelTimes, op: Operator, one: _Pass, held: Floats | float) -> None:
    run, candidates = one.run, one.candidates
    forward = matmul_forward(op, run, candidates, one.software, one.tokens)
    if (kept := run.switches.layers_in_16_bits) and op.part is Part.BLOCK:
        wider = matmul_forward(op, run, candidates, one.software, one.tokens, wide=True)
        forward = forward + (wider - forward) * kept / run.architecture.num_hidden_layers
    if run.stack.eager:
        sums, kernels = backward_sums(op, run, candidates, one.tokens, casts=one.casts)
        total.elementwise += held * sums
        total.launches += held * kernels
    if op.kind is OperatorKind.CONVOLUTION:
        forward = forward * layout_cost(op, run, candidates)
        forward = forward / candidates.hardware.trained_convolutions
    turned = turned_round(op, run, candidates, one.tokens)
    gradients = 0.0 if op.frozen and not op.input_gradient else 1.0
    products = 1.0 + op.input_gradient + (not run.frozen and not op.frozen)
    total.matmul += held * forward * (products + one.reference)
    total.matmul += held * turned * (1.0 + gradients + one.reference)
    adapter, back = adapter_passes(op, run, candidates, one.software, one.tokens)
    four_bit = run.method is FineTuningMethod.QLORA and op.part is Part.BLOCK
    expanded = dequantise_time(op, run, candidates) if four_bit else 0.0
    # Frozen 4-bit weights are expanded once for each pass.
    total.elementwise += held * (adapter + back + (2.0 + one.reference) * expanded)
    if made_again(op, one.run.architecture):
        again = one.some_again if op.name in one.selected else one.all_again
        total.recompute += np.where(again, held * (forward + turned + adapter + expanded), 0.0)


def _add_mixer(total: KernelTimes, op: Operator, one: _Pass, held: Floats | float) -> None:
    """Add attention, or a scan or recurrence in its place."""
    run = one.run
    forward, backward = _PASSES[op.kind](op, run, one.candidates, one.software, one.tokens)
    spent = held * (forward * (1 + one.reference) + backward)
    if op.kind in IN_LIBRARY:
        total.matmul += spent
    else:
        total.attention += spent
    unfused = op.kind is OperatorKind.ATTENTION and run.attention is AttentionKernel.EAGER
    again = one.some_again if unfused else one.all_again
    again = again & made_again(op, run.architecture)
    total.recompute += np.where(again, held * forward, 0.0)


def _add_elementwise(total: KernelTimes, op: Operator, one: _Pass, held: Floats | float) -> None:
    forward = elementwise_forward(
        op, one.run, one.candidates, one.software, one.tokens, casts=one.casts
    )
    back = op.backward if one.run.stack.eager else FUSED_BACKWARD
    back = 0.0 if op.frozen else back
    if op.lacks_bf16:
        forward = forward * layout_cost(op, one.run, one.candidates)
    if op.vectors_per_token and one.run.switches.widened_norms:
        facts = kernel_facts()
        forward, back = facts.widened_norm * forward, facts.widened_backward
    total.elementwise += held * forward * (1 + one.reference + back)
    if made_again(op, one.run.architecture):
        total.recompute += np.where(one.some_again, held * forward, 0.0)


_PASSES: Final = {
    OperatorKind.ATTENTION: attention_passes,
    OperatorKind.SCAN: scan_passes,
    OperatorKind.RECURRENCE: recurrence_passes,
    OperatorKind.CONVOLUTION: depthwise_passes,
}
"""Rows that are neither products nor memory-bound."""


def _add_launches(total: KernelTimes, op: Operator, one: _Pass, held: Floats | float) -> None:
    """Count launches of forward, backward and recomputation, and host work between them."""
    launches = _launches(op, one.run, one.candidates, one.software)
    again = one.all_again if made_again(op, one.run.architecture) else 0.0
    total.launches += held * launches * ((1.0 if op.frozen else 3.0) + one.reference + again)
    unfused = one.run.stack.eager and not one.software.fused_elementwise
    if one.run.unit is Unit.IMAGE and unfused and not op.frozen:
        beside, kernels = beside_image_rows(op, one.run, one.candidates, one.tokens)
        total.elementwise += held * beside
        total.launches += held * kernels
    if one.casts and not uncast(op, one.run):
        cast, kernels = cast_passes(op, one.run, one.candidates, one.tokens)
        total.elementwise += held * cast
        total.launches += held * kernels
    if op.host_s and not one.software.fused_elementwise:
        total.host += held * op.host_s * one.tokens


def _launches(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts
) -> Floats | float:
    """Kernels that the host launches for one row in one layer and pass."""
    if op.kind is OperatorKind.MATMUL and op.experts > 1 and FORMAT_BYTES[run.recipe.compute] <= 1:
        return np.maximum(1.0, software.expert_launches * op.experts / candidates.layout.expert)
    if uncast(op, run):
        # One product for each expert; gate and up are one matrix.
        share = 1.0 if op.target == LAST_PRODUCT else 0.5
        return share * op.experts / candidates.layout.expert
    launches = 1.0 if software.fused_elementwise else float(op.launches)
    if op.kind is OperatorKind.ATTENTION and run.attention is AttentionKernel.EAGER:
        # Product, scale, mask, softmax, dropout, product; or one kernel between the products.
        launches = 3.0 if software.fused_softmax else 6.0
    if adapted(op, run):
        launches += kernel_facts().adapter_launches
    if op.kind is OperatorKind.RECURRENCE:
        # The library's one call starts the kernels of every step, without Python.
        usual = min(1.0, kernel_facts().usual_launch_s / software.launch_s)
        return launches * run.sequence_length * usual
    return launches
