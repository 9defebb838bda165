"""The pages for readers: links lead somewhere, and what they name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ("engine/arg_utils",)  # of vLLM
PAGES = sorted(
    [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "data").rglob("README.md")]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_exist(page: Path) -> None:
    """By the end of their path: `fold.py`, `estimate/fold.py`, `advisor/estimate/fold.py`."""
    known = [path for room in ("advisor", "tests") for path in (ROOT / room).rglob("*.py")]
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", page.read_text(encoding="utf-8"))
    missing = [
        name
        for name in named
        if not any(path.match(name) for path in known) and not name.startswith(OTHERS)
    ]
    assert missing == []


def test_the_house_has_every_room(root: Path) -> None:
    """docs/architecture.md names each folder of the package, and each module beside them."""
    page = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {path.stem for path in (root / "advisor").iterdir() if not path.name.startswith("_")}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", page)} == set()
