"""EfficientDet: an EfficientNet, a pyramid that runs both ways, and separable heads.

Tan, Pang and Le 2020, arXiv:1911.09070; layers as its authors' code and effdet (Apache-2.0) have
them.
"""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import BATCH_NORM, classes
from advisor.architecture.families.mobile import efficientnet_stages
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Branch,
    Convolution,
    FocalLoss,
    Layer,
    Learned,
    Matching,
    Pool,
    Residual,
    Save,
    Section,
    Take,
    Upsample,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

LEVELS: Final = (3, 4, 5, 6, 7)
FEATURES: Final = {3: 3, 5: 4, 7: 5}
"""Stages of the backbone whose maps are levels of the pyramid."""
ANCHORS: Final = 9
"""Three scales by three shapes."""
MATCHING: Final = Matching(host_s=0.002)
"""Of anchors with objects, one image after the other: what two published runs of
DeepLearningExamples take beyond their kernels (2.0 and 2.5 ms)."""
SWISH: Final = Activation(function="silu")
HALVE: Final = Pool(kernel=3, stride=2, padding=1)


def efficientdet(fields: ConfigFields) -> Stack:
    """EfficientDet: a pyramid that runs down and up on an EfficientNet, with separable heads.

    D0 to D5 differ in backbone, ``bifpn_width``, ``bifpn_layers``, ``head_layers`` and image size.
    """
    width = fields.count("bifpn_width", 64, maximum=4096)
    cells = fields.count("bifpn_layers", 3, maximum=64)
    depth = fields.count("head_layers", 3, maximum=64)
    backbone, blocks = efficientnet_stages(fields)
    body: list[Layer] = [backbone[0]]
    for index, stage in enumerate(backbone[1:], 1):
        body += [stage, *((Save(name=f"c{FEATURES[index]}"),) if index in FEATURES else ())]
    coarse = (*_narrowed(5, width), HALVE, Save(name="p6"), HALVE, Save(name="p7"))
    pyramid = [Section(name="coarse", layers=coarse)]
    pyramid += [
        Section(name=f"cell_{cell + 1}", layers=_cell(width, first=cell == 0))
        for cell in range(cells)
    ]
    labels = classes(fields)
    heads = [
        layer
        for level in LEVELS
        for layer in (
            Take(name=f"p{level}"),
            Branch(
                name=f"scores_{level}",
                layers=(*_head(width, depth, ANCHORS * labels, again=level > 3), FocalLoss()),
            ),
            Branch(
                name=f"boxes_{level}",
                layers=_head(width, depth, ANCHORS * 4, again=level > 3),
            ),
        )
    ]
    return Stack(
        unit=Unit.IMAGE,
        input=StackInput(
            width=fields.count("num_channels", 3, maximum=4096),
            image=fields.count("image_size", 512, maximum=65_536),
            resized=True,
        ),
        layers=(*body, *pyramid, Section(name="head", part=Part.HEAD, layers=(*heads, MATCHING))),
        blocks=blocks,
    )


def _narrowed(level: int, width: int) -> tuple[Layer, ...]:
    """Return a map of the backbone at the pyramid's width."""
    return (Take(name=f"c{level}"), Convolution(out=width, kernel=1), BATCH_NORM)


def _separable(out: int, *, again: bool = False) -> tuple[Layer, ...]:
    return (
        Convolution(kernel=3, groups="depthwise", bias=False, shared=again),
        Convolution(out=out, kernel=1, shared=again),
    )


def _head(width: int, depth: int, out: int, *, again: bool) -> tuple[Layer, ...]:
    """Return a head for one level: the convolutions are those of all levels, norms its own."""
    deep = (*_separable(width, again=again), BATCH_NORM, SWISH) * depth
    return (*deep, *_separable(out, again=again))


def _cell(width: int, *, first: bool) -> tuple[Layer, ...]:
    """Return one pass down the pyramid and one up; the first reads the backbone's maps."""
    layers: list[Layer] = []

    def given(level: int) -> tuple[Layer, ...]:
        return _narrowed(level, width) if first and level < 6 else (Take(name=f"p{level}"),)

    def node(name: str, inputs: int, merged: Layer) -> None:
        # The sum is weighted by learned scalars.
        weights = Learned(elements=inputs)
        layers.extend((merged, weights, SWISH, *_separable(width), BATCH_NORM, Save(name=name)))

    for level in (6, 5, 4):
        above = "p7" if level == 6 else f"down_{level + 1}"
        node(
            f"down_{level}", 2, Residual(body=given(level), shortcut=(Take(name=above), Upsample()))
        )
    node("up_3", 2, Residual(body=given(3), shortcut=(Take(name="down_4"), Upsample())))
    for level in (4, 5, 6, 7):
        lower = (Take(name=f"up_{level - 1}"), HALVE)
        own: tuple[Layer, ...] = given(level)
        if level < 7:
            own = (Residual(body=own, shortcut=(Take(name=f"down_{level}"),)),)
        node(f"up_{level}", 3 if level < 7 else 2, Residual(body=lower, shortcut=own))
    for level in LEVELS:
        layers += [Take(name=f"up_{level}"), Save(name=f"p{level}")]
    return tuple(layers)
