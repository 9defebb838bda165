"""The operator table: the one description of a network that everything else folds over.

A builder (``transformer``, later ``vision`` and others) turns shapes into rows. Parameters,
FLOPs, activation memory, cache and times are sums over rows; no equation knows the name of a
model family.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun


class OperatorKind(StrEnum):
    """What a row computes."""

    EMBEDDING = "embedding"
    MATMUL = "matmul"
    ATTENTION = "attention"
    SCAN = "scan"
    """A recurrence over the sequence (state-space and linear-attention layers)."""
    RECURRENCE = "recurrence"
    """A product that each step of a sequence repeats on the last one's result (LSTM, GRU): its
    rows are the sequences of a batch, not their tokens."""
    CONVOLUTION = "convolution"
    """With ``in_features``, a product: channels in of a group times kernel area by channels out of
    a group, at every output position. Without, a memory-bound row (short causal convolutions)."""
    NORMALIZATION = "normalization"
    ACTIVATION = "activation"
    ELEMENTWISE = "elementwise"
    ROUTING = "routing"
    CROSS_ENTROPY = "cross_entropy"


class Part(StrEnum):
    """Where a row sits in the pipeline."""

    EMBEDDING = "embedding"
    BLOCK = "block"
    HEAD = "head"


class Division(StrEnum):
    """How model parallelism divides a row's work, parameters and saved tensors."""

    TENSOR = "tensor"
    """Divided by the tensor-parallel degree."""
    REPLICATED = "replicated"
    """Parameters on every tensor-parallel rank; its tokens are divided by sequence parallelism."""
    EXPERT = "expert"
    """Experts divided by the expert-parallel degree, each one's width by tensor parallelism."""


class SavedFormat(StrEnum):
    """Number format of a saved tensor, resolved by the precision recipe."""

    COMPUTE = "compute"
    """Format of the matmuls, 16 bits in mixed precision (fp8 recipes save 16-bit tensors)."""
    STREAM = "stream"
    """Format of the residual stream."""
    FP32 = "fp32"
    BYTE = "byte"
    """One byte per element (masks)."""


class SavedWhen(StrEnum):
    """Which software keeps the tensor for the backward pass."""

    ALWAYS = "always"
    UNFUSED = "unfused"
    """Kept only where operations run one by one (eager Hugging Face)."""
    FUSED = "fused"
    """Kept only by fused kernels (compiled, Megatron-class, Liger), in place of the others."""
    EAGER_ATTENTION = "eager_attention"
    """Kept where the score matrix is materialised."""
    FLASH_ATTENTION = "flash_attention"
    ADAPTER_COPY = "adapter_copy"
    """A cast that eager autocast makes for an adapter in another format than its base."""


class SavedTensor(Noun):
    """One tensor that the backward pass of a row needs."""

    name: str
    elements_per_token: float
    """Per token, or per token and key attended to where ``per_key``."""
    format: SavedFormat
    when: SavedWhen = SavedWhen.ALWAYS
    copy_of: SavedFormat | None = None
    """Format of the tensor that this one copies; where both formats agree there is no copy."""
    per_key: bool = False
    divided: bool = False
    """True where tensor parallelism divides it whatever sequence parallelism does."""
    gathered: bool = False
    """True where it stays whole even under sequence parallelism: the input of a divided matmul."""
    backward: float = 0.0
    """Of its size, what the fullest moment of the row's backward pass adds (gradients that pass)
    or has freed (-1)."""
    remade: bool = False
    """True where Megatron's selective recomputation drops it: cheap work makes it again."""
    by_kernel: bool = False
    """True where a fused kernel writes it, whose results operator-wise recomputation keeps."""
    read_by: tuple[str, ...] | None = None
    """None: needed whatever is trained. Else only the gradients of these weights need it, each
    named by its adapter targets (``q+k+v`` where one matrix answers to several) or, where it has
    none, by its role. Eager autocast casts a stream in fp32 once for each."""


class Phase(StrEnum):
    """When serving runs a row."""

    BOTH = "both"
    PROMPT = "prompt"
    """Over the prompt alone: the encoder of a pair."""
    ANSWER = "answer"
    """Over generated tokens alone: the decoder of a pair."""


