"""Networks of inverted bottlenecks: EfficientNet, MobileNetV3 and EfficientDet."""

from math import ceil
from typing import Final

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import (
    BATCH_NORM,
    MEAN,
    classes,
    image_stack,
    normed,
    stage_counts,
)
from advisor.architecture.stack import layers as nn
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.table.model import Unit
from advisor.architecture.table.operators import Part

SECOND_SMALL: Final = (
    # A fused block has one 3 x 3 convolution in place of a widening and a depthwise one.
    (True, 1, 24, 1, 2), (True, 4, 48, 2, 4), (True, 4, 64, 2, 4),
    (False, 4, 128, 2, 6), (False, 6, 160, 1, 9), (False, 6, 256, 2, 15),
)  # fmt: skip
"""Fused, expansion, width, stride and depth (arXiv:2104.00298, table 4)."""

RE: Final[nn.Function] = "relu"
HS: Final[nn.Function] = "hardswish"
"""The two functions, by the paper's names."""

MOBILE_LARGE: Final = (
    (3, 16, 16, 0, RE, 1), (3, 64, 24, 0, RE, 2), (3, 72, 24, 0, RE, 1),
    (5, 72, 40, 24, RE, 2), (5, 120, 40, 32, RE, 1), (5, 120, 40, 32, RE, 1),
    (3, 240, 80, 0, HS, 2), (3, 200, 80, 0, HS, 1), (3, 184, 80, 0, HS, 1),
    (3, 184, 80, 0, HS, 1), (3, 480, 112, 120, HS, 1), (3, 672, 112, 168, HS, 1),
    (5, 672, 160, 168, HS, 2), (5, 960, 160, 240, HS, 1), (5, 960, 160, 240, HS, 1),
)  # fmt: skip
"""Kernel, expanded width, width, squeezed width, function and stride (arXiv:1905.02244, table 1;
squeezed widths are a quarter of the expanded ones, in multiples of 8)."""

MOBILE_SMALL: Final = (
    (3, 16, 16, 8, RE, 2), (3, 72, 24, 0, RE, 2), (3, 88, 24, 0, RE, 1),
    (5, 96, 40, 24, HS, 2), (5, 240, 40, 64, HS, 1), (5, 240, 40, 64, HS, 1),
    (5, 120, 48, 32, HS, 1), (5, 144, 48, 40, HS, 1), (5, 288, 96, 72, HS, 2),
    (5, 576, 96, 144, HS, 1), (5, 576, 96, 144, HS, 1),
)  # fmt: skip
"""The same, table 2."""

LEVELS: Final = (3, 4, 5, 6, 7)

FEATURES: Final = {3: 3, 5: 4, 7: 5}
"""Stages of the backbone whose maps are levels of the pyramid."""

ANCHORS: Final = 9
"""Three scales by three shapes."""

MATCHING: Final = nn.Matching(host_s=0.002)
"""Time to match anchors with objects, image by image: the time beyond the kernels in two published
runs of DeepLearningExamples (2.0 and 2.5 ms)."""

SWISH: Final = nn.Activation(function="silu")
HALVE: Final = nn.Pool(kernel=3, stride=2, padding=1)


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
    top = normed(_scaled(fields, fields.count("top_channels")), function="silu")
    last = nn.Linear(out=classes(fields))
    return image_stack(fields, body, *top, MEAN, nn.Dropout(), last, blocks=blocks)


def _scaled(fields: ConfigFields, width: int) -> int:
    wide = fields.number("width_coefficient", minimum=0.01, maximum=100)
    return _rounded(width * wide, fields.count("depth_divisor", maximum=1024))


