"""Errors on published measurements: what holds today, rounded up; a loss fails the build."""

from __future__ import annotations

from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

import pytest

from advisor.calibration.fitting.memory import peak_errors
from advisor.calibration.scoring.accuracy_page import ALL_TABLES
from advisor.calibration.scoring.published import published_runs
from advisor.calibration.scoring.training_errors import SpeedErrors, speed_errors
from tests.calibration.scored import report


class Bound(NamedTuple):
    """What a quantity of a table must keep, in percent; rows counted so that none gets lost."""

    table: str
    quantity: str
    rows: int
    median: float
    p90: float
    bias: float


BOUNDS = (
    Bound("memory_train", "peak_total", 90, 0.1, 0.5, 0.1),
    Bound("memory_fsdp", "peak_total", 45, 0.1, 0.5, 0.1),
    Bound("memory_ddp", "peak_total", 9, 0.1, 0.1, 0.1),
    Bound("memory_tp", "peak_total", 15, 0.1, 0.6, 0.1),
    Bound("memory_lora", "peak_total", 31, 0.1, 0.2, 0.1),
    Bound("training_runs", "tokens_per_s_per_accelerator", 376, 7, 21.5, 1),
    # TPU slices over their network are no longer 48 to 88 % slow, which balanced the bias.
    Bound("training_runs_2", "tokens_per_s_per_accelerator", 21, 11.7, 26.8, 8.9),
    # Whisper on Gaudi 2 and 3 is predicted up to five times too fast.
    Bound("training_runs_2", "samples_per_s", 54, 16.2, 99.5, 1.6),
    Bound("training_runs_2", "step_time_s", 27, 10.7, 58, 2),
    # Llama 3.1 8B on one GB300 under NeMo, whose buffers of gradients last too, is told 14 % high.
    Bound("training_runs_2", "peak_memory_gib", 5, 10, 13.3, 6),
    Bound("training_runs_2", "wall_hours", 10, 5, 7, 2),
    Bound("mlperf_training", "tokens_per_s_per_accelerator", 57, 8.8, 17, 2.5),
    Bound("mlperf_training", "samples_per_s", 67, 4, 12, 3),
    # RetinaNet and Stable Diffusion of MLPerf with their evaluation, and ResNet-50 under tinygrad.
    Bound("training_runs", "wall_hours", 18, 8, 27.5, 6),
    Bound("memory_vision", "peak_total", 12, 0.9, 2.1, 0.7),
    Bound("training_runs", "samples_per_s", 176, 8.1, 20, 1),
    Bound("training_runs", "step_time_s", 152, 7, 27, 1),
    # Ten of them are detectors, 20 % low: workspaces of Winograd's convolutions are not counted.
    Bound("training_runs", "peak_memory_gib", 156, 4.8, 16, 1.5),
    Bound("cache_logs", "kv_cache_gib", 17, 2, 10, 2),
    Bound("cache_logs", "kv_tokens", 20, 2.8, 10, 2),
    Bound("serving_runs", "tpot_ms", 1300, 6.9, 31, 2),
    Bound("serving_runs", "ttft_ms", 1300, 14.5, 47.5, 2.6),
    Bound("serving_runs", "decode_tokens_per_s", 470, 8, 67, 1.5),
    Bound("serving_runs", "prefill_tokens_per_s", 380, 12.5, 41, 1),
    Bound("loaded_runs", "decode_tokens_per_s", 6, 2.2, 6, 2),
    # Four rows fewer: they repeated the results of another card.
    Bound("loaded_runs", "total_output_tokens_per_s", 215, 13.8, 107, 5.8),
    # H100 SXM by name, H100 PCIe by speed: an H100 SXM is told faster.
    Bound("doubtful_loads", "total_output_tokens_per_s", 29, 58, 90, 58),
    # The bias, and the median of first tokens below, were 3.98 and 21.1 before Kimi's experts in 4
    # bits on B200 came right.
    Bound("loaded_runs", "tpot_ms", 39, 14, 42, 3),
    # Equal prompts of Gemma on one RTX 3090 share a cache that is counted once for each request.
    Bound("loaded_runs", "ttft_ms", 70, 28.5, 77.5, 9),
    Bound("loaded_runs", "latency_ms", 11, 5, 12.5, 1),
    # P99, and P50 and P95 at rates.
    Bound("tail_runs", "ttft_ms", 210, 20.7, 63.5, 7),
    Bound("doubtful_tails", "ttft_ms", 29, 46, 53, 46),
    Bound("tail_runs", "tpot_ms", 15, 11.5, 26, 1.5),
    # Servers as guides start them: no constant follows their kernels and their eager prompts.
    Bound("server_pages", "tpot_ms", 106, 10.8, 42, 8.1),
    Bound("server_pages", "ttft_ms", 35, 16, 45, 1),
    Bound("server_pages", "total_output_tokens_per_s", 8, 14.2, 18.5, 14.2),
    Bound("mlperf_runs", "tpot_ms", 70, 31.5, 87, 2),
    Bound("mlperf_runs", "total_output_tokens_per_s", 140, 6.4, 35, 3.5),
    Bound("serving_vision", "images_per_s", 168, 10.7, 33, 1.5),
    Bound("serving_detectors", "images_per_s", 35, 4.5, 10.5, 1),
    Bound("serving_runs", "total_output_tokens_per_s", 470, 9.6, 39, 4.4),
)


