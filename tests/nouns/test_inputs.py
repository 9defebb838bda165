"""An input is declared once, on the noun: option, page and documents follow."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from advisor.arguments.options import add_options, declared_options, described, groups, read_option
from advisor.foundation.noun import Noun
from advisor.nouns.case import Case, case_inputs
from advisor.nouns.inputs import TEXT, TRAINING, Declared, Input, Labelled, Reads, Task, declared
from advisor.nouns.serving import Serving
from advisor.ui.forms.inputs import DEFAULTS
from advisor.ui.forms.reading import problem_of, read
from advisor.ui.forms.rules import RULES, rules_of

NOT_TYPED = {
    "model.preset": "--model and the page's first row name it",
    "model.config": "--model names the file; the page takes its text",
    "model.hub": "--model names it",
    "model.stack": "--model names the file",
    "workload.kind": "--task and the page's first row choose it",
    "workload.method": "--task and the page's first row choose it",
    "workload.demand.hourly": "a list that only a case file states; --demand names a file",
    "workload.image_work": "follows from the model and the images' number and size",
    "layout.sequence_parallel": "on, as every stack does where it splits tensors",
    "layout.virtual_stages": "the search chooses it; a case file may state it",
    "limits.owned.measured": "from the report of a probe",
}
"""Fields of a case that no person types by themselves, with the reason."""


class Finish(Labelled):
    MATT = "matt", "Not shiny"
    GLOSS = "gloss", "Shiny"


class Toy(Noun):
    layers: Annotated[
        Annotated[int, Field(ge=2, le=9)] | None,
        Input("coats of paint", "--paint-layers", "Coats", blank="One", networks=TEXT),
    ] = None
    finish: Annotated[Finish, Input("how it looks", "--finish", "Finish")] = Finish.MATT
    hours: Annotated[
        float,
        Field(gt=0, le=24),
        Input("drying", "--drying", "Drying", reads=Reads.HOURS, tasks=TRAINING),
    ] = 2.0
    colours: Annotated[tuple[str, ...], Input("allow this colour", "--colour", "Colours")] = ()
    secret: int = 7


TOY = declared(Toy, "toy")


def test_a_declared_field_has_an_option() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, (item for item in TOY.values() if item.input))

    words = "--paint-layers 3 --drying 90min --colour red --colour blue"
    given = parser.parse_args(words.split())

    layers, hours, colours = (TOY[f"toy.{name}"] for name in ("layers", "hours", "colours"))
    assert read_option(layers, getattr(given, layers.dest)) == 3
    assert read_option(hours, given.drying) == 1.5
    assert [read_option(colours, text) for text in given.colour] == ["red", "blue"]
    assert "coats of paint" in parser.format_help()
    assert described(TOY["toy.finish"]) == "how it looks: matt (default) or gloss"
    assert described(colours) == "allow this colour; repeatable"


def test_a_declared_field_has_rules_for_the_page() -> None:
    layers, finish = rules_of(TOY["toy.layers"]), rules_of(TOY["toy.finish"])

    assert (layers.label, layers.kind, layers.blank) == ("Coats", Reads.WHOLE, "One")
    assert (layers.low, layers.high, layers.networks) == (2, 9, TEXT)
    assert (finish.kind, finish.default) == (Reads.CHOICE, "matt")
    assert finish.options == {"matt": "Not shiny", "gloss": "Shiny"}
    assert rules_of(TOY["toy.hours"]).tasks == TRAINING
    assert rules_of(TOY["toy.colours"]).several


def test_a_field_without_input_is_found_but_not_declared() -> None:
    assert TOY["toy.secret"].input is None
    with pytest.raises(TypeError, match=r"toy\.secret has no Input"):
        _ = TOY["toy.secret"].told


def test_an_added_field_of_the_case_reaches_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Painted(Case):
        toy: Toy = Toy()

    with_toy = declared(Painted)
    monkeypatch.setattr("advisor.arguments.options.case_inputs", lambda: with_toy)

    found = {item.told.flag for item in declared_options(("toy",))}
    assert found == {"--paint-layers", "--finish", "--drying", "--colour"}


def test_every_field_of_a_case_is_declared_or_said_not_to_be() -> None:
    undeclared = {path for path, item in case_inputs().items() if item.input is None}
    assert undeclared == set(NOT_TYPED)


def test_tasks_follow_from_the_workload_that_has_the_field() -> None:
    tasks = {path: item.tasks for path, item in case_inputs().items()}

    assert tasks["workload.input_tokens"] == {Task.SERVE}
    assert tasks["workload.tokens"] == set(Task) - {Task.SERVE}
    assert tasks["workload.preference"] == {Task.LORA, Task.QLORA, Task.FULL}
    assert tasks["workload.lora_rank"] == {Task.LORA, Task.QLORA}
    assert tasks["workload.image_size"] == set(Task)


@pytest.mark.parametrize("command", ["recommend", "estimate", "export", "own", "fits"])
def test_no_command_has_an_option_twice(command: str) -> None:
    flags = [item.told.flag for items in groups(command).values() for item in items]
    assert len(flags) == len(set(flags))


def test_every_section_has_its_options_in_some_command() -> None:
    flags = {
        item.path
        for command in ("recommend", "estimate", "own")
        for items in groups(command).values()
        for item in items
    }
    assert {path for path, item in case_inputs().items() if item.input and item.input.flag} == flags


def test_page_and_case_have_the_same_bounds() -> None:
    """But for the speed, which is the inverse of the time for one token."""
    for name, rules in RULES.items():
        item = case_inputs().get(rules.path)
        if item is None or item.low is None or name == "speed":
            continue
        assert (rules.low, rules.high) == (item.low, item.high), name
    time = case_inputs()["limits.max_tpot_ms"]
    assert time.low is not None
    assert time.high is not None
    speed = RULES["speed"]
    assert (speed.low, speed.high) == pytest.approx((1000 / time.high, 1000 / time.low))


def numbers() -> list[Declared]:
    return [
        item
        for item in case_inputs().values()
        if item.input and item.reads in (Reads.COUNT, Reads.WHOLE, Reads.LENGTH, Reads.PLAIN)
    ]


def test_every_number_is_bounded_on_both_sides() -> None:
    assert len(numbers()) > 50
    for item in numbers():
        assert item.low is not None, item.path
        assert item.high is not None, item.path


def test_the_case_refuses_what_the_page_refuses() -> None:
    work = {"model": {"preset": "llama-3.1-8b"}, "workload": {"kind": "serving"}}
    asked = replace(DEFAULTS, task="serve", users="1000001")

    assert problem_of(asked, "users") == "must be 1 to 1,000,000, not '1000001'."
    assert "users" in read(asked).problems
    with pytest.raises(ValidationError, match="less than or equal to 1000000"):
        Case.model_validate(work | {"workload": {"kind": "serving", "concurrency": 1_000_001}})


def test_formats_are_read_as_files_spell_them() -> None:
    """Files of llama.cpp end in Q4_K_M.gguf and the like; its options say q8_0 of a cache."""
    asked = Serving(weight_format="Q4_K_M", kv_cache_format="Q8_0")

    assert (asked.weight_format, asked.kv_cache_format) == ("q4_k_m", "q8_0")
    with pytest.raises(ValidationError, match="unknown weight_format 'Q4_K_X'"):
        Serving(weight_format="Q4_K_X")
