"""A training workload with every default resolved and stated."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.architecture.model import ModelArchitecture
from advisor.errors import InputError
from advisor.precision import FORMAT_BYTES, RECIPES, PrecisionRecipe
from advisor.workload import (
    AttentionKernel,
    FineTuning,
    FineTuningMethod,
    Optimizer,
    SoftwareStack,
    Training,
)

DEFAULT_SEQUENCE_LENGTH = 4096
PRETRAINING_BATCH_TOKENS = 4_194_304
"""Llama 2 (arXiv:2307.09288, section 2.2) trains with batches of 4M tokens."""
FINE_TUNING_BATCH = 64
"""Sequences; within the usual 16 to 128 of published fine-tuning recipes. A stated default."""
TOKENS_PER_PARAMETER = 20.0
"""Compute-optimal training (Hoffmann et al. 2022, arXiv:2203.15556, table 3)."""
FINE_TUNING_TOKENS = 10e6

OPTIMIZER_STATE_FORMATS: dict[Optimizer, tuple[float, int]] = {
    Optimizer.ADAMW: (2.0, 2),
    Optimizer.ADAMW_8BIT: (2.0, 2),
    Optimizer.SGD_MOMENTUM: (1.0, 1),
    Optimizer.SGD: (0.0, 0),
    Optimizer.LION: (1.0, 1),
    Optimizer.ADAFACTOR: (0.0, 0),
}
"""State tensors of the parameter's shape, by optimizer (second: as a count)."""

EIGHT_BIT_STATE_BYTES = 1.0 + 4.0 / 256
"""One byte per state element and one fp32 scale per block of 256 (bitsandbytes)."""


@dataclass(frozen=True, slots=True)
class MemorySwitches:
    """Switches of the training software that change its memory; the defaults are PyTorch's."""

    foreach_optimizer: bool = False
    """The update holds one temporary copy of the parameters (PyTorch's ``foreach``)."""
    gradient_bucket_view: bool = False
    """Gradients live inside the buckets of DDP (``gradient_as_bucket_view``)."""
    kept_gradients: bool = False
    """Gradients are set to zero after a step instead of being freed."""
    gathered_logits: bool = False
    """Tensor parallelism gathers the logits before the loss."""
    ends_apart: bool | None = None
    """Embedding and head are sharded apart from the rest; None takes the stack's habit."""
    reduce_format: str | None = None
    """Format in which sharded gradients are reduced; None takes that of the gradients."""
    offloaded_states: bool = False
    """Master weights and optimizer states live in the host's memory."""
    chunked_loss: bool = False
    """The loss is computed in eight chunks of the sequence (torchtune)."""
    trained_ends: bool = False
    """Beside adapters, copies of embedding and head train whole (``modules_to_save``)."""
    adapter_format: str = "fp32"
    adapter_autocast: bool = True
    """Adapters compute under autocast; else their input is cast to their own format."""
    adapter_dropout: bool = False
    base_raised: bool = False
    """Embeddings, norms and head of a 4-bit base are raised to fp32
    (``prepare_model_for_kbit_training``)."""


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A training workload ready for the equations."""

    tokens: float
    sequence_length: int
    global_batch: int
    recipe: PrecisionRecipe
    optimizer: Optimizer
    attention: AttentionKernel
    software: SoftwareStack
    method: FineTuningMethod | None
    """None for pretraining."""
    lora_rank: int
    lora_targets: tuple[str, ...]
    assumptions: tuple[str, ...]
    switches: MemorySwitches = MemorySwitches()

    @property
    def frozen(self) -> bool:
        """Whether the base weights are frozen and only adapters train."""
        return self.method in (FineTuningMethod.LORA, FineTuningMethod.QLORA)

    @property
    def tokens_per_step(self) -> float:
        """Tokens per optimizer step. [tokens]"""
        return float(self.global_batch * self.sequence_length)

    @property
    def optimizer_bytes_per_parameter(self) -> float:
        """Optimizer states of one trained parameter. [bytes]

        Adafactor keeps row and column sums only, which are left out.
        """
        copies, _ = OPTIMIZER_STATE_FORMATS[self.optimizer]
        if self.optimizer is Optimizer.ADAMW_8BIT:
            return copies * EIGHT_BIT_STATE_BYTES
        states = self.switches.adapter_format if self.frozen else self.recipe.optimizer_states
        return copies * FORMAT_BYTES[states]


def resolve_training(
    workload: Training, architecture: ModelArchitecture, recipe: PrecisionRecipe
) -> TrainingRun:
    """Fill in what the user left open, and say so.

    Parameters
    ----------
    workload : Pretraining or FineTuning
    architecture : ModelArchitecture
    recipe : PrecisionRecipe
        The recipe to use; the caller chooses it when the workload leaves it open.

    Returns
    -------
    TrainingRun

    Raises
    ------
    InputError
        If the sequence is longer than the model's learned positions allow.
    """
    assumptions: list[str] = []
    sequence = workload.sequence_length
    longest = architecture.max_position_embeddings
    if sequence is None:
        sequence = min(DEFAULT_SEQUENCE_LENGTH, longest or DEFAULT_SEQUENCE_LENGTH)
        assumptions.append(f"sequences of {sequence:,} tokens")
    elif longest is not None and sequence > 8 * longest:
        raise InputError(
            "workload.sequence_length exceeds what the model can be extended to",
            value=sequence,
            allowed=f"up to 8 times the {longest:,} positions of {architecture.name}",
            remedy="Shorten the sequence or choose a long-context model.",
            field="workload.sequence_length",
        )
    method = workload.method if isinstance(workload, FineTuning) else None
    batch = workload.global_batch
    if batch is None:
        if method is None:
            batch = max(1, round(PRETRAINING_BATCH_TOKENS / sequence))
            assumptions.append(
                f"{batch:,} sequences per optimizer step ({batch * sequence / 1e6:.1f} M tokens, "
                "as Llama 2)"
            )
        else:
            batch = FINE_TUNING_BATCH
            assumptions.append(f"{batch} sequences per optimizer step")
    tokens = workload.tokens
    if tokens is None:
        if method is None:
            tokens = TOKENS_PER_PARAMETER * architecture.active_parameters
            assumptions.append(
                f"{tokens / 1e9:,.0f} billion tokens (20 per parameter, compute-optimal)"
            )
        else:
            tokens = FINE_TUNING_TOKENS
            assumptions.append(f"{tokens / 1e6:.0f} million tokens")
    software = workload.software
    if software is None:
        software = SoftwareStack.MEGATRON if method is None else SoftwareStack.HUGGINGFACE
        assumptions.append(
            "Megatron-class software (fused kernels)"
            if method is None
            else "Hugging Face Trainer with PEFT, nothing fused"
            if method is not FineTuningMethod.FULL
            else "Hugging Face Trainer, nothing fused"
        )
    return TrainingRun(
        tokens=float(tokens),
        sequence_length=sequence,
        global_batch=batch,
        recipe=recipe,
        optimizer=workload.optimizer,
        attention=workload.attention,
        software=software,
        method=method,
        lora_rank=workload.lora_rank if isinstance(workload, FineTuning) else 0,
        lora_targets=workload.lora_targets if isinstance(workload, FineTuning) else (),
        assumptions=tuple(assumptions),
    )


def recipe_named(name: str) -> PrecisionRecipe:
    """Return the recipe ``name``, or say which exist."""
    if name not in RECIPES:
        raise InputError(
            "unknown precision recipe",
            value=name,
            allowed=", ".join(RECIPES),
            remedy="Choose one of the allowed names.",
            field="workload.precision",
        )
    return RECIPES[name]