def efficientnet_stages(fields: ConfigFields) -> tuple[tuple[nn.Section, ...], int]:
    """Return stem and stages of an EfficientNet, and how many blocks they have."""
    deep = fields.number("depth_coefficient", minimum=0.01, maximum=100)
    squeeze = fields.share("squeeze_expansion_ratio")
    names = ("in_channels", "out_channels", "kernel_sizes", "strides", "num_block_repeats")
    columns = [stage_counts(fields, name) for name in (*names, "expand_ratios")]
    if len({len(column) for column in columns}) > 1:
        fields.fail("lists of stages differ in length", "kernel_sizes", None, "one each per stage")
    stem = normed(_scaled(fields, 32), 3, stride=2, function="silu")
    body, blocks = [nn.section("stem", *stem)], 0
    for index, (read, made, kernel, stride, repeats, expand) in enumerate(
        zip(*columns, strict=True)
    ):
        width, out = _scaled(fields, read), _scaled(fields, made)
        depth = ceil(deep * repeats)
        first = inverted(width, out, kernel, stride, width * expand, max(1, int(width * squeeze)))
        later = inverted(out, out, kernel, 1, out * expand, max(1, int(out * squeeze)))
        # Drop path counts as a dropout of single elements.
        dropped = nn.residual(*later, nn.Dropout())
        others = (nn.repeat(depth - 1, dropped),) if depth > 1 else ()
        body.append(nn.section(f"stage_{index + 1}", *first, *others))
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
    function: nn.Function = "silu",
    squeeze_function: nn.Function | None = None,
    gate: nn.Function = "sigmoid",
) -> nn.Layers:
    """Return an inverted bottleneck: widen, convolve each channel, weight, narrow."""
    widened = normed(expanded, function=function) if expanded != width else ()
    inner = squeeze_function or function
    weighted = nn.SqueezeExcite(hidden=squeezed or 1, function=inner, gate=gate)
    return (
        *widened,
        *normed(None, kernel, stride=stride, groups="depthwise", function=function),
        *((weighted,) if squeezed else ()),
        *normed(out),
    )


def _added(body: nn.Layers, *, stride: int, width: int, out: int) -> nn.Layers:
    """Return layers as a residual if they keep size and width."""
    return (nn.residual(*body),) if stride == 1 and width == out else body


