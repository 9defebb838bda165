"""CONTRIBUTING.md: what it names exists, what it shows stands in the data, its commands run."""

from __future__ import annotations

import csv
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

import advisor
from advisor import cli
from advisor.calibration.__main__ import add_rows
from advisor.calibration.tables.reading import MEASUREMENTS
from advisor.errors import InputError
from advisor.foundation import resources
from advisor.foundation.data_files import read_yaml

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MADE = re.findall(r"\bmake [a-z]+(?: ARGS=(?:\"[^\"]+\"|[\w/.]+))?", GUIDE)
COMMANDS = [line for line in re.findall(r"`(gpu-advisor \w+ [^`]+)`", GUIDE) if "…" not in line]


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", GUIDE, re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", body, flags=re.MULTILINE) for indent, body in found]


def test_there_are_seven_recipes() -> None:
    headings = re.findall(r"^## ((?:Add|Correct) .+)", GUIDE, re.MULTILINE)
    assert headings == [
        "Add an accelerator",
        "Add a price",
        "Add a model family",
        "Add a measurement",
        "Add a software stack",
        "Add a tool to the table of software",
        "Correct a formula",
    ]


def test_files_that_it_names_exist() -> None:
    named = re.findall(r"`((?:\.?\w+/)[\w./*-]*|\w+\.md)`", GUIDE)
    named += [word for line in MADE for word in re.findall(r"[\w/]+/[\w/.]+", line)]
    assert len(named) >= 30
    assert [name for name in named if not any(ROOT.glob(name.rstrip("/")))] == []


def test_targets_that_it_names_are_in_the_makefile() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = {line.split()[1] for line in MADE}
    assert named >= {"test", "lint", "format", "facts", "pages", "calibrate", "accuracy"}
    assert named - set(targets) == set()


def test_files_that_the_makefile_names_exist() -> None:
    """`make facts` named a test that had moved."""
    named = re.findall(r"\btests/[\w/]+\.py", (ROOT / "Makefile").read_text("utf-8"))
    assert len(named) >= 8
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_entries_that_it_shows_are_those_of_the_data() -> None:
    """Where one was edited, copy it to the page."""
    sections = {"gpu_catalog.yaml": "accelerators", "model_families.yaml": "families"}
    for (name, section), block in zip(sections.items(), blocks("yaml"), strict=True):
        shipped = read_yaml(ROOT / "data" / name)
        assert isinstance(shipped, dict)
        [(key, entry)] = yaml.safe_load(block).items()
        assert entry == shipped[section][key]
    [price, _] = blocks("csv")
    assert price in (ROOT / "data" / "cloud_offers.csv").read_text("utf-8")


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_that_it_shows_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs.csv").write_text(blocks("csv")[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line.replace("NAME", "compiled"))[1:]

    assert (cli.main(words), capsys.readouterr().err) == (0, "")


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of measurements of a checkout that may be written to."""
    folder = tmp_path / "data" / MEASUREMENTS
    shutil.copytree(ROOT / "data", tmp_path / "data")
    monkeypatch.setattr(resources, "_checkout", lambda: tmp_path)
    return folder


def test_the_measurement_that_it_shows_is_added(tables: Path, tmp_path: Path) -> None:
    runs, table = tmp_path / "runs.csv", tables / "outside_training.csv"
    runs.write_text(blocks("csv")[1], encoding="utf-8")
    before = table.read_text("utf-8")

    assert add_rows(runs, "outside_training") == 1

    assert table.read_text("utf-8").startswith(before)
    added = list(csv.DictReader(io.StringIO(table.read_text("utf-8"))))[-1]
    [shown] = csv.DictReader(io.StringIO(blocks("csv")[1]))
    assert {name: text for name, text in added.items() if text} == shown
    # Cells that stay empty leave no row out.
    lines = table.read_text("utf-8").splitlines(keepends=True)
    runs.write_text(lines[0] + lines[-1], encoding="utf-8")
    report = advisor.validate(runs)
    assert ([row.id for row in report.rows], report.skipped) == (["lab-1"], ())


@pytest.mark.parametrize(
    ("table", "old", "new", "named"),
    [
        ("outside", "", "", "outside_desktop"),
        ("outside_training", "micro_batch", "microbatch", "micro_batch"),
        ("outside_training", "lab-1", "ot001", "'ot001'"),
        ("outside_training", "log of our cluster of 2026-11-20", "", "its source"),
    ],
)
def test_a_measurement_that_does_not_suit_is_refused(
    tables: Path, tmp_path: Path, table: str, old: str, new: str, named: str
) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text(blocks("csv")[1].replace(old, new) if old else blocks("csv")[1], "utf-8")
    before = (tables / "outside_training.csv").read_bytes()

    with pytest.raises(InputError, match=named):
        add_rows(runs, table)
    assert (tables / "outside_training.csv").read_bytes() == before


def test_hooks_check_what_lint_checks_without_a_network() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    entries = [hook["entry"] for repo in hooks for hook in repo["hooks"]]
    lint = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]

    assert {repo["repo"] for repo in hooks} == {"local"}
    assert {hook["language"] for repo in hooks for hook in repo["hooks"]} == {"system"}
    for words in re.findall(r"\$\(RUN\) (.+)", lint):
        command = f".venv/bin/python -m {words.removesuffix(' .')}"
        assert any(entry.startswith(command) for entry in entries), command
    assert "make facts" in entries
