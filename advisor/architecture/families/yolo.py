"""YOLOv8 and YOLO11: detectors without anchors, with boxes or with masks.

Widths, depths and blocks follow the configurations ``yolov8.yaml`` and ``yolo11.yaml`` of
Ultralytics, which state parameters and work of every size. A split of channels is two convolutions
here, of the same size together. Work outside the network (resizing, suppression of duplicates) is
left out.
"""

from typing import Final

from advisor.architecture import stack as nn
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import normed
from advisor.foundation.record import record

BINS: Final = 16
"""Bins for each side of a box, whose distribution the network predicts (arXiv:2006.04388)."""
MASKS: Final = 32
"""Prototypes of masks."""
HEAD_WIDTH: Final = 64
"""Channels of one attention head."""


@record
class _Size:
    """The factors of one size, and which generation it is."""

    depth: float
    width: float
    most: int
    eleven: bool
    deep: bool
    """Whether all blocks of YOLO11 are deep: sizes m, l and x."""

    def channels(self, stated: int) -> int:
        """Return the channels of this size: a multiple of eight."""
        return -(-int(min(stated, self.most) * self.width) // 8) * 8

    def times(self, stated: int) -> int:
        """Return the repetitions of this size."""
        return max(1, round(stated * self.depth))

    def halve(self, stated: int) -> nn.Layers:
        """Return a convolution that halves the sides."""
        return _conv(self.channels(stated), 3, stride=2)

    def block(
        self,
        name: str,
        stated: int,
        times: int,
        *,
        deep: bool,
        inner: float = 0.5,
        added: bool = True,
    ) -> nn.Section:
        """Return a block that keeps the output of each of its steps (C2f, C3k2)."""
        out = self.channels(stated)
        middle = int(out * (inner if self.eleven else 0.5))
        layers: list[nn.Layer] = [
            nn.branch(f"{name}_kept", *_conv(middle)),
            *_conv(middle),
            nn.Save(name=f"{name}_0"),
        ]
        count = self.times(times)
        for step in range(1, count + 1):
            if self.eleven and (deep or self.deep):
                layers += _cross_stage(f"{name}_{step}", middle)
            elif self.eleven:
                layers += _bottleneck(middle // 2, middle, added=True)
            else:
                layers += _bottleneck(middle, middle, added=added)
            layers.append(nn.Save(name=f"{name}_{step}"))
        kept = [f"{name}_kept", *(f"{name}_{step}" for step in range(count))]
        layers += [*(nn.Concatenate(name=part) for part in kept), *_conv(out)]
        return nn.section(name, *layers)


def _conv(out: int | None, kernel: int = 1, *, stride: int = 1, groups: int | str = 1) -> nn.Layers:
    return normed(out, kernel, stride=stride, groups=groups, function="silu")


def _bottleneck(inner: int, out: int, *, added: bool) -> nn.Layers:
    body = (*_conv(inner, 3), *_conv(out, 3))
    return (nn.residual(*body),) if added else body


def _cross_stage(name: str, out: int) -> nn.Layers:
    """Return two bottlenecks beside a convolution (C3k)."""
    half = out // 2
    two = (*_bottleneck(half, half, added=True), *_bottleneck(half, half, added=True))
    beside = nn.branch(f"{name}_side", *_conv(half))
    return (beside, *_conv(half), *two, nn.Concatenate(name=f"{name}_side"), *_conv(out))


def _pooling(out: int, before: int) -> nn.Section:
    """Return three pools in a row, whose outputs are joined (SPPF)."""
    pool = nn.Pool(kind="max", kernel=5, stride=1, padding=2)
    layers: list[nn.Layer] = [*_conv(before // 2), nn.Save(name="pool_0")]
    for step in (1, 2):
        layers += [pool, nn.Save(name=f"pool_{step}")]
    layers.append(pool)
    layers += [nn.Concatenate(name=f"pool_{step}") for step in range(3)]
    return nn.section("pools", *layers, *_conv(out))


def _attentive(size: _Size, out: int) -> nn.Section:
    """Return attention over the coarsest map on half of the channels (C2PSA)."""
    half = out // 2
    values = nn.branch("half_values", *normed(half // 2))
    # Queries and keys are half as wide as values; half of the values run beside.
    attention = nn.Attention(
        heads=max(1, half // HEAD_WIDTH), width=half // 2, bias=False, output=False
    )
    joined = nn.Concatenate(name="half_values")
    position = normed(half, 3, groups="depthwise")
    attend = nn.residual(values, attention, joined, *position, *normed(half))
    mix = nn.residual(*_conv(2 * half), *normed(half))
    layers = [nn.branch("attention_kept", *_conv(half)), *_conv(half)]
    layers.append(nn.repeat(size.times(2), attend, mix))
    return nn.section("attention", *layers, nn.Concatenate(name="attention_kept"), *_conv(out))


def yolo(fields: ConfigFields) -> nn.Stack:
    """YOLOv8 or YOLO11, by ``version``; ``masks`` adds the head of instance segmentation."""
    version = fields.count("version")
    if version not in (8, 11):
        fields.refuse("version", "is unknown", version, "8 or 11")
    size = _Size(
        depth=fields.number("depth_multiple", minimum=0.1, maximum=4.0),
        width=fields.number("width_multiple", minimum=0.1, maximum=4.0),
        most=fields.count("max_channels"),
        eleven=version == 11,
        deep=fields.number("width_multiple", minimum=0.1, maximum=4.0) > 0.5,
    )
    up = nn.Upsample()
    layers: list[nn.Layer] = [
        nn.section("stem", *size.halve(64), *size.halve(128), part=nn.Part.EMBEDDING)
    ]
    first = (256, 512, 512, 1024) if size.eleven else (128, 256, 512, 1024)
    for level, (stated, before) in enumerate(zip(first, (0, 256, 512, 1024), strict=True), 2):
        layers += size.halve(before) if before else ()
        times = (2, 2, 2, 2)[level - 2] if size.eleven else (3, 6, 6, 3)[level - 2]
        # The first two blocks of YOLO11 are narrower inside.
        inner = 0.25 if level < 4 else 0.5
        layers += [size.block(f"c{level}", stated, times, deep=level > 3, inner=inner)]
        if level in (3, 4):
            layers.append(nn.Save(name=f"c{level}_map"))
    last = size.channels(1024)
    layers.append(_pooling(last, last))
    if size.eleven:
        layers.append(_attentive(size, last))
    layers.append(nn.Save(name="c5_map"))
    times = 2 if size.eleven else 3

    def merged(name: str, stated: int, other: str, *, deep: bool = False) -> nn.Layers:
        block = size.block(name, stated, times, deep=deep, added=False)
        return (nn.Concatenate(name=other), block, nn.Save(name=f"{name}_map"))

    layers += [up, *merged("n4", 512, "c4_map"), up, *merged("p3", 256, "c3_map")]
    layers += [*size.halve(256), *merged("p4", 512, "n4_map")]
    layers += [*size.halve(512), *merged("p5", 1024, "c5_map", deep=True)]
    layers.append(_head(fields, size))
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=nn.StackInput(
            width=fields.count("num_channels"), image=fields.count("image_size"), multiple=32
        ),
        layers=tuple(layers),
        blocks=sum(
            size.times(times) for times in ((2,) * 8 if size.eleven else (3, 6, 6, 3) + (3,) * 4)
        ),
    )


def _head(fields: ConfigFields, size: _Size) -> nn.Section:
    """Return the heads of boxes, classes and masks on each of the three maps."""
    labels, finest = fields.count("num_labels"), size.channels(256)
    boxes, scores = max(16, finest // 4, 4 * BINS), max(finest, min(labels, 100))
    layers: list[nn.Layer] = []
    for level, stated in ((3, 256), (4, 512), (5, 1024)):
        take = nn.Take(name=f"p{level}_map")
        deep = (*_conv(scores, 3), *_conv(scores, 3))
        if size.eleven:
            wide = _conv(size.channels(stated), 3, groups="depthwise")
            again = _conv(scores, 3, groups="depthwise")
            deep = (*wide, *_conv(scores), *again, *_conv(scores))
        box = (*_conv(boxes, 3), *_conv(boxes, 3), nn.Convolution(out=4 * BINS, kernel=1))
        layers += [take, nn.branch(f"boxes_{level}", *box)]
        layers.append(nn.branch(f"scores_{level}", *deep, nn.Convolution(out=labels, kernel=1)))
        if fields.flag("masks"):
            inner = max(finest // 4, MASKS)
            mask = (*_conv(inner, 3), *_conv(inner, 3), nn.Convolution(out=MASKS, kernel=1))
            layers.append(nn.branch(f"masks_{level}", *mask))
    if fields.flag("masks"):
        up = nn.Convolution(out=finest, kernel=2, stride=2, padding=0, transposed=True)
        layers += [nn.Take(name="p3_map"), *_conv(finest, 3), up, *_conv(finest, 3), *_conv(MASKS)]
    return nn.section("head", *layers, part=nn.Part.HEAD)