def efficientnet_v2(fields: ConfigFields) -> Stack:
    """EfficientNetV2-S: fused inverted bottlenecks first, then those of EfficientNet."""
    width = 24

    def block(read: int, out: int, step: int, expand: int, fused: bool) -> nn.Layers:
        if not fused:
            return inverted(read, out, 3, step, read * expand, max(1, read // 4))
        if expand == 1:
            return normed(out, 3, stride=step, function="silu")
        return (*normed(read * expand, 3, stride=step, function="silu"), *normed(out))

    body = [nn.section("stem", *normed(width, 3, stride=2, function="silu"))]
    for index, (fused, expand, out, stride, depth) in enumerate(SECOND_SMALL):
        start = block(width, out, stride, expand, fused)
        first = _added(start, stride=stride, width=width, out=out)
        later = nn.repeat(depth - 1, nn.residual(*block(out, out, 1, expand, fused)))
        body.append(nn.section(f"stage_{index + 1}", *first, later))
        width = out
    top, last = normed(1280, function="silu"), nn.Linear(out=classes(fields))
    depths = sum(depth for *_, depth in SECOND_SMALL)
    return image_stack(fields, tuple(body), *top, MEAN, nn.Dropout(), last, blocks=depths)


def mobilenet_v3(fields: ConfigFields) -> Stack:
    """MobileNetV3: inverted bottlenecks for phones, large or small."""
    large, width = fields.text("size") != "small", 16
    body = [nn.section("stem", *normed(width, 3, stride=2, function="hardswish"))]
    for index, (kernel, expanded, out, squeezed, function, stride) in enumerate(
        MOBILE_LARGE if large else MOBILE_SMALL
    ):
        inner = inverted(
            *(width, out, kernel, stride, expanded, squeezed),
            function=function,
            squeeze_function="relu",
            gate="hardsigmoid",
        )
        layers = _added(inner, stride=stride, width=width, out=out)
        body.append(nn.section(f"block_{index + 1}", *layers))
        width = out
    hidden, last = (1280, 960) if large else (1024, 576)
    head = (
        *(*normed(last, function="hardswish"), MEAN, nn.Linear(out=hidden)),
        *(nn.Activation(function="hardswish"), nn.Dropout(), nn.Linear(out=classes(fields))),
    )
    return image_stack(fields, tuple(body), *head, blocks=len(body) - 1)


def efficientdet(fields: ConfigFields) -> Stack:
    """EfficientDet: a pyramid that runs down and up on an EfficientNet, with separable heads.

    D0 to D5 differ in backbone, ``bifpn_width``, ``bifpn_layers``, ``head_layers`` and image size.
    """
    width, depth = fields.count("bifpn_width"), fields.count("head_layers")
    backbone, blocks = efficientnet_stages(fields)
    body: list[nn.Layer] = []
    for index, stage in enumerate(backbone):
        body += [stage, *((nn.Save(name=f"c{FEATURES[index]}"),) if index in FEATURES else ())]
    coarse = (*_narrowed(5, width), HALVE, nn.Save(name="p6"), HALVE, nn.Save(name="p7"))
    body.append(nn.section("coarse", *coarse))
    body += [
        nn.section(f"cell_{cell + 1}", *_cell(width, first=cell == 0))
        for cell in range(fields.count("bifpn_layers"))
    ]
    scores, heads = ANCHORS * classes(fields), list[nn.Layer]()
    for level in LEVELS:
        scored = _head(width, depth, scores, again=level > 3)
        boxed = _head(width, depth, ANCHORS * 4, again=level > 3)
        heads += [
            nn.Take(name=f"p{level}"),
            nn.branch(f"scores_{level}", *scored, nn.FocalLoss()),
            nn.branch(f"boxes_{level}", *boxed),
        ]
    side, channels = fields.count("image_size"), fields.count("num_channels")
    return Stack(
        unit=Unit.IMAGE,
        input=StackInput(width=channels, image=side, resized=True),
        layers=(*body, nn.section("head", *heads, MATCHING, part=Part.HEAD)),
        blocks=blocks,
    )


def _narrowed(level: int, width: int) -> nn.Layers:
    """Return a map of the backbone at the pyramid's width."""
    return (nn.Take(name=f"c{level}"), nn.Convolution(out=width, kernel=1), BATCH_NORM)


def _separable(out: int, *, again: bool = False) -> nn.Layers:
    return (
        nn.Convolution(kernel=3, groups="depthwise", bias=False, shared=again),
        nn.Convolution(out=out, kernel=1, shared=again),
    )


def _head(width: int, depth: int, out: int, *, again: bool) -> nn.Layers:
    """Return the head of one level: all levels share the convolutions, but not the norms."""
    deep = (*_separable(width, again=again), BATCH_NORM, SWISH) * depth
    return (*deep, *_separable(out, again=again))


def _cell(width: int, *, first: bool) -> nn.Layers:
    """Return one pass down the pyramid and one up. The first cell reads the backbone's maps."""

    def given(level: int) -> nn.Layers:
        return _narrowed(level, width) if first and level < 6 else (nn.Take(name=f"p{level}"),)

    def node(name: str, merged: nn.Residual, *, inputs: int = 2) -> nn.Layers:
        # Learned scalars weight the sum.
        weights = nn.Learned(elements=inputs)
        return (merged, weights, SWISH, *_separable(width), BATCH_NORM, nn.Save(name=name))

    layers: list[nn.Layer] = []
    for level in (6, 5, 4, 3):
        above = "p7" if level == 6 else f"down_{level + 1}"
        merged = nn.residual(*given(level), shortcut=(nn.Take(name=above), nn.Upsample()))
        layers += node("up_3" if level == 3 else f"down_{level}", merged)
    for level in (4, 5, 6, 7):
        lower, own = (nn.Take(name=f"up_{level - 1}"), HALVE), given(level)
        if level < 7:
            own = (nn.residual(*own, shortcut=(nn.Take(name=f"down_{level}"),)),)
        merged = nn.residual(*lower, shortcut=own)
        layers += node(f"up_{level}", merged, inputs=3 if level < 7 else 2)
    for level in LEVELS:
        layers += [nn.Take(name=f"up_{level}"), nn.Save(name=f"p{level}")]
    return tuple(layers)
