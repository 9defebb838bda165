"""The sentences of data/refusals.yaml against the code that names them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
import yaml

from advisor.architecture.resolve import REFUSALS
from advisor.foundation.resources import data_path

ENTRIES: dict[str, dict[str, str]] = yaml.safe_load(data_path("refusals.yaml").read_text("utf-8"))
SOURCES = sorted((Path(__file__).parents[2] / "advisor").rglob("*.py"))
# Entries that a table names, by the hub's error.
NAMED = {"hub_gated", "hub_unknown", "hub_without_config", "hub_wrong_id"}
PARTS = {"what", "value", "allowed", "remedy", "field"}


def _calls() -> Iterator[tuple[str, str, set[str]]]:
    """Yield the place of each call, the entry that it names, and its facts."""
    for path in SOURCES:
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "refusal(" in text else ():
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in {
                "refusal",
                "errors.refusal",
            }:
                continue
            if not isinstance(node.args[0], ast.Constant):
                continue
            entry = str(node.args[0].value)
            facts = {keyword.arg for keyword in node.keywords if keyword.arg}
            yield f"{path.parent.name}/{path.name}:{node.lineno}", entry, facts


CALLS = [*_calls()]


def _named(entry: dict[str, str]) -> set[str]:
    """The facts that an entry's sentences name."""
    fields = [name for text in entry.values() for _, name, _, _ in Formatter().parse(text) if name]
    return {name.partition(".")[0] for name in fields}


@pytest.mark.parametrize(("place", "name", "facts"), CALLS, ids=[place for place, _, _ in CALLS])
def test_a_call_gives_what_its_entry_names(place: str, name: str, facts: set[str]) -> None:
    entry = ENTRIES[name]
    assert _named(entry) <= facts, place
    assert facts - PARTS <= _named(entry), f"{place} gives what no sentence names"
    assert {"what", "allowed", "remedy"} <= entry.keys() | facts, place


def test_the_code_names_every_entry() -> None:
    assert {name for _, name, _ in CALLS} | NAMED == ENTRIES.keys()
    assert {*REFUSALS.values()} == NAMED
    assert all(_named(ENTRIES[name]) <= {"paste"} for name in NAMED)


@pytest.mark.parametrize("name", ENTRIES)
def test_sentences_are_whole(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.keys() <= PARTS
    assert entry.get("remedy", ".").endswith((".", "{paste}", "{found.remedy}"))
    assert not entry.get("what", "").endswith(".")
    assert not entry.get("allowed", "").endswith(".")
