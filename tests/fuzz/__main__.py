"""``python -m tests.fuzz``: runs broken inputs of every kind and reports classes of failures."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.harness import Found


def main() -> int:
    """Run what the options say; 1 where an input failed."""
    options = _options()
    # Before NumPy is imported: a thread more is memory that the limit counts.
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    from tests.fuzz.harness import Found
    from tests.fuzz.workers import run_tasks, tasks_of

    tasks = tasks_of(options.count, options.seed, options.only)
    if options.at is not None:
        tasks = [(tasks[0][0], options.seed, options.at, 1)]
    start = time.monotonic()
    found = Found()
    for kind, part in run_tasks(tasks, options.workers, start + options.seconds):
        found.merge(part)
        if options.verbose:
            print(f"{time.monotonic() - start:6.0f} s {kind}", file=sys.stderr)
    _report(found, time.monotonic() - start)
    return 1 if found.classes else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other inputs (1)")
    parser.add_argument("--count", type=int, default=60_000, help="inputs of all kinds (60,000)")
    parser.add_argument("--only", metavar="KIND", help="one kind: case, config, gguf, ...")
    parser.add_argument("--at", type=int, metavar="N", help="input N of that kind alone")
    parser.add_argument("--seconds", type=float, default=600.0, help="end after this time (600)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (one a core)"
    )
    parser.add_argument("--verbose", action="store_true", help="tell each part as it ends")
    return parser.parse_args()


def _report(found: Found, took: float) -> None:
    for name, failures in sorted(found.classes.items(), key=lambda item: -item[1].count):
        print(f"\n{failures.count:,} x {name}")
        print(f"  {failures.detail}")
        print(f"  e.g. {failures.example}")
        print(f"  again: python -m tests.fuzz {failures.repeat}")
    print(
        f"\n{found.inputs:,} inputs in {took:.0f} s, {found.refused:,} refused; the slowest took "
        f"{found.slowest_s:.2f} s, the largest {found.largest_bytes / 1e6:.0f} MB; "
        f"{len(found.classes)} classes of failures."
    )


if __name__ == "__main__":
    sys.exit(main())
