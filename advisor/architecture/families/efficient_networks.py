"""Networks of inverted bottlenecks: EfficientNet, MobileNetV3 and EfficientDet."""

from __future__ import annotations

from math import ceil
from typing import Final

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import (
    BATCH_NORM,
    classes,
    image_stack,
    normed,
    stage_counts,
)
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Branch,
    Convolution,
    Dropout,
    FocalLoss,
    Function,
    Layer,
    Learned,
    Linear,
    Matching,
    Pool,
    Repeat,
    Residual,
    Save,
    Section,
    SqueezeExcite,
    Take,
    Upsample,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

SECOND_SMALL = (
    # A fused block has one 3 x 3 convolution in place of a widening and a depthwise one.
    (True, 1, 24, 1, 2),
    (True, 4, 48, 2, 4),
    (True, 4, 64, 2, 4),
    (False, 4, 128, 2, 6),
    (False, 6, 160, 1, 9),
    (False, 6, 256, 2, 15),
)
"""Fused, expansion, width, stride and depth (arXiv:2104.00298, table 4)."""

MOBILE_LARGE = (
    (3, 16, 16, 0, "relu", 1),
    (3, 64, 24, 0, "relu", 2),
    (3, 72, 24, 0, "relu", 1),
    (5, 72, 40, 24, "relu", 2),
    (5, 120, 40, 32, "relu", 1),
    (5, 120, 40, 32, "relu", 1),
    (3, 240, 80, 0, "hardswish", 2),
    (3, 200, 80, 0, "hardswish", 1),
    (3, 184, 80, 0, "hardswish", 1),
    (3, 184, 80, 0, "hardswish", 1),
    (3, 480, 112, 120, "hardswish", 1),
    (3, 672, 112, 168, "hardswish", 1),
    (5, 672, 160, 168, "hardswish", 2),
    (5, 960, 160, 240, "hardswish", 1),
    (5, 960, 160, 240, "hardswish", 1),
)
"""Kernel, expanded width, width, squeezed width, function and stride (arXiv:1905.02244, table 1;
squeezed widths are a quarter of the expanded ones, in multiples of 8)."""

MOBILE_SMALL = (
    (3, 16, 16, 8, "relu", 2),
    (3, 72, 24, 0, "relu", 2),
    (3, 88, 24, 0, "relu", 1),
    (5, 96, 40, 24, "hardswish", 2),
    (5, 240, 40, 64, "hardswish", 1),
    (5, 240, 40, 64, "hardswish", 1),
    (5, 120, 48, 32, "hardswish", 1),
    (5, 144, 48, 40, "hardswish", 1),
    (5, 288, 96, 72, "hardswish", 2),
    (5, 576, 96, 144, "hardswish", 1),
    (5, 576, 96, 144, "hardswish", 1),
)
"""The same, table 2."""

LEVELS: Final = (3, 4, 5, 6, 7)

FEATURES: Final = {3: 3, 5: 4, 7: 5}
"""Stages of the backbone whose maps are levels of the pyramid."""

ANCHORS: Final = 9
"""Three scales by three shapes."""

MATCHING: Final = Matching(host_s=0.002)
"""Time to match anchors with objects, image by image: the time beyond the kernels in two published
runs of DeepLearningExamples (2.0 and 2.5 ms)."""

SWISH: Final = Activation(function="silu")

HALVE: Final = Pool(kernel=3, stride=2, padding=1)


