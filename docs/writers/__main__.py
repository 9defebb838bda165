"""Write every page and schema that repeats data or code: ``python -m docs.writers``."""

import json
from pathlib import Path

from advisor.architecture.__main__ import models_page
from advisor.catalog.files.rows import CatalogFile
from advisor.catalog.loader import load_snapshot
from advisor.probe.report import ProbeReport
from docs.writers.option_tables import with_tables
from docs.writers.prices_page import prices_page
from docs.writers.software_page import software_page

ROOT = Path(__file__).parents[2]
OPTIONS = "docs/cli.md"
DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def pages() -> dict[str, str]:
    """Return the text of each file, by its path in the checkout."""
    catalog, probe = CatalogFile.model_json_schema(), DRAFT | ProbeReport.model_json_schema()
    return {
        "docs/models.md": models_page(),
        "docs/software.md": software_page(),
        "docs/prices.md": prices_page(load_snapshot()),
        OPTIONS: with_tables((ROOT / OPTIONS).read_text(encoding="utf-8")),
        "docs/probe.schema.json": json.dumps(probe, indent=2) + "\n",
        "data/gpu_catalog.schema.json": json.dumps(catalog, indent=1, sort_keys=True) + "\n",
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / name).write_text(text, encoding="utf-8")
