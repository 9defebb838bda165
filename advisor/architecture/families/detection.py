"""Detectors: SSD, RetinaNet, and Faster, Mask and Keypoint R-CNN on a ResNet.

The fields follow torchvision 0.24 (BSD-3-Clause) and Detectron2's model zoo (Apache-2.0). SSD300
is the version of NVIDIA's DeepLearningExamples and MLPerf (Apache-2.0). Work outside the network's
products (anchors, their matching, suppression of duplicates) is left out.
"""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import (
    BATCH_NORM,
    RELU,
    classes,
    normed,
    resnet_body,
    stages,
)
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Branch,
    Convolution,
    FocalLoss,
    Layer,
    Linear,
    Matching,
    Merge,
    Normalization,
    Pool,
    Regions,
    Repeat,
    Residual,
    Save,
    Section,
    Take,
    Upsample,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

FROZEN_NORM: Final = Normalization(kind="frozen")
WIDTH: Final = 256
"""Channels of a feature pyramid (arXiv:1612.03144)."""
BACKBONE_MULTIPLE: Final = 32
"""Image sides are padded to a multiple of this, by which the backbone divides them. [pixels]"""
LONG_SIDE: Final = 4 / 3
"""Long side divided by short side of most photographs, as in COCO. The short side is scaled to the
stated size."""

LONGEST_SIDE: Final = 1333 / 800
"""Largest long side divided by the short side, to which Detectron2 and torchvision scale."""

SSD_EXTRA: Final = (
    (256, 512, 2, 1),
    (256, 512, 2, 1),
    (128, 256, 2, 1),
    (128, 256, 1, 0),
    (128, 256, 1, 0),
)
"""Layers after the backbone: inner and output channels, stride and padding of the second."""
SSD_BOXES: Final = (4, 6, 6, 6, 4, 4)
"""Default boxes at each position of each map (arXiv:1512.02325)."""
RETINA_ANCHORS: Final = 9
"""Three scales by three shapes (arXiv:1708.02002)."""
RETINA_LEVELS: Final = ("p3", "p4", "p5", "p6", "p7")
REGION_LEVELS: Final = ("p2", "p3", "p4", "p5", "p6")
SAMPLED: Final = 512
"""Regions per image that train the box head (Detectron2, torchvision)."""
WITH_OBJECT: Final = 64
"""Number of these that show an object and reach the mask head: half of the sampler's limit."""
MOST_WITH_OBJECT: Final = SAMPLED // 4
WITH_KEYPOINTS: Final = 24
"""Number that show a person's keypoints, derived from times in Detectron2's model zoo."""
MATCHING: Final = Matching(host_s=0.02)
"""Time to match anchors and regions with objects, image by image. It is the time beyond the kernels
in 12 published runs of Detectron2 and DeepLearningExamples (8 to 92 ms, half of them 16 to 36)."""
HIDDEN: Final = 1024
"""Width of the box head's matrices."""
KEYPOINTS: Final = 17
"""Keypoints of a person in COCO."""


def ssd(fields: ConfigFields) -> Stack:
    """SSD on a ResNet up to its third stage, which keeps the size of its maps: 38 x 38 for 300.

    Every image is scaled to one size, which fixes the default boxes.
    """
    labels = classes(fields)
    body: list[Layer] = [*resnet_body(fields, strides=(1, 2, 1, 2))[:4], Save(name="map_1")]
    for index, (inner, out, stride, padding) in enumerate(SSD_EXTRA):
        convolution = Convolution(out=out, stride=stride, padding=padding, bias=False)
        layers = (*normed(inner, function="relu"), convolution, BATCH_NORM, RELU)
        body += [Section(name=f"extra_{index + 1}", layers=layers), Save(name=f"map_{index + 2}")]
    heads: list[Layer] = []
    for index, boxes in enumerate(SSD_BOXES):
        scores = Convolution(out=boxes * labels)
        heads += [
            Take(name=f"map_{index + 1}"),
            Branch(name=f"boxes_{index + 1}", layers=(Convolution(out=4 * boxes),)),
            Branch(name=f"scores_{index + 1}", layers=(scores,)),
        ]
    return _detector(fields, (*body, _head(heads)), resized=True)


