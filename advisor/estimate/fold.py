"""Sums over the operator table that do not depend on the configuration."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part
from advisor.equations.flops import attended_keys
from advisor.equations.training.memory import adapter_parameters
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.record import by_identity, record
from advisor.nouns.software.stacks import SelectiveRecompute

LAST_PRODUCT: Final = "down"
"""Name that adapters use for a block's last product."""


@record
class ParameterFold:
    """Parameters by pipeline part and by how model parallelism divides them. [elements]"""

    embedding_divided: float
    embedding_replicated: float
    block_divided: float
    block_replicated: float
    block_expert: float
    head_divided: float
    head_replicated: float
    tied: bool

    @property
    def block(self) -> float:
        """All parameters of the blocks."""
        return self.block_divided + self.block_replicated + self.block_expert


@by_identity(64)
def as_computed(run: TrainingRun) -> TrainingRun:
    """Return a run whose model has the rows that the software computes.

    Some code computes all routed experts on every token. The outputs of experts that a token did
    not choose count nothing in its result, but cost time and memory. Experts of a fixed capacity
    compute padding too.
    """
    model, more = run.architecture, run.switches.expert_capacity
    if model.family in run.stack.every_expert:
        more = model.num_experts / model.experts_per_token
    if more == 1.0:
        return run
    rows = tuple(_repeated(op, more) if op.visits else op for op in model.operators)
    return replace(run, architecture=model.changed(operators=rows))


def _repeated(op: Operator, more: float) -> Operator:
    amounts = ("flops_per_token", "moved_elements_per_token", "moved_elements_per_token_unfused")
    saved = tuple(
        tensor.changed(elements_per_token=more * tensor.elements_per_token) for tensor in op.saved
    )
    active = {"active_experts": more * op.active_experts, "saved": saved}
    return op.changed(**({name: more * getattr(op, name) for name in amounts} | active))


@by_identity(64)
def fold_parameters(architecture: ModelArchitecture) -> ParameterFold:
    """Sum the table's parameters by part and division."""
    total: Counter[tuple[Part, Division]] = Counter()
    for op in architecture.operators:
        total[op.part, op.division] += op.layers * op.parameters
    return ParameterFold(
        embedding_divided=float(total[Part.EMBEDDING, Division.TENSOR]),
        embedding_replicated=float(total[Part.EMBEDDING, Division.REPLICATED]),
        block_divided=float(total[Part.BLOCK, Division.TENSOR]),
        block_replicated=float(total[Part.BLOCK, Division.REPLICATED]),
        block_expert=float(total[Part.BLOCK, Division.EXPERT]),
        head_divided=float(total[Part.HEAD, Division.TENSOR]),
        head_replicated=float(total[Part.HEAD, Division.REPLICATED]),
        tied=architecture.tied_embeddings,
    )


def adapted(operator: Operator, run: TrainingRun) -> bool:
    """Return whether this row has an adapter."""
    return (
        run.frozen
        and operator.kind is OperatorKind.MATMUL
        and operator.target in run.lora_targets
        and (run.adapts_experts or operator.division is not Division.EXPERT)
    )


def made_again(operator: Operator, architecture: ModelArchitecture) -> bool:
    """Whether full recomputation runs a row a second time."""
    if architecture.unit is Unit.TOKEN:
        return operator.part is Part.BLOCK
    return operator.segment > 0


def kept_products(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    """Products whose output PyTorch's selective recomputation keeps: every second one of a block.

    Its policy does not include the grouped kernels of routed experts
    (pytorch/torchtitan@9dec370, torchtitan/parallelisms/parallelize_llama.py, ``_save_list``).
    """
    products = (
        op
        for op in operators
        if op.kind is OperatorKind.MATMUL and op.division is not Division.EXPERT
    )
    return tuple(islice(products, 0, None, 2))


@by_identity(64)
def remade_by_selection(run: TrainingRun) -> tuple[Operator, ...]:
    """Products that selective recomputation runs a second time.

    None if only cheap work is recomputed. Otherwise all that :func:`kept_products` leaves out,
    except a block's last product, whose output no backward pass reads.
    """
    if run.stack.selective_recompute is SelectiveRecompute.CHEAP_WORK:
        return ()
    block = run.architecture.in_part(Part.BLOCK)
    kept = {op.name for op in kept_products(block)}
    return tuple(
        op
        for op in block
        if op.kind is OperatorKind.MATMUL and op.target != LAST_PRODUCT and op.name not in kept
    )


@by_identity(64)
def fold_adapters(run: TrainingRun) -> tuple[int, int]:
    """Parameters of the adapters on dense matrices and on routed experts. [elements]"""
    dense = expert = 0
    for op in run.architecture.operators:
        if not adapted(op, run):
            continue
        one = adapter_parameters(
            in_features=op.in_features, out_features=op.out_features, rank=run.lora_rank
        )
        if op.division is Division.EXPERT:
            expert += op.layers * op.experts * int(one)
        else:
            dense += op.layers * int(one)
    return dense, expert


def trainable_parameters(run: TrainingRun) -> int:
    """Parameters that the optimizer updates: all that are not frozen, or only the adapters."""
    if run.frozen:
        return sum(fold_adapters(run))
    return sum(op.layers * op.parameters for op in run.architecture.operators if not op.frozen)


@by_identity(64)
def block_matrices(architecture: ModelArchitecture) -> tuple[float, float]:
    """Parameters of the blocks' matrices, dense and in routed experts. [elements]"""
    rows = [op for op in architecture.matmuls() if op.part is Part.BLOCK]
    expert = sum(op.layers * op.parameters for op in rows if op.division is Division.EXPERT)
    return float(sum(op.layers * op.parameters for op in rows) - expert), float(expert)


def keys_attended(operator: Operator, sequence_length: float) -> float:
    """Average keys per token of an attention row at this sequence length."""
    if operator.keys is not None:
        return float(operator.keys)
    return float(
        attended_keys(
            sequence_length=float(sequence_length),
            window=None if operator.window is None else float(operator.window),
            causal=operator.causal,
        )
    )


@record
class FlopFold:
    """Forward FLOPs per token, by part. [FLOPs/token]"""

    block_matmul: float
    block_attention: float
    head: float
    adapters: float

    @property
    def forward(self) -> float:
        """Sum of all parts, including adapters."""
        return self.block_matmul + self.block_attention + self.head + self.adapters


def fold_flops(
    architecture: ModelArchitecture, sequence_length: float, run: TrainingRun | None = None
) -> FlopFold:
    """Sum the table's forward FLOPs per token at a sequence length.

    FLOPs of an embedding (the patches of an image) count with the blocks.
    """
    block = (*architecture.in_part(Part.EMBEDDING), *architecture.in_part(Part.BLOCK))
    matmul = sum(op.layers * op.flops_per_token for op in block)
    attention = sum(
        op.layers * op.flops_per_token_per_key * keys_attended(op, sequence_length)
        for op in block
        if op.kind is OperatorKind.ATTENTION
    )
    head = sum(op.layers * op.flops_per_token for op in architecture.in_part(Part.HEAD))
    adapters = 0.0
    if run is not None and run.frozen:
        adapters = sum(
            2.0
            * op.layers
            * op.active_experts
            * op.positions_per_token
            * float(
                adapter_parameters(
                    in_features=op.in_features, out_features=op.out_features, rank=run.lora_rank
                )
            )
            for op in block
            if adapted(op, run)
        )
    return FlopFold(
        block_matmul=float(matmul),
        block_attention=float(attention),
        head=float(head),
        adapters=adapters,
    )
