"""Convolutional families: ResNet, VGG, RegNet, ConvNeXt, DenseNet, U-Net."""

from collections.abc import Callable
from typing import Final

from advisor.architecture import stack as nn
from advisor.architecture.config.fields import LIMITS, ConfigFields

MAX_STAGES: Final = 64
MAX_WIDTH: Final = 1_000_000
BATCH_NORM: Final = nn.Normalization(kind="batch")
LAYER_NORM: Final = nn.Normalization(kind="layer")
RELU: Final = nn.Activation(function="relu")
MEAN: Final = nn.Pool(kind="average", kernel=None)


def classes(fields: ConfigFields) -> int:
    """Return the number of classes; ImageNet's if the configuration does not state it."""
    labels = fields.mapping("id2label")
    return len(labels) if labels else fields.count("num_labels", 1000, maximum=MAX_WIDTH)


def image_stack(
    fields: ConfigFields, body: nn.Layers, *head: nn.Layer, blocks: int | None = None
) -> nn.Stack:
    """Return an image classifier, whose ``head`` ends in a matrix to the classes.

    ``blocks``: by default the sum of ``depths``.
    """
    side, outputs = fields.count("image_size"), classes(fields)
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=nn.StackInput(width=fields.count("num_channels"), image=side),
        layers=(*body, nn.section("head", *head, nn.Linear(out=outputs), part=nn.Part.HEAD)),
        blocks=sum(stage_counts(fields, "depths")) if blocks is None else blocks,
        outputs=outputs,
    )


def stage_counts(fields: ConfigFields, name: str) -> tuple[int, ...]:
    """Return one whole number of at least 1 for each stage."""
    values = fields.counts(name, maximum=MAX_WIDTH)
    if not values or min(values) < 1 or len(values) > MAX_STAGES:
        fields.refuse(name, "is not usable", list(values), "1 up, per stage")
    return values


def stages(fields: ConfigFields) -> tuple[tuple[int, int], ...]:
    """Return width and depth of each stage, from ``hidden_sizes`` and ``depths``."""
    widths, counts = stage_counts(fields, "hidden_sizes"), stage_counts(fields, "depths")
    most = LIMITS["num_hidden_layers"]
    if len(widths) != len(counts) or max(counts) > most:
        what = "config fields hidden_sizes and depths have different lengths"
        fields.fail(what, "depths", list(counts), f"{len(widths)} numbers up to {most:,}")
    return tuple(zip(widths, counts, strict=True))


def normed(
    out: int | None,
    kernel: int = 1,
    *,
    stride: int = 1,
    groups: int | str = 1,
    function: nn.Function | None = None,
    norm: nn.Normalization = BATCH_NORM,
) -> nn.Layers:
    """Return a convolution without bias, a norm, and an optional activation."""
    convolution = nn.Convolution.model_validate(
        {"out": out, "kernel": kernel, "stride": stride, "groups": groups, "bias": False}
    )
    last = () if function is None else (nn.Activation(function=function),)
    return (convolution, norm, *last)


def resnet(fields: ConfigFields) -> nn.Stack:
    """ResNet: residual blocks of two convolutions, or bottlenecks of three (v1.5).

    ``groups`` and ``width_per_group`` make a ResNeXt or a wide ResNet, as in torchvision;
    ``squeeze_reduction`` an SE-ResNet.
    """
    return image_stack(fields, resnet_body(fields), MEAN)


def resnet_body(
    fields: ConfigFields,
    *,
    norm: nn.Normalization = BATCH_NORM,
    strides: tuple[int, ...] | None = None,
) -> tuple[nn.Section, ...]:
    """Return stem and stages of a ResNet. Detectors change the ``strides`` of the stages."""
    block = _residual_blocks(fields, norm)
    width, found = fields.count("embedding_size"), stages(fields)
    if strides is None:
        first = 2 if fields.flag("downsample_in_first_stage") else 1
        strides = (first, *(2,) * (len(found) - 1))
    body = [_stem(width, norm)]
    for index, ((out, depth), stride) in enumerate(zip(found, strides, strict=True)):
        start = block(out, stride, stride > 1 or width != out)
        body.append(_stage(index, start, block(out, 1, False), depth))
        width = out
    return tuple(body)


