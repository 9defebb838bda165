"""What every test shares: where the checkout lies, and when a missing tool skips or fails."""

import csv
import gc
import importlib.util
import itertools
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from hypothesis import settings

from benchmarks.replicas import find_nginx

ROOT = Path(__file__).resolve().parent.parent
# Live prices that a person keeps on this machine must not reach the tests, nor theirs the person.
os.environ["GPU_ADVISOR_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / "gpu-advisor-no-cache")
# Prices age, and rankings with them. The tests judge them on this day.
os.environ["GPU_ADVISOR_TODAY"] = "2026-11-22"
# As the command line has it: NumPy's threads would only take the other worker's core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What one worker computes for all. The first process of a run makes the folder and removes it.
if "GPU_ADVISOR_TEST_FILES" not in os.environ:
    FILES = tempfile.TemporaryDirectory(prefix="gpu-advisor-tests-")
    os.environ["GPU_ADVISOR_TEST_FILES"] = FILES.name

# Spares the garbage collector most of its small rounds, as the command line does.
gc.set_threshold(100_000, 10, 10)

# The parser of libyaml, as the program's, reads the same values in a fifth of the time.
FAST: dict[str, Any] = {"Loader": getattr(yaml, "CSafeLoader", yaml.SafeLoader)}
vars(yaml).update(
    safe_load=partial(yaml.load, **FAST), safe_load_all=partial(yaml.load_all, **FAST)
)

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SLOW = 50
"""Usual tests that take as long as a slow one."""

STARTED = itertools.count(1)
SWEPT = 1000
"""Tests after which garbage that earlier ones left is collected, too."""

# A slow machine is no counterexample.
settings.register_profile("local", deadline=None)
if "CI" not in os.environ:
    settings.load_profile("local")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def catalog_counts() -> tuple[int, int, int]:
    """Accelerators, offers and their providers, counted in the files without the loader."""
    text = (ROOT / "data" / "gpu_catalog.yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text)["accelerators"].values()
    accelerators = sum(1 + len(item.get("memory_sizes_gb", ())) for item in written)
    with (ROOT / "data" / "cloud_offers.csv").open(encoding="utf-8") as file:
        providers = [row["provider"] for row in csv.DictReader(file)]
    return accelerators, len(providers), len(set(providers))


@pytest.fixture(scope="session")
def browser_executable() -> str:
    """Path of Chromium."""
    found = find_browser()
    assert found, "tests that use a browser are skipped without one"
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that drive a browser, which wait for it, evenly among the others.

    Workers take files in this order, the longest first, so that all cores have work until the end.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    longest = sorted(files.values(), key=_length, reverse=True)
    waiting = [tests for tests in longest if _drives_browser(tests)]
    others = [tests for tests in longest if not _drives_browser(tests)]
    # No browser starts among the last, short files: the other core would wait for it.
    places = [
        share * (place + 0.5) / len(group)
        for group, share in ((waiting, 0.8), (others, 1.0))
        for place in range(len(group))
    ]
    ordered = sorted(zip(places, [*waiting, *others], strict=True), key=lambda pair: pair[0])
    items[:] = [item for _, tests in ordered for item in tests]


def _length(tests: list[pytest.Item]) -> int:
    return sum(SLOW if test.get_closest_marker("slow") else 1 for test in tests)


def _drives_browser(tests: list[pytest.Item]) -> bool:
    return any(test.get_closest_marker("browser") for test in tests)


def pytest_runtest_setup(item: pytest.Item) -> None:
    # Streamlit collects all garbage after each run of a script: among what this test makes alone.
    if next(STARTED) % SWEPT == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    if item.get_closest_marker("browser") and find_browser() is None:
        missing("no Chromium on PATH", required_by="GPU_ADVISOR_REQUIRE_BROWSER")
    if item.get_closest_marker("nginx") and find_nginx() is None:
        missing("nginx is not installed", required_by="GPU_ADVISOR_REQUIRE_NGINX")
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        missing("PyTorch is not installed", required_by="GPU_ADVISOR_REQUIRE_TORCH")


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def missing(reason: str, *, required_by: str) -> NoReturn:
    """Skip, or fail where the named variable says that nothing may be skipped."""
    if os.environ.get(required_by, "0") not in {"", "0"}:
        pytest.fail(f"{reason}, and {required_by} is set", pytrace=False)
    pytest.skip(reason)
