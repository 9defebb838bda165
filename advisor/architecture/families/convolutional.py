"""Convolutional families: ResNet, VGG, RegNet, ConvNeXt, U-Net."""

from __future__ import annotations

from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Concatenate,
    Convolution,
    Dropout,
    Flatten,
    Function,
    Layer,
    Linear,
    Normalization,
    Pool,
    Repeat,
    Residual,
    Save,
    Scale,
    Section,
    SqueezeExcite,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

MAX_STAGES = 64
MAX_WIDTH = 1_000_000
BATCH_NORM = Normalization(kind="batch")
LAYER_NORM = Normalization(kind="layer")
RELU = Activation(function="relu")


def classes(fields: ConfigFields) -> int:
    """Return the number of classes; ImageNet's if the configuration does not state it."""
    labels = fields.mapping("id2label")
    return len(labels) if labels else fields.count("num_labels", 1000, maximum=MAX_WIDTH)


def image_stack(
    fields: ConfigFields, body: tuple[Layer, ...], head: tuple[Layer, ...], *, blocks: int
) -> Stack:
    """Return an image classifier."""
    return Stack(
        unit=Unit.IMAGE,
        input=StackInput(
            width=fields.count("num_channels"),
            image=fields.count("image_size"),
        ),
        layers=(*body, Section(name="head", part=Part.HEAD, layers=head)),
        blocks=blocks,
        outputs=classes(fields),
    )


def stage_counts(fields: ConfigFields, name: str) -> tuple[int, ...]:
    """Return one whole number of at least 1 for each stage."""
    values = fields.counts(name, maximum=MAX_WIDTH)
    if not values or min(values) < 1 or len(values) > MAX_STAGES:
        fields.refuse(name, "is not usable", list(values), "1 up, per stage")
    return values


def stages(fields: ConfigFields) -> tuple[tuple[int, int], ...]:
    """Return width and depth of each stage, from ``hidden_sizes`` and ``depths``."""
    widths = stage_counts(fields, "hidden_sizes")
    counts = stage_counts(fields, "depths")
    if len(widths) != len(counts) or max(counts) > LIMITS["num_hidden_layers"]:
        fields.fail(
            "config fields hidden_sizes and depths have different lengths",
            "depths",
            list(counts),
            f"{len(widths)} numbers up to {LIMITS['num_hidden_layers']:,}",
        )
    return tuple(zip(widths, counts, strict=True))


def normed(
    out: int | None,
    kernel: int = 1,
    *,
    stride: int = 1,
    groups: int | str = 1,
    function: Function | None = None,
    norm: Normalization = BATCH_NORM,
) -> tuple[Layer, ...]:
    """Return a convolution without bias, a norm, and an optional activation."""
    convolution = Convolution.model_validate(
        {"out": out, "kernel": kernel, "stride": stride, "groups": groups, "bias": False}
    )
    last = () if function is None else (Activation(function=function),)
    return (convolution, norm, *last)


def resnet(fields: ConfigFields) -> Stack:
    """ResNet: residual blocks of two convolutions, or bottlenecks of three (v1.5).

    ``groups`` and ``width_per_group`` make a ResNeXt or a wide ResNet, as in torchvision;
    ``squeeze_reduction`` an SE-ResNet.
    """
    depths = [depth for _, depth in stages(fields)]
    head = (Pool(kind="average", kernel=None), Linear(out=classes(fields)))
    return image_stack(fields, resnet_body(fields), head, blocks=sum(depths))


