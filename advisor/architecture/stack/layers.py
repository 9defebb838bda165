"""The vocabulary that convolutional, recurrent, diffusion and custom networks are described in.

A network is a list of these layers, as data: presets and users' own stacks alike. How many
elements flow between them follows from the input (``stack``). Widths are channels of an image,
or features of a token.
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
    """A convolution over the positions of its input, whose sides it may shrink or enlarge."""

    out: Width | None = None
    """Channels out; None keeps those that come in."""
    kernel: Small = 3
    stride: Small = 1
    padding: Annotated[int, Field(ge=0, le=1024)] | None = None
    """None pads an odd kernel so that stride 1 keeps the size, and does not pad an even one."""
    groups: Width | Literal["depthwise"] = 1
    bias: bool = True
    transposed: bool = False
    shared: bool = False
    """Its weights are those of an earlier convolution, where they are counted."""


class Linear(Noun):
    """A matrix, at every position."""

    out: Width
    bias: bool = True
    target: Name | None = None
    """Adapter target that it answers to."""
    tied: bool = False
    """Its matrix is that of an embedding, where it is counted."""


class Normalization(Noun):
    """A norm with learned scale and bias; a frozen one only scales and shifts, by constants."""

    kind: Literal["batch", "layer", "group", "rms", "frozen"] = "batch"
    affine: bool = True
    """False: no learned elements."""


class Activation(Noun):
    """An elementwise function."""

    function: Function = "relu"


class GatedProduct(Noun):
    """Halves the width: one half times a function of the other (GEGLU, SwiGLU)."""

    function: Function = "gelu"


class Pool(Noun):
    """The largest or mean value of a window; of the whole image where ``kernel`` is None."""

    kind: Literal["max", "average", "first"] = "max"
    """``first`` takes the first token and drops the others."""
    kernel: Small | None = 2
    stride: Small | None = None
    """None steps by the kernel."""
    padding: Annotated[int, Field(ge=0, le=1024)] = 0
    out: Small = 1
    """Without a kernel: side of the result."""


class Flatten(Noun):
    """All positions become features of one."""


class Dropout(Noun):
    """Drops elements in training: keeps a mask of one byte for each."""


class Scale(Noun):
    """A learned factor for each channel (layer scale)."""


class Learned(Noun):
    """Learned elements that are added or stand by: positions, class tokens, biases of windows."""

    elements: Annotated[int, Field(ge=1, le=10**12)]


class ExtraTokens(Noun):
    """Tokens put before those of the image (class token)."""

    tokens: Small = 1
    learned: bool = True


class Embedding(Noun):
    """A table of vectors, one of which stands for each token."""

    entries: Width
    width: Width
    tied: bool = False
    """The head uses the same table."""
    shared: bool = False
    """The table is one that an earlier look-up holds."""


class Attention(Noun):
    """Projections, scores and output of attention among all positions."""

    heads: Annotated[int, Field(ge=1, le=65_536)]
    width: Width | None = None
    """Of queries, keys and values together; None: of the input."""
    kept_heads: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Heads that pruning left; None: all."""
    bias: bool = True
    """Of queries, keys and values."""
    key_bias: bool = True
    output_bias: bool = True
    causal: bool = False
    window: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Keys of a local window (Swin)."""
    memory: Label | None = None
    """Keys and values come from this saved tensor (cross attention)."""
    joint: Label | None = None
    """Keys and values of this saved tensor join the own ones (Flux, SD 3)."""
    head_norm: bool = False
    """Queries and keys are normalised for each head."""
    dropout: bool = False
    """Training drops some of the probabilities; flash kernels make the mask again."""
    materialised: bool = False
    """The scores exist in memory whatever the kernel asked for (T5 adds a learned bias)."""
    cached: bool = False
    """Generation keeps keys and values."""
    output: bool = True
    """False where a later matrix takes the place of the output's."""


class Recurrent(Noun):
    """One layer of a recurrent network over the tokens of a sequence."""

    cell: Literal["lstm", "gru"] = "lstm"
    hidden: Width


class SqueezeExcite(Noun):
    """Channels weighted by a small network on their means."""

    hidden: Width
    function: Function = "relu"
    gate: Function = "sigmoid"


class Condition(Noun):
    """A linear projection of a saved vector that is added to, or scales, every position."""

    source: Label
    chunks: Small = 1
    """Vectors of the current width that it yields (shift, scale and gate)."""
    function: Function | None = "silu"


class Upsample(Noun):
    """Repeats every pixel along each side."""

    factor: Small = 2


class Merge(Noun):
    """Squares of neighbouring pixels become channels of one (Swin)."""

    factor: Small = 2


class Regions(Noun):
    """Cuts regions out of the image's features, each sampled to a square (RoIAlign).

    They are stacked along one side, so that convolutions run over all of them.
    """

    count: Annotated[int, Field(ge=1, le=1_000_000)]
    side: Small = 7
    most: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """There can be as many in an image, which memory must hold; None: always ``count``."""


class FocalLoss(Noun):
    """The focal loss of scores (arXiv:1708.02002), as fvcore writes it."""


class Matching(Noun):
    """Assignment of predictions to objects in training: the host and the device take turns."""

    host_s: Annotated[float, Field(ge=0, le=3600)]
    """For one image. [s]"""


class Save(Noun):
    """Remembers the current tensor under a name."""

    name: Label


class Take(Noun):
    """Goes on with a saved tensor, or with another input."""

    name: Label


class Concatenate(Noun):
    """Appends a saved tensor: its channels, or its positions (``along: positions``)."""

    name: Label
    along: Literal["channels", "positions"] = "channels"


class Residual(Noun):
    """Adds what the body makes to its input, or to what the shortcut makes of it."""

    body: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()


class Branch(Noun):
    """Layers beside the main path: their result is saved under a name, the path goes on."""

    name: Label
    layers: tuple[Layer, ...]


class Repeat(Noun):
    """The same layers several times, each with weights of its own or all with the same."""

    times: Annotated[int, Field(ge=1, le=10_000)]
    layers: tuple[Layer, ...]
    shared: bool = False
    """All times use the weights of the first (ALBERT)."""


class Section(Noun):
    """Layers under a common name, which the rows of the table begin with."""

    name: Label
    layers: tuple[Layer, ...]
    part: Part = Part.BLOCK
    frozen: bool = False
    """Training leaves it, and all before it, as they are."""


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
    | Matching
    | Save
    | Take
    | Concatenate
    | Residual
    | Branch
    | Repeat
    | Section
)
for _model in (Residual, Branch, Repeat, Section):
    _model.model_rebuild()
