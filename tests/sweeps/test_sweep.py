"""Sweeps on this machine: same figures as one estimate, any order of workers, kills, bad rows."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import advisor
from advisor.errors import InputError, TransferError
from advisor.sweeps.crew import Chunk, LocalCrew, here
from advisor.sweeps.journal import Journal
from advisor.sweeps.questions import MAX_COLUMNS, read_grid
from advisor.sweeps.rows import FIGURES, answer_rows
from advisor.sweeps.sweep import MOST_IN_CHUNK

GRID: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {
        "kind": "fine_tuning",
        "method": ["lora", "full"],
        "tokens": 50e6,
        "sequence_length": [2048, 4096],
    },
    "hardware": {"accelerator": ["h100-sxm", "rtx-4090", "nope"], "count": [1, 8]},
    "limits": {"deadline_hours": [1, 24]},
}
SEARCHED: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "tokens": 50e6},
    "limits": {"deadline_hours": [0.02, 1, 24], "budget_usd": [5, 500]},
    "objective": ["cheapest", "fastest"],
}


def test_a_row_has_the_figures_of_the_estimate() -> None:
    questions = list(read_grid(GRID).read())
    cases = [item.case for item in questions if isinstance(item.case, dict)]

    for case, row in zip(cases, answer_rows(cases), strict=True):
        if case["hardware"]["accelerator"] == "nope":
            with pytest.raises(InputError) as caught:
                advisor.estimate(case)
            assert (row["outcome"], row["problem"]) == ("mistake", str(caught.value))
            continue
        one = advisor.estimate(case)
        cost, time = one.cost.rent_usd, one.time
        assert time is not None
        assert row["memory_bytes"] == one.memory.total_bytes.expected
        assert row["fits"] == one.memory.fits
        assert row["run_hours_high"] == time.run_hours.high
        assert row["rent_usd"] == (None if cost is None else cost.expected)
        assert (row["tensor"], row["recompute"]) == (one.layout.tensor, one.layout.recompute.value)
        assert row["outcome"] == (
            "does_not_fit"
            if not one.memory.fits
            else "misses_limits"
            if one.missed_limits
            else "ok"
        )


def test_without_hardware_a_row_has_the_best_plan() -> None:
    cases = [question.case for question in read_grid(SEARCHED).read()]

    for case, row in zip(cases, answer_rows(cases), strict=True):
        assert isinstance(case, dict)
        plans = advisor.recommend(case).plans
        if not plans:
            assert row["outcome"] == "no_plan"
            continue
        best = plans[0].estimate
        assert (row["accelerator"], row["count"]) == (best.accelerator, best.count)
        assert best.time is not None
        assert best.cost.rent_usd is not None
        assert row["run_hours"] == best.time.run_hours.expected
        assert row["rent_usd"] == best.cost.rent_usd.expected


def test_order_and_figures_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    alone = advisor.sweep(GRID, workers=1)
    together = advisor.sweep(GRID, workers=2, output=tmp_path / "rows.parquet")

    pd.testing.assert_frame_equal(alone, together)
    assert alone["row"].tolist() == list(range(48))
    assert alone["hardware.count"].dtype == "int64"
    assert (alone["outcome"] == "mistake").sum() == 16
    wrong = alone[alone["hardware.accelerator"] == "nope"]
    assert wrong["problem_field"].unique().tolist() == ["hardware.accelerator"]
    assert not (tmp_path / "rows.parquet.partial").exists()


def test_csv_has_the_same_rows_and_no_formula(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "id": ["=1+1", "plain"],
            "model.preset": ["llama-3.1-8b"] * 2,
            "workload.kind": ["serving"] * 2,
            "hardware.accelerator": ["l40s", "-danger"],
        }
    )
    path = tmp_path / "rows.csv"

    advisor.sweep(frame, output=path)

    read = pd.read_csv(path)
    assert read["id"].tolist() == ["'=1+1", "plain"]
    assert read["outcome"].tolist() == ["ok", "mistake"]
    assert read["hardware.accelerator"].tolist() == ["l40s", "'-danger"]


def test_a_worker_that_is_killed_is_replaced() -> None:
    chunks = [
        Chunk(number, *map(tuple, zip(*part, strict=True)))
        for number, part in enumerate(parts(read_grid(GRID).read(), 4))
    ]
    processes: list[int] = []
    crew = LocalCrew(2, on_start=processes.append)

    found: dict[int, object] = {}
    for chunk, rows in crew(iter(chunks), advisor.load_catalog()):
        if not found:
            os.kill(processes[0], signal.SIGKILL)
        found[chunk.number] = rows

    expected = {chunk.number: rows for chunk, rows in here(iter(chunks), advisor.load_catalog())}
    assert found == expected
    assert len(processes) == 3


def parts(questions: Iterator[Any], size: int) -> Iterator[list[Any]]:
    held = list(questions)
    yield from (held[first : first + size] for first in range(0, len(held), size))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "advisor", "sweep", *arguments]


def test_after_a_kill_the_same_command_goes_on(tmp_path: Path) -> None:
    lengths = {"from": 512, "to": 16384, "step": 640}
    grid = GRID | {"workload": GRID["workload"] | {"method": "lora", "sequence_length": lengths}}
    path, output = tmp_path / "grid.yaml", tmp_path / "rows.parquet"
    path.write_text(yaml.safe_dump(grid, sort_keys=False), encoding="utf-8")
    journal = tmp_path / "rows.parquet.partial"
    arguments = command(str(path), "--output", str(output), "--workers", "2", "--json")

    first = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while first.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > 3:
            first.kill()
        time.sleep(0.01)
    assert first.wait() == -signal.SIGKILL
    assert not output.exists()
    with journal.open("ab") as file:
        file.write(b'99 [{"row":1')  # a line that the kill tore
    done = subprocess.run(arguments, capture_output=True, check=True, timeout=250)

    summary = json.loads(done.stdout)
    rows = advisor.sweep(grid, workers=2)
    assert summary["rows"] == len(rows) == 300
    assert summary["resumed"] >= 3 * 9
    pd.testing.assert_frame_equal(pd.read_parquet(output), rows)
    assert not journal.exists()


def test_an_unfinished_sweep_of_something_else_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    (tmp_path / "rows.csv.partial").write_text('{"sweep":"another"}\n', encoding="utf-8")

    with pytest.raises(InputError, match="unfinished sweep of other cases"):
        advisor.sweep(SEARCHED, output=output)
    assert not output.exists()


HOSTILE_TEXTS = ["a\0b", "\x1b[2J", "\N{PILE OF POO}" * 300, "a\u202eb", "$(touch p)", "x" * 999]


def test_whatever_a_cell_holds_its_row_is_kept(tmp_path: Path) -> None:
    names = "id,model.preset,workload.kind,hardware.accelerator\n"
    lines = [f"{text},gpt2,serving,{text}\n" for text in HOSTILE_TEXTS]
    (tmp_path / "cases.csv").write_text(names + "".join(lines), encoding="utf-8")

    rows = advisor.sweep(tmp_path / "cases.csv", output=tmp_path / "rows.csv", workers=1)

    assert rows["outcome"].tolist() == ["mistake"] * len(HOSTILE_TEXTS)
    assert rows["id"].str.len().max() == 200
    assert all(map(str.isprintable, rows["id"]))


def test_the_longest_rows_are_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "rows.partial", {}, 1)
    wide = {str(column): "\N{PILE OF POO}" * 200 for column in range(MAX_COLUMNS)}
    journal.add(0, [wide] * MOST_IN_CHUNK)

    [rows] = Journal(tmp_path / "rows.partial", {}, 1).read()

    assert rows == [wide] * MOST_IN_CHUNK


@pytest.mark.parametrize("line", [b"1 [{}]\n", b"9" * 5000 + b" [{}]\n", b"-1 [{}]\n", b"x\n"])
def test_lines_of_no_chunk_are_cut(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "rows.partial"
    Journal(path, {}, 1).add(0, [{"row": 0}])
    whole = path.read_bytes()
    path.write_bytes(whole + line)

    assert list(Journal(path, {}, 1).places) == [0]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "nowhere/rows.csv", "a\0.csv"])
def test_an_output_that_cannot_be_written_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(TransferError, match="cannot be written"):
        advisor.sweep(SEARCHED, output=tmp_path / name)


def test_an_output_that_is_no_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").mkdir()

    with pytest.raises(InputError, match="cannot replace what is there"):
        advisor.sweep(SEARCHED, output=tmp_path / "rows.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_sweep_does_not_replace_its_own_table(tmp_path: Path) -> None:
    table = tmp_path / "cases.csv"
    table.write_text("model.preset,workload.kind\nllama-3.1-8b,serving\n", encoding="utf-8")
    (tmp_path / "link.csv").symlink_to(table)

    for name in ("cases.csv", "link.csv"):
        with pytest.raises(InputError, match="cannot replace what is there"):
            advisor.sweep(table, output=tmp_path / name)
    assert table.read_text(encoding="utf-8").endswith("serving\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grid.yaml", "--output", "rows.xlsx"], ".parquet or .csv"),
        (["grid.yaml", "--output", "rows.csv", "--workers", "0"], "--workers"),
        (["grid.yaml", "--output", "rows.csv", "--on", "nowhere"], "dask://HOST:PORT"),
        (["grid.yaml", "--output", "rows.csv", "--on", f"dask://{'a' * 70}:1"], "dask://HOST:PORT"),
        (["absent.yaml", "--output", "rows.csv"], "cannot be read"),
        (["empty.csv", "--output", "rows.csv"], "no columns"),
        (["grid.xlsx", "--output", "rows.csv"], "a grid or a table"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(SEARCHED), encoding="utf-8")
    (tmp_path / "empty.csv").touch()

    done = subprocess.run(
        command(*arguments), cwd=tmp_path, capture_output=True, check=False, text=True
    )

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_every_figure_has_a_column_type() -> None:
    assert {kind for kind, _ in FIGURES.values()} <= {int, float, bool, str}
