"""Data files: the quick reader means what PyYAML means, and refuses what it leaves out."""

import os
from pathlib import Path

import pytest
import yaml

from advisor.catalog.loader import CATALOG_FILE, OFFERS_FILE, load_snapshot, read_catalog
from advisor.errors import CatalogError
from advisor.foundation import data_files
from advisor.foundation.data_files import kept, read_yaml
from advisor.foundation.resources import data_path

WORDS = """
int: [7, -7, 0x1F, 1_000, 017]
float: [1.5, .5, 1e6, 1.0e+6, -2.5E-3, .inf]
truth: [true, No, on]
nothing: [~, null, ]
text: [1e6x, "7", 'true', 2026-11-21 ten]
date: 2026-11-21
? block
: - |
    two
    lines
  - >-
    folded
    text
empty: {}
1: number as a key
"""


@pytest.mark.parametrize(
    "name",
    [
        *("gpu_catalog.yaml", "machines.yaml", "model_presets.yaml"),
        "common_questions.yaml",
        *("calibration.yaml", "calibration_facts.yaml"),
        *(
            "launch_versions.yaml",
            "serving_programs.yaml",
            "training_programs.yaml",
            "sharing.yaml",
            "setup_steps.yaml",
            "cluster_files.yaml",
            "cluster_names.yaml",
            "training_refusals.yaml",
            "model_families.yaml",
        ),
        "launch_models.yaml",
        "published_weights.yaml",
        *("software.yaml", "tools.yaml", "tool_choice.yaml"),
    ],
)
def test_the_shipped_files_read_as_pyyaml_reads_them(root: Path, name: str) -> None:
    path = root / "data" / name

    assert repr(read_yaml(path)) == repr(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("text", ["", "# only a remark\n", "word\n", "[]\n", WORDS])
def test_every_kind_of_value_reads_as_pyyaml_reads_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)

    assert repr(read_yaml(path)) == repr(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: &x 1\nb: 2\n", "line 1", "the anchor &x"),
        ("a: 1\nb: !!binary aGk=\n", "line 2", "the tag binary"),
        ("a: !!set {1, 2}\n", "line 1", "the tag set"),
        ("a: 1\n---\nb: 2\n", "line 2", "a second document"),
        ("? [1, 2]\n: 3\n", "line 1", "a key that is no plain value"),
    ],
)
def test_what_data_files_do_without_is_refused(
    tmp_path: Path, text: str, line: str, problem: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)

    with pytest.raises(CatalogError) as caught:
        read_yaml(path)

    assert caught.value.entry == line
    assert caught.value.value == problem


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shipped file, in a data folder of its own, where Python may write."""
    monkeypatch.setattr(data_files, "data_path", lambda name: tmp_path / name)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.setattr("sys.pycache_prefix", None)
    path = tmp_path / "shipped.yaml"
    path.write_text("a: 1\nday: 2026-11-23\n")
    return path


def test_values_of_a_shipped_file_are_kept_until_it_changes(shipped: Path) -> None:
    first = read_yaml(shipped)
    [kept] = (shipped.parent / "__pycache__").iterdir()
    written = kept.stat().st_mtime_ns

    assert read_yaml(shipped) == first == yaml.safe_load(shipped.read_text())
    assert kept.stat().st_mtime_ns == written

    shipped.write_text("a: 2\nday: 2026-11-23\n")
    os.utime(shipped, ns=(1, 1))
    assert read_yaml(shipped) == yaml.safe_load(shipped.read_text())


def test_what_is_made_of_shipped_files_is_kept_until_one_of_them_or_the_code_changes(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def make() -> str:
        made.append(shipped.read_text())
        return made[-1]

    assert kept("made", make) == kept("made", make) == "a: 1\nday: 2026-11-23\n"
    assert len(made) == 1

    (shipped.parent / "other.csv").write_text("a\n1\n")
    kept("made", make)
    assert len(made) == 2

    monkeypatch.setattr(data_files, "_code", lambda: "another version")
    kept("made", make)
    assert len(made) == 3


def test_the_kept_catalog_is_the_catalog_of_the_files() -> None:
    folder = data_path("")
    files = folder / CATALOG_FILE, folder / OFFERS_FILE

    assert load_snapshot() == read_catalog(*files)


@pytest.mark.parametrize("broken", [b"", b"half", b"\x80\x04N."])
def test_a_broken_copy_of_the_values_is_replaced(shipped: Path, broken: bytes) -> None:
    read_yaml(shipped)
    [kept] = (shipped.parent / "__pycache__").iterdir()
    kept.write_bytes(broken)

    assert read_yaml(shipped) == yaml.safe_load(shipped.read_text())
    assert kept.stat().st_size > len(broken)


def test_nothing_is_kept_where_python_keeps_nothing(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)

    assert read_yaml(shipped) == yaml.safe_load(shipped.read_text())
    assert not (shipped.parent / "__pycache__").exists()


def test_values_of_a_users_file_are_not_kept(shipped: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / "own.yaml"
    own.parent.mkdir()
    own.write_text(shipped.read_text())

    assert read_yaml(own) == yaml.safe_load(own.read_text())
    assert [path.name for path in own.parent.iterdir()] == ["own.yaml"]