def retinanet(fields: ConfigFields) -> Stack:
    """RetinaNet: a pyramid over a ResNet, and the same two towers of convolutions on each level."""
    labels = classes(fields)
    towers: list[Layer] = []
    for level in RETINA_LEVELS:
        shared = level != RETINA_LEVELS[0]
        tower = Convolution(out=WIDTH, shared=shared)
        deep = Repeat(times=4, layers=(tower, RELU))
        scores = Convolution(out=RETINA_ANCHORS * labels, shared=shared)
        boxes = Convolution(out=RETINA_ANCHORS * 4, shared=shared)
        scored = (deep, scores, FocalLoss())
        towers += [
            Take(name=level),
            Branch(name=f"scores_{level}", layers=scored),
            Branch(name=f"boxes_{level}", layers=(deep, boxes)),
        ]
    layers = (*_backbone(fields), *_pyramid(3, _coarser(fields)), _head([*towers, MATCHING]))
    return _detector(fields, layers)


def rcnn(fields: ConfigFields) -> Stack:
    """Faster R-CNN, optionally with masks or keypoints.

    ``features`` is the source of the regions: the pyramid (``fpn``), the third stage (``c4``; the
    fourth then runs on every region), or a fourth stage that keeps the size of its maps (``dc5``).
    """
    kind = fields.text("features").lower()
    labels, masks, keypoints = (classes(fields), fields.flag("masks"), fields.flag("keypoints"))
    found: tuple[Layer, ...]
    levels: tuple[str, ...]
    if kind == "fpn":
        low = Pool(kind="max", kernel=1, stride=2)
        found = (*_backbone(fields), *_pyramid(2, (Take(name="p5"), low, Save(name="p6"))))
        width, levels, anchors = WIDTH, REGION_LEVELS, 3
        head: list[Layer] = [Take(name="p3"), *_box_matrices()]
    elif kind == "c4":
        found = (*_backbone(fields)[:-2], Save(name="c4"))
        width, levels, anchors = 1024, ("c4",), 15
        last = resnet_body(fields, norm=FROZEN_NORM)[-1]
        head = [Take(name="c4"), Regions(count=SAMPLED, side=14), last]
        head += [Save(name="region_features"), Pool(kind="average", kernel=7)]
    elif kind == "dc5":
        found = (*_backbone(fields, strides=(1, 2, 2, 1)),)
        width, levels, anchors = 2048, ("c5",), 15
        head = [Take(name="c5"), *_box_matrices()]
    else:
        fields.refuse("features", "is unknown", kind, "fpn, c4 or dc5")
    proposals: list[Layer] = []
    for level in levels:
        shared = level != levels[0]
        proposals += [
            Take(name=level),
            Convolution(out=width, shared=shared),
            RELU,
            Branch(
                name=f"objects_{level}", layers=(Convolution(out=anchors, kernel=1, shared=shared),)
            ),
            Branch(
                name=f"anchors_{level}",
                layers=(Convolution(out=4 * anchors, kernel=1, shared=shared),),
            ),
        ]
    # One more class for the background, and a box for each class.
    boxed = 4 * (labels - fields.flag("background_unboxed"))
    outputs: list[Layer] = [
        Branch(name="classes", layers=(Linear(out=labels),)),
        Branch(name="class_boxes", layers=(Linear(out=boxed),)),
    ]
    if masks:
        outputs += _mask_head(kind, boxed // 4)
    if keypoints:
        outputs += _keypoint_head()
    return _detector(
        fields,
        (
            *found,
            Section(name="proposals", layers=(*proposals, MATCHING)),
            Section(name="regions", layers=tuple(head)),
            _head(outputs),
        ),
    )


def _backbone(
    fields: ConfigFields, strides: tuple[int, ...] | None = None
) -> tuple[Section | Save, ...]:
    """Return a ResNet with frozen norms, stem and first stage; each stage's maps are saved."""
    stem, first, *others = resnet_body(fields, norm=FROZEN_NORM, strides=strides)
    layers: list[Section | Save] = [
        stem.model_copy(update={"frozen": True}),
        first.model_copy(update={"frozen": True}),
        Save(name="c2"),
    ]
    for index, stage in enumerate(others):
        layers += [stage, Save(name=f"c{index + 3}")]
    return tuple(layers)


def _pyramid(lowest: int, coarser: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return a feature pyramid from the fourth stage down, and the levels above it."""
    layers: list[Layer] = [Take(name="c5"), Convolution(out=WIDTH, kernel=1), Save(name="m5")]
    layers += [Convolution(out=WIDTH), Save(name="p5")]
    for level in range(4, lowest - 1, -1):
        layers += [
            Residual(
                body=(Take(name=f"c{level}"), Convolution(out=WIDTH, kernel=1)),
                shortcut=(Take(name=f"m{level + 1}"), Upsample()),
            ),
            Save(name=f"m{level}"),
            Convolution(out=WIDTH),
            Save(name=f"p{level}"),
        ]
    return (Section(name="pyramid", layers=(*layers, *coarser)),)


def _coarser(fields: ConfigFields) -> tuple[Layer, ...]:
    """Return RetinaNet's two levels above the pyramid, from the backbone or from the pyramid."""
    source = "c5" if fields.flag("p6_from_backbone") else "p5"
    return (
        Take(name=source),
        Convolution(out=WIDTH, stride=2),
        Save(name="p6"),
        RELU,
        Convolution(out=WIDTH, stride=2),
        Save(name="p7"),
    )


def _box_matrices() -> tuple[Layer, ...]:
    matrices = (Linear(out=HIDDEN), RELU, Linear(out=HIDDEN), RELU)
    return (Regions(count=SAMPLED, side=7), Merge(factor=7), *matrices)


def _mask_head(kind: str, labels: int) -> tuple[Layer, ...]:
    deep: tuple[Layer, ...] = (
        Take(name="p3"),
        Regions(count=WITH_OBJECT, side=14, most=MOST_WITH_OBJECT),
    )
    if kind == "dc5":
        deep = (Take(name="c5"), Regions(count=WITH_OBJECT, side=14, most=MOST_WITH_OBJECT))
    if kind == "c4":
        deep = (
            Take(name="region_features"),
            Regions(count=WITH_OBJECT, side=7, most=MOST_WITH_OBJECT),
        )
    else:
        deep = (*deep, Repeat(times=4, layers=(Convolution(out=WIDTH), RELU)))
    up = Convolution(out=WIDTH, kernel=2, stride=2, padding=0, transposed=True)
    return (Branch(name="masks", layers=(*deep, up, RELU, Convolution(out=labels, kernel=1))),)


def _keypoint_head() -> tuple[Layer, ...]:
    deep = Repeat(times=8, layers=(Convolution(out=512), RELU))
    up = Convolution(out=KEYPOINTS, kernel=4, stride=2, padding=1, transposed=True)
    start = (Take(name="p3"), Regions(count=WITH_KEYPOINTS, side=14, most=MOST_WITH_OBJECT))
    return (Branch(name="keypoints", layers=(*start, deep, up, Upsample())),)


def _head(layers: list[Layer]) -> Section:
    return Section(name="head", part=Part.HEAD, layers=tuple(layers))


def _detector(fields: ConfigFields, layers: tuple[Layer, ...], *, resized: bool = False) -> Stack:
    square = fields.flag("square_images", resized)
    return Stack(
        unit=Unit.IMAGE,
        input=StackInput(
            width=fields.count("num_channels"),
            image=fields.count("image_size"),
            resized=resized,
            aspect=1.0 if square else LONG_SIDE,
            largest=1.0 if square else LONGEST_SIDE / LONG_SIDE,
            multiple=1 if square else BACKBONE_MULTIPLE,
        ),
        layers=layers,
        blocks=sum(depth for _, depth in stages(fields)),
    )
