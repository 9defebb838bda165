"""The inputs of every page stand in its address, and come back from it in another session."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

import pytest
from streamlit.testing.v1 import AppTest

import advisor.ui.pages
from advisor.lessons.topics import lesson_texts
from advisor.ui.forms import money_inputs
from advisor.ui.parts import accuracy, catalog, fits, fleet, learn, my_machine
from advisor.ui.session import links, state
from tests.ui.seen import seen
from tests.ui.test_one_case import unfolded

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_models")]

PAGES = Path(advisor.ui.pages.__file__).parent

LAST_TOPIC = [*lesson_texts()][-1]
Edit = Callable[[AppTest], AppTest]


def edited(**boxes: tuple[str, object]) -> Edit:
    """Fill boxes, each a kind and a value by its key, and run the page once."""

    def edit(page: AppTest) -> AppTest:
        for key, (kind, value) in boxes.items():
            getattr(page, kind)(key=key).set_value(value)
        return page.run()

    return edit


EDITS: dict[str, tuple[list[Edit], dict[str, str]]] = {
    "advisor": (
        [
            edited(in_task=("selectbox", "qlora"), in_deadline=("text_input", "48h")),
            edited(why_not=("selectbox", "NVIDIA L40S")),
        ],
        {"task": "qlora", "deadline": "48h", "why": "NVIDIA L40S"},
    ),
    "fits": (
        [
            edited(in_own_accelerator=("selectbox", "h100-sxm"), in_own_count=("text_input", "2")),
            edited(
                fits_context_shown=("selectbox", 32768),
                fits_context_model=("selectbox", "llama-3.1-8b"),
            ),
        ],
        {"card": "h100-sxm", "count": "2", "prompt": "32512", "curve": "llama-3.1-8b"},
    ),
    "rent_or_buy": (
        [
            lambda page: unfolded(page, "own_further"),
            edited(
                own_hours=("number_input", 300),
                own_pue=("number_input", 1.25),
                own_place=("selectbox", "deu"),
                in_own_accelerator=("selectbox", "l40s"),
            ),
        ],
        {"hours": "300", "pue": "1.25", "place": "deu", "card": "l40s"},
    ),
    "catalog": (
        [
            edited(
                catalog_card_1=("selectbox", ""),
                catalog_vendor=("selectbox", "AMD"),
                catalog_rentable=("toggle", True),
                catalog_rate=("number_input", 1.5),
            )
        ],
        {"card_1": "", "vendor": "AMD", "rentable": "yes", "rate": "1.5"},
    ),
    "learn": ([edited(learn_topic=("radio", LAST_TOPIC))], {"topic": LAST_TOPIC}),
    "fleet": (
        [edited(fleet_ask=("radio", "home")), edited(fleet_budget=("number_input", 3000.0))],
        {"ask": "home", "budget": "3000"},
    ),
    "my_machine": ([edited(machine_mode=("selectbox", "thorough"))], {"mode": "thorough"}),
    "accuracy": (
        [
            edited(
                accuracy_quantity=("selectbox", "peak_memory_gib"),
                accuracy_card=("text_input", "a100"),
            )
        ],
        {"quantity": "peak_memory_gib", "card": "a100"},
    ),
}
INPUTS: dict[str, Callable[[], links.Page]] = {
    "advisor": state.page,
    "fits": fits.page,
    "rent_or_buy": money_inputs.page,
    "catalog": catalog.page,
    "my_machine": my_machine.page,
    "learn": learn.inputs,
    "fleet": fleet.inputs,
    "accuracy": accuracy.page,
}


def opened(name: str, query: dict[str, str]) -> AppTest:
    page = AppTest.from_file(str(PAGES / f"{name}.py"), default_timeout=120)
    page.query_params.update(query)
    page.run()
    assert not page.exception
    return page


def asked(page: AppTest) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else value[-1]
        for name, value in page.query_params.items()
    }


def shown(page: AppTest) -> list[object]:
    """What the page says, and what its boxes hold."""
    boxes = [*page.selectbox, *page.text_input, *page.number_input, *page.toggle]
    said = [item.proto.body for item in page.get("html")]
    return [*said, *((box.label, box.value) for box in boxes)]


@cache
def at_first(name: str) -> list[object]:
    """What a page shows without an address of its own."""
    return shown(opened(name, {}))


def test_every_page_has_a_test_here() -> None:
    assert set(EDITS) == {path.stem for path in PAGES.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("name", EDITS)
def test_edits_stand_in_the_address_and_another_session_shows_them(name: str) -> None:
    edits, query = EDITS[name]
    page = opened(name, {})
    assert asked(page) == {}
    for edit in edits:
        page = edit(page)
    assert asked(page) == query

    other = opened(name, query)
    assert not other.warning
    assert asked(other) == query
    if name == "rent_or_buy":
        other = unfolded(other, "own_further")
    assert shown(other) == shown(page)


@pytest.mark.parametrize("name", EDITS)
def test_nonsense_in_an_address_is_told_and_leaves_defaults(name: str) -> None:
    inputs = INPUTS[name]()
    hostile = "<img src=x onerror=alert(1)>\n\x00`$(touch p)`"
    page = opened(name, dict.fromkeys(inputs.fields, hostile))

    assert asked(page) == {}
    [warning] = page.warning
    told = seen(warning.value)
    first = next(iter(inputs.fields.values()))
    assert first.label in told
    assert not re.search(r"(?<!\\)[<`$]", warning.value)
    assert all(line.startswith(("The link", "- ")) for line in warning.value.splitlines())
    assert shown(page) == at_first(name)


@pytest.mark.parametrize("name", EDITS)
def test_an_address_of_great_length_is_ignored(name: str) -> None:
    page = opened(name, {f"x{number}": "y" * 100 for number in range(links.MOST_PARAMETERS + 1)})

    [warning] = page.warning
    assert "The link has 201 values; it is ignored." in seen(warning.value)
    assert shown(page) == at_first(name)


def test_a_wrong_input_stands_in_the_address_and_is_told_again() -> None:
    page = opened("advisor", {"deadline": "48h"})
    page.text_input(key="in_deadline").set_value("soon").run()
    assert asked(page) == {"deadline": "soon"}
    assert "The answer is for 48h." in seen(page.error[0].value)

    again = opened("advisor", asked(page))
    [error] = again.error
    assert "not 'soon'. The answer is for 24 h." in seen(error.value)
    assert again.text_input(key="in_deadline").value == "soon"
    assert asked(again) == asked(page)
    again.text_input(key="in_deadline").set_value("36h").run()
    assert not again.error
    assert asked(again) == {"deadline": "36h"}


def test_a_wrong_input_that_no_address_holds_leaves_the_last_good_one() -> None:
    page = opened("advisor", {"deadline": "48h"})
    page.text_input(key="in_deadline").set_value("1" * 500).run()

    assert asked(page) == {"deadline": "48h"}
    assert "The answer is for 48h." in seen(page.error[0].value)


def test_links_by_the_keys_of_boxes_open_as_they_did() -> None:
    page = opened("rent_or_buy", {"own_work": "Serve", "own_hours": "300"})

    assert not page.warning
    assert asked(page) == {"task": "serve", "hours": "300"}
    assert len(urlencode(asked(page))) < 30
