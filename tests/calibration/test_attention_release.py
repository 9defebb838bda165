"""Runs with the flash attention of early 2023, at all lengths; nothing was fitted on them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import advisor
from advisor.calibration.tables.reading import read_table
from advisor.foundation.resources import data_path

# MPT 3B on eight H100, bf16, of mosaicml/llm-foundry@061f2c7, scripts/train/benchmarking/README.md:
# tokens of a sequence, sequences of a micro-batch and of a step, recomputed, tokens/s on one card.
MEASURED = (
    (512, 40, 1920, "none", 27_965),
    (1_024, 20, 960, "none", 27_046),
    (4_096, 5, 240, "none", 20_964),
    (8_192, 3, 144, "none", 16_578),
    (16_384, 1, 48, "none", 11_152),
    (32_768, 3, 144, "full", 5_873),
    (65_536, 1, 16, "full", 3_262),
)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Error of the predicted rate by length. [%]"""
    shape = next(
        row
        for row in read_table(data_path("measurements") / "training_runs.csv")
        if row["model"] == "MPT-3b"
    )
    table = tmp_path_factory.mktemp("runs") / "runs.csv"
    with Path(table).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(shape))
        writer.writeheader()
        for length, micro, batch, recompute, rate in MEASURED:
            writer.writerow(
                shape
                | {
                    "id": str(length),
                    "accelerator": "h100-sxm",
                    "num_accelerators": "8",
                    "sequence_length": str(length),
                    "micro_batch": str(micro),
                    "global_batch": str(batch),
                    "recompute": recompute,
                    "tokens_per_s_per_accelerator": str(rate),
                    "primary_quantity": "tokens_per_s_per_accelerator",
                    "also_memory": "0",
                }
            )
    return {int(row.id): row.error_pct for row in advisor.validate(table).rows}


def test_all_lengths_are_within_a_tenth(errors: dict[int, float]) -> None:
    assert sorted(errors) == [row[0] for row in MEASURED]
    assert max(abs(error) for error in errors.values()) <= 10


def test_the_error_does_not_grow_with_the_length(errors: dict[int, float]) -> None:
    assert errors[65_536] == pytest.approx(errors[512], abs=5)
