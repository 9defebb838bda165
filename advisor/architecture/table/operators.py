"""The rows of the operator table, the single description of a network.

A builder turns a shape into rows. Parameters, FLOPs, activation memory, cache and times are sums
over rows, so no equation depends on a model family.
"""

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
    """A product that each step of a sequence repeats on the result of the last step (LSTM, GRU).
    Its rows are the sequences of a batch, not their tokens."""
    CONVOLUTION = "convolution"
    """With ``in_features``, a product at every output position: input channels of a group times
    kernel area, by output channels of a group. Without, a memory-bound row (short causal
    convolutions)."""
    NORMALIZATION = "normalization"
    ACTIVATION = "activation"
    ELEMENTWISE = "elementwise"
    ROUTING = "routing"
    CROSS_ENTROPY = "cross_entropy"


class Part(StrEnum):
    """The part of the pipeline that holds a row."""

    EMBEDDING = "embedding"
    BLOCK = "block"
    HEAD = "head"


class Division(StrEnum):
    """How model parallelism divides a row's work, parameters and saved tensors."""

    TENSOR = "tensor"
    """Divided by the tensor-parallel degree."""
    REPLICATED = "replicated"
    """Parameters on every tensor-parallel rank. Sequence parallelism divides the tokens."""
    EXPERT = "expert"
    """Expert parallelism divides the experts, and tensor parallelism the width of each."""


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
    """The software that keeps a tensor for the backward pass."""

    ALWAYS = "always"
    UNFUSED = "unfused"
    """Kept only if operations run one by one (eager Hugging Face)."""
    FUSED = "fused"
    """Kept only by fused kernels (compiled, Megatron-class, Liger), instead of the unfused ones."""
    EAGER_ATTENTION = "eager_attention"
    """Kept if the score matrix is materialised."""
    FLASH_ATTENTION = "flash_attention"
    ADAPTER_COPY = "adapter_copy"
    """A cast by eager autocast for an adapter whose format differs from that of its base."""


class SavedTensor(Noun):
    """One tensor that the backward pass of a row needs."""

    name: str
    elements_per_token: float
    """Elements per token, or per token and attended key if ``per_key``."""
    format: SavedFormat
    when: SavedWhen = SavedWhen.ALWAYS
    copy_of: SavedFormat | None = None
    """Format of the tensor that this one copies. There is no copy if both formats are equal."""
    per_key: bool = False
    divided: bool = False
    """Whether tensor parallelism divides it, with or without sequence parallelism."""
    gathered: bool = False
    """Whether sequence parallelism leaves it whole, as the input of a divided matmul."""
    backward: float = 0.0
    """Share of its size that the peak of the row's backward pass adds (temporary gradients) or has
    freed (-1)."""
    remade: bool = False
    """Whether Megatron's selective recomputation drops it, because it is cheap to recompute."""
    by_kernel: bool = False
    """Whether a fused kernel writes it. Operator-wise recomputation keeps such results."""
    read_by: tuple[str, ...] | None = None
    """Weights whose gradients need it; None means that it is always needed. A weight is named by
    its adapter targets (``q+k+v`` if one matrix has several) or, without a target, by its role.
    Eager autocast casts an fp32 stream once for each."""


class Phase(StrEnum):
    """When serving runs a row."""

    BOTH = "both"
    PROMPT = "prompt"
    """Only over the prompt: the encoder of a pair."""
    ANSWER = "answer"
    """Only over generated tokens: the decoder of a pair."""


