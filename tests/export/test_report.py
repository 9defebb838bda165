"""Reports say the answer, what it rests on and when; a browser prints them on A4."""

import csv
import io
import json
import re

import pytest

import advisor
from advisor.nouns.limits import Objective
from tests.cases import every_field, tune

CASE = tune("llama-3.1-8b", method="lora", tokens=50e6, limits={"deadline_hours": 24})


@pytest.fixture(scope="module")
def answer() -> advisor.Recommendation:
    return advisor.recommend(CASE)


def test_markdown_has_answer_ranges_alternatives_assumptions_and_sources(
    answer: advisor.Recommendation,
) -> None:
    text = advisor.export(CASE, "markdown", answer=answer, link="https://example.org/?v=1").content
    assert text.startswith("# Llama 3.1 8B: fine-tune with LoRA on 50,000,000 tokens")
    assert f"\n**{answer.answer}**\n" in text.replace("\\", "")
    assert f"prices up to {answer.catalog_date}" in text
    assert "https://example.org/?v=1" in text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## The numbers",
        "## Memory on each accelerator",
        "## The best of each aim",
        "## Trade-offs",
        "## Why not the others",
        *(["## Advice"] if answer.advice else []),
        "## Assumed",
        "## Sources",
    ]
    assert answer.rankings[0].objective is Objective.CHEAPEST
    assert "--" not in re.sub(r"\| ---.*", "", text)  # a reader has no command line
    assert all(item.partition(" (--")[0] in text for item in answer.assumed)
    assert text.count("deadline and cost use") == 1


def test_a_report_of_work_that_nothing_does_names_the_work() -> None:
    case = {**CASE, "limits": {"deadline_hours": 0.01}}
    text = advisor.export(case, "markdown").content
    assert text.startswith("# Llama 3.1 8B: fine-tuning with LoRA\n")


def test_html_prints_on_a4_and_escapes(answer: advisor.Recommendation) -> None:
    hostile = answer.model_copy(update={"answer": "<script>alert(1)</script>"})
    text = advisor.export(CASE, "html", answer=hostile).content
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "@page { size: A4" in text
    assert "http-equiv" not in text


def test_csv_has_every_candidate_as_figures(answer: advisor.Recommendation) -> None:
    rows = list(csv.DictReader(io.StringIO(advisor.export(CASE, "csv", answer=answer).content)))
    assert len(rows) == len(answer.candidates)
    hours = answer.candidates[0].hours
    assert hours is not None
    assert float(rows[0]["hours_expected"]) == hours.expected


def test_json_is_the_answer_itself(answer: advisor.Recommendation) -> None:
    found = json.loads(advisor.export(CASE, "json", answer=answer).content)
    assert found["answer"] == answer.answer


def test_a_plan_that_does_not_fit_has_a_report() -> None:
    case = {**CASE, "hardware": {"accelerator": "rtx-3060-12gb"}, "layout": every_field()}
    text = advisor.export({**case, "limits": {}}, "markdown").content
    assert "## What would make it fit" in text
