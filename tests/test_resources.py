"""A checkout's own files win over packaged copies; a missing file says what to do."""

import sys
from pathlib import Path

import pytest

from advisor.errors import ResourceError
from advisor.foundation import resources


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a package with its own copies lies, and which is no checkout yet."""
    packaged = tmp_path / "advisor" / "_data"
    packaged.mkdir(parents=True)
    (packaged / "gpu_catalog.yaml").write_text("packaged")
    (tmp_path / "advisor" / "_app.py").write_text("packaged")
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "advisor")
    return tmp_path


def make_checkout(tree: Path) -> None:
    (tree / "data" / "measurements").mkdir(parents=True)
    (tree / "data" / "gpu_catalog.yaml").write_text("checkout")
    (tree / "app.py").write_text("checkout")
    (tree / "pyproject.toml").touch()


def test_an_installed_package_uses_its_copies(tree: Path) -> None:
    assert resources.data_path("gpu_catalog.yaml").read_text() == "packaged"
    assert resources.app_path().read_text() == "packaged"


def test_a_checkout_wins_over_packaged_copies(tree: Path) -> None:
    make_checkout(tree)

    assert resources.data_path("gpu_catalog.yaml").read_text() == "checkout"
    assert resources.app_path().read_text() == "checkout"
    assert resources.data_path("measurements") == tree / "data" / "measurements"


def test_a_folder_of_that_name_alone_is_no_checkout(tree: Path) -> None:
    make_checkout(tree)
    (tree / "pyproject.toml").unlink()

    assert resources.data_path("gpu_catalog.yaml").read_text() == "packaged"


def test_missing_packaged_data_says_what_to_do(tree: Path) -> None:
    with pytest.raises(ResourceError, match=r"'energy\.csv' is missing.*reinstall gpu-advisor"):
        resources.data_path("energy.csv")


def test_a_file_missing_from_a_checkout_is_not_taken_from_the_copies(tree: Path) -> None:
    make_checkout(tree)
    (tree / "app.py").unlink()

    with pytest.raises(ResourceError, match=r"web app is missing.*restore it from git"):
        resources.app_path()


def test_this_checkout_is_recognised(root: Path) -> None:
    assert resources.data_path("gpu_catalog.yaml") == root / "data" / "gpu_catalog.yaml"
    assert resources.app_path() == root / "app.py"


@pytest.mark.parametrize(
    ("platform", "variable", "folder"),
    [
        ("linux", "XDG_CACHE_HOME", "gpu-advisor"),
        ("linux", None, ".cache/gpu-advisor"),
        ("darwin", None, "Library/Caches/gpu-advisor"),
        ("win32", "LOCALAPPDATA", "gpu-advisor"),
        ("win32", None, "AppData/Local/gpu-advisor"),
    ],
)
def test_caches_lie_where_the_system_keeps_them(
    platform: str,
    variable: str | None,
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GPU_ADVISOR_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))

    assert resources.cache_path("prices.json") == tmp_path / folder / "prices.json"


def test_the_cache_folder_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_ADVISOR_CACHE_DIR", str(tmp_path))

    assert resources.cache_path("x") == tmp_path / "x"
