"""The charts of a page under test."""

from __future__ import annotations

import json
from typing import NamedTuple

from streamlit.testing.v1 import AppTest


class Chart(NamedTuple):
    """A chart as the browser gets it: Plotly's JSON, and the chart in words."""

    spec: str
    alt: str


def charts_of(page: AppTest) -> list[Chart]:
    """Return the charts of a page, first to last."""
    given = [json.loads(item.proto.json or "{}") for item in page.get("bidi_component")]
    return [Chart(data["figure"], data["alt"]) for data in given if "figure" in data]
