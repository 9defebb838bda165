"""Slowdowns of software and intervals of training time, on runs made by hand."""

from __future__ import annotations

import pytest

from advisor.calibration.software import (
    HeldOut,
    TimedRun,
    fit_intervals,
    fit_slowdowns,
    hold_out_sources,
)
from advisor.workload import SoftwareStack


def run(
    ratio: float, group: str, source: str = "a", stack: str = "megatron", name: str = ""
) -> TimedRun:
    return TimedRun(
        source=source,
        group=group,
        stack=SoftwareStack(stack),
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

    assert fit_slowdowns(runs)[SoftwareStack.MEGATRON] == 1.2


def test_no_stack_is_faster_than_its_kernels_and_one_without_runs_takes_the_median_of_all():
    slowdowns = fit_slowdowns([run(0.8, "x"), run(1.3, "y", stack="liger")])

    assert slowdowns[SoftwareStack.MEGATRON] == 1.0
    assert slowdowns[SoftwareStack.COMPILED] == 1.05


def test_a_source_has_no_part_in_its_own_prediction():
    held_out = hold_out_sources([run(1.4, "x", "a"), run(1.1, "y", "b"), run(1.1, "z", "b")])

    assert [item.slowdown for item in held_out] == [1.1, 1.4, 1.4]


def test_errors_count_in_the_direction_of_the_quantity():
    # Measured 1.2 times as long as predicted: a rate of 1.2 and a time of 1 / 1.2 are predicted.
    rate, time = run(1.2, "x"), run(1.2, "x")
    object.__setattr__(time, "is_rate", False)

    assert rate.error_pct(1.0) == pytest.approx(20.0)
    assert time.error_pct(1.0) == pytest.approx(-16.6667, abs=1e-3)


def test_intervals_are_the_tenths_of_residuals_and_wider_on_cards_without_kernels():
    seen = [HeldOut(run(0.9 + 0.02 * i, f"g{i}"), 1.0) for i in range(11)]
    strange = [HeldOut(run(ratio, f"s{ratio}", name="_unmeasured"), 1.0) for ratio in (0.46, 1.0)]
    found = fit_intervals([*seen, *strange])

    # Second and tenth of eleven; the strange runs reach down to half of 0.92.
    assert (found["training_time"].low, found["training_time"].high) == (0.92, 1.08)
    wide = found["training_time_unmeasured"]
    assert (wide.low, wide.high) == (0.46, 2.16)
