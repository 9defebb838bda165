"""The page *Accuracy*: what it says is what the tables of measurements hold."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest
from streamlit.testing.v1 import AppTest

import advisor
import advisor.ui.pages
from advisor import api
from advisor.architecture.table.model import ModelArchitecture
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import Row
from advisor.charts.accuracy import accuracy_alt, accuracy_chart
from advisor.charts.theme import LIGHT
from advisor.foundation.resources import data_path
from advisor.frames.accuracy import accuracy_frame, accuracy_summary, farthest_off
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Pretraining

PAGE = Path(advisor.ui.pages.__file__).parent / "accuracy.py"
TABLE = data_path("measurements/training_runs.csv")


@pytest.fixture(scope="module")
def training() -> list[api.PublishedRun]:
    return list(api.published_runs(["training_runs"]))


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_each_run_is_its_row_of_the_table(
    training: list[api.PublishedRun], rows: dict[str, dict[str, str]]
) -> None:
    assert training
    for run in training:
        row = rows[run.row.id]
        assert run.row.measured == float(row[run.row.quantity])
        assert run.accelerator == row["accelerator"]
        assert run.count == int(row["num_accelerators"])
        assert run.row.source == row["source"]


def test_a_source_in_a_repository_becomes_an_address(training: list[api.PublishedRun]) -> None:
    first = next(run for run in training if run.row.id == "t0001")
    assert first.address == (
        "https://github.com/mosaicml/llm-foundry/blob/495218376/"
        "scripts/train/benchmarking/README.md"
    )


def test_errors_weigh_groups_alike(training: list[api.PublishedRun]) -> None:
    speeds = [run for run in training if run.row.quantity == "tokens_per_s_per_accelerator"]
    groups: dict[str, list[float]] = {}
    for run in speeds:
        error = abs(run.row.expected / run.row.measured - 1)
        groups.setdefault(run.row.group, []).append(error)
    errors = accuracy_summary(speeds)
    assert errors is not None
    expected = 100 * median(sum(each) / len(each) for each in groups.values())
    assert errors.median_abs_pct == pytest.approx(expected)


def test_the_farthest_off_are_of_different_groups(training: list[api.PublishedRun]) -> None:
    worst = farthest_off(training, most=5)
    assert len({run.row.group for run in worst}) == 5
    assert abs(worst[0].row.error_pct) == max(abs(run.row.error_pct) for run in training)


def test_similar_runs_are_of_the_same_work_and_nearest_card_first() -> None:
    card = api.load_catalog().accelerator("h100-sxm")
    found = api.similar_runs(Pretraining(), accelerator=card, count=512, parameters=70e9)
    # llm-foundry measured MPT-70b on 512 H100.
    assert found[0].model == "MPT-70b"
    assert (found[0].accelerator, found[0].count) == ("h100-sxm", 512)
    # Mixtral 8x7B, 46.7 billion of which a token uses 12.9: other mixtures come before dense.
    routed = api.similar_runs(
        Pretraining(), accelerator=card, count=128, parameters=46.7e9, active_parameters=12.9e9
    )
    assert {run.accelerator for run in routed} == {"h100-sxm"}
    assert all(run.active_parameters < run.parameters / 2 for run in routed)
    adapters = api.similar_runs(
        FineTuning(method=FineTuningMethod.QLORA), accelerator=card, count=1, parameters=7e9
    )
    assert {run.task for run in adapters} == {"QLoRA"}


def test_chart_has_every_point_once(training: list[api.PublishedRun]) -> None:
    steps = [run for run in training if run.row.quantity == "step_time_s"]
    frame = accuracy_frame(steps)
    chart = accuracy_chart(frame, quantity="Time of a training step (s)", theme=LIGHT)
    points = [position for trace in chart.data[3:] for position in trace.customdata]
    assert sorted(points) == list(range(len(steps)))
    assert f"{len(steps)} measurements" in accuracy_alt(frame, quantity="step")


def test_page_predicts_the_opened_measurement_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    build = Engine.architecture

    def counted(engine: Engine, row: Row) -> ModelArchitecture:
        asked.append(row["id"])
        return build(engine, row)

    monkeypatch.setattr(Engine, "architecture", counted)
    page = AppTest.from_file(str(PAGE), default_timeout=120).run()

    assert not page.exception
    [opened] = asked
    assert page.selectbox(key="accuracy_one").placeholder.endswith(f": {opened}")


def test_page_says_how_many_and_filters() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=120).run()
    assert not page.exception
    runs = api.published_runs()
    assert any(f"{len(runs):,} published measurements" in item.value for item in page.markdown)
    page.selectbox(key="accuracy_task").set_value("LoRA").run()
    page.text_input(key="accuracy_card").set_value("a100").run()
    speeds = [
        run
        for run in runs
        if run.row.quantity == "tokens_per_s_per_accelerator"
        and run.task == "LoRA"
        and run.accelerator.startswith("a100")
    ]
    said = [item.value for item in page.markdown if "measurements in" in item.value]
    assert f"{len(speeds)} measurements" in said[0]
    page.text_input(key="accuracy_card").set_value("GTX 1650").run()
    assert not page.exception
    assert "Untested" in page.info[0].value
