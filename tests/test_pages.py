"""Pages and schemas that repeat data or code say what those say now."""

from pathlib import Path

import pytest

from docs.writers.__main__ import pages

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str, root: Path) -> None:
    """Mend it with ``make pages``."""
    assert (root / name).read_text(encoding="utf-8") == PAGES[name]
