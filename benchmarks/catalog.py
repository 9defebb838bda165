"""The catalog: how long its first load in a process takes."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.timing import show

FIRST_LOAD = """\
import time
from advisor.catalog import load_catalog
start = time.process_time()
load_catalog()
print(time.process_time() - start)
"""
"""Processor time: what others do on the machine does not count."""


def first_load_s() -> float:
    """Return the time of the first load in a fresh process, its modules imported. [s]"""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LOAD], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def main() -> None:
    """Print the catalog's figures."""
    spent = statistics.median(first_load_s() for _ in range(7))
    show("first load of the whole catalog", spent * 1e3, "ms", "at most 150")
