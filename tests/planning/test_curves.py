"""Memory and speed against batch and length: the limit is where an estimate stops to fit."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.api import memory_curves
from advisor.architecture.table.model import Unit
from advisor.estimate.beside_results import Curve
from tests.cases import every_field, pretrain, serve, tune

LORA: dict[str, Any] = tune(
    "llama-3.1-8b",
    "h100-sxm",
    1,
    method="lora",
    sequence_length=2048,
    software="huggingface",
    layout=every_field(recompute="full"),
)
SERVING: dict[str, Any] = serve(
    "llama-3.1-8b", "rtx-4090", 1, weight_format="bf16", layout=every_field()
)


def curve(case: dict[str, Any], variable: str) -> Curve:
    [found] = [item for item in memory_curves(case) if item.variable == variable]
    return found


def fits(case: dict[str, Any], section: str, **fields: object) -> bool:
    changed = {**case, section: {**case[section], **fields}}
    return advisor.estimate(changed).memory.fits


def test_the_largest_micro_batch_fits_and_one_more_does_not() -> None:
    limit = curve(LORA, "micro_batch").limit

    assert fits(LORA, "layout", micro_batch=limit)
    assert not fits(LORA, "layout", micro_batch=limit + 1)


def test_the_longest_sequence_is_right_within_two_percent() -> None:
    limit = curve(LORA, "sequence_length").limit

    assert fits(LORA, "workload", sequence_length=limit)
    assert not fits(LORA, "workload", sequence_length=round(limit * 1.02) + 1)


def test_the_batch_stays_as_sequences_grow() -> None:
    """By default a batch has 4.2 M tokens: 64 ranks would run out of long sequences."""
    case = pretrain(
        "llama-3.1-405b", "b200-sxm", 4096, layout={"data": 64, "tensor": 4, "pipeline": 16}
    )
    found = curve(case, "sequence_length")
    assert found.points[-1].value > 4096
    work = {"kind": "pretraining", "sequence_length": found.limit, "global_batch": 1024}
    assert advisor.estimate({**case, "workload": work}).memory.fits


def test_requests_at_a_time_end_where_the_cache_does() -> None:
    found = curve(SERVING, "concurrency")

    assert found.limit == advisor.estimate(SERVING).serving.max_concurrency  # type: ignore[union-attr]


def test_the_knee_is_the_first_value_near_the_best_speed() -> None:
    found = curve(LORA, "micro_batch")
    speeds = {point.value: point.speed_per_s.expected for point in found.points if point.fits}
    assert found.knee is not None

    assert speeds[found.knee] >= 0.95 * max(speeds.values())
    assert all(speed < 0.95 * max(speeds.values()) for v, speed in speeds.items() if v < found.knee)


def test_a_point_of_a_curve_is_the_estimate_of_that_case() -> None:
    [chosen] = [p for p in curve(LORA, "micro_batch").points if p.value == 1]
    alone = advisor.estimate(LORA)
    assert alone.time is not None

    assert chosen.memory_bytes == alone.memory.total_bytes
    assert chosen.speed_per_s == alone.time.tokens_per_s


def test_networks_of_images_have_no_length() -> None:
    case = pretrain("resnet50", "rtx-4090", 1, samples=1e6)

    [found] = memory_curves(case)
    assert found.variable == "micro_batch"
    assert {point.unit for point in found.points} == {Unit.IMAGE}


def test_the_sentence_names_limit_knee_and_choice() -> None:
    found = curve(LORA, "micro_batch").model_copy(update={"limit": 13, "knee": 2})

    assert found.sentence == (
        "The largest micro-batch that fits is about 13. From 2 on, a larger one adds less than 5 % "
        "of speed. Chosen: 1."
    )


def test_the_sentence_counts_requests_and_tokens() -> None:
    requests = curve(SERVING, "concurrency").model_copy(update={"limit": 328, "knee": 256})
    context = curve(SERVING, "context").model_copy(update={"limit": 13_184})

    assert requests.sentence.startswith("About 328 requests fit at a time. From 256 on,")
    assert "13,100 tokens. Chosen:" in context.sentence


def test_an_estimate_has_curves_only_where_they_are_asked_for() -> None:
    assert advisor.estimate(LORA).curves == ()
    assert len(advisor.estimate(LORA, curves=True).curves) == 2


@pytest.mark.parametrize("variable", ["micro_batch", "sequence_length"])
def test_memory_never_falls_as_more_is_asked_for(variable: str) -> None:
    sizes = [point.memory_bytes.expected for point in curve(LORA, variable).points]

    assert sizes == sorted(sizes)


def test_at_a_rate_the_curve_is_of_the_requests_that_the_rate_keeps_in_flight() -> None:
    """With the rate itself, every number of requests would have the same speed."""
    case = serve(
        "llama-3.1-8b",
        "h100-sxm",
        1,
        requests_per_s=2.0,
        weight_format="bf16",
        layout=every_field(),
    )
    served = advisor.estimate(case).serving
    assert served is not None
    assert served.arrivals is not None
    found = curve(case, "concurrency")
    assert found.chosen == max(1, round(served.arrivals.in_flight))
    speeds = [point.speed_per_s.expected for point in found.points if point.fits]
    assert speeds[0] < speeds[1] < speeds[2]
