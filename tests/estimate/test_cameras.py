"""Cameras that hardware carries, against a simulation and published times."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import advisor
from advisor.architecture.presets import load_preset
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.equations.serving.bursts import periodic_wait_share
from advisor.nouns.workload import Serving
from advisor.planning.time_ranges import TimeSpreads


@pytest.mark.parametrize(("streams", "period", "wait"), [(6, 7.0, 1.2), (12, 13.5, 3.0)])
def test_periodic_streams_wait_as_simulated(streams: int, period: float, wait: float) -> None:
    chosen = random.Random(1)
    late = seen = 0
    for _ in range(20000):
        phases = sorted(chosen.uniform(0.0, period) for _ in range(streams))
        free = 0.0
        for turn in range(3):
            for phase in phases:
                begin = phase + turn * period
                if turn == 2:
                    late += free - begin > wait
                    seen += 1
                free = max(free, begin) + 1.0
    # A frame sees the work of the others.
    found = periodic_wait_share(streams=streams - 1, period=period, wait=wait)
    assert found == pytest.approx(late / seen, rel=0.05)


def said(model: str, card: str, **more: Any) -> str:
    workload = {"kind": "serving", "concurrency": 1, "engine": "tensorrt", "weight_format": "fp16"}
    case = {
        "model": {"preset": model},
        "workload": workload | more,
        "hardware": {"accelerator": card},
    }
    return " ".join(text for text in advisor.estimate(case).assumptions if "cameras" in text)


def test_a_t4_carries_cameras_at_the_published_time_of_an_image() -> None:
    # 2.5 ms for an image: docs/en/models/yolo11.md of Ultralytics, so 400 images/s.
    found = said("yolo11s", "t4", frames_per_s=25)
    assert int(found.removeprefix("the hardware carries ").split()[0]) == pytest.approx(
        400 / 25, abs=2
    )
    assert "99 % of the frames are answered within" in found


@pytest.mark.parametrize(("cameras", "warned"), [(4, False), (64, True)])
def test_more_cameras_than_are_carried_are_told(cameras: int, warned: bool) -> None:
    """A T4 takes 2.5 ms for an image (Ultralytics, as above): 16 cameras of 25 frames/s."""
    workload = {"kind": "serving", "concurrency": cameras, "frames_per_s": 25}
    limits = {"owned": [{"accelerator": "t4"}]}
    case = {"model": {"preset": "yolo11s"}, "workload": workload, "limits": limits}
    found = advisor.recommend(case)
    told = [item for item in found.advice if item.code == "cameras"]
    assert bool(told) is warned
    assert all(item.severity == "warning" and "1600" in item.message for item in told)
    assert re.search(r"T4.*: carries \d+ cameras \(\d+–\d+\), ", found.answer)


def test_frames_of_text_are_refused() -> None:
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "serving", "frames_per_s": 30},
        "hardware": {"accelerator": "rtx-4090"},
    }
    with pytest.raises(advisor.InputError, match="frames_per_s"):
        advisor.estimate(case)


def test_the_search_has_the_range_of_the_estimate() -> None:
    workload = {"kind": "serving", "concurrency": 1, "engine": "tensorrt"}
    case = {"model": {"preset": "yolo11s"}, "workload": workload}
    owned = {"accelerator": "t4", "count": 1}
    found = advisor.estimate(case | {"hardware": owned}).serving
    assert found is not None
    plan = advisor.recommend(case | {"limits": {"owned": [owned]}}).rankings[0].plans[0]
    assert plan.estimate.serving == found
    spreads = TimeSpreads(
        load_preset("yolo11s"), load_calibration(), Serving(concurrency=1, engine="tensorrt")
    )
    card = load_catalog().accelerator("t4")
    spread = spreads.of(card, precision="fp16", count=1)
    assert spread.high == pytest.approx(found.tpot_ms.high / found.tpot_ms.expected)
    # Ten published runs are of a T4.
    assert spreads.proven(card, "fp16")


@pytest.mark.parametrize(
    ("model", "batch", "wide"),
    [("yolo11n", 1, False), ("yolo11n", 8, True), ("vit-base-patch16-224", 1, True)],
)
def test_the_range_of_tensorrt_is_narrow_only_where_it_was_measured(
    model: str, batch: int, wide: bool
) -> None:
    workload = {"kind": "serving", "concurrency": batch, "engine": "tensorrt"}
    case = {"model": {"preset": model}, "hardware": {"accelerator": "t4"}, "workload": workload}
    found = advisor.estimate(case)
    assert found.serving is not None
    rate = found.serving.output_tokens_per_s
    assert (rate.high / rate.low > 1.5) == wide
    assert any("the range is wider elsewhere" in text for text in found.assumptions) == wide
