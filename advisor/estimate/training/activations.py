"""Tensors that a layer keeps for the backward pass, resolved from the operator table.

The table lists each tensor with the software that keeps it; only this module decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    SavedFormat,
    SavedTensor,
)
from advisor.architecture.table.operators import SavedWhen as When
from advisor.estimate.fold import LAST_PRODUCT, adapted, kept_products
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import record
from advisor.nouns.precision import FORMAT_BYTES, PrecisionRecipe
from advisor.nouns.software.stacks import SelectiveRecompute, SoftwareStack
from advisor.nouns.training_choices import LORA_TARGETS, AttentionKernel, FineTuningMethod

SIXTEEN_BIT_BYTES = FORMAT_BYTES["bf16"]
WRITES_STREAM: Final = ("o", LAST_PRODUCT)
"""Adapter targets of products whose full output is on every tensor-parallel rank."""


@record
class SavedBytes:
    """Bytes kept per token. [bytes/token]"""

    divided_bytes: float = 0.0
    """Divided by the tensor-parallel degree."""
    gathered_bytes: float = 0.0
    """Whole on every tensor-parallel rank, also with sequence parallelism."""
    replicated_bytes: float = 0.0
    """Divided by the tensor-parallel degree under sequence parallelism only."""
    per_key_bytes: float = 0.0
    """Per token and per key of the sequence, divided by the tensor-parallel degree."""

    @property
    def per_token_bytes(self) -> float:
        """Sum on a single rank, without score matrices."""
        return self.divided_bytes + self.gathered_bytes + self.replicated_bytes

    def plus(self, other: SavedBytes, times: float = 1.0) -> SavedBytes:
        """Return the sum with ``times`` another."""
        return SavedBytes(
            divided_bytes=self.divided_bytes + times * other.divided_bytes,
            gathered_bytes=self.gathered_bytes + times * other.gathered_bytes,
            replicated_bytes=self.replicated_bytes + times * other.replicated_bytes,
            per_key_bytes=self.per_key_bytes + times * other.per_key_bytes,
        )


@record
class SavedPolicy:
    """The settings that decide which tensors are kept, and in how many copies."""

    recipe: PrecisionRecipe
    stack: SoftwareStack
    attention: AttentionKernel
    adapted: frozenset[str] | None = None
    """Adapter targets if the base is frozen; None if every weight trains."""
    adapter_casts: bool = False
    """Whether the input of each adapter is cast, from a 16-bit base to the adapters' format."""
    adapter_cast_bytes: float = SIXTEEN_BIT_BYTES
    """Size of an element after that cast. [bytes]"""
    adapter_dropout: bool = False
    """Whether adapters use dropout; then each keeps its result and a mask of bytes."""
    base_raised: bool = False
    """Whether the norms of a frozen base are in fp32, and with them the residual stream."""
    norms_raised: bool = False
    """The same of a frozen network that takes images, whose norms autocast runs in fp32."""
    selective: bool = False
    """Whether the backward pass recomputes cheap work."""

    @property
    def fused(self) -> bool:
        """Whether norms and activations run as fused kernels, also in recomputed regions."""
        return self.selective or self.stack.fused_elementwise

    def format_bytes(self, form: SavedFormat) -> float:
        """Size of one element of a format. [bytes]"""
        compute = max(FORMAT_BYTES[self.recipe.compute], SIXTEEN_BIT_BYTES)
        if form is SavedFormat.FP32:
            return FORMAT_BYTES["fp32"]
        if form is SavedFormat.BYTE:
            return 1.0
        if form is SavedFormat.COMPUTE or self.adapted is not None:
            # A frozen base and the residual stream that it writes are in 16 bits.
            raised = (self.base_raised or self.norms_raised) and form is SavedFormat.STREAM
            return FORMAT_BYTES["fp32"] if raised else compute
        return FORMAT_BYTES[self.recipe.stream]

    def copies(self, tensor: SavedTensor) -> int:
        """How many times eager code keeps a tensor that only weight gradients need."""
        readers = tensor.read_by
        if readers is None:
            return 1
        if self.adapted is None:
            casts = self.recipe.autocast and self.stack.eager and not self.selective
            return len(readers) if casts else 1
        reading = sum(1 for reader in readers if self.adapted & set(reader.split("+")))
        casts = (self.adapter_casts or self.adapter_dropout) and not self.selective
        return reading if casts else min(reading, 1)

    def input_bytes(self, tensor: SavedTensor) -> float:
        """Size of one element of a tensor, as its readers keep it. [bytes]"""
        if tensor.read_by is None or self.adapted is None or self.selective:
            size = self.format_bytes(tensor.format)
            if tensor.read_by is not None and self.stack.keeps_narrow_inputs:
                size = min(size, FORMAT_BYTES[self.recipe.compute])
            return size
        # The base keeps no input of its own, because its weights have no gradients.
        size = self.format_bytes(tensor.format)
        if self.adapter_casts:
            size = self.adapter_cast_bytes
        return size + (1.0 if self.adapter_dropout else 0.0)


