"""The page of supported models says what the code does."""

from __future__ import annotations

from pathlib import Path

from advisor.architecture.__main__ import models_page
from advisor.architecture.families.registry import supported_types

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    """Mend it with ``make pages``."""
    assert (ROOT / "docs" / "models.md").read_text(encoding="utf-8") == models_page()


def test_every_type_is_on_the_page() -> None:
    page = models_page()
    assert [kind for kind in supported_types() if f"`{kind}`" not in page] == []