class Operator(Noun):
    """One row: an operation that is the same in ``layers`` layers.

    All figures per token are for one layer and one token that passes through the model. In a
    network for whole images or samples (``ModelArchitecture.unit``), a "token" is one of these.
    """

    name: str
    """Dotted path, e.g. ``block.attention.query``; unique in the table."""
    kind: OperatorKind
    part: Part
    layers: Annotated[int, Field(ge=1)]
    """Number of layers with this row."""
    division: Division
    parameters: Annotated[int, Field(ge=0)] = 0
    """Parameters in one layer, including all experts. 0 if tied to another row."""
    active_parameters: Annotated[int, Field(ge=0)] = 0
    """Parameters that one token uses in one layer (a tied head counts here)."""
    stored_bytes: float | None = None
    """Bytes of one parameter in the published file, including scales, if its quantisation block
    states them. None uses the rule of the weight format."""
    in_features: int = 0
    """Matmul rows: inner dimension k of the product (per expert)."""
    out_features: int = 0
    """Matmul rows: output dimension n of the product (per expert)."""
    groups: int = 1
    """Convolutions: independent groups of channels. A depthwise one has a group per channel."""
    minimal: bool = False
    """Whether a minimal filtering algorithm can reduce the convolution's multiplications
    (Winograd's: dense, 3 x 3, stride 1)."""
    positions_per_token: float = 1.0
    """Rows of the product per token: pixels of a feature map, patches of an image."""
    experts: int = 1
    """Routed experts in the layer; 1 for rows without routing."""
    active_experts: int = 1
    """Routed experts that one token visits."""
    expert_groups: int = 1
    active_groups: int = 1
    """Number of expert groups that hold a token's experts (node-limited routing)."""
    visits: bool = False
    """Whether the row works and saves once for every routed expert that a token visits."""
    target: str | None = None
    """Adapter target of this projection: q, k, v, o, gate, up, down."""
    flops_per_token: float = 0.0
    """Forward FLOPs that do not depend on the context; a multiply-add counts 2."""
    flops_per_token_per_key: float = 0.0
    """Attention rows: forward FLOPs per attended key."""
    input_gradient: bool = True
    """False if the gradient of the input is not needed: in the first layer of a network without an
    embedding. The backward pass is then one product, not two."""
    frozen: bool = False
    """Whether training leaves this row and all before it unchanged: they run forward only."""
    causal: bool = False
    """Whether attention is causal: on average, a token attends to half of its sequence."""
    window: int | None = None
    """Largest number of attended keys (sliding window)."""
    keys: int | None = None
    """Number of attended keys if the network fixes it: patches of an image, text of a prompt. The
    sequence length then has no effect."""
    read_keys: int | None = None
    """Largest number of cached keys that an answer's step reads, if others stay cached unread."""
    moved_elements_per_token: float = 0.0
    """Memory-bound rows: elements that a fused kernel reads and writes in the forward pass."""
    moved_elements_per_token_unfused: float = 0.0
    """The same if operations run one by one."""
    moved_elements_served: float = 0.0
    """The same of a server's kernel, where it fuses more than any training stack; 0 if not."""
    backward: float = 2.0
    """Memory-bound rows: backward over forward traffic of eager code."""
    moved_format: SavedFormat | None = None
    """Memory-bound rows of a stack: format of what they move."""
    cast_elements_per_token: float = 0.0
    """Rows of a stack: elements of the input that are not in the format in which it computes, which
    eager autocast therefore casts, and whose gradients it casts back."""
    vectors_per_token: float = 0.0
    """Norms of a stack over features: vectors, each of which a block of threads takes."""
    lacks_bf16: bool = False
    """Whether cuDNN has a kernel for it in fp16 and fp32, not in bf16 (batch norm in training)."""
    launches: int = 1
    """Kernel launches of the forward pass without fusion."""
    host_s: float = 0.0
    """Host time for one token in training while the device waits, without fusion. [s]"""
    heads: int = 0
    """Attention rows: query heads."""
    cache_heads: int = 0
    """Heads of the cache, the most by which tensor parallelism divides it (1: replicated)."""
    cache_elements_per_token: float = 0.0
    """Elements that serving caches for one token in one layer, for all heads."""
    state_elements_per_sequence: float = 0.0
    """Elements of the recurrent state, independent of the context (state-space layers)."""
    state_bytes_per_element: float = 2.0
    """Size of one element of that state, independent of the cache format. [bytes]"""
    phase: Phase = Phase.BOTH
    largest: float = 1.0
    """Elements of the largest input relative to the usual one. Memory must hold the largest."""
    waiting_elements: float = 0.0
    """Elements of gradients kept during its backward pass: those of the shortcut of a residual."""
    segment: int = 0
    """Networks whose layers differ: number of the block, from 1, that recomputation treats as a
    whole; 0 if it is always kept."""
    segment_input: SavedTensor | None = None
    """On the first row of such a block: the input from which it is recomputed."""
    saved: tuple[SavedTensor, ...] = ()

    @property
    def biases(self) -> int:
        """Elements of the bias that a token passes, beside the matrices of a product."""
        matrix = self.in_features * self.out_features * self.groups
        return self.active_parameters % matrix if matrix else 0