def _resolve(operator: Operator, policy: SavedPolicy, *, backward: bool = False) -> SavedBytes:
    divided = gathered = replicated = per_key = 0.0
    scores = _materialises_scores(operator, policy)
    for tensor in operator.saved:
        if not _kept(tensor, policy, scores):
            continue
        size = tensor.elements_per_token * policy.input_bytes(tensor)
        if _widened(operator, tensor, policy):
            size = tensor.elements_per_token * FORMAT_BYTES["fp32"]
        size *= policy.copies(tensor) + tensor.backward * backward
        if tensor.per_key and operator.keys is not None:
            divided += size * operator.keys
        elif tensor.per_key:
            per_key += size
        elif tensor.divided:
            divided += size
        elif tensor.gathered and not policy.stack.divides_gathered_inputs:
            gathered += size
        else:
            replicated += size
    return SavedBytes(divided, gathered, replicated, per_key)


def _widened(operator: Operator, tensor: SavedTensor, policy: SavedPolicy) -> bool:
    """Whether 4-bit layers pass an activation on in the format of their input, fp32."""
    inner = operator.kind is OperatorKind.ACTIVATION and tensor.format is SavedFormat.COMPUTE
    return policy.base_raised and inner and tensor.read_by is None


def _materialises_scores(operator: Operator, policy: SavedPolicy) -> bool:
    """Whether the score matrix exists: it was asked for, or no fused kernel exists.

    PyTorch has no fused kernel for fp32 grouped queries and falls back to plain products.
    """
    if policy.attention is AttentionKernel.EAGER:
        return True
    grouped = operator.cache_heads not in (0, operator.heads)
    return grouped and policy.recipe.single


def _kept(tensor: SavedTensor, policy: SavedPolicy, scores: bool) -> bool:
    if tensor.copy_of is not None:
        same = policy.format_bytes(tensor.format) == policy.format_bytes(tensor.copy_of)
        if same:
            return False
    if policy.selective and tensor.remade:
        return False
    when = tensor.when
    if when in (When.EAGER_ATTENTION, When.FLASH_ATTENTION):
        return scores == (when is When.EAGER_ATTENTION)
    if when is When.ADAPTER_COPY:
        return (policy.adapter_casts or policy.adapter_dropout) and not policy.selective
    return when is When.ALWAYS or policy.fused == (when is When.FUSED)


def _policy(run: TrainingRun, *, selective: bool, expert: bool = False) -> SavedPolicy:
    switches = run.switches
    lora = run.method is FineTuningMethod.LORA
    plain = not switches.adapter_autocast
    # Under autocast, an fp32 adapter casts its input again that a 16-bit base already read. 4-bit
    # layers pass the input on to their adapters unchanged.
    apart = switches.adapter_format == "fp32" and (lora or switches.base_raised)
    kept = LORA_TARGETS if switches.base_inputs_kept and not lora else run.lora_targets
    if expert and not run.adapts_experts:
        kept = ()
    return SavedPolicy(
        recipe=run.recipe,
        stack=run.stack,
        attention=run.attention,
        adapted=frozenset(kept) if run.frozen else None,
        adapter_casts=apart and run.stack.eager and not run.recipe.single,
        adapter_cast_bytes=FORMAT_BYTES[switches.adapter_format] if plain else SIXTEEN_BIT_BYTES,
        adapter_dropout=switches.adapter_dropout,
        base_raised=switches.base_raised,
        norms_raised=run.unit is Unit.IMAGE and run.recipe.autocast,
        selective=selective,
    )


def stream_bytes(run: TrainingRun) -> float:
    """Size of one element of the residual stream between blocks. [bytes]"""
    return _policy(run, selective=False).format_bytes(SavedFormat.STREAM)


