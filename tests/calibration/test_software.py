"""Constants of software and intervals of training time, on runs made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.calibration.fitting.stack_constants import (
    HeldOut,
    RunTimes,
    fit_intervals,
    hold_out_sources,
)
from advisor.calibration.fitting.stack_runs import TimedRun, fit_slowdowns, pace, slowdowns_at
from advisor.calibration.tables.guesses import filled
from advisor.calibration.tables.reading import Row
from advisor.catalog.constants import load_calibration


def run(
    ratio: float, group: str, source: str = "a", stack: str = "megatron", name: str = ""
) -> TimedRun:
    return TimedRun(
        source=source,
        group=group,
        stack=stack,
        interval=f"training_time{name}",
        ratio=ratio,
        is_rate=True,
        samples=False,
        generation="Ampere",
        compute="bf16",
        accelerators=8,
        kinds=("A100", "dense_pretrain"),
    )


def test_a_group_weighs_one_however_many_runs_it_has():
    # Groups 1.5 (geometric mean of 1.0 and 2.25), 1.2 and 1.1: the median is 1.2.
    runs = [run(1.0, "x"), run(2.25, "x"), run(1.2, "y"), run(1.1, "z")]

    assert fit_slowdowns(runs)["megatron"] == 1.2


def test_no_stack_is_faster_than_its_kernels_and_one_without_runs_takes_the_median_of_all():
    slowdowns = fit_slowdowns([run(0.8, "x"), run(1.3, "y", stack="liger")])

    assert slowdowns["megatron"] == 1.0
    assert slowdowns["compiled"] == 1.05


def test_stacks_of_one_pace_have_the_median_of_the_runs_of_both() -> None:
    runs = [run(1.1, "a", stack="compiled"), run(1.3, "b", stack="transformer_engine")]
    slowdowns = fit_slowdowns([*runs, run(1.5, "c", stack="compiled"), run(3.0, "d")])

    assert pace("transformer_engine", samples=False) == "compiled"
    assert slowdowns["compiled"] == 1.3


def test_slowdowns_of_several_predictions_are_those_of_each_alone() -> None:
    runs = [run(1.0, "x"), run(2.25, "x"), run(1.2, "y"), run(1.3, "z", stack="liger")]
    other = [0.9 * each.ratio for each in runs]
    table = np.array([[each.ratio for each in runs], other])
    moved = [replace(each, ratio=ratio) for each, ratio in zip(runs, other, strict=True)]

    assert slowdowns_at(runs, table) == [fit_slowdowns(runs), fit_slowdowns(moved)]


def test_a_stack_with_runs_has_their_median_whatever_other_stacks_took() -> None:
    plain = [run(1.5, f"p{i}", stack="plain") for i in range(4)]
    slowdowns = fit_slowdowns([*plain, run(2.0, "d", stack="deepspeed"), run(1.1, "m")])

    assert slowdowns["plain"] == 1.5
    assert slowdowns["deepspeed"] == 2.0
    assert slowdowns["huggingface"] == 1.5
    assert slowdowns["megatron"] == 1.1


def test_the_trainer_takes_an_eighth_above_its_kernels_at_most_with_adapters() -> None:
    """Llama 2 7B to 70B with adapters on two RTX 4090 take 1.00 to 1.12 times the sum of the terms.

    No fit reads these runs (AnswerDotAI/fsdp_qlora, March 2024).
    """
    found = load_calibration().software["huggingface"]
    assert 1.0 <= found.adapter_slowdown <= 1.12
    assert 1.0 <= found.slowdown <= 1.25  # all weights


@pytest.mark.parametrize(
    ("told", "stack"),
    [
        ({"framework": "deepspeed"}, "deepspeed"),
        ({"framework": "hf_trainer"}, "huggingface"),
        ({"framework": "torchtune"}, "plain"),
        ({"framework": "torchtune", "compiled": "1"}, "compiled"),
        ({"framework": "torchtitan"}, "compiled"),
        ({"framework": "nemo"}, "megatron"),
        ({"framework": "llm_foundry"}, "liger"),
        ({"framework": "other", "num_accelerators": "2048"}, "megatron"),
    ],
)
def test_a_row_runs_under_the_stack_that_its_framework_is(told: dict[str, str], stack: str) -> None:
    row = Row({"workload": "pretraining", "sequence_length": "2048", "precision": "bf16_mixed"})

    assert filled(row | told, "training", unit="token")["software"] == stack


def test_a_source_has_no_part_in_its_own_prediction():
    runs = [run(1.4, "x", "a"), run(1.1, "y", "b"), run(1.1, "z", "b")]
    held_out = hold_out_sources(RunTimes(runs, load_calibration()))

    assert [item.slowdown for item in held_out] == [1.1, 1.4, 1.4]


def test_errors_count_in_the_direction_of_the_quantity():
    # Measured 1.2 times as long as predicted: a rate of 1.2 and a time of 1 / 1.2 are predicted.
    rate, time = run(1.2, "x"), run(1.2, "x")
    object.__setattr__(time, "is_rate", False)

    assert rate.error_pct(1.0) == pytest.approx(20.0)
    assert time.error_pct(1.0) == pytest.approx(-16.6667, abs=1e-3)


def seen(ratio: float, group: str, name: str = "") -> HeldOut:
    return HeldOut(run=run(ratio, group, name=name), ratio=ratio, slowdown=1.0)


# The tenth of ten in a hundred groups is 0.95, the tenth from above 1.33; on two cards without
# kernel measurements half of the former.
DENSE = [seen(0.905 + 0.005 * i, f"g{i}") for i in range(95)]
STRANGE = [seen(ratio, f"s{ratio}", "_unmeasured") for ratio in (0.475, 1.0)]


def test_intervals_are_the_tenths_of_residuals_and_wider_on_cards_without_kernels():
    found = fit_intervals([*DENSE, *STRANGE])

    narrow, wide = found["training_time"], found["training_time_unmeasured"]
    assert (narrow.low, narrow.high) == pytest.approx((0.95, 1.33), rel=0.06)
    assert (wide.low, wide.high) == pytest.approx((narrow.low / 2, narrow.high * 2), rel=0.02)


def test_guessed_settings_widen_a_range_by_as_much_as_they_miss():
    """Twice as far off as the stated runs, both ways; nothing without enough groups of them."""
    guessed = [
        replace(each, run=replace(each.run, guessed=True, group=f"x{each.run.group}"), ratio=ratio)
        for each in DENSE
        for ratio in (each.ratio**2,)
    ]
    found = fit_intervals([*DENSE, *STRANGE, *guessed])["training_time_guessed"]
    alone = fit_intervals([*DENSE, *STRANGE])["training_time_guessed"]

    assert (found.low, found.high) == pytest.approx((0.95, 1.33), rel=0.06)
    assert (alone.low, alone.high, alone.groups) == (1.0, 1.0, 0)


def test_work_that_nobody_measured_has_the_range_of_all_runs_widened():
    adapters = fit_intervals([*DENSE, *STRANGE])["training_time_adapters"]

    assert adapters.low == pytest.approx(0.95 / 2, rel=0.02)
    assert adapters.high == pytest.approx(1.33 * 2, rel=0.02)


def test_the_more_groups_the_nearer_the_interval_is_to_their_own():
    wide, narrow = (
        fit_intervals([*DENSE, *STRANGE, *routed])["training_time_routed"]
        for routed in ([seen(1.0, f"m{i}", "_routed") for i in range(groups)] for groups in (2, 40))
    )

    assert wide.low < narrow.low < 1 <= narrow.high < wide.high
