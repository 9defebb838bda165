"""The page *Learn*: the question of all pages, one lesson at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from advisor.charts.lessons import lesson_chart
from advisor.charts.theme import LIGHT
from advisor.lessons.topics import FIGURES, lesson, lesson_texts
from tests.ui.seen import seen
from tests.ui.test_one_case import QUERY, opened


def said(page: AppTest) -> str:
    texts = [item.value for item in (*page.header, *page.markdown, *page.caption)]
    texts += [item.proto.body for item in page.get("html")]
    return " ".join(seen(text) for text in texts)


@pytest.mark.parametrize("topic", ["memory", "processor", "own"])
def test_the_topic_stands_in_the_address(topic: str) -> None:
    page = opened("learn", {**QUERY, "topic": topic})
    text = lesson_texts()[topic]
    assert page.header[0].value == text.question
    assert text.belief in said(page)
    assert "RTX 3090" in said(page)


def test_another_question_is_one_click_away() -> None:
    page = opened("learn", QUERY)
    page.radio(key="learn_topic").set_value("sharding").run()
    assert not page.exception
    assert page.header[0].value == lesson_texts()["sharding"].question
    assert page.query_params["topic"] == "sharding"


@pytest.mark.parametrize("compact", [False, True])
def test_bars_start_at_zero_and_the_limit_is_drawn(compact: bool) -> None:
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 1e7},
    }
    figures = lesson(case, "sharding").figures
    drawn = lesson_chart(figures, theme=replace(LIGHT, compact=compact)).to_dict()
    assert drawn["layout"]["xaxis"]["range"][0] == 0
    assert drawn["layout"]["shapes"][0]["x0"] == figures.limit
    assert list(drawn["data"][0]["x"]) == [bar.value.expected for bar in figures.bars]
    # On a phone, the text beside the longest bar has more than half of the axis.
    longest = max(*(bar.value.expected for bar in figures.bars), figures.limit or 0)
    assert (drawn["layout"]["xaxis"]["range"][1] > 2 * longest) == compact


def test_every_topic_has_figures() -> None:
    assert [*FIGURES] == [*lesson_texts()]


def test_figures_explain_their_words() -> None:
    page = opened("advisor", {"model": "llama-3.1-8b", "task": "serve"})
    helps = " ".join(str(item.help) for item in page.metric)
    assert "time to first token" in helps
    assert "Time from a request to the first word of its answer." in helps
