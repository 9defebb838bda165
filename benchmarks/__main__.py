"""Run all benchmarks: ``python -m benchmarks [catalog|engine|process|sweep|fleet|page]``."""

from __future__ import annotations

import sys

from benchmarks import catalog, engine, fleet, page, process, sweep

PARTS = {
    "catalog": catalog.main,
    "engine": engine.main,
    "process": process.main,
    "sweep": sweep.main,
    "fleet": fleet.main,
    "page": page.main,
}


def main() -> int:
    """Run the named parts, or all of them."""
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; choose among {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in names:
        PARTS[name]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
