"""Vision transformers with attention in windows: Swin.

Defaults are those of the configuration class of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import classes, image_stack, stage_counts
from advisor.architecture.stack.compile import Stack
from advisor.architecture.stack.layers import (
    Activation,
    Attention,
    Convolution,
    Layer,
    Learned,
    Linear,
    Merge,
    Normalization,
    Pool,
    Repeat,
    Residual,
    Section,
)

NORM = Normalization(kind="layer")


def swin(fields: ConfigFields) -> Stack:
    """Swin: attention in shifted windows, and fewer, wider positions from stage to stage."""
    width = fields.count("embed_dim", 96, maximum=65_536)
    depths = stage_counts(fields, "depths", (2, 2, 6, 2))
    heads = stage_counts(fields, "num_heads", (3, 6, 12, 24))
    window = fields.count("window_size", 7, maximum=1024)
    patch = fields.count("patch_size", 4, maximum=1024)
    ratio = fields.number("mlp_ratio", 4, minimum=0.01, maximum=64)
    bias = fields.flag("qkv_bias", True)
    if len(heads) != len(depths):
        fields.fail("lists of stages differ in length", "num_heads", list(heads), f"{len(depths)}")
    body: list[Layer] = [
        Section(
            name="stem",
            layers=(Convolution(out=width, kernel=patch, stride=patch, padding=0), NORM),
        )
    ]
    for index, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        attention = Attention(heads=count, window=window, materialised=True, bias=bias)
        block = (
            # A learned bias for every distance in a window and head.
            Learned(elements=(2 * window - 1) ** 2 * count),
            Residual(body=(NORM, attention)),
            Residual(
                body=(
                    *(NORM, Linear(out=max(int(ratio * width), 1), target="up")),
                    *(Activation(function="gelu"), Linear(out=width, target="down")),
                )
            ),
        )
        layers: list[Layer] = [Repeat(times=depth, layers=block)]
        if index < len(depths) - 1:
            width *= 2
            layers += [Merge(), NORM, Linear(out=width, bias=False)]
        body.append(Section(name=f"stage_{index + 1}", layers=tuple(layers)))
    head = (NORM, Pool(kind="average", kernel=None), Linear(out=classes(fields)))
    return image_stack(fields, tuple(body), head, blocks=sum(depths))
