"""No door to a server opens a file or downloads because a question says so.

The fields are read from the nouns. A new field that names a file needs an example here, and every
door must refuse it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor import api
from advisor.errors import InputError
from advisor.foundation.noun import Noun, annotated
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_case, load_sent, reaching
from advisor.services.questions import asked, doors
from advisor.ui.forms.rules import RULES

TRAINING: dict[str, Any] = {"workload": {"kind": "fine_tuning", "method": "lora"}}
EXAMPLES: dict[str, dict[str, Any]] = {
    "model.config": TRAINING | {"model": {"config": "/etc/hostname"}},
    "model.stack": TRAINING | {"model": {"stack": "/etc/hostname"}},
    "model.hub": TRAINING | {"model": {"hub": "org/name"}},
    "workload.demand.file": {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "serving", "demand": {"file": "/etc/hostname"}},
    },
}
CASE_DOORS = [name for name, door in doors().items() if door.question is Case]


def fields_that_reach(kind: type[Noun], path: str = "") -> Iterator[str]:
    """Yield the path of every field that opens a file or downloads, in nouns inside too."""
    yield from (f"{path}{name}" for name in reaching(kind))
    for name, field in kind.model_fields.items():
        for part in annotated(field):
            if isinstance(part, type) and issubclass(part, Noun):
                yield from fields_that_reach(part, f"{path}{name}.")


def portfolio(case: dict[str, Any]) -> dict[str, Any]:
    serving = case["workload"]["kind"] == "serving"
    often = {} if serving else {"runs_per_month": 1}
    return {"workloads": [{"name": "x", "case": case} | often]}


def test_every_field_that_reaches_outside_has_an_example() -> None:
    assert {*fields_that_reach(Case)} == {*EXAMPLES}
    assert {*fields_that_reach(api.Portfolio)} == {f"workloads.case.{path}" for path in EXAMPLES}


def test_questions_without_a_case_reach_nothing() -> None:
    others = [door.question for door in doors().values() if door.question is not Case]

    assert others
    assert [path for kind in others for path in fields_that_reach(kind)] == []


@pytest.mark.parametrize("field", EXAMPLES)
def test_the_command_line_and_python_take_it(field: str) -> None:
    load_case(EXAMPLES[field])


@pytest.mark.parametrize("name", CASE_DOORS)
@pytest.mark.parametrize("field", EXAMPLES)
def test_http_and_mcp_refuse_it(name: str, field: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(doors()[name], EXAMPLES[field])

    assert caught.value.field == field


@pytest.mark.parametrize("field", EXAMPLES)
def test_a_page_refuses_it_in_a_portfolio(field: str) -> None:
    with pytest.raises(InputError) as caught:
        load_sent(api.Portfolio, portfolio(EXAMPLES[field]))

    assert caught.value.field == f"workloads.0.case.{field}"


def test_no_page_has_a_box_for_it() -> None:
    boxes = {rules.path for rules in RULES.values()}

    # The box *Own config.json* holds the content, which the page parses.
    assert boxes & {*EXAMPLES} == {"model.config"}


@pytest.mark.parametrize("room", ["ui", "services"])
def test_servers_read_questions_only_through_the_check(room: str) -> None:
    unchecked = {"as_case", "load_as", "load_case", "load_portfolio"}
    paths = [*(Path(advisor.__file__).parent / room).rglob("*.py")]
    assert paths
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "id", getattr(node, "attr", None))
            assert name not in unchecked, f"{path.name}: use load_sent instead of {name}"
