"""The sentences of data/refusals.yaml against the code that names them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import yaml

from advisor.architecture.resolve import REFUSALS
from advisor.foundation.resources import data_path

ENTRIES: dict[str, dict[str, str]] = yaml.safe_load(data_path("refusals.yaml").read_text("utf-8"))
SOURCES = sorted((Path(__file__).parents[2] / "advisor").rglob("*.py"))
# Entries that a table names, by the hub's error.
NAMED = {"hub_gated", "hub_unknown", "hub_without_config", "hub_wrong_id"}
PARTS = {"what", "value", "allowed", "remedy", "field"}


def _found() -> Iterator[tuple[str, str, set[str]]]:
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


@cache
def calls() -> list[tuple[str, str, set[str]]]:
    return [*_found()]


def _named(entry: dict[str, str]) -> set[str]:
    """The facts that an entry's sentences name."""
    fields = [name for text in entry.values() for _, name, _, _ in Formatter().parse(text) if name]
    return {name.partition(".")[0] for name in fields}


def test_a_call_gives_what_its_entry_names() -> None:
    assert len(calls()) > 100
    for place, name, facts in calls():
        entry = ENTRIES[name]
        assert _named(entry) <= facts, place
        assert facts - PARTS <= _named(entry), f"{place} gives what no sentence names"
        assert {"what", "allowed", "remedy"} <= entry.keys() | facts, place


def test_the_code_names_every_entry() -> None:
    assert {name for _, name, _ in calls()} | NAMED == ENTRIES.keys()
    assert {*REFUSALS.values()} == NAMED
    assert all(_named(ENTRIES[name]) <= {"paste"} for name in NAMED)


def test_sentences_are_whole() -> None:
    for name, entry in ENTRIES.items():
        assert entry.keys() <= PARTS, name
        assert entry.get("remedy", ".").endswith((".", "{paste}", "{found.remedy}")), name
        assert not entry.get("what", "").endswith("."), name
        assert not entry.get("allowed", "").endswith("."), name
