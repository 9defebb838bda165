"""Whole processes: the command line as a person starts it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from benchmarks.cases import CASES
from benchmarks.timing import median_s, show


def run(*arguments: str) -> None:
    """Run ``gpu-advisor`` with arguments."""
    subprocess.run(
        [sys.executable, "-m", "advisor", *arguments], check=True, stdout=subprocess.DEVNULL
    )


def main() -> None:
    """Print the process figures."""
    bare = median_s(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    show("python -c pass", bare * 1e3, "ms")
    help_s = median_s(lambda: run("--help"))
    show("gpu-advisor --help", help_s * 1e3, "ms", "at most 200")
    show("gpu-advisor --help over python -c pass", help_s / bare, "x")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            path = Path(folder) / "case.yaml"
            path.write_text(yaml.safe_dump(case), encoding="utf-8")
            spent = median_s(lambda path=path: run("recommend", str(path)), repeats=5)  # type: ignore[misc]
            show(f"gpu-advisor recommend, {name}", spent * 1e3, "ms", "at most 1000")
