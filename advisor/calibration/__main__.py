"""``python -m advisor.calibration``: fit the constants anew and write them into the checkout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from advisor.calibration.constants import calibration_yaml, fit_constants, methodology_markdown
from advisor.calibration.measurements import FOLDER
from advisor.catalog import load_catalog
from advisor.catalog.constants import FITTED
from advisor.resources import data_path


def main(arguments: list[str] | None = None) -> int:
    """Write the fitted files; with ``--check`` only compare, and return 1 if they differ."""
    parser = argparse.ArgumentParser(prog="python -m advisor.calibration", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    cards = {card.key: card for card in load_catalog().accelerators}
    fitted = fit_constants(data_path(FOLDER), cards)
    texts = {
        data_path(FITTED): calibration_yaml(fitted),
        data_path(FITTED).parent.parent / "docs" / "methodology-kernels.md": methodology_markdown(
            fitted
        ),
    }
    stale = [path for path, text in texts.items() if _stored(path) != text]
    for path in stale:
        if options.check:
            sys.stderr.write(f"{path.name} differs; run 'make calibrate'\n")
        else:
            path.write_text(texts[path], encoding="utf-8")
            sys.stdout.write(f"wrote {path.name}\n")
    return int(options.check and bool(stale))


def _stored(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
