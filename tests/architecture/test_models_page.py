"""The page of supported models says what the code does."""

from __future__ import annotations

from advisor.architecture.__main__ import models_page
from advisor.architecture.families.registry import supported_types


def test_every_type_is_on_the_page() -> None:
    page = models_page()
    assert [kind for kind in supported_types() if f"`{kind}`" not in page] == []
