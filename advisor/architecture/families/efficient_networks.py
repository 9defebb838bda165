"""Networks of inverted bottlenecks: EfficientNet, MobileNetV3 and EfficientDet."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final

from advisor.architecture import stack as nn
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import (
    BATCH_NORM,
    MEAN,
    classes,
    image_stack,
    normed,
    stage_counts,
)

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


def efficientnet(fields: ConfigFields) -> nn.Stack:
    """EfficientNet: inverted bottlenecks with squeeze and excitation, scaled together.

    Tan and Le 2019, arXiv:1905.11946; B0 to B7 differ in ``width_coefficient``,
    ``depth_coefficient`` and image size.
    """
    body, blocks = efficientnet_stages(fields)
    top = normed(_scaled(fields, fields.count("top_channels")), function="silu")
    return image_stack(fields, body, *top, MEAN, nn.Dropout(), blocks=blocks)


def _scaled(fields: ConfigFields, width: int) -> int:
    """Return the nearest multiple of the divisor that is at least nine tenths of the width."""
    wide = width * fields.number("width_coefficient", minimum=0.01, maximum=100)
    divisor = fields.count("depth_divisor", maximum=1024)
    near = max(divisor, int(wide + divisor / 2) // divisor * divisor)
    return near if near >= 0.9 * wide else near + divisor


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


def efficientnet_v2(
    fields: ConfigFields, *, stages: Sequence[tuple[bool, int, int, int, int]]
) -> nn.Stack:
    """EfficientNetV2-S: fused inverted bottlenecks first, then those of EfficientNet.

    A fused block has one 3 x 3 convolution in place of a widening and a depthwise one.
    """
    width = 24

    def block(read: int, out: int, step: int, expand: int, fused: bool) -> nn.Layers:
        if not fused:
            return inverted(read, out, 3, step, read * expand, max(1, read // 4))
        if expand == 1:
            return normed(out, 3, stride=step, function="silu")
        return (*normed(read * expand, 3, stride=step, function="silu"), *normed(out))

    body = [nn.section("stem", *normed(width, 3, stride=2, function="silu"))]
    for index, (fused, expand, out, stride, depth) in enumerate(stages):
        start = block(width, out, stride, expand, fused)
        first = _added(start, stride=stride, width=width, out=out)
        later = nn.repeat(depth - 1, nn.residual(*block(out, out, 1, expand, fused)))
        body.append(nn.section(f"stage_{index + 1}", *first, later))
        width = out
    top = normed(1280, function="silu")
    depths = sum(depth for *_, depth in stages)
    return image_stack(fields, tuple(body), *top, MEAN, nn.Dropout(), blocks=depths)


Bottleneck = tuple[int, int, int, int, nn.Function, int]
"""Kernel, expanded width, width, squeezed width, function and stride."""


def mobilenet_v3(
    fields: ConfigFields,
    *,
    large: Sequence[Bottleneck],
    small: Sequence[Bottleneck],
    tops: Mapping[str, tuple[int, int]],
) -> nn.Stack:
    """MobileNetV3: inverted bottlenecks for phones, large or small."""
    size, width = "small" if fields.text("size") == "small" else "large", 16
    body = [nn.section("stem", *normed(width, 3, stride=2, function="hardswish"))]
    blocks = {"large": large, "small": small}[size]
    for index, (kernel, expanded, out, squeezed, function, stride) in enumerate(blocks):
        inner = inverted(
            *(width, out, kernel, stride, expanded, squeezed),
            function=function,
            squeeze_function="relu",
            gate="hardsigmoid",
        )
        layers = _added(inner, stride=stride, width=width, out=out)
        body.append(nn.section(f"block_{index + 1}", *layers))
        width = out
    hidden, last = tops[size]
    head = (
        *(*normed(last, function="hardswish"), MEAN, nn.Linear(out=hidden)),
        *(nn.Activation(function="hardswish"), nn.Dropout()),
    )
    return image_stack(fields, tuple(body), *head, blocks=len(body) - 1)


def efficientdet(fields: ConfigFields) -> nn.Stack:
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
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=nn.StackInput(width=channels, image=side, resized=True),
        layers=(*body, nn.section("head", *heads, MATCHING, part=nn.Part.HEAD)),
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
