"""Each category of the memory-truth tables, not only their total; states and adapters exactly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import pytest

from advisor.calibration.fitting.kernel_tables import FOLDER
from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.memory_rows import predicted_run, predicted_tensors
from advisor.calibration.tables.reading import read_table
from advisor.errors import InputError
from advisor.estimate.fold import trainable_parameters
from advisor.foundation.resources import data_path

TABLES = ("memory_train", "memory_fsdp", "memory_ddp", "memory_tp", "memory_lora")
CATEGORIES = {
    "weights": ("parameter", "sharded_param", "base_param", "adapter_param"),
    "optimizer": ("optimizer",),
    "gradients": ("gradient", "sharded_grad", "ddp_bucket"),
    "activations": ("activation", "temp", "other", "buffer", "buffer_input"),
    "on their way": ("unsharded_param", "unsharded_grad", "comm_allgather", "comm_reduce_scatter"),
}
UPDATE = 2.0
"""The moment at which workspace is the optimizer's temporaries."""
MASTER_IN_OPTIMIZER = "bf16_master"
"""The mode whose optimizer owns the fp32 masters."""
APART = {
    # 39.2143 GB while the head is gathered, 39.2142 GB in the backward pass of the loss.
    "fsdp-llama-3.1-70b-64-1d-2048-4-mp_bf16-zero3-1-block+embed+head-adamw_fused-",
    # The tracker calls the lookup's gradient, summed over the ranks for its message, temporary.
    "tp-llama-3.1-8b-4-8-4096-1-mp_bf16-1-lp-1-adamw_fused",
}
"""Rows whose last two categories are one sum."""
STRETCHED = {"mt-gpt-2-124m-8192-1-amp_bf16-sdpa-0-adamw_fused"}
"""Rows whose table of positions was lengthened beyond the model's own."""


class Category(NamedTuple):
    """One category of one row. [bytes]"""

    row: str
    name: str
    counted: float
    predicted: float
    total: float


@lru_cache
def engine() -> Engine:
    return shipped_engine()


@lru_cache
def categories(table: str) -> tuple[Category, ...]:
    return tuple(_categories(table))


def _categories(table: str) -> Iterator[Category]:
    for row in read_table(data_path(FOLDER).parent / f"{table}.csv"):
        try:
            kind, _, memory = predicted_tensors(row, engine())
        except InputError:
            # `validate` names such rows with the reason.
            continue
        master = 4.0 * float(row["n_params"]) if row["mode"] == MASTER_IN_OPTIMIZER else 0.0
        predicted = {
            "weights": float(memory.weights[0]) - master,
            "optimizer": float(memory.optimizer[0]) + master,
            "gradients": float(memory.gradients[0]),
            "activations": float(memory.activations[0] + memory.logits[0]),
            "on their way": 0.0,
        }
        at_update = memory.moment[0] == UPDATE
        home = "gradients" if kind == "DDP" else "activations" if at_update else "on their way"
        predicted[home] += float(memory.workspace[0])
        counted = {
            name: sum(float(row.get(f"peak_{column}") or 0) for column in columns)
            for name, columns in CATEGORIES.items()
        }
        if row["id"] in APART:
            for amounts in (predicted, counted):
                amounts["activations"] += amounts.pop("on their way")
        for name, amount in counted.items():
            yield Category(row["id"], name, amount, predicted[name], float(row["peak_total"]))


@pytest.mark.parametrize("table", TABLES)
def test_each_category_is_within_a_tenth_where_it_is_over_a_tenth_of_the_total(table: str) -> None:
    large = [each for each in categories(table) if each.counted > 0.1 * each.total]
    off = [each for each in large if abs(each.predicted / each.counted - 1) > 0.1]

    assert large
    assert not off, "\n".join(
        f"{each.row} {each.name}: counted {each.counted / 1e9:.3f} GB, predicted "
        f"{each.predicted / 1e9:.3f} GB"
        for each in off
    )


@pytest.mark.parametrize("table", TABLES)
def test_optimizer_states_are_exact(table: str) -> None:
    states = [
        each for each in categories(table) if each.name == "optimizer" and each.row not in STRETCHED
    ]

    assert states
    for each in states:
        # The tables add step counters and round each tensor up to 512 bytes.
        assert each.predicted == pytest.approx(each.counted, rel=5e-3), each.row


def test_trainable_parameters_of_adapters_are_exact() -> None:
    rows = read_table(data_path(FOLDER).parent / "memory_lora.csv")
    counts = {row["id"]: int(row["n_trainable"]) for row in rows}
    predicted = {row["id"]: trainable_parameters(predicted_run(row, engine())) for row in rows}

    assert len(counts) == 31
    assert predicted == counts
