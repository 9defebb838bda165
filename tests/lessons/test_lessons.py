"""Lessons: every topic answers every kind of work, with figures that other doors give too."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.catalog.own.facts import using_catalog
from advisor.errors import InputError
from advisor.foundation.references import references
from advisor.foundation.units import GIB
from advisor.lessons.results import Lesson
from advisor.lessons.topics import FIGURES, lesson, lesson_texts
from advisor.planning.results import Recommendation
from tests.cases import tune

CASES: dict[str, dict[str, Any]] = {
    "lora": {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 1e7},
    },
    "serve": {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "serving", "concurrency": 16},
    },
    "vision": {
        "model": {"preset": "resnet-50"},
        "workload": {"kind": "pretraining", "samples": 1e7},
    },
    "too strict": tune("llama-3.1-70b", method="full", tokens=1e9, limits={"deadline_hours": 0.1}),
}


@cache
def answered(name: str) -> Recommendation:
    return advisor.recommend(CASES[name])


def taught(name: str, topic: str) -> Lesson:
    return lesson(CASES[name], topic, recommendation=answered(name))


@pytest.mark.parametrize("topic", FIGURES)
@pytest.mark.parametrize("name", CASES)
def test_every_topic_answers_every_kind_of_work(name: str, topic: str) -> None:
    found = taught(name, topic)
    assert found.figures.sentences
    assert found.teaches
    assert all(key in references() for key in found.references)
    assert all(bar.value.low >= 0 for bar in found.figures.bars)
    assert len(found.figures.bars) <= 12


def test_memory_is_the_memory_of_the_plan() -> None:
    plan = answered("lora").plans[0].estimate
    drawn = sum(bar.value.expected for bar in taught("lora", "memory").figures.bars)
    assert drawn * GIB == pytest.approx(plan.memory.total_bytes.expected)


def test_at_a_rate_one_replica_is_taught_with_its_share_of_the_requests() -> None:
    """All requests at one replica would flood it: more cards then look slower."""
    work = {"kind": "serving", "requests_per_s": 10, "input_tokens": 7168, "output_tokens": 1024}
    limits = {"max_tpot_ms": 50, "max_ttft_ms": 2000}
    case = {"model": {"preset": "llama-3.1-8b"}, "workload": work, "limits": limits}
    answer = advisor.recommend(case)
    plan = answer.plans[0].estimate
    assert plan.layout.data > 1
    assert plan.serving is not None
    pace = [bar.value.expected for bar in lesson(case, "cards", recommendation=answer).figures.bars]
    assert pace[0] == pytest.approx(plan.serving.tpot_ms.expected, rel=0.01)
    assert pace == sorted(pace, reverse=True)
    energy = " ".join(lesson(case, "energy", recommendation=answer).figures.sentences)
    assert "e+" not in energy


def test_rules_of_thumb_hold() -> None:
    """7 B parameters: 28 GB in fp32, 14 GB in fp16, 112 GB with Adam in mixed precision."""
    case = {"model": {"parameters": 7e9}, "workload": CASES["lora"]["workload"]}
    said = " ".join(lesson(case, "memory").figures.sentences)
    assert all(size in said for size in ("28.0 GB in fp32", "14.0 GB in 16 bits", "112 GB"))


def test_zero_divides_what_its_paper_says() -> None:
    """Rajbhandari et al. 2020, figure 1: each stage keeps less; ZeRO-3 divides everything."""
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "full", "tokens": 1e8},
    }
    plain, one, two, three, hosted = (
        bar.value.expected for bar in lesson(case, "sharding").figures.bars
    )
    assert plain > one > two > three > hosted


def test_a_token_costs_less_in_company() -> None:
    prices = [bar.value.expected for bar in taught("serve", "token").figures.bars]
    assert len(prices) >= 3
    assert prices == sorted(prices, reverse=True)


def test_fewer_cards_do_not_change_the_number_format() -> None:
    """70.6 B parameters of 2 bytes are 141 GB: more than one card of 80 GB holds."""
    case = {
        "model": {"preset": "llama-3.3-70b"},
        "workload": {"kind": "serving", "requests_per_s": 10},
        "limits": {"accelerators": ["h100-sxm"], "max_tpot_ms": 50},
    }
    answer = advisor.recommend(case)
    assert answer.plans[0].estimate.precision == "bf16"
    shards = {
        bar.label: bar for bar in lesson(case, "sharding", recommendation=answer).figures.bars
    }
    assert shards["1 card"].value.expected * GIB > 141e9
    assert "does not fit" in shards["1 card"].text
    answered_by = [bar.label for bar in lesson(case, "cards", recommendation=answer).figures.bars]
    assert "1 card" not in answered_by


def test_a_cheaper_card_than_the_plan_is_one_of_which_no_run_is_published() -> None:
    case = {
        "model": {"preset": "gpt-oss-20b"},
        "workload": {"kind": "serving", "concurrency": 8},
        "limits": {"max_tpot_ms": 200},
    }
    answer = advisor.recommend(case)
    paid = answer.plans[0].estimate.cost.rent_usd
    assert paid is not None
    bars = lesson(case, "more-memory", recommendation=answer).figures.bars
    cheaper = [bar for bar in bars if bar.value.expected < 0.99 * paid.expected]
    assert cheaper
    assert all("no run published" in bar.text for bar in cheaper)


def test_renting_or_buying_is_what_the_other_doors_answer() -> None:
    assert taught("lora", "own").figures.sentences[0] == advisor.own(CASES["lora"]).answer


def test_work_on_images_is_priced_by_the_sample() -> None:
    assert "for a million samples" in taught("vision", "token").figures.sentences[0]


def test_processors_stand_in_order_beside_all_cards_of_the_plan() -> None:
    first, *others = taught("lora", "processor").figures.bars
    plan = answered("lora").plans[0].estimate
    assert first.label == f"{plan.count}x {plan.accelerator_name}"
    times = [bar.value.expected for bar in others]
    assert times == sorted(times)


def test_cards_that_do_not_do_the_work_are_counted() -> None:
    bars = taught("serve", "any-card").figures.bars
    total = len(advisor.load_catalog().accelerators)
    assert sum(bar.value.expected for bar in bars) == total
    assert 0 < bars[0].value.expected < total


def test_small_networks_answer_faster_on_a_processor() -> None:
    """As published of a small fully connected network: tests/golden/test_processors.py."""
    said = taught("serve", "processor").figures.sentences[1]
    on_card, on_processor = (float(part.split(" ms")[0]) for part in said.split(" in ")[1:])
    assert on_processor < on_card


def test_each_question_stands_once() -> None:
    questions = [text.question for text in lesson_texts().values()]
    assert len(set(questions)) == len(questions) >= 12


def test_a_card_that_cannot_be_priced_leaves_every_lesson(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "accelerators: {acme-1: {name: ACME One, vendor: NVIDIA, memory_gb: 96, "
        "memory_bandwidth_gb_per_s: 4000, dense_tflops: {bf16: 500, fp16: 500, fp32: 60}}}\n"
        "offers: [{provider: ACME, instance_type: x, accelerator: acme-1, accelerators: 1, "
        "on_demand_per_hour: 0.01}]\n"
    )
    with using_catalog([str(tmp_path / "own.yaml")]):
        answer = advisor.recommend(CASES["serve"])
        found = {
            topic: lesson(CASES["serve"], topic, recommendation=answer) for topic in lesson_texts()
        }

    assert answer.plans[0].estimate.accelerator == "acme-1"
    assert "RunPod" not in found["token"].figures.bars[0].label
    # It has no purchase price, so another card is bought, as on the page *Rent or buy*.
    assert "ACME One" in found["own"].figures.sentences[0]


def test_an_unknown_topic_is_refused() -> None:
    with pytest.raises(InputError, match="unknown topic: got 'astrology'"):
        lesson(CASES["lora"], "astrology")


def test_work_that_nothing_does_is_refused() -> None:
    case = CASES["lora"] | {"limits": {"owned": [{"accelerator": "gtx-1650", "count": 1}]}}
    with pytest.raises(InputError, match="no accelerator"):
        lesson(case, "memory")