def _residual_blocks(
    fields: ConfigFields, norm: nn.Normalization
) -> Callable[[int, int, bool], nn.Residual]:
    """Return a ResNet's block as a function of width, stride and whether it has a shortcut."""
    bottleneck = fields.text("layer_type") == "bottleneck"
    groups, group_width = fields.count("groups"), fields.count("width_per_group")
    early = fields.flag("downsample_in_bottleneck")
    squeeze = fields.optional_count("squeeze_reduction")

    def block(out: int, step: int, shortcut: bool) -> nn.Residual:
        body = (
            *normed(out, 3, stride=step, function="relu", norm=norm),
            *normed(out, 3, norm=norm),
        )
        if bottleneck:
            inner = max(out // 4, 1) * group_width // 64 * groups
            one, three = (step, 1) if early else (1, step)
            body = (
                *normed(inner, stride=one, function="relu", norm=norm),
                *normed(inner, 3, stride=three, groups=groups, function="relu", norm=norm),
                *normed(out, norm=norm),
            )
        weighted = (nn.SqueezeExcite(hidden=max(1, out // squeeze)),) if squeeze else ()
        around = normed(out, stride=step, norm=norm) if shortcut else ()
        return nn.residual(*body, *weighted, shortcut=around)

    return block


def _stem(width: int, norm: nn.Normalization = BATCH_NORM) -> nn.Section:
    halved = nn.Pool(kind="max", kernel=3, stride=2, padding=1)
    return nn.section("stem", *normed(width, 7, stride=2, function="relu", norm=norm), halved)


def _stage(index: int, first: nn.Residual, later: nn.Residual, depth: int) -> nn.Section:
    """Return a stage of residual blocks, the first of which changes width or size."""
    others = (nn.repeat(depth - 1, later, RELU),) if depth > 1 else ()
    return nn.section(f"stage_{index + 1}", first, RELU, *others)


def vgg(fields: ConfigFields) -> nn.Stack:
    """VGG: plain convolutions of 3 x 3, pools, and three matrices."""
    body = tuple(
        nn.section(f"stage_{index + 1}", nn.repeat(depth, nn.Convolution(out=out), RELU), nn.Pool())
        for index, (out, depth) in enumerate(stages(fields))
    )
    wide = (nn.Linear(out=fields.count("hidden_size")), RELU, nn.Dropout())
    start = (nn.Pool(kind="average", kernel=None, out=7), nn.Flatten())
    return image_stack(fields, body, *start, *wide, *wide)


def regnet(fields: ConfigFields) -> nn.Stack:
    """RegNet: bottlenecks of grouped convolutions; the Y models with squeeze and excitation."""
    group_width, width = fields.count("groups_width"), fields.count("embedding_size")
    squeezes = fields.text("layer_type") == "y"

    def block(out: int, step: int, read: int) -> nn.Residual:
        groups = max(1, out // group_width)
        # The squeezed width is a quarter of the block's input.
        weighted = (nn.SqueezeExcite(hidden=round(read / 4) or 1),) if squeezes else ()
        return nn.residual(
            *normed(out, function="relu"),
            *normed(out, 3, stride=step, groups=groups, function="relu"),
            *weighted,
            *normed(out),
            shortcut=normed(out, stride=step) if step > 1 else (),
        )

    body = [nn.section("stem", *normed(width, 3, stride=2, function="relu"))]
    for index, (out, depth) in enumerate(stages(fields)):
        body.append(_stage(index, block(out, 2, width), block(out, 1, out), depth))
        width = out
    return image_stack(fields, tuple(body), MEAN)


def convnext(fields: ConfigFields) -> nn.Stack:
    """ConvNeXt: depthwise convolutions of 7 x 7 and feed-forward layers on every pixel."""
    patch = fields.count("patch_size", maximum=1024)
    gelu = nn.Activation(function="gelu")
    body: list[nn.Layer] = []
    for index, (width, depth) in enumerate(stages(fields)):
        block = nn.residual(
            *(nn.Convolution(kernel=7, groups="depthwise"), LAYER_NORM),
            *(*nn.feed_forward(width, 4 * width, gelu), nn.Scale()),
        )
        start: nn.Layers = (LAYER_NORM, nn.Convolution(out=width, kernel=2, stride=2))
        if index == 0:
            start = (nn.Convolution(out=width, kernel=patch, stride=patch), LAYER_NORM)
        body.append(nn.section(f"stage_{index + 1}", *start, nn.repeat(depth, block)))
    return image_stack(fields, tuple(body), MEAN, LAYER_NORM)


def densenet(fields: ConfigFields) -> nn.Stack:
    """DenseNet: each layer reads the outputs of all earlier layers in its block."""
    growth, width = fields.count("growth_rate"), fields.count("embedding_size")
    depths = stage_counts(fields, "depths")
    body = [_stem(width)]
    before = (BATCH_NORM, RELU)
    for index, depth in enumerate(depths):
        layer = (
            nn.Save(name="before"),
            *(*before, nn.Convolution(out=4 * growth, kernel=1, bias=False)),
            *(*before, nn.Convolution(out=growth, bias=False)),
            nn.Concatenate(name="before"),
        )
        width += growth * depth
        down: nn.Layers = ()
        if index < len(depths) - 1:
            width //= 2
            halved = nn.Convolution(out=width, kernel=1, bias=False)
            down = (*before, halved, nn.Pool(kind="average"))
        body.append(nn.section(f"stage_{index + 1}", nn.repeat(depth, *layer), *down))
    return image_stack(fields, tuple(body), *before, MEAN)


def unet(fields: ConfigFields) -> nn.Stack:
    """U-Net for segmentation: convolutions down and up again, and a class for each pixel."""
    widths = stage_counts(fields, "hidden_sizes")

    def double(width: int) -> nn.Layers:
        return normed(width, 3, function="relu") * 2

    layers: list[nn.Layer] = []
    for index, width in enumerate(widths):
        name = f"down_{index + 1}"
        skip = (nn.Save(name=name), nn.Pool()) if index < len(widths) - 1 else ()
        layers.append(nn.section(name, *double(width), *skip))
    for index, width in reversed(list(enumerate(widths[:-1]))):
        up = nn.Convolution(out=width, kernel=2, stride=2, padding=0, transposed=True)
        joined = nn.Concatenate(name=f"down_{index + 1}")
        layers.append(nn.section(f"up_{index + 1}", up, joined, *double(width)))
    return image_stack(fields, tuple(layers), blocks=2 * len(widths) - 1)
