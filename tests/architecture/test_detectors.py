"""Detectors: what is frozen, shared, cut out and kept."""

from __future__ import annotations

import pytest

from advisor.architecture.presets import load_preset
from advisor.architecture.stack import Convolution, Merge, Regions, Section, Stack, StackInput
from advisor.architecture.table.model import Unit
from advisor.errors import InputError
from advisor.estimate.training.report import model_flops_per_token
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.precision import recipe_named
from advisor.nouns.training_choices import AttentionKernel, Optimizer

# 3 x 3 over 10 x 10 positions, 8 channels in and out, two operations each.
FLOPS = 2 * 9 * 8 * 8 * 100


def stack(*layers: Section | Convolution | Regions | Merge, **given: object) -> Stack:
    size = StackInput.model_validate({"width": 8, "image": 10} | given)
    return Stack(unit=Unit.IMAGE, input=size, layers=layers)


def test_training_runs_frozen_layers_forward_only() -> None:
    plain = Convolution(bias=False)
    frozen = Section(name="body", layers=(plain, plain), frozen=True)
    network = stack(frozen, plain).architecture(name="n", family="f", source="test")
    run = TrainingRun(
        architecture=network,
        tokens=8,
        sequence_length=1,
        global_batch=8,
        recipe=recipe_named("bf16_amp"),
        optimizer=Optimizer.SGD_MOMENTUM,
        attention=AttentionKernel.FLASH,
        software="huggingface",
        lora_rank=16,
    )

    # Two passes forward; the last has its weights' gradient besides, and nobody below asks for one.
    assert model_flops_per_token(run) == 2 * FLOPS + 2 * FLOPS
    first, second = (op for op in network.operators if op.name.startswith("body"))
    assert first.saved == second.saved == ()


def test_shared_convolutions_are_counted_once_and_computed_twice() -> None:
    rows = stack(Convolution(bias=False), Convolution(bias=False, shared=True)).rows()

    assert sum(row.parameters for row in rows) == 9 * 8 * 8
    assert sum(row.flops_per_token for row in rows) == 2 * FLOPS


def test_regions_become_vectors() -> None:
    layers = (Regions(count=5, side=7), Merge(factor=7), Convolution(kernel=1, out=4))

    [*_, last] = stack(*layers).rows()

    assert (last.in_features, last.positions_per_token) == (8 * 49, 5)


def test_regions_are_cut_out_of_images_alone() -> None:
    with pytest.raises(InputError, match="regions need the features of an image"):
        Stack(unit=Unit.TOKEN, input=StackInput(width=8), layers=(Regions(count=5),)).rows()


def test_memory_holds_the_largest_image() -> None:
    usual, largest = (
        sum(
            row.largest * item.elements_per_token
            for row in stack(Convolution(bias=False), largest=factor).rows()
            for item in row.saved
        )
        for factor in (1.0, 1.25)
    )

    assert largest == 1.25 * usual


def test_photographs_are_padded_to_what_the_backbone_divides() -> None:
    # 800 x 1,067 pixels become 800 x 1,088: the stem halves both.
    stem = next(op for op in load_preset("retinanet-r50").operators if "stem" in op.name)

    assert stem.positions_per_token == 400 * 544


def test_ssd_scales_every_image_to_its_own_size() -> None:
    network = load_preset("ssd300-resnet-50")
    boxes = [op for op in network.operators if op.name.startswith("head.convolution")]

    assert network.sample is not None
    assert network.sample.image_size is None
    # 38, 19, 10, 5, 3 and 1 squared, by 4, 6, 6, 6, 4 and 4 boxes of 4 numbers: arXiv:1512.02325.
    numbers = sum(op.out_features * op.positions_per_token for op in boxes)
    assert numbers == 8732 * (4 + 81)


@pytest.mark.parametrize(
    ("name", "parameters", "work"),
    [
        # Ultralytics, parameters: yolov8.yaml at 023641f and yolo11.yaml at 0a2ae50, less 16;
        # billions of operations: docs/en/models/yolov8.md and yolo11.md.
        ("yolov8n", 3_157_184, 8.7),
        ("yolov8m", 25_902_624, 78.9),
        ("yolov8x", 68_229_632, 257.8),
        ("yolo11n", 2_624_064, 6.5),
        ("yolo11s", 9_458_736, 21.5),
        ("yolo11m", 20_114_672, 68.0),
        ("yolo11l", 25_372_144, 86.9),
        ("yolo11x", 56_966_160, 194.9),
        ("yolo11n-seg", 2.9e6, 9.7),
        ("yolo11m-seg", 22.4e6, 113.2),
        ("yolo11x-seg", 62.1e6, 296.4),
    ],
)
def test_yolo_has_its_published_size_and_work(name: str, parameters: float, work: float) -> None:
    network = load_preset(name)
    counted = sum(op.layers * op.flops_per_token for op in network.operators)
    # Attention of YOLO11 has a few norms less; sizes of -seg are published with two digits.
    assert network.total_parameters == pytest.approx(
        parameters, rel=0.01 if "seg" in name else 2e-4
    )
    assert counted / 1e9 == pytest.approx(work, rel=0.01)


def test_efficientdet_has_its_published_work() -> None:
    """Billions of multiply-adds of D0 to D4: arXiv:1911.09070, table 2."""
    counted = [
        sum(op.layers * op.flops_per_token for op in load_preset(f"efficientdet-d{size}").operators)
        for size in range(5)
    ]
    assert [work / 2e9 for work in counted] == pytest.approx([2.5, 6.1, 11, 25, 55], rel=0.025)
