"""Remedies: one click applies what the engine finds to work, one click undoes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import advisor
from advisor.ui.forms import remedies
from advisor.ui.forms.inputs import DEFAULTS
from tests.cases import tune
from tests.ui.test_one_case import opened, text

pytestmark = pytest.mark.usefixtures("few_models")


def buttons(page: AppTest) -> list[str]:
    return [item.label for item in page.button if str(item.key).startswith("remedy_")]


def test_a_small_card_is_offered_qlora_which_fits_and_is_undone() -> None:
    page = opened("fits", {"card": "rtx-3060-12gb", "task": "full"})
    # 8.03 billion parameters with 16 bytes of states are 120 GiB, in 4 bits 3.7 GiB: of 12.
    assert "Full fine-tuning of Llama 3.1 8B does not fit 1x NVIDIA GeForce RTX 3060" in text(page)
    assert "QLoRA instead" in buttons(page)
    page.button(key="remedy_QLoRA instead").click().run()

    assert not page.exception
    assert "QLoRA fine-tuning of Llama 3.1 8B fits 1x NVIDIA GeForce RTX 3060" in text(page)
    assert not buttons(page)
    page.button(key="undo_remedy").click().run()
    assert "does not fit" in text(page)
    assert "undo_remedy" not in {item.key for item in page.button}


def test_the_nearest_deadline_is_offered_first_and_works() -> None:
    page = opened("advisor", {"deadline": "0.2 h", "max_accelerators": "1", "accelerators": "l4"})
    first = buttons(page)[0]
    assert first.startswith("Deadline ")
    page.button(key=f"remedy_{first}").click().run()

    assert not page.exception
    hours = float(first.removeprefix("Deadline ").removesuffix(" h"))
    assert page.text_input(key="in_deadline").value == f"{hours:.0f} h"
    found = advisor.recommend(
        tune(
            "llama-3.1-8b",
            method="lora",
            tokens=10e6,
            limits={"deadline_hours": hours, "max_accelerators": 1, "accelerators": ["l4"]},
        )
    )
    assert found.plans
    assert found.answer in text(page)


def test_the_card_that_the_reader_named_elsewhere_is_one_click_away() -> None:
    page = opened("advisor", {"task": "qlora", "own_accelerator": "rtx-3060-12gb"})
    assert "RTX 3060" not in text(page)
    use = page.button(key="use_own")
    assert use.label == "Use my RTX 3060 · 12 GB instead"
    use.click().run()
    assert "RTX 3060 12 GB" in text(page)
    assert "use_own" not in {item.key for item in page.button}
    page.button(key="undo_remedy").click().run()
    assert page.selectbox(key="in_rent").value == "on_demand"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"task": "full"}, ["LoRA instead", "QLoRA instead", "Sequences of 2,048 tokens"]),
        ({"task": "serve"}, ["8-bit weights", "4-bit weights", "One user"]),
        ({"task": "lora", "rent": "own", "own_count": "2"}, ["QLoRA instead"]),
    ],
)
def test_each_task_has_its_own_changes(changed: dict[str, Any], expected: list[str]) -> None:
    titles = [item.title for item in remedies.changes(replace(DEFAULTS, **changed))]
    assert titles[: len(expected)] == expected
    assert ("+1 card" in titles) == ("rent" in changed)