def fold_saved_bytes(operators: Iterable[Operator], run: TrainingRun) -> SavedBytes:
    """Bytes that all layers of these rows keep per token, including adapters. [bytes/token]

    Reproduces PyTorch's own accounting of Hugging Face models (transformers 5.23, PyTorch 2.13)
    for Llama, Qwen 2 and 3, Gemma 2 and GPT-2, eager and compiled; see the tests. Megatron-class
    software keeps the compiled set and shards the gathered inputs too, gathering them again in
    the backward pass (Korthikanti et al. 2022, section 4.2.2). Liger kernels are fused norms and
    activations inside otherwise eager code; the product of a gated activation is still kept, as
    input of the next matrix. Dropout masks are left out.
    """
    return _fold(operators, run, selective=False)


def selective_saved_bytes(operators: Iterable[Operator], run: TrainingRun) -> SavedBytes:
    """Return the bytes per token that selective recomputation keeps, besides each block's input.

    Megatron-class software recomputes norms, activation products and score matrices; of
    :func:`fold_saved_bytes`, gates and the tensors of flash attention stay. All other software
    is PyTorch's: its operator-wise policy keeps the output of every second product and what the
    attention kernel writes (:func:`~advisor.estimate.fold.kept_products`). A compiled graph drops
    a block's last product, which only the next block's input needs. Leaves out results of
    reduce-scatters under tensor parallelism.
    """
    operators = tuple(operators)
    if run.stack.selective_recompute is SelectiveRecompute.CHEAP_WORK:
        return _fold(operators, run, selective=True)
    policy = _policy(run, selective=True)
    size = policy.format_bytes(SavedFormat.COMPUTE)
    total = SavedBytes()
    for op in operators:
        if op.kind is OperatorKind.ATTENTION and not _materialises_scores(op, policy):
            written = tuple(tensor for tensor in op.saved if tensor.by_kernel)
            total = total.plus(_resolve(op.changed(saved=written), policy), op.layers * op.largest)
    for op in kept_products(operators):
        dropped = op.target == LAST_PRODUCT and not run.stack.eager
        whole = op.target in WRITES_STREAM or op.division is not Division.TENSOR
        output = 0.0 if dropped else size * op.out_features * op.positions_per_token
        one = SavedBytes(replicated_bytes=output) if whole else SavedBytes(divided_bytes=output)
        total = total.plus(one, op.layers)
    return total


def transient_bytes(operator: Operator, run: TrainingRun) -> SavedBytes:
    """Gradients that pass through one layer of a row, without its kept tensors. [bytes/token]"""
    if not any(tensor.backward for tensor in operator.saved):
        return SavedBytes()
    policy = _policy(run, selective=False, expert=operator.division is Division.EXPERT)
    kept = _resolve(operator, policy)
    return _resolve(operator, policy, backward=True).plus(kept, -1.0)


def segment_input_bytes(operator: Operator, run: TrainingRun) -> float:
    """Input of one recomputed block, on its first row. [bytes/sample]"""
    entry = operator.segment_input
    if entry is None:
        return 0.0
    size = _policy(run, selective=False).format_bytes(entry.format)
    return operator.largest * entry.elements_per_token * size


def backward_bytes(operators: Iterable[Operator], run: TrainingRun) -> tuple[SavedBytes, ...]:
    """Bytes per token that pass through one layer while it goes backward. [bytes/token]

    First, the gradients beside a whole block. Second, all tensors of an attention with a score
    matrix: the kept ones and the gradients of the softmax's output and input, without the copy that
    only the product with the values needs; 0 if a kernel never writes the scores.
    """
    policy = _policy(run, selective=False)
    beside, scores = [SavedBytes()], [SavedBytes()]
    for op in operators:
        if op.kind is not OperatorKind.ATTENTION:
            beside.append(transient_bytes(op, run))
        elif _materialises_scores(op, policy):
            scores.append(_resolve(op, policy, backward=True))
    return (
        max(beside, key=lambda item: item.per_token_bytes),
        max(scores, key=lambda item: item.per_key_bytes),
    )


def _fold(operators: Iterable[Operator], run: TrainingRun, *, selective: bool) -> SavedBytes:
    total = SavedBytes()
    dense, expert = (_policy(run, selective=selective, expert=one) for one in (False, True))
    for operator in operators:
        policy = expert if operator.division is Division.EXPERT else dense
        total = total.plus(_resolve(operator, policy), operator.layers * operator.largest)
        if adapted(operator, run):
            # The product with the adapter's first matrix is the input of its second.
            size = policy.format_bytes(SavedFormat.COMPUTE) * run.lora_rank
            size *= operator.positions_per_token
            adapter = SavedBytes(replicated_bytes=size * operator.active_experts)
            total = total.plus(adapter, operator.layers)
    return total