@lru_cache
def speeds() -> tuple[SpeedErrors, ...]:
    return speed_errors()


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: f"{bound.table}-{bound.quantity}")
def test_errors_stay_within_what_was_reached(bound: Bound) -> None:
    found = report(bound.table).of(bound.quantity)

    assert found is not None
    assert found.n >= bound.rows
    assert found.median_abs_pct <= bound.median
    assert found.p90_abs_pct <= bound.p90
    assert abs(found.bias_pct) <= bound.bias


@pytest.mark.parametrize("table", ALL_TABLES)
def test_the_predictions_that_pages_show_are_those_of_the_engine(table: str) -> None:
    live = {(row.id, row.quantity): row for row in report(table).rows}
    stored = {(run.row.id, run.row.quantity): run.row for run in published_runs([table])}

    assert stored.keys() == live.keys(), "run 'make accuracy'"
    for key, row in stored.items():
        now = live[key]
        shown = (row.measured, row.low, row.expected, row.high)
        assert shown == pytest.approx((now.measured, now.low, now.expected, now.high), rel=6e-4)
        assert (row.regime, row.group, row.source) == (now.regime, now.group, now.source)


@pytest.mark.parametrize("table", ALL_TABLES)
def test_every_row_is_predicted_or_named_with_a_reason(table: str) -> None:
    scored = {row.id for row in report(table).rows}
    skipped = {row.id: row.reason for row in report(table).skipped}

    assert scored
    assert not scored & set(skipped)
    assert all(len(reason) > 10 for reason in skipped.values())


@pytest.mark.parametrize("table", ALL_TABLES)
def test_ranges_hold_their_expected_value(table: str) -> None:
    assert all(row.low <= row.expected <= row.high for row in report(table).rows)


MEMORY_TABLES = ("memory_train", "memory_fsdp", "memory_ddp", "memory_tp", "memory_lora")


@pytest.mark.parametrize("table", MEMORY_TABLES)
def test_memory_of_tensors_is_as_exact_as_promised(table: str) -> None:
    found = report(table).of("peak_total")

    assert found is not None
    assert found.each_row.median_abs_pct <= 3
    assert found.each_row.p90_abs_pct <= 10
    assert abs(found.each_row.bias_pct) <= 2


@pytest.mark.parametrize("table", [*MEMORY_TABLES, "memory_vision"])
def test_ranges_of_tensors_are_neither_too_wide_nor_too_narrow(table: str) -> None:
    found = report(table).of("peak_total")

    assert found is not None
    assert 75 <= found.coverage_pct <= 90


def test_published_peaks_keep_the_thresholds_promised() -> None:
    found = report("training_runs").of("peak_memory_gib")

    assert found is not None
    for errors in (found, found.each_row):
        assert errors.median_abs_pct <= 16
        assert errors.p90_abs_pct <= 40
        assert 75 <= errors.coverage_pct <= 90


def test_published_peaks_hold_on_sources_that_the_fit_has_not_seen() -> None:
    seen, unseen = peak_errors()

    assert seen.n == unseen.n >= 156
    for found in (seen, unseen):
        assert found.median_abs_pct <= 7
        assert found.p90_abs_pct <= 18
        assert abs(found.bias_pct) <= 5
    assert 75 <= seen.each_row.coverage_pct <= 90
    # By row 90.3, since 21 rows of one source joined; by group 89.
    assert 75 <= unseen.each_row.coverage_pct <= 91


