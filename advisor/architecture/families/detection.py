"""Detectors: SSD, RetinaNet, and Faster, Mask and Keypoint R-CNN on a ResNet.

The fields follow torchvision 0.24 (BSD-3-Clause) and Detectron2's model zoo (Apache-2.0). SSD300
is the version of NVIDIA's DeepLearningExamples and MLPerf (Apache-2.0). Work outside the network's
products (anchors, their matching, suppression of duplicates) is left out.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from advisor.architecture import stack as nn
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import (
    BATCH_NORM,
    RELU,
    classes,
    normed,
    resnet_body,
    stages,
)

FROZEN_NORM: Final = nn.Normalization(kind="frozen")
WIDTH: Final = 256
"""Channels of a feature pyramid (arXiv:1612.03144)."""
BACKBONE_MULTIPLE: Final = 32
"""Image sides are padded to a multiple of this, by which the backbone divides them. [pixels]"""
LONG_SIDE: Final = 4 / 3
"""Long side divided by short side of most photographs, as in COCO. The short side is scaled to the
stated size."""

LONGEST_SIDE: Final = 1333 / 800
"""Largest long side divided by the short side, to which Detectron2 and torchvision scale."""

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
MATCHING: Final = nn.Matching(host_s=0.02)
"""Time to match anchors and regions with objects, image by image. It is the time beyond the kernels
in 12 published runs of Detectron2 and DeepLearningExamples (8 to 92 ms, half of them 16 to 36)."""
HIDDEN: Final = 1024
"""Width of the box head's matrices."""
KEYPOINTS: Final = 17
"""Keypoints of a person in COCO."""


def ssd(
    fields: ConfigFields, *, extra: Sequence[tuple[int, int, int, int]], boxes: Sequence[int]
) -> nn.Stack:
    """SSD on a ResNet up to its third stage, which keeps the size of its maps: 38 x 38 for 300.

    Every image is scaled to one size, which fixes the default ``boxes`` at each position of each
    map. ``extra``: layers after the backbone: inner and output channels, stride and padding of the
    second.
    """
    labels = classes(fields)
    body: list[nn.Layer] = [*resnet_body(fields, strides=(1, 2, 1, 2))[:4], nn.Save(name="map_1")]
    for index, (inner, out, stride, padding) in enumerate(extra):
        convolution = nn.Convolution(out=out, stride=stride, padding=padding, bias=False)
        layers = (*normed(inner, function="relu"), convolution, BATCH_NORM, RELU)
        body += [nn.section(f"extra_{index + 1}", *layers), nn.Save(name=f"map_{index + 2}")]
    heads: list[nn.Layer] = []
    for number, each in enumerate(boxes, 1):
        heads += [
            nn.Take(name=f"map_{number}"),
            nn.branch(f"boxes_{number}", nn.Convolution(out=4 * each)),
            nn.branch(f"scores_{number}", nn.Convolution(out=each * labels)),
        ]
    return _detector(fields, *body, _head(heads), resized=True)


def retinanet(fields: ConfigFields) -> nn.Stack:
    """RetinaNet: a pyramid over a ResNet, and the same two towers of convolutions on each level."""
    labels = classes(fields)
    towers: list[nn.Layer] = []
    for level in RETINA_LEVELS:
        shared = level != RETINA_LEVELS[0]
        deep = nn.repeat(4, nn.Convolution(out=WIDTH, shared=shared), RELU)
        scores = nn.Convolution(out=RETINA_ANCHORS * labels, shared=shared)
        boxes = nn.Convolution(out=RETINA_ANCHORS * 4, shared=shared)
        towers += [
            nn.Take(name=level),
            nn.branch(f"scores_{level}", deep, scores, nn.FocalLoss()),
            nn.branch(f"boxes_{level}", deep, boxes),
        ]
    # Two levels above the pyramid, from the backbone or from the pyramid.
    source = nn.Take(name="c5" if fields.flag("p6_from_backbone") else "p5")
    halved = nn.Convolution(out=WIDTH, stride=2)
    coarser = (source, halved, nn.Save(name="p6"), RELU, halved, nn.Save(name="p7"))
    pyramid = _pyramid(3, *coarser)
    return _detector(fields, *_backbone(fields), pyramid, _head([*towers, MATCHING]))


class _Features(NamedTuple):
    """Where the regions of an R-CNN come from."""

    layers: nn.Layers
    levels: tuple[str, ...]
    """Saved maps on which regions are proposed."""
    width: int
    anchors: int
    """Anchors at each position."""
    regions: nn.Layers
    """From maps to the features of each region."""


def rcnn(fields: ConfigFields) -> nn.Stack:
    """Faster R-CNN, optionally with masks or keypoints.

    ``features`` is the source of the regions: the pyramid (``fpn``), the third stage (``c4``; the
    fourth then runs on every region), or a fourth stage that keeps the size of its maps (``dc5``).
    """
    kind = fields.text("features").lower()
    labels, found = classes(fields), _features(fields, kind)
    # One more class for the background, and a box for each class.
    boxed = labels - fields.flag("background_unboxed")
    outputs: list[nn.Layer] = [
        nn.branch("classes", nn.Linear(out=labels)),
        nn.branch("class_boxes", nn.Linear(out=4 * boxed)),
    ]
    if fields.flag("masks"):
        outputs.append(_mask_head(kind, boxed))
    if fields.flag("keypoints"):
        outputs.append(_keypoint_head())
    return _detector(
        fields,
        *found.layers,
        nn.section("proposals", *_proposals(found), MATCHING),
        nn.section("regions", *found.regions),
        _head(outputs),
    )