class Operator(Noun):
    """One row: an operation that ``layers`` layers hold alike.

    All per-token figures are for one layer and one token that passes through the model. In a
    network that takes whole images or samples (``ModelArchitecture.unit``), a "token" is one of
    these.
    """

    name: str
    """Dotted path, e.g. ``block.attention.query``; unique in the table."""
    kind: OperatorKind
    part: Part
    layers: Annotated[int, Field(ge=1)]
    """How many layers hold this row."""
    division: Division
    parameters: Annotated[int, Field(ge=0)] = 0
    """Elements in one layer, all experts included. 0 where tied to another row."""
    active_parameters: Annotated[int, Field(ge=0)] = 0
    """Elements that one token uses in one layer (a tied head counts here)."""
    stored_bytes: float | None = None
    """Bytes of one parameter in the published file, scales included, where its quantisation block
    says so; None: as the weight format's rule has it."""
    in_features: int = 0
    """Matmul rows: k of the product (per expert)."""
    out_features: int = 0
    """Matmul rows: n of the product (per expert)."""
    groups: int = 1
    """Convolutions: independent groups of channels; as many as channels where depthwise."""
    minimal: bool = False
    """Convolutions whose multiplications a minimal filtering algorithm can cut (Winograd's: dense,
    3 x 3, steps of one)."""
    positions_per_token: float = 1.0
    """Rows of the product for each token: pixels of a feature map, patches of an image."""
    experts: int = 1
    """Routed experts in the layer; 1 for everything that is not routed."""
    active_experts: int = 1
    """Routed experts that one token visits."""
    expert_groups: int = 1
    active_groups: int = 1
    """Groups of experts, and how many of them a token's experts lie in (node-limited routing)."""
    target: str | None = None
    """Adapter target this projection answers to: q, k, v, o, gate, up, down."""
    flops_per_token: float = 0.0
    """Forward FLOPs that do not depend on the context; a multiply-add counts 2."""
    flops_per_token_per_key: float = 0.0
    """Attention rows: forward FLOPs per key attended to."""
    input_gradient: bool = True
    """False where nobody asks for the gradient of the input: the first layer of a network whose
    input is no embedding. Its backward pass is one product, not two."""
    frozen: bool = False
    """Training leaves the row and all before it as they are: they run forward only."""
    causal: bool = False
    """A token attends to half of its sequence on average."""
    window: int | None = None
    """Largest number of keys attended to (sliding window)."""
    keys: int | None = None
    """Keys attended to where the network fixes them: patches of an image, text of a prompt. Then
    the sequence length does not count."""
    moved_elements_per_token: float = 0.0
    """Elements read and written forward by a fused kernel (memory-bound rows)."""
    moved_elements_per_token_unfused: float = 0.0
    """The same where operations run one by one."""
    launches: int = 1
    """Kernel launches forward when nothing is fused."""
    host_s: float = 0.0
    """Time that the host needs for one token in training while the device waits, when nothing is
    fused. [s]"""
    heads: int = 0
    """Attention rows: query heads."""
    cache_heads: int = 0
    """Heads of the cache; tensor parallelism divides by at most this many (1: replicated)."""
    cache_elements_per_token: float = 0.0
    """Elements that serving caches for one token in one layer, all heads."""
    state_elements_per_sequence: float = 0.0
    """Recurrent state, independent of the context (state-space layers)."""
    state_bytes_per_element: float = 2.0
    """Size of one element of that state, whatever the format of the cache. [bytes]"""
    phase: Phase = Phase.BOTH
    largest: float = 1.0
    """Elements of the largest input over those of the usual one: memory must hold the largest."""
    waiting_elements: float = 0.0
    """Of gradients that wait beside its backward pass: the shortcut's, around a residual's body."""
    segment: int = 0
    """Networks whose layers differ: the block, counted from 1, that recomputation makes again as a
    whole; 0 for what it always keeps."""
    segment_input: SavedTensor | None = None
    """On the first row of such a block: what it is made again from."""
    saved: tuple[SavedTensor, ...] = ()
