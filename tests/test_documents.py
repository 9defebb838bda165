"""The pages for readers: links lead somewhere, and what they name exists."""

import csv
import re
from pathlib import Path

import pytest

from advisor.architecture.families.registry import supported_types
from advisor.architecture.presets import list_presets
from advisor.nouns.software.stacks import known_stacks
from tests.fuzz.kinds import KINDS, TOTAL
from tests.fuzz.slices import share_of

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ("engine/arg_utils",)  # of vLLM
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "data").rglob("README.md")]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_exist(page: Path) -> None:
    """By the end of their path: `fold.py`, `estimate/fold.py`, `advisor/estimate/fold.py`."""
    known = [path for room in ("advisor", "tests") for path in (ROOT / room).rglob("*.py")]
    known.append(ROOT / "app.py")
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


def counted(page: Path, pattern: str) -> tuple[int, ...]:
    """Figures of the one place of a page that fits."""
    [found] = re.findall(pattern, page.read_text(encoding="utf-8"))
    figures = found if isinstance(found, tuple) else (found,)
    return tuple(int(figure.replace(",", "")) for figure in figures)


def test_the_page_of_the_data_counts_the_catalog(
    root: Path, catalog_counts: tuple[int, int, int]
) -> None:
    """Correct docs/data.md where the catalog has grown."""
    page = root / "docs" / "data.md"

    assert counted(page, r"\| (\d+) accelerators and CPUs") == catalog_counts[:1]
    assert counted(page, r"\| (\d+) offers of (\d+) providers \|") == catalog_counts[1:]


def test_the_changelog_counts_no_more_than_there_is(
    root: Path, catalog_counts: tuple[int, int, int]
) -> None:
    page = root / "CHANGELOG.md"
    pattern = r"Over (\d+) accelerators and (\d+) offers of over (\d+) providers"
    known = len(list_presets()), len(supported_types())

    for stated, there in (
        *zip(counted(page, pattern), catalog_counts, strict=True),
        *zip(counted(page, r"Over (\d+) presets and (\d+) types"), known, strict=True),
    ):
        assert there / 2 < stated <= there


def test_the_page_of_measurements_counts_their_rows(root: Path) -> None:
    folder = root / "data" / "measurements"
    text = (folder / "README.md").read_text(encoding="utf-8")
    rows = [
        (name, int(count.replace(",", "")))
        for names, counts in re.findall(r"^\| (`[^|]+`) \| ([\d, ]+) \|", text, re.MULTILINE)
        for name, count in zip(re.findall(r"`([^`]+)`", names), counts.split(", "), strict=True)
    ]
    assert len(rows) >= 15
    for name, count in rows:
        path = next(folder.rglob(name))
        with path.open(encoding="utf-8", newline="") as file:
            assert sum(1 for _ in csv.reader(file)) - 1 == count, name


def test_the_page_of_training_names_every_stack(root: Path) -> None:
    text = (root / "docs" / "methodology-training.md").read_text(encoding="utf-8")
    assert [name for name in known_stacks() if f"| `{name}` |" not in text] == []


def test_the_readme_counts_the_broken_inputs(root: Path) -> None:
    assert counted(root / "README.md", r"runs ([\d,]+) broken") == (TOTAL,)
    assert counted(root / "README.md", r"fixed ([\d,]+) of them") == (sum(map(share_of, KINDS)),)
