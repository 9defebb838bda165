"""The rows that a machine with a GPU writes are rows that the engine can score."""

import csv
from pathlib import Path

import pytest

import advisor
from advisor.foundation.quantities import Evidence, Range
from advisor.probe.checks.step_model import architecture_of
from advisor.probe.checks.training_check import check_models
from advisor.probe.report import StepCheck, StepShape, Timing
from benchmarks.gpu_check import training_row, write
from tests.probe.fakes import probed
from tests.probe.test_probe import TINY, fake


def check_of(shape: StepShape) -> StepCheck:
    return StepCheck(
        shape=shape,
        accelerator="h200-sxm",
        precision="bf16_amp",
        parameters=architecture_of(shape).total_parameters,
        measured=Timing(median_s=0.25, spread=0.01, samples=10, calls=10),
        predicted_s=Range(low=0.2, expected=0.25, high=0.3, evidence=Evidence.MEASURED),
        measured_bytes=20.0 * 2**30,
        predicted_bytes=Range.exact(21.0 * 2**30),
    )


def test_rows_have_the_columns_of_the_shipped_table(root: Path) -> None:
    with (root / "data" / "measurements" / "training_runs.csv").open(encoding="utf-8") as file:
        known = next(csv.reader(file))
    report = probed(fake(), sizes=TINY, time_limit_s=2.0)

    for shape in check_models().accelerators:
        assert set(training_row(report, check_of(shape))) <= set(known)


def test_the_engine_scores_the_rows(tmp_path: Path) -> None:
    report = probed(fake(), sizes=TINY, time_limit_s=2.0)
    path = tmp_path / "training.csv"
    write(path, [training_row(report, check_of(shape)) for shape in check_models().accelerators])
    scored = advisor.validate(path)

    assert scored.skipped == ()
    quantities = [row.quantity for row in scored.rows]
    assert quantities.count("tokens_per_s_per_accelerator") == len(check_models().accelerators) == 5
    assert quantities.count("peak_memory_gib") == 5
    # 4 sequences of 2,048 tokens in 0.25 s.
    speeds = [row for row in scored.rows if row.quantity == "tokens_per_s_per_accelerator"]
    assert speeds[0].measured == pytest.approx(32_768)


def test_the_configurations_are_of_three_kinds_with_and_without_checkpointing() -> None:
    kinds = {
        (shape.experts > 1, shape.key_value_heads < shape.heads, shape.recompute)
        for shape in check_models().accelerators
    }

    assert kinds == {
        (False, False, False),
        (False, False, True),
        (False, True, False),
        (False, True, True),
        (True, True, False),
    }
    # 16 layers of 1024 x (4 x 1024 + 3 x 2816) and 2 norms, two tables of 32,000, one norm.
    by_hand = 16 * (1024 * (4 * 1024 + 3 * 2816) + 2 * 1024) + 2 * 32_000 * 1024 + 1024
    assert architecture_of(check_models().accelerators[0]).total_parameters == by_hand
