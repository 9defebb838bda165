"""A training stack is a row of data: what the table accepts, and that a new row suffices."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.errors import CatalogError, InputError
from advisor.foundation import resources
from advisor.nouns.case import Case
from advisor.nouns.software import stacks
from tests.cases import pretrain

SHIPPED = resources.data_path("software.yaml")
Rows = dict[str, dict[str, Any]]


@pytest.fixture
def write_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Rows], None]]:
    """Return a way to replace ``software.yaml`` in a checkout that has all other data files."""
    data = tmp_path / "data"
    data.mkdir()
    for file in SHIPPED.parent.iterdir():
        if file != SHIPPED:
            (data / file.name).symlink_to(file)
    (tmp_path / "pyproject.toml").touch()

    def write(rows: Rows) -> None:
        lines = (f"{name}: {json.dumps(row)}\n" for name, row in rows.items())
        (data / SHIPPED.name).write_text("".join(lines))
        monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "advisor")
        forget()

    def forget() -> None:
        stacks.stack_rows.cache_clear()
        stacks.known_stacks.cache_clear()

    yield write
    monkeypatch.undo()
    forget()


def shipped() -> Rows:
    rows: Rows = yaml.safe_load(SHIPPED.read_text())
    return rows


def estimated(software: str) -> advisor.Estimate:
    return advisor.estimate(
        pretrain(
            "gpt2",
            "h100-sxm",
            1,
            tokens=1e9,
            sequence_length=1024,
            global_batch=4,
            precision="bf16_mixed",
            software=software,
            layout={"micro_batch": 4},
        )
    )


def test_a_new_row_is_a_new_stack(write_rows: Callable[[Rows], None]) -> None:
    fitted = yaml.safe_load(resources.data_path("calibration.yaml").read_text())["software"]
    slowdown = {"compiled": fitted["compiled"]["slowdown"], "mine": 1.5}
    rows = shipped()
    new = {"title": "Mine", "default_for": [], "loss_bytes_per_logit": 100, "slowdown": 1.5}
    write_rows(rows | {"mine": rows["compiled"] | new})

    usual, mine = estimated("compiled"), estimated("mine")

    # 4 x 1,024 tokens and GPT-2's 50,257 words: the loss is by far the fullest moment.
    assert mine.memory.logits_bytes.expected == 100 * 4 * 1024 * 50257
    assert mine.memory.weights_bytes == usual.memory.weights_bytes
    # Of a new stack no peak is published, so its range is wider.
    wide, narrow = mine.memory.activations_bytes, usual.memory.activations_bytes
    assert wide.low / wide.expected <= narrow.low / narrow.expected
    assert wide.high / wide.expected > narrow.high / narrow.expected
    assert usual.time is not None
    assert mine.time is not None
    # The kernels are the same; what the host loses beside them is the row's.
    assert mine.time.step_s.expected / slowdown["mine"] == pytest.approx(
        usual.time.step_s.expected / slowdown["compiled"]
    )


def test_a_case_and_its_schema_know_the_stacks_of_the_table(
    write_rows: Callable[[Rows], None],
) -> None:
    rows = shipped()
    write_rows(rows | {"mine": rows["plain"] | {"default_for": [], "slowdown": 1.1}})

    with pytest.raises(InputError, match=r"huggingface, plain.*, mine"):
        estimated("yours")
    field = Case.model_json_schema()["$defs"]["Pretraining"]["properties"]["software"]
    assert field["anyOf"][0]["enum"][: len(rows) + 1] == [*rows, "mine"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"loss_bytes_per_logit": None}, "loss_bytes_per_logit"),
        ({"colour": "blue"}, "colour"),
        ({"divides": ["layers"]}, "divides.0"),
        ({"default_for": ["pretraining", "samples"]}, "default_for"),
        ({"sources": {"colour": "a book"}}, "sources"),
    ],
)
def test_a_wrong_row_is_named(
    write_rows: Callable[[Rows], None], change: dict[str, Any], field: str
) -> None:
    rows = shipped()
    write_rows(rows | {"plain": rows["plain"] | change})

    with pytest.raises(CatalogError) as caught:
        stacks.known_stacks()

    assert "software.yaml" in str(caught.value)
    assert "plain" in str(caught.value)
    assert field in str(caught.value)


def test_a_column_that_is_missing_is_named(write_rows: Callable[[Rows], None]) -> None:
    rows = shipped()
    del rows["liger"]["launch_s"]
    write_rows(rows)

    with pytest.raises(CatalogError, match=r"liger.*launch_s"):
        stacks.known_stacks()


def test_a_slowdown_stands_in_one_file(write_rows: Callable[[Rows], None]) -> None:
    rows = shipped()
    write_rows(rows | {"plain": rows["plain"] | {"slowdown": 1.1}})

    with pytest.raises(CatalogError, match=r"also fitted in calibration\.yaml"):
        estimated("plain")


def test_a_fit_leaves_stated_slowdowns_alone(write_rows: Callable[[Rows], None]) -> None:
    rows = shipped()
    write_rows(rows | {"mine": rows["plain"] | {"default_for": [], "slowdown": 1.1}})

    assert stacks.fitted_stacks() == tuple(name for name in rows if "slowdown" not in rows[name])
    assert "megatron" in stacks.fitted_stacks()


def test_a_row_needs_its_slowdown_where_none_is_fitted(write_rows: Callable[[Rows], None]) -> None:
    rows = shipped()
    write_rows(rows | {"mine": rows["plain"] | {"default_for": []}})

    with pytest.raises(CatalogError, match=r"'mine', field 'slowdown'.*give its `slowdown`"):
        estimated("mine")


def test_names_are_read_without_a_yaml_reader() -> None:
    assert resources.entry_names("software.yaml") == tuple(shipped())


def test_each_kind_of_work_has_the_stack_that_most_people_run() -> None:
    usual = {work.value: stacks.usual_stack(work).name for work in stacks.Work}

    assert usual == {
        "pretraining": "megatron",
        "fine_tuning": "huggingface",
        "samples": "plain",
        "batches": "huggingface",
    }