def _features(fields: ConfigFields, kind: str) -> _Features:
    if kind == "fpn":
        low = nn.Pool(kind="max", kernel=1, stride=2)
        pyramid = _pyramid(2, nn.Take(name="p5"), low, nn.Save(name="p6"))
        layers = (*_backbone(fields), pyramid)
        return _Features(layers, REGION_LEVELS, WIDTH, 3, (nn.Take(name="p3"), *_box_matrices()))
    if kind == "c4":
        last = resnet_body(fields, norm=FROZEN_NORM)[-1]
        regions: nn.Layers = (
            *(nn.Take(name="c4"), nn.Regions(count=SAMPLED, side=14), last),
            *(nn.Save(name="region_features"), nn.Pool(kind="average", kernel=7)),
        )
        layers = (*_backbone(fields)[:-2], nn.Save(name="c4"))
        return _Features(layers, ("c4",), 1024, 15, regions)
    if kind == "dc5":
        regions = (nn.Take(name="c5"), *_box_matrices())
        return _Features(_backbone(fields, strides=(1, 2, 2, 1)), ("c5",), 2048, 15, regions)
    return fields.refuse("features", "is unknown", kind, "fpn, c4 or dc5")


def _proposals(found: _Features) -> list[nn.Layer]:
    """Return the network that proposes regions; all levels share its weights."""
    layers: list[nn.Layer] = []
    for level in found.levels:
        shared = level != found.levels[0]
        objects = nn.Convolution(out=found.anchors, kernel=1, shared=shared)
        boxes = nn.Convolution(out=4 * found.anchors, kernel=1, shared=shared)
        layers += [
            *(nn.Take(name=level), nn.Convolution(out=found.width, shared=shared), RELU),
            *(nn.branch(f"objects_{level}", objects), nn.branch(f"anchors_{level}", boxes)),
        ]
    return layers


def _backbone(fields: ConfigFields, strides: tuple[int, ...] | None = None) -> nn.Layers:
    """Return a ResNet with frozen norms, stem and first stage; each stage's maps are saved."""
    stem, first, *others = resnet_body(fields, norm=FROZEN_NORM, strides=strides)
    layers: list[nn.Layer] = [
        stem.changed(frozen=True),
        first.changed(frozen=True),
        nn.Save(name="c2"),
    ]
    for index, stage in enumerate(others):
        layers += [stage, nn.Save(name=f"c{index + 3}")]
    return tuple(layers)


def _pyramid(lowest: int, *coarser: nn.Layer) -> nn.Section:
    """Return a feature pyramid from the fourth stage down, and the levels above it."""
    side, smooth = nn.Convolution(out=WIDTH, kernel=1), nn.Convolution(out=WIDTH)
    layers: list[nn.Layer] = [nn.Take(name="c5"), side, nn.Save(name="m5")]
    layers += [smooth, nn.Save(name="p5")]
    for level in range(4, lowest - 1, -1):
        above = (nn.Take(name=f"m{level + 1}"), nn.Upsample())
        merged = nn.residual(nn.Take(name=f"c{level}"), side, shortcut=above)
        layers += [merged, nn.Save(name=f"m{level}"), smooth, nn.Save(name=f"p{level}")]
    return nn.section("pyramid", *layers, *coarser)


def _box_matrices() -> nn.Layers:
    matrices = (nn.Linear(out=HIDDEN), RELU, nn.Linear(out=HIDDEN), RELU)
    return (nn.Regions(count=SAMPLED, side=7), nn.Merge(factor=7), *matrices)


def _mask_head(kind: str, labels: int) -> nn.Branch:
    source = {"fpn": "p3", "c4": "region_features", "dc5": "c5"}[kind]
    # The features of C4's regions have already passed the last stage.
    whole = kind == "c4"
    cut = nn.Regions(count=WITH_OBJECT, side=7 if whole else 14, most=MOST_WITH_OBJECT)
    deep = () if whole else (nn.repeat(4, nn.Convolution(out=WIDTH), RELU),)
    up = nn.Convolution(out=WIDTH, kernel=2, stride=2, padding=0, transposed=True)
    last = nn.Convolution(out=labels, kernel=1)
    return nn.branch("masks", nn.Take(name=source), cut, *deep, up, RELU, last)


def _keypoint_head() -> nn.Branch:
    deep = nn.repeat(8, nn.Convolution(out=512), RELU)
    up = nn.Convolution(out=KEYPOINTS, kernel=4, stride=2, padding=1, transposed=True)
    cut = nn.Regions(count=WITH_KEYPOINTS, side=14, most=MOST_WITH_OBJECT)
    return nn.branch("keypoints", nn.Take(name="p3"), cut, deep, up, nn.Upsample())


def _head(layers: list[nn.Layer]) -> nn.Section:
    return nn.section("head", *layers, part=nn.Part.HEAD)


def _detector(fields: ConfigFields, *layers: nn.Layer, resized: bool = False) -> nn.Stack:
    square = fields.flag("square_images", resized)
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=nn.StackInput(
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
