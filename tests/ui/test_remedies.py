"""Remedies: one click applies what the engine finds to work, one click undoes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import advisor
from advisor.planning.results import Rejection, RejectionCode
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
    assert ("4 cards" in titles) == ("rent" in changed)


def test_a_deadline_that_is_missed_offers_the_time_and_the_work_that_meets_it() -> None:
    missed = Rejection(
        accelerator="rtx-3060-12gb",
        accelerator_name="RTX 3060",
        code=RejectionCode.DEADLINE,
        message="",
        remedy="",
        actual=117.0,
        limit=24.0,
        unit="h",
    )
    found = [*remedies.near_misses(DEFAULTS, [missed])]
    # 24 of 117 hours do 2.05 of 10 million tokens, and limits are met with two percent to spare.
    assert [item.title for item in found] == ["Deadline 120 h", "Tokens: 2M"]


def test_one_card_more_is_offered_once() -> None:
    titles = [item.title for item in remedies.changes(replace(DEFAULTS, rent="own"))]
    assert "+1 card" in titles
    assert "2 cards" not in titles


@pytest.mark.parametrize(
    ("message", "title", "changes"),
    [
        ("With fp8 (lossless) it is cheaper (--weights fp8).", "Weight format: fp8", "weights=fp8"),
        ("QLoRA (--task qlora) with TRL", "Task: Fine-tune (QLoRA)", "task=qlora"),
        ("A risk of 17 % (--risk 50%).", "Accepted risk: 50%", "risk=50%"),
        ("More cards may (--max-accelerators, now 512).", "", ""),
        ("In steps (--step-tokens 2048): faster.", "", ""),  # the page has no such input
        ("Nobody serves with it (--software liger).", "", ""),  # of training
        ("A pace in other units (--max-tpot-ms 20).", "", ""),
    ],
)
def test_a_remark_that_names_options_is_one_click(message: str, title: str, changes: str) -> None:
    found = remedies.advised(replace(DEFAULTS, task="serve"), message)
    name, _, value = changes.partition("=")
    assert found == (remedies.Remedy(title, {name: value}) if title else None)


def test_a_note_is_applied_and_undone_with_a_click() -> None:
    page = opened("advisor", {"own_accelerator": "rtx-3060-12gb", "rent": "own"})
    # 16 GB of weights wait in the host's memory; four bits of each stay on the card.
    [note] = [item for item in page.button if str(item.key).startswith("advised_Task")]
    assert note.label == r"Task\: Fine\-tune \(QLoRA\)"
    note.click().run()
    assert "QLoRA fine-tuning of Llama 3.1 8B" in text(page)
    page.button(key="undo_remedy").click().run()
    assert "LoRA fine-tuning of Llama 3.1 8B" in text(page)


def test_rent_or_buy_offers_what_makes_something_worth_buying() -> None:
    page = opened("rent_or_buy", {"accelerators": "l4"})
    page.session_state["in_deadline"] = "0.01 h"
    page.run()
    assert "--" not in " ".join(item.value for item in page.error)
    [first, *_] = buttons(page)
    page.button(key=f"remedy_{first}").click().run()
    assert not page.error
    assert "hours a month" in text(page)
