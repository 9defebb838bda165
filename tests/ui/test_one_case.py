"""One question, six views: every page has the same case, and finds the same numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import plotly
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

import advisor
from advisor.foundation.formatting import duration, memory
from advisor.foundation.units import HOUR_S
from advisor.ui.forms.inputs import DEFAULTS
from advisor.ui.session.saved import inputs_spelled, spelled
from advisor.ui.session.server import PLOTLY
from tests.cases import tune
from tests.ui.drawn import charts_of
from tests.ui.seen import seen

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_models")]
ROOT = Path(advisor.__file__).parents[1]
PAGES = ("advisor", "fits", "rent_or_buy", "fleet", "catalog", "learn", "my_machine", "accuracy")
QUERY = {
    "model": "qwen3-8b",
    "task": "qlora",
    "tokens": "20M",
    "rent": "own",
    "own_accelerator": "rtx-3090",
    "own_count": "2",
}
CASE = tune("qwen3-8b", "rtx-3090", 2, method="qlora", tokens=20e6, limits={"deadline_hours": 24})


def opened(name: str, query: dict[str, str]) -> AppTest:
    path = ROOT / "advisor" / "ui" / "pages" / f"{name}.py"
    page = AppTest.from_file(str(path), default_timeout=120)
    page.query_params.update(query)
    page.run()
    assert not page.exception
    assert not page.error
    assert not page.warning
    return page


def unfolded(page: AppTest, part: str) -> AppTest:
    """Open a part whose content is computed only then."""
    page.session_state[part] = True
    return page.run()


def text(page: AppTest) -> str:
    """All that a page says, as a reader sees it."""
    said = [item.proto.body for item in page.get("html")]
    said += [item.value for item in (*page.markdown, *page.metric, *page.caption)]
    return unescape(" ".join(seen(item) for item in said))


def test_every_page_has_the_case_and_the_same_numbers() -> None:
    estimate = advisor.estimate(CASE)
    needed = memory(estimate.memory.total_bytes)
    pages = {name: opened(name, QUERY) for name in PAGES}

    assert needed in text(pages["advisor"])
    assert estimate.time is not None
    hours = duration(estimate.time.run_hours.scaled(HOUR_S))
    assert hours in text(pages["advisor"])
    fits = pages["fits"].get("html")[0].proto.body
    assert fits.startswith('<p role="status"')
    assert "QLoRA fine-tuning of Qwen3 8B fits 2x NVIDIA GeForce RTX 3090" in fits
    owned = advisor.own(CASE | {"owning": {"hours_per_month": 200, "months": 36}})
    assert "RTX 3090" in owned.answer
    assert owned.answer in text(pages["rent_or_buy"])
    assert owned.workload in text(unfolded(pages["rent_or_buy"], "own_run"))
    assert pages["catalog"].selectbox(key="catalog_card_1").value == "rtx-3090"
    for name in PAGES[1:]:
        assert "QLoRA fine-tuning of Qwen3 8B, tokens 20M" in text(pages[name]), name


@pytest.mark.parametrize("name", PAGES)
def test_every_page_keeps_the_case_in_its_address(name: str) -> None:
    page = opened(name, QUERY)
    kept = {
        key: value if isinstance(value, str) else value[-1]
        for key, value in page.query_params.items()
    }
    kept.pop("card_1", None)  # of the catalog alone
    again = opened("advisor", kept)
    for key in ("model", "task", "rent", "own_accelerator"):
        assert again.selectbox(key=f"in_{key}").value == QUERY[key]
    assert again.text_input(key="in_tokens").value == "20M"


def test_who_owns_a_card_reads_what_to_type_and_what_its_use_costs() -> None:
    card = {"rent": "own", "own_accelerator": "rtx-3060-12gb"}
    question = card | {"task": "serve", "users": "1"}
    [command] = [item.value for item in opened("advisor", question).code]
    assert re.match(r"llama-server (-hf|-m) \S+ -c \d+ -np 1 -ngl ", command)
    assert "\n" not in command
    assert "tokens/s" in opened("fits", question).get("html")[0].proto.body
    asked = opened("fits", card | {"task": "serve", "requests_per_second": "1000"})
    assert "keeps up with only" in asked.get("html")[0].proto.body
    assert "Use what you have: it costs its upkeep alone" in text(opened("rent_or_buy", card))


def test_rent_or_buy_answers_for_the_model_of_the_question() -> None:
    page = opened("rent_or_buy", {"model": "llama-3.2-1b"})
    asked = tune(
        "llama-3.2-1b",
        method="lora",
        tokens=10e6,
        limits={"deadline_hours": 24},
        owning={"months": 36},
    )
    found = advisor.own(asked)
    assert found.answer in text(page)
    assert found.workload in text(unfolded(page, "own_run"))


def test_a_saved_question_is_in_the_address_and_opens_again() -> None:
    page = opened("fits", QUERY)
    page.session_state["saving"] = True
    page.run()
    page.button(key="saved_add").click().run()
    [packed] = [value for key, value in page.query_params.items() if key == "saved"]
    other = opened("advisor", {"saved": packed if isinstance(packed, str) else packed[-1]})
    assert other.selectbox(key="in_task").value == "lora"
    [saved] = other.session_state["in_saved"]
    assert inputs_spelled(saved).model == "qwen3-8b"
    other.session_state["saving"] = True
    other.run()
    other.button(key="saved_open_0").click().run()
    assert other.selectbox(key="in_model").value == "qwen3-8b"
    assert other.selectbox(key="in_task").value == "qlora"


def test_saved_questions_stand_beside_the_one_asked_with_what_differs_first() -> None:
    page = opened("advisor", {"deadline": "48h"})
    saved = spelled(replace(DEFAULTS, task="qlora", model="qwen3-8b"))
    page.session_state["in_saved"] = [saved]
    page.session_state["side_by_side"] = True
    page.run()
    assert not page.exception
    [table] = [item.value for item in page.table if "Saved 1" in item.value.columns]
    rows = {row.iloc[0]: list(row.iloc[1:]) for _, row in table.iterrows()}
    first = [seen(name) for name in rows][:2]
    assert first == ["Work", "Deadline"]
    assert rows["Work"][1] == "QLoRA fine\\-tuning of Qwen3 8B"
    other = advisor.recommend(
        tune("qwen3-8b", method="qlora", tokens=10e6, limits={"deadline_hours": 24})
    )
    best = other.plans[0].estimate
    assert rows["Hardware"][1] == f"{best.count}x {best.accelerator_name}"
    assert memory(best.memory.total_bytes) in seen(rows["Memory"][1])


def test_what_if_is_computed_for_the_first_plan_when_opened() -> None:
    page = opened("advisor", {})
    page.session_state["what_if"] = True
    page.run()
    assert not page.exception
    [table] = [item.value for item in page.table if "What if" in item.value.columns]
    assert table["What if"].tolist()[0] == "As it is"
    assert page.metric[0].value in seen(table["Time"].tolist()[0])


@pytest.mark.parametrize("name", ["advisor", "fits", "rent_or_buy", "catalog", "accuracy"])
def test_every_chart_of_a_page_is_one_that_plotly_accepts(name: str) -> None:
    charts = charts_of(opened(name, {}))
    assert charts
    for chart in charts:
        figure = go.Figure(json.loads(chart.spec))  # checks every property
        assert figure.data
        assert "500m" not in chart.spec


def test_figures_are_drawn_by_the_release_that_checks_them() -> None:
    release = re.compile(r"plotly\.js .*v([\d.]+)")
    checks = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    heads = [path.read_text(encoding="utf-8")[:200] for path in (checks, PLOTLY)]
    [checked, drawn] = [found[1] for found in map(release.search, heads) if found]
    assert checked == drawn
    assert drawn in PLOTLY.name  # a browser keeps the file for as long as its name stands


def test_cents_are_written_as_dollars() -> None:
    page = opened("rent_or_buy", {"card": "rtx-3090"})
    ticks = [json.loads(item.spec)["layout"]["xaxis"] for item in charts_of(page)]
    assert "$.2f" in {axis.get("tickformat") for axis in ticks}


def test_an_answer_is_named_by_the_work_that_it_is_for() -> None:
    """JSON that the engine cannot read as a model leaves the example's answer, named as such."""
    page = opened("advisor", {})
    page.selectbox(key="in_model").set_value("config.json").run()
    page.text_area(key="in_config").set_value('{"model_type": "llama"}').run()
    [answer] = [item.proto.body for item in page.get("html") if "role=" in item.proto.body]
    assert "vocab_size is missing" in seen(page.error[0].value)
    assert "your config.json" not in answer
    assert "Llama 3.1 8B" in answer
