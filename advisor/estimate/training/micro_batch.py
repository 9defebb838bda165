"""Kernels of one micro-batch: a fold of operator times over the rows of one pipeline stage."""

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.fold import adapted, as_computed, made_again, remade_by_selection
from advisor.estimate.hardware.caching import step_in_cache
from advisor.estimate.hardware.kernel_times import (
    adapter_forward,
    attention_passes,
    autocasts,
    cast_passes,
    dequantise_time,
    elementwise_forward,
    is_product,
    matmul_forward,
    recurrence_passes,
    scan_passes,
)
from advisor.estimate.hardware.rates import USUAL_LAUNCH_S
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.nouns.training_choices import AttentionKernel, FineTuningMethod

ELEMENTWISE_BACKWARD = 2.0
"""Backward over forward traffic of memory-bound rows: gradients are read and written, and the saved
input is read."""
ADAPTER_LAUNCHES = 8.0
"""Kernels of one adapter forward: dropout, two products, scale, sum, and three changes of format
under autocast (PEFT, ``lora.Linear``)."""


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
        other = _add_mixer if op.kind in _PASSES else _add_elementwise
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
    if one.casts:
        cast, kernels = cast_passes(op, candidates, one.tokens)
        total.elementwise += held * cast
        total.launches += held * 2.0 * kernels
    products = 1.0 + op.input_gradient + (not run.frozen and not op.frozen)
    total.matmul += held * forward * (products + one.reference)
    adapter = adapter_forward(op, run, candidates, one.software, one.tokens)
    four_bit = run.method is FineTuningMethod.QLORA and op.part is Part.BLOCK
    expanded = dequantise_time(op, run, candidates) if four_bit else 0.0
    # Adapters train, so their backward is twice their forward; frozen 4-bit weights are expanded
    # once for each pass.
    total.elementwise += held * (3.0 * adapter + (2.0 + one.reference) * expanded)
    if made_again(op, one.run.architecture):
        again = one.some_again if op.name in one.selected else one.all_again
        total.recompute += np.where(again, held * (forward + adapter + expanded), 0.0)


def _add_mixer(total: KernelTimes, op: Operator, one: _Pass, held: Floats | float) -> None:
    """Add attention, or a scan or recurrence in its place."""
    run = one.run
    forward, backward = _PASSES[op.kind](op, run, one.candidates, one.software, one.tokens)
    spent = held * (forward * (1 + one.reference) + backward)
    if op.kind is OperatorKind.RECURRENCE:
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
    back = 0.0 if op.frozen else ELEMENTWISE_BACKWARD
    total.elementwise += held * forward * (1 + one.reference + back)
    if made_again(op, one.run.architecture):
        total.recompute += np.where(one.some_again, held * forward, 0.0)


_PASSES: Final = {
    OperatorKind.ATTENTION: attention_passes,
    OperatorKind.SCAN: scan_passes,
    OperatorKind.RECURRENCE: recurrence_passes,
}
"""Rows that are neither products nor memory-bound."""


def _add_launches(total: KernelTimes, op: Operator, one: _Pass, held: Floats | float) -> None:
    """Count launches of forward, backward and recomputation, and host work between them."""
    launches = _launches(op, one.run, one.candidates, one.software)
    again = one.all_again if made_again(op, one.run.architecture) else 0.0
    total.launches += held * launches * ((1.0 if op.frozen else 3.0) + one.reference + again)
    if op.host_s and not one.software.fused_elementwise:
        total.host += held * op.host_s * one.tokens


def _launches(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts
) -> Floats | float:
    """Kernels that the host launches for one row in one layer and pass."""
    if op.kind is OperatorKind.MATMUL and op.experts > 1 and FORMAT_BYTES[run.recipe.compute] <= 1:
        return np.maximum(1.0, software.expert_launches * op.experts / candidates.layout.expert)
    launches = 1.0 if software.fused_elementwise else float(op.launches)
    if op.kind is OperatorKind.ATTENTION and run.attention is AttentionKernel.EAGER:
        # Product, scale, mask, softmax, dropout, product; or one kernel between the products.
        launches = 3.0 if software.fused_softmax else 6.0
    if adapted(op, run):
        launches += ADAPTER_LAUNCHES
    if op.kind is OperatorKind.RECURRENCE:
        # The library's one call starts the kernels of every step, without Python.
        return launches * run.sequence_length * min(1.0, USUAL_LAUNCH_S / software.launch_s)
    return launches
