"""Networks as lists of layers: ``from advisor.architecture import stack as nn``."""

from advisor.architecture.stack.image import (
    Convolution,
    ExtraTokens,
    Flatten,
    Merge,
    Pool,
    Regions,
    SqueezeExcite,
    Upsample,
)
from advisor.architecture.stack.layers import (
    Branch,
    Concatenate,
    Layer,
    Layers,
    Repeat,
    Residual,
    Save,
    Section,
    Take,
    branch,
    flat,
    repeat,
    residual,
    section,
)
from advisor.architecture.stack.network import Stack, StackInput
from advisor.architecture.stack.pointwise import (
    Activation,
    CrossEntropy,
    Dropout,
    FocalLoss,
    Function,
    GatedProduct,
    Learned,
    Linear,
    Matching,
    Normalization,
    Scale,
    feed_forward,
)
from advisor.architecture.stack.sequence import Attention, Condition, Embedding, Recurrent
from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import Part
