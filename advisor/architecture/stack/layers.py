"""The vocabulary of layers for convolutional, recurrent, diffusion and custom networks.

Presets and users' own stacks are lists of these layers, as data. The input (``stack``) determines
how many elements flow between them. Widths are channels of an image or features of a token.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from advisor.architecture.table.operators import Part
from advisor.foundation.names import Name
from advisor.foundation.noun import Noun

Width = Annotated[int, Field(ge=1, le=1_000_000_000)]
Small = Annotated[int, Field(ge=1, le=1024)]
Label = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]

Function = Literal[
    "relu",
    "relu2",
    "relu6",
    "gelu",
    "gelu_new",
    "silu",
    "quick_gelu",
    "hardswish",
    "hardsigmoid",
    "sigmoid",
    "tanh",
]


class Convolution(Noun):
    """A convolution over the positions of its input. It may shrink or enlarge the sides."""

    out: Width | None = None
    """Output channels; None keeps the number of input channels."""
    kernel: Small = 3
    stride: Small = 1
    padding: Annotated[int, Field(ge=0, le=1024)] | None = None
    """None pads an odd kernel so that stride 1 keeps the size; an even kernel is not padded."""
    groups: Width | Literal["depthwise"] = 1
    bias: bool = True
    transposed: bool = False
    shared: bool = False
    """Whether it shares the weights of an earlier convolution, which counts them."""


class Linear(Noun):
    """A matrix product at every position."""

    out: Width
    bias: bool = True
    target: Name | None = None
    """Adapter target of this matrix."""
    tied: bool = False
    """Whether it shares the matrix of an embedding, which counts it."""


class Normalization(Noun):
    """A norm with learned scale and bias. A frozen one only scales and shifts by constants."""

    kind: Literal["batch", "layer", "group", "rms", "frozen"] = "batch"
    affine: bool = True
    """Whether it has learned elements."""
    stepwise: bool = False
    """Whether single operations compute it in fp32 where no compiler joins them (T5's RMSNorm)."""


class Activation(Noun):
    """An elementwise function."""

    function: Function = "relu"


class GatedProduct(Noun):
    """Halves the width: multiplies one half by a function of the other (GEGLU, SwiGLU)."""

    function: Function = "gelu"


class Pool(Noun):
    """The largest or mean value of a window, or of the whole image if ``kernel`` is None."""

    kind: Literal["max", "average", "first"] = "max"
    """``first`` takes the first token and drops the others."""
    kernel: Small | None = 2
    stride: Small | None = None
    """Step; None steps by the kernel."""
    padding: Annotated[int, Field(ge=0, le=1024)] = 0
    out: Small = 1
    """Side of the result, if there is no kernel."""


class Flatten(Noun):
    """Turns all positions into the features of one vector."""


class Dropout(Noun):
    """Drops elements in training and keeps a mask of one byte per element."""


class Scale(Noun):
    """A learned factor for each channel (layer scale)."""


class Learned(Noun):
    """Learned elements, added or only stored: positions, class tokens, biases of windows."""

    elements: Annotated[int, Field(ge=1, le=10**12)]


class ExtraTokens(Noun):
    """Tokens placed before those of the image (class token)."""

    tokens: Small = 1
    learned: bool = True


class Embedding(Noun):
    """A table with one vector for each token of the vocabulary."""

    entries: Width
    width: Width
    tied: bool = False
    """Whether the head uses the same table."""
    shared: bool = False
    """Whether it shares the table of an earlier look-up."""


class Attention(Noun):
    """Projections, scores and output of attention between all positions."""

    heads: Annotated[int, Field(ge=1, le=65_536)]
    width: Width | None = None
    """Total width of all query heads; None takes the width of the input."""
    kept_heads: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Heads that remain after pruning; None means all."""
    bias: bool = True
    """Whether the projections of queries, keys and values have biases."""
    key_bias: bool = True
    output_bias: bool = True
    causal: bool = False
    window: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Number of keys in a local window (Swin)."""
    memory: Label | None = None
    """Name of the saved tensor that supplies keys and values (cross attention)."""
    joint: Label | None = None
    """Name of a saved tensor whose keys and values join the layer's own (Flux, SD 3)."""
    head_norm: bool = False
    """Whether queries and keys are normalised for each head."""
    dropout: bool = False
    """Whether training drops some probabilities; flash kernels recompute the mask."""
    materialised: bool = False
    """Whether scores are always in memory, with any kernel (T5 adds a learned bias)."""
    cached: bool = False
    """Whether generation caches keys and values."""
    output: bool = True
    """False if a later matrix replaces the output projection."""


class Recurrent(Noun):
    """One layer of a recurrent network over the tokens of a sequence."""

    cell: Literal["lstm", "gru"] = "lstm"
    hidden: Width


class SqueezeExcite(Noun):
    """Weights the channels by a small network that reads their means."""

    hidden: Width
    function: Function = "relu"
    gate: Function = "sigmoid"


class Condition(Noun):
    """Projects a saved vector, which is then added to every position or scales it."""

    source: Label
    chunks: Small = 1
    """Number of resulting vectors of the current width (shift, scale and gate)."""
    function: Function | None = "silu"


class Upsample(Noun):
    """Repeats every pixel along each side."""

    factor: Small = 2


class Merge(Noun):
    """Turns squares of neighbouring pixels into the channels of one (Swin)."""

    factor: Small = 2


class Regions(Noun):
    """Cuts regions out of the image's features and samples each to a square (RoIAlign).

    The regions are stacked along one side, so that convolutions run over all of them.
    """

    count: Annotated[int, Field(ge=1, le=1_000_000)]
    side: Small = 7
    most: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Largest number in an image, which memory must hold; None means always ``count``."""


class FocalLoss(Noun):
    """The focal loss of scores (arXiv:1708.02002), as in fvcore."""


class CrossEntropy(Noun):
    """The loss of every logit."""


class Matching(Noun):
    """Assigns predictions to objects in training; host and device take turns."""

    host_s: Annotated[float, Field(ge=0, le=3600)]
    """Host time for one image. [s]"""


class Save(Noun):
    """Saves the current tensor under a name."""

    name: Label


class Take(Noun):
    """Continues with a saved tensor or with another input."""

    name: Label


class Concatenate(Noun):
    """Appends a saved tensor: its channels, or its positions (``along: positions``)."""

    name: Label
    along: Literal["channels", "positions"] = "channels"


class Residual(Noun):
    """Adds the body's output to its input, or to the shortcut's output."""

    body: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()


class Branch(Noun):
    """Layers beside the main path. Their result is saved under a name."""

    name: Label
    layers: tuple[Layer, ...]


class Repeat(Noun):
    """Repeats layers, with separate or shared weights."""

    times: Annotated[int, Field(ge=1, le=10_000)]
    layers: tuple[Layer, ...]
    shared: bool = False
    """Whether all repetitions share the weights of the first (ALBERT)."""


class Section(Noun):
    """Layers with a common name, which prefixes the names of their rows."""

    name: Label
    layers: tuple[Layer, ...]
    part: Part = Part.BLOCK
    frozen: bool = False
    """Whether training leaves it, and everything before it, unchanged."""


Layer = (
    Convolution
    | Linear
    | Normalization
    | Activation
    | GatedProduct
    | Pool
    | Flatten
    | Dropout
    | Scale
    | Learned
    | ExtraTokens
    | Embedding
    | Attention
    | Recurrent
    | SqueezeExcite
    | Condition
    | Upsample
    | Merge
    | Regions
    | FocalLoss
    | CrossEntropy
    | Matching
    | Save
    | Take
    | Concatenate
    | Residual
    | Branch
    | Repeat
    | Section
)
Layers = tuple[Layer, ...]
for _model in (Residual, Branch, Repeat, Section):
    _model.model_rebuild()


def residual(*body: Layer, shortcut: tuple[Layer, ...] = ()) -> Residual:
    """Return layers whose output is added to their input, or to the shortcut's output."""
    return Residual(body=body, shortcut=shortcut)


def repeat(times: int, *layers: Layer) -> Repeat:
    """Return layers that are repeated with separate weights."""
    return Repeat(times=times, layers=layers)


def branch(name: str, *layers: Layer) -> Branch:
    """Return layers beside the main path."""
    return Branch(name=name, layers=layers)


def section(name: str, *layers: Layer, part: Part = Part.BLOCK) -> Section:
    """Return layers with a common name prefix."""
    return Section(name=name, part=part, layers=layers)


def feed_forward(
    width: int, inner: int, middle: Layer, *, bias: bool = True, mask: Layers = ()
) -> Layers:
    """Return two matrices with an activation between them; ``inner`` is what the first makes."""
    up = Linear(out=inner, bias=bias, target="up")
    return (up, middle, *mask, Linear(out=width, bias=bias, target="down"))
