"""A case file opened on a page: its question, what it has beyond, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from advisor.nouns.case import Case
from advisor.ui.forms.cases import case_of
from advisor.ui.forms.from_case import inputs_of_case
from advisor.ui.forms.inputs import DEFAULTS, Inputs
from advisor.ui.forms.reading import read
from tests.ui.seen import seen
from tests.ui.test_one_case import opened, text

QUESTIONS = [
    {},
    {"task": "serve", "requests_per_second": "10/s", "speed": "25"},
    {"task": "pretrain", "pretrain_tokens": "1.5T", "deadline": ""},
    {"task": "serve", "model": "resnet-50", "at_once": "8"},
    {"task": "serve", "model": "sd-1.5-unet"},
    {"model": "parameters", "parameters": "13B"},
    {"model": "config.json", "config": '{"model_type": "gpt2"}'},
    {"rent": "own", "own_accelerator": "rtx-3090", "own_count": "2", "task": "qlora"},
    {"task": "full", "providers": ("AWS",), "deadline": "", "rent": "spot"},
]


def case(inputs: Inputs) -> Case:
    return Case.model_validate(case_of(inputs, read(inputs).numbers))


@pytest.mark.parametrize("changes", QUESTIONS, ids=str)
def test_a_case_that_the_page_wrote_opens_as_the_same_question(changes: dict[str, str]) -> None:
    asked = case(replace(DEFAULTS, **changes))
    inputs, left = inputs_of_case(asked)

    assert case(inputs) == asked
    assert left == ()


def with_case(content: str) -> AppTest:
    page = opened("learn", {})
    page.session_state["saving"] = True
    page.run()
    page.file_uploader[0].upload("case.yaml", content.encode()).run()
    assert not page.exception
    return page


def test_an_opened_case_is_read_back_and_asked_by_every_page() -> None:
    page = with_case(
        "model: {preset: qwen3-8b}\n"
        "workload: {kind: fine_tuning, method: qlora, tokens: 20e6}\n"
        "hardware: {accelerator: rtx-3090, count: 2}\n"
        "layout: {data: 2}\n"
        "limits: {deadline_hours: 48}\n"
    )

    assert "QLoRA fine-tuning of Qwen3 8B, tokens 20M, deadline 48 h, cards that you own" in text(
        page
    )
    assert "The page has no input for: layout.data." in text(page)
    assert page.query_params["model"] == "qwen3-8b"
    assert page.query_params["own_accelerator"] == "rtx-3090"
    assert page.query_params["own_count"] == "2"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1]", "the case is not a mapping"),
        ("model: {preset: gpt2}\nworkload: {kind: fine_tuning, tokens: -1}", "workload"),
        ("model: {config: /etc/hostname}\nworkload: {kind: serving}", "names a file"),
        ("model: {hub: org/name}\nworkload: {kind: serving}", "would be downloaded"),
        (
            "model: {preset: gpt2}\nworkload: {kind: serving}\nhardware: {accelerator: rtx-9999}",
            "rtx-9999",
        ),
    ],
)
def test_a_wrong_case_is_refused_and_changes_nothing(content: str, said: str) -> None:
    page = with_case(content)

    assert said in seen(page.error[0].value)
    assert "model" not in page.query_params
