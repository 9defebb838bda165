"""Live prices: fetched through ``gpuhunt``, kept in the user's cache, joined with the snapshot."""

from __future__ import annotations

from pathlib import Path

from advisor.foundation.resources import cache_path


def cache_file() -> Path:
    """Return where live prices are kept."""
    return cache_path("prices.json")
