"""Builds the published JSON Schema of a report."""

from __future__ import annotations

import json

from advisor.probe.report import ProbeReport


def schema_text() -> str:
    """Return the content of ``docs/probe.schema.json``."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(schema | ProbeReport.model_json_schema(), indent=2) + "\n"
