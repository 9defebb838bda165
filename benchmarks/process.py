"""Whole processes: the command line as a person starts it."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from benchmarks.cases import CASES
from benchmarks.timing import median_s, show

REPEATS = 5


def run(*arguments: str) -> None:
    """Run ``gpu-advisor`` with arguments."""
    subprocess.run(
        [sys.executable, "-m", "advisor", *arguments], check=True, stdout=subprocess.DEVNULL
    )


def processor_s() -> float:
    """Return what all ended child processes have computed: steadier than the clock. [s]"""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the process figures."""
    bare = median_s(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    show("python -c pass", bare * 1e3, "ms")
    imported = median_s(
        lambda: subprocess.run([sys.executable, "-c", "import advisor"], check=True)
    )
    show("import advisor", imported * 1e3, "ms", "at most 60")
    help_s = median_s(lambda: run("--help"))
    show("gpu-advisor --help", help_s * 1e3, "ms", "at most 80")
    show("gpu-advisor --help over python -c pass", help_s / bare, "x")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            path = Path(folder) / "case.yaml"
            path.write_text(yaml.safe_dump(case), encoding="utf-8")
            before = processor_s()
            spent = median_s(
                lambda path=path: run("recommend", str(path)),  # type: ignore[misc]
                repeats=REPEATS,
            )
            computed = (processor_s() - before) / (REPEATS + 1)
            show(f"gpu-advisor recommend, {name}", spent * 1e3, "ms", "at most 600")
            show(f"gpu-advisor recommend, {name}, processor", computed * 1e3, "ms")