def test_what_ran_out_of_memory_is_never_called_a_fit_nor_what_ran_impossible() -> None:
    verdicts = report("training_runs").verdicts
    short = [each for each in verdicts if each.outcome == "oom"]
    ran = [each for each in verdicts if each.outcome != "oom"]

    assert len(short) >= 4
    assert not [each.id for each in short if each.called == "fits"]
    assert sum(each.called == "impossible" for each in ran) <= 0.03 * len(ran)


@pytest.mark.parametrize("quantity", ["kv_cache_gib", "kv_tokens"])
def test_cache_of_start_up_logs_is_within_five_percent(quantity: str) -> None:
    found = report("cache_logs").of(quantity)

    assert found is not None
    assert found.median_abs_pct <= 5
    assert found.each_row.median_abs_pct <= 5
    assert found.coverage_pct >= 75


@pytest.mark.parametrize("quantity", ["kv_cache_gib", "kv_tokens"])
def test_ranges_of_caches_hold_four_of_five_logs_read_by_the_fit_or_not(quantity: str) -> None:
    tables = ("cache_logs", "outside_kv_logs")
    groups: dict[str, list[bool]] = {}
    for row in (row for name in tables for row in report(name).rows if row.quantity == quantity):
        groups.setdefault(row.group, []).append(row.covered)

    assert len(groups) >= 20
    assert 75 <= 100 * fmean(fmean(covered) for covered in groups.values()) <= 90


SPEEDS = {
    # Rows, then median, 90 % and bias in sample, then the median with each source held out of all
    # fits. Without its one large source no run tells what experts cost. [%]
    "all runs": (761, 8.5, 24, 2, 10.5),
    "throughput": (609, 9, 22, 2, 10.5),
    "A100": (253, 6.5, 22, 3, 8),
    "H100": (183, 10, 28, 3, 12),
    # 21.5 before attention on A100 trained at its published rate.
    "V100": (63, 10, 22.7, 3, 10),
    "Blackwell": (180, 10.5, 20, 2.7, 11.5),
    "dense models": (348, 7.5, 18.5, 2, 8),
    "mixtures of experts": (122, 17, 35, 3, 16.5),
    "adapters": (85, 8.5, 18, 2, 9.5),
    "full fine-tuning": (52, 12, 38, 3, 13),
    "convolutional networks": (73, 11, 17.5, 6.5, 11.5),
    "detection": (36, 8, 22, 4, 9),
    "encoders": (23, 8, 21.3, 4, 8.5),
}


@pytest.mark.parametrize("name", SPEEDS)
def test_training_speed_holds_in_sample_and_on_sources_that_the_fit_has_not_seen(name: str) -> None:
    rows, middle, p90, bias, held_out = SPEEDS[name]
    found = {each.name: each for each in speeds()}[name]

    assert found.rows >= rows
    assert found.median_abs_pct <= middle
    assert found.p90_abs_pct <= p90
    assert abs(found.bias_pct) <= bias
    assert found.held_out_median_abs_pct <= held_out


@pytest.mark.parametrize("name", SPEEDS)
def test_ranges_of_training_speed_cover_what_they_promise_on_unseen_sources(name: str) -> None:
    found = {each.name: each for each in speeds()}[name]

    most = 90 if name in ("all runs", "throughput") else 97
    # ResNets of timm on an RTX 3090 are 30 % faster than predicted, and nothing like them is left
    # where their source is held out. Nearly all mixtures come from one source, whose releases
    # differ by a half: the groups of all others tell its range, which narrowed when torchtitan's
    # divided sequences came right.
    least = {"convolutional networks": 70, "mixtures of experts": 70.5}.get(name, 75)
    assert least <= found.held_out_coverage_pct <= most


SERVED = (
    "tpot_ms",
    "ttft_ms",
    "total_output_tokens_per_s",
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
)


@pytest.mark.parametrize("quantity", SERVED)
def test_ranges_of_serving_cover_about_four_in_five(quantity: str) -> None:
    found = report("serving_runs").of(quantity)

    assert found is not None
    assert 74 <= found.coverage_pct <= 90
