"""Kernels that modules run beside their own work, one by one: casts, sums, and adapters."""

from typing import Final

import numpy as np

from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import Operator
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.fold import LAST_PRODUCT, adapted
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import is_depthwise, is_product, moving_s
from advisor.estimate.training.activations import WRITES_STREAM
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.nouns.training_choices import FineTuningMethod

ADDITION: Final = 3.0
"""A sum reads two tensors and writes one."""


def autocasts(run: TrainingRun) -> bool:
    """Whether modules run one by one and cast their inputs from an fp32 stream.

    Around a frozen base in 16 bits, autocast runs only the norms of image networks in fp32.
    """
    casts = not run.frozen or run.unit is Unit.IMAGE
    return run.recipe.autocast and run.stack.eager and casts


def cast_passes(
    op: Operator, run: TrainingRun, candidates: Candidates, tokens: Floats
) -> tuple[Floats, float]:
    """Time of one row's casts under eager autocast, in one layer, and their kernels. [s]

    Matrix, bias and each reader's input go to 16 bits; their gradients come back. What the last
    product of a branch reads, other products wrote. Rows of a stack of layers state what they cast.
    """
    product = (is_product(op) or is_depthwise(op)) and not run.frozen
    weights = op.in_features * op.out_features * op.groups * op.experts * product
    inputs = _cast_inputs(op, run) if run.unit is not Unit.TOKEN or product else []
    moved = weights + tokens * sum(inputs)
    each = moving_s(
        kernel_facts().cast_bytes * moved / candidates.layout.tensor, candidates.hardware
    )
    return 2.0 * each, 2.0 * (product * (1 + bool(op.biases)) + len(inputs))


def _cast_inputs(op: Operator, run: TrainingRun) -> list[float]:
    """Elements of each cast of an input."""
    readers = [len(tensor.read_by or ()) for tensor in op.saved]
    if run.unit is not Unit.TOKEN:
        # Image networks have one matrix for what reads the same tensor; text has one each.
        times = 1 if run.unit is Unit.IMAGE else max([1, *readers])
        return [op.cast_elements_per_token] * times if op.cast_elements_per_token else []
    return [
        tensor.elements_per_token
        for tensor in op.saved
        for reader in tensor.read_by or ()
        if reader not in WRITES_STREAM
    ]


def backward_sums(
    op: Operator, run: TrainingRun, candidates: Candidates, tokens: Floats, *, casts: bool
) -> tuple[Floats, float]:
    """Time and kernels of the sums in one product's backward pass, in one layer. [s]

    A bias takes the sum of the output's gradients, and an input with several readers the sum of
    theirs, in the format of the input. So does the stack of inputs from which experts in 4 bits
    each take a slice (`KernelFacts.slice_passes`).
    """
    width = run.recipe.element_bytes
    moved, kernels = np.zeros_like(tokens), 0.0
    if op.biases and not (run.frozen or op.frozen):
        rows = tokens * op.positions_per_token
        moved = moved + width * rows * op.out_features * op.groups * op.active_experts
        kernels += 1.0
    for tensor in op.saved:
        sums = max(0, len(tensor.read_by or ()) - 1)
        if sums and op.input_gradient and run.unit is not Unit.IMAGE:
            each = FORMAT_BYTES[run.recipe.stream] if casts else width
            moved = moved + ADDITION * sums * each * tokens * tensor.elements_per_token
            kernels += sums
    sliced = (
        run.method is FineTuningMethod.QLORA and run.architecture.family in run.stack.every_expert
    )
    if sliced and op.experts > 1 and op.target == LAST_PRODUCT:
        stack = width * tokens * op.active_experts * op.out_features
        moved = moved + kernel_facts().slice_passes * op.experts * stack
        kernels += kernel_facts().slice_kernels * op.experts
    if not kernels:
        return moved, kernels
    return moving_s(moved / candidates.layout.tensor, candidates.hardware, kernels=kernels), kernels


def adapter_passes(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> tuple[Floats | float, Floats | float]:
    """Forward and backward time of a row's adapter, memory-bound because the rank is small. [s]

    One kernel reads the input and one writes the output; single ones also scale the output and add
    it to the layer's, and add the gradient of the input to the layer's. In fp32 under autocast, the
    input goes to the adapter's format and back to 16 bits (PEFT, ``lora.Linear``).
    """
    if not adapted(op, run):
        return 0.0, 0.0
    read, written = (
        side * op.active_experts * op.positions_per_token
        for side in (op.in_features, op.out_features)
    )
    wide, casting = FORMAT_BYTES["bf16"], 0.0
    passes = (1.0, 2.0), (2.0, 4.0)
    if not software.fused_elementwise:
        passes = (1.0, 3.0 + ADDITION), (2.0 + ADDITION, 4.0)
    casts = run.switches.adapter_format == "fp32" and run.method is FineTuningMethod.LORA
    if casts and run.stack.eager and not run.recipe.single:
        casting = 2.0 * kernel_facts().cast_bytes
    forward, backward = (
        (wide * reads + casting) * read + wide * writes * written for reads, writes in passes
    )
    share, hardware = tokens / candidates.layout.tensor, candidates.hardware
    return (
        moving_s(forward * share, hardware, kernels=3),
        moving_s(backward * share, hardware, kernels=6),
    )