def _rounded(width: float, divisor: int) -> int:
    """Return the nearest multiple of the divisor that is at least nine tenths of the width."""
    near = max(divisor, int(width + divisor / 2) // divisor * divisor)
    return near if near >= 0.9 * width else near + divisor


def efficientnet(fields: ConfigFields) -> Stack:
    """EfficientNet: inverted bottlenecks with squeeze and excitation, scaled together.

    Tan and Le 2019, arXiv:1905.11946; B0 to B7 differ in ``width_coefficient``,
    ``depth_coefficient`` and image size.
    """
    body, blocks = efficientnet_stages(fields)
    head = (
        *normed(_scaled(fields, fields.count("top_channels")), function="silu"),
        Pool(kind="average", kernel=None),
        Dropout(),
        Linear(out=classes(fields)),
    )
    return image_stack(fields, body, head, blocks=blocks)


def _scaled(fields: ConfigFields, width: int) -> int:
    wide = fields.number("width_coefficient", minimum=0.01, maximum=100)
    return _rounded(width * wide, fields.count("depth_divisor", maximum=1024))


def efficientnet_stages(fields: ConfigFields) -> tuple[tuple[Section, ...], int]:
    """Return stem and stages of an EfficientNet, and how many blocks they have."""
    deep = fields.number("depth_coefficient", minimum=0.01, maximum=100)
    squeeze = fields.share("squeeze_expansion_ratio")
    columns = [
        stage_counts(fields, name)
        for name in (
            *("in_channels", "out_channels", "kernel_sizes", "strides"),
            *("num_block_repeats", "expand_ratios"),
        )
    ]
    if len({len(column) for column in columns}) > 1:
        fields.fail("lists of stages differ in length", "kernel_sizes", None, "one each per stage")
    stem = normed(_scaled(fields, 32), 3, stride=2, function="silu")
    body, blocks = [Section(name="stem", layers=stem)], 0
    for index, (read, made, kernel, stride, repeats, expand) in enumerate(
        zip(*columns, strict=True)
    ):
        width, out = _scaled(fields, read), _scaled(fields, made)
        depth = ceil(deep * repeats)
        first = inverted(width, out, kernel, stride, width * expand, max(1, int(width * squeeze)))
        later = inverted(out, out, kernel, 1, out * expand, max(1, int(out * squeeze)))
        layers: list[Layer] = list(first)
        if depth > 1:
            # Drop path counts as a dropout of single elements.
            layers.append(Repeat(times=depth - 1, layers=(Residual(body=(*later, Dropout())),)))
        body.append(Section(name=f"stage_{index + 1}", layers=tuple(layers)))
        blocks += depth
    return tuple(body), blocks


def inverted(
    width: int,
    out: int,
    kernel: int,
    stride: int,
    expanded: int,
    squeezed: int,
    *,
    function: Function = "silu",
    squeeze_function: Function | None = None,
    gate: Function = "sigmoid",
) -> tuple[Layer, ...]:
    """Return an inverted bottleneck: widen, convolve each channel, weight, narrow."""
    widened = normed(expanded, function=function) if expanded != width else ()
    weighted: tuple[Layer, ...] = ()
    if squeezed:
        inner = squeeze_function or function
        weighted = (SqueezeExcite(hidden=squeezed, function=inner, gate=gate),)
    return (
        *widened,
        *normed(None, kernel, stride=stride, groups="depthwise", function=function),
        *weighted,
        *normed(out),
    )


def efficientnet_v2(fields: ConfigFields) -> Stack:
    """EfficientNetV2-S: fused inverted bottlenecks first, then those of EfficientNet."""
    width = 24
    body: list[Layer] = [Section(name="stem", layers=normed(width, 3, stride=2, function="silu"))]
    for index, (fused, expand, out, stride, depth) in enumerate(SECOND_SMALL):

        def block(
            read: int, step: int, *, fused: bool = fused, expand: int = expand, out: int = out
        ) -> tuple[Layer, ...]:
            if not fused:
                return inverted(read, out, 3, step, read * expand, max(1, read // 4))
            if expand == 1:
                return normed(out, 3, stride=step, function="silu")
            return (*normed(read * expand, 3, stride=step, function="silu"), *normed(out))

        first: tuple[Layer, ...] = block(width, stride)
        if stride == 1 and width == out:
            first = (Residual(body=first),)
        later = Repeat(times=depth - 1, layers=(Residual(body=block(out, 1)),))
        body.append(Section(name=f"stage_{index + 1}", layers=(*first, later)))
        width = out
    head = (
        *normed(1280, function="silu"),
        Pool(kind="average", kernel=None),
        Dropout(),
        Linear(out=classes(fields)),
    )
    depths = sum(depth for *_, depth in SECOND_SMALL)
    return image_stack(fields, tuple(body), head, blocks=depths)


def mobilenet_v3(fields: ConfigFields) -> Stack:
    """MobileNetV3: inverted bottlenecks for phones, large or small."""
    large = fields.text("size") != "small"
    body: list[Layer] = [Section(name="stem", layers=normed(16, 3, stride=2, function="hardswish"))]
    width = 16
    for index, (kernel, expanded, out, squeezed, name, stride) in enumerate(
        MOBILE_LARGE if large else MOBILE_SMALL
    ):
        function: Function = "relu" if name == "relu" else "hardswish"
        inner = inverted(
            width,
            out,
            kernel,
            stride,
            expanded,
            squeezed,
            function=function,
            squeeze_function="relu",
            gate="hardsigmoid",
        )
        layers = (Residual(body=inner),) if stride == 1 and width == out else inner
        body.append(Section(name=f"block_{index + 1}", layers=layers))
        width = out
    hidden, last = (1280, 960) if large else (1024, 576)
    head = (
        *normed(last, function="hardswish"),
        Pool(kind="average", kernel=None),
        Linear(out=hidden),
        Activation(function="hardswish"),
        Dropout(),
        Linear(out=classes(fields)),
    )
    return image_stack(fields, tuple(body), head, blocks=len(body) - 1)


def efficientdet(fields: ConfigFields) -> Stack:
    """EfficientDet: a pyramid that runs down and up on an EfficientNet, with separable heads.

    D0 to D5 differ in backbone, ``bifpn_width``, ``bifpn_layers``, ``head_layers`` and image size.
    """
    width = fields.count("bifpn_width")
    cells = fields.count("bifpn_layers")
    depth = fields.count("head_layers")
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
            Branch(name=f"boxes_{level}", layers=_head(width, depth, ANCHORS * 4, again=level > 3)),
        )
    ]
    return Stack(
        unit=Unit.IMAGE,
        input=StackInput(
            width=fields.count("num_channels"),
            image=fields.count("image_size"),
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
    """Return the head of one level: all levels share the convolutions, but not the norms."""
    deep = (*_separable(width, again=again), BATCH_NORM, SWISH) * depth
    return (*deep, *_separable(out, again=again))


def _cell(width: int, *, first: bool) -> tuple[Layer, ...]:
    """Return one pass down the pyramid and one up. The first cell reads the backbone's maps."""
    layers: list[Layer] = []

    def given(level: int) -> tuple[Layer, ...]:
        return _narrowed(level, width) if first and level < 6 else (Take(name=f"p{level}"),)

    def node(name: str, inputs: int, merged: Layer) -> None:
        # Learned scalars weight the sum.
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