def resnet_body(
    fields: ConfigFields,
    *,
    norm: Normalization = BATCH_NORM,
    strides: tuple[int, ...] | None = None,
) -> tuple[Section, ...]:
    """Return stem and stages of a ResNet.

    Parameters
    ----------
    strides : tuple of int, optional
        Strides of the stages; detectors change them.
    """
    bottleneck = fields.text("layer_type") == "bottleneck"
    groups, group_width = fields.count("groups"), fields.count("width_per_group")
    stem = fields.count("embedding_size")
    early = fields.flag("downsample_in_bottleneck")
    squeeze = fields.optional_count("squeeze_reduction")
    found = stages(fields)
    if strides is None:
        first = 2 if fields.flag("downsample_in_first_stage") else 1
        strides = (first, *(2,) * (len(found) - 1))
    body = [
        Section(
            name="stem",
            layers=(
                *normed(stem, 7, stride=2, function="relu", norm=norm),
                Pool(kind="max", kernel=3, stride=2, padding=1),
            ),
        )
    ]
    width = stem
    for index, ((out, depth), stride) in enumerate(zip(found, strides, strict=True)):

        def block(step: int, *, shortcut: bool, out: int = out) -> Residual:
            inner = max(out // 4, 1) * group_width // 64 * groups
            one, three = (step, 1) if early else (1, step)
            bottlenecked = (
                *normed(inner, stride=one, function="relu", norm=norm),
                *normed(inner, 3, stride=three, groups=groups, function="relu", norm=norm),
                *normed(out, norm=norm),
            )
            plain = (
                *normed(out, 3, stride=step, function="relu", norm=norm),
                *normed(out, 3, norm=norm),
            )
            weighted = (SqueezeExcite(hidden=max(1, out // squeeze)),) if squeeze else ()
            return Residual(
                body=(*(bottlenecked if bottleneck else plain), *weighted),
                shortcut=normed(out, stride=step, norm=norm) if shortcut else (),
            )

        layers: list[Layer] = [block(stride, shortcut=stride > 1 or width != out), RELU]
        if depth > 1:
            layers.append(Repeat(times=depth - 1, layers=(block(1, shortcut=False), RELU)))
        body.append(Section(name=f"stage_{index + 1}", layers=tuple(layers)))
        width = out
    return tuple(body)


def vgg(fields: ConfigFields) -> Stack:
    """VGG: plain convolutions of 3 x 3, pools, and three matrices."""
    found = stages(fields)
    hidden = fields.count("hidden_size")
    body = tuple(
        Section(
            name=f"stage_{index + 1}",
            layers=(Repeat(times=depth, layers=(Convolution(out=out), RELU)), Pool()),
        )
        for index, (out, depth) in enumerate(found)
    )
    head = (
        Pool(kind="average", kernel=None, out=7),
        Flatten(),
        *(Linear(out=hidden), RELU, Dropout()),
        *(Linear(out=hidden), RELU, Dropout()),
        Linear(out=classes(fields)),
    )
    return image_stack(fields, body, head, blocks=sum(depth for _, depth in found))


def regnet(fields: ConfigFields) -> Stack:
    """RegNet: bottlenecks of grouped convolutions; the Y models with squeeze and excitation."""
    found = stages(fields)
    group_width = fields.count("groups_width")
    squeezes = fields.text("layer_type") == "y"
    stem = fields.count("embedding_size")
    body: list[Layer] = [Section(name="stem", layers=normed(stem, 3, stride=2, function="relu"))]
    width = stem
    for index, (out, depth) in enumerate(found):
        groups = max(1, out // group_width)

        def block(
            step: int, read: int, *, shortcut: bool, out: int = out, groups: int = groups
        ) -> Residual:
            # The squeezed width is a quarter of the block's input.
            weighted = (SqueezeExcite(hidden=round(read / 4) or 1),) if squeezes else ()
            return Residual(
                body=(
                    *normed(out, function="relu"),
                    *normed(out, 3, stride=step, groups=groups, function="relu"),
                    *weighted,
                    *normed(out),
                ),
                shortcut=normed(out, stride=step) if shortcut else (),
            )

        layers: list[Layer] = [block(2, width, shortcut=True), RELU]
        if depth > 1:
            layers.append(Repeat(times=depth - 1, layers=(block(1, out, shortcut=False), RELU)))
        body.append(Section(name=f"stage_{index + 1}", layers=tuple(layers)))
        width = out
    head = (Pool(kind="average", kernel=None), Linear(out=classes(fields)))
    return image_stack(fields, tuple(body), head, blocks=sum(depth for _, depth in found))


def convnext(fields: ConfigFields) -> Stack:
    """ConvNeXt: depthwise convolutions of 7 x 7 and feed-forward layers on every pixel."""
    found = stages(fields)
    patch = fields.count("patch_size", maximum=1024)
    body: list[Layer] = []
    for index, (width, depth) in enumerate(found):
        block = Residual(
            body=(
                Convolution(kernel=7, groups="depthwise"),
                LAYER_NORM,
                Linear(out=4 * width, target="up"),
                Activation(function="gelu"),
                Linear(out=width, target="down"),
                Scale(),
            )
        )
        start: tuple[Layer, ...] = (
            (Convolution(out=width, kernel=patch, stride=patch), LAYER_NORM)
            if index == 0
            else (LAYER_NORM, Convolution(out=width, kernel=2, stride=2))
        )
        layers = (*start, Repeat(times=depth, layers=(block,)))
        body.append(Section(name=f"stage_{index + 1}", layers=layers))
    head = (Pool(kind="average", kernel=None), LAYER_NORM, Linear(out=classes(fields)))
    return image_stack(fields, tuple(body), head, blocks=sum(depth for _, depth in found))


def densenet(fields: ConfigFields) -> Stack:
    """DenseNet: each layer reads the outputs of all earlier layers in its block."""
    growth, stem = fields.count("growth_rate"), fields.count("embedding_size")
    depths = stage_counts(fields, "depths")
    body: list[Layer] = [
        Section(
            name="stem",
            layers=(
                *normed(stem, 7, stride=2, function="relu"),
                Pool(kind="max", kernel=3, stride=2, padding=1),
            ),
        )
    ]
    before = (BATCH_NORM, RELU)
    width = stem
    for index, depth in enumerate(depths):
        layer = (
            Save(name="before"),
            *(*before, Convolution(out=4 * growth, kernel=1, bias=False)),
            *(*before, Convolution(out=growth, bias=False)),
            Concatenate(name="before"),
        )
        width += growth * depth
        down: tuple[Layer, ...] = ()
        if index < len(depths) - 1:
            width //= 2
            halved = Convolution(out=width, kernel=1, bias=False)
            down = (*before, halved, Pool(kind="average"))
        layers = (Repeat(times=depth, layers=layer), *down)
        body.append(Section(name=f"stage_{index + 1}", layers=layers))
    head = (*before, Pool(kind="average", kernel=None), Linear(out=classes(fields)))
    return image_stack(fields, tuple(body), head, blocks=sum(depths))


def unet(fields: ConfigFields) -> Stack:
    """U-Net for segmentation: convolutions down and up again, and a class for each pixel."""
    widths = stage_counts(fields, "hidden_sizes")
    outputs = classes(fields)

    def double(width: int) -> tuple[Layer, ...]:
        return (*normed(width, 3, function="relu"), *normed(width, 3, function="relu"))

    layers: list[Layer] = []
    for index, width in enumerate(widths):
        skip = (Save(name=f"down_{index + 1}"), Pool()) if index < len(widths) - 1 else ()
        layers.append(Section(name=f"down_{index + 1}", layers=(*double(width), *skip)))
    for index in reversed(range(len(widths) - 1)):
        up = Convolution(out=widths[index], kernel=2, stride=2, padding=0, transposed=True)
        joined = Concatenate(name=f"down_{index + 1}")
        layers.append(Section(name=f"up_{index + 1}", layers=(up, joined, *double(widths[index]))))
    head = (Linear(out=outputs),)
    return image_stack(fields, tuple(layers), head, blocks=2 * len(widths) - 1)
