"""A recorded price catalog, served as gpuhunt expects it."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

RECORDED = Path(__file__).parent / "recorded"
VERSION = "20261120-42"

Publish = Callable[..., Path]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Put the recorded catalogs under an address that gpuhunt reads instead of its own.

    The files are rows in the format of gpuhunt 0.1.34; ``texts`` replaces those of a provider.
    """
    base = tmp_path / "published"

    def put(version: str = VERSION, **texts: str) -> Path:
        for recorded in RECORDED.glob("*.csv"):
            text = texts.get(recorded.stem, recorded.read_text(encoding="utf-8"))
            folder = base / recorded.stem
            (folder / version).mkdir(parents=True, exist_ok=True)
            (folder / "version").write_text(f"{version}\n", encoding="utf-8")
            with zipfile.ZipFile(folder / version / "catalog.zip", "w") as archive:
                archive.writestr(recorded.name, text)
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", base.as_uri())
        return base

    return put


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program keeps prices in this test."""
    monkeypatch.setenv("GPU_ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prices.json"
