"""Live prices: fetch them through ``gpuhunt``, cache them, join them with the snapshot."""

from pathlib import Path

from advisor.foundation.resources import cache_path


def cache_file() -> Path:
    """Return the path of the file that caches live prices."""
    return cache_path("prices.json")
