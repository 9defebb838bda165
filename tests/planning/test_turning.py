"""At the value that turns an answer, the search itself gives another answer."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor import api
from advisor.frames.turning import grid_frame, grid_table, turns_sentence, turns_table
from advisor.planning.explain.turning import Cell, Turn

TRAINED: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 10e6},
    "limits": {"deadline_hours": 24},
}
SERVED: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "serving", "concurrency": 8},
    "limits": {"max_tpot_ms": 50},
}


def answer(case: dict[str, Any], section: str = "", **changed: object) -> str:
    asked = {**case, section: {**case[section], **changed}} if section else case
    plans = advisor.recommend(asked).plans
    return plans[0].estimate.accelerator_name if plans else ""


@pytest.fixture(scope="module")
def turns() -> tuple[Turn, ...]:
    return api.turning(TRAINED).turns()


@pytest.fixture(scope="module")
def served() -> tuple[Turn, ...]:
    return api.turning(SERVED).turns()


def test_a_limit_turns_the_answer_exactly_at_its_value(turns: tuple[Turn, ...]) -> None:
    now = answer(TRAINED)
    [deadline] = [item for item in turns if item.field == "deadline_hours" and not item.above]
    assert answer(TRAINED, "limits", deadline_hours=deadline.at * 1.0001) == now
    assert answer(TRAINED, "limits", deadline_hours=deadline.at * 0.9999) in deadline.then != now


def test_an_amount_of_work_turns_the_answer_at_its_value(turns: tuple[Turn, ...]) -> None:
    now = answer(TRAINED)
    for item in (item for item in turns if item.field == "tokens"):
        inside = item.at / 1.1 if item.above else item.at * 1.1
        assert answer(TRAINED, "workload", tokens=inside) == now
        there = answer(TRAINED, "workload", tokens=item.at)
        assert there != now
        assert item.then.endswith(there)


@pytest.mark.parametrize("field", ["concurrency", "input_tokens"])
def test_users_and_prompts_are_whole_and_turn_the_answer(
    served: tuple[Turn, ...], field: str
) -> None:
    now = answer(SERVED)
    found = [item for item in served if item.field == field]
    assert found
    for item in found:
        assert item.at == int(item.at)
        there = answer(SERVED, "workload", **{field: int(item.at)})
        assert there != now
        assert item.then.endswith(there)


def test_the_price_of_the_plan_turns_the_answer_in_favour_of_the_runner_up(
    turns: tuple[Turn, ...],
) -> None:
    own, other = [item for item in turns if item.field == "usd_per_hour"]
    runner_up = advisor.recommend(TRAINED).plans[1].estimate.accelerator_name
    assert own.then.endswith(runner_up)
    assert own.above
    assert not other.above
    assert own.now is not None
    assert other.now is not None
    # The same ratio of both plans' costs, once from either side.
    assert own.at / own.now == pytest.approx(other.now / other.at)


def test_words_of_the_turns(turns: tuple[Turn, ...]) -> None:
    table = turns_table(turns)
    assert set(table["Input"]) >= {"Tokens", "Deadline"}
    assert turns_sentence(turns).startswith("The smallest change that turns the answer: ")
    assert turns_sentence(()).startswith("No change")


def test_a_price_that_turns_the_answer_is_told_from_the_price_now() -> None:
    turn = Turn(
        field="usd_per_hour", of="1x A5000", now=0.16, at=0.1631, above=True, then="1x RTX 4090"
    )
    assert turns_table((turn,))[["Now", "Turns at"]].to_numpy().tolist() == [
        ["$0.1600/h", "above $0.1631/h"]
    ]


def cell(card: str, count: int, usd: float | None, why: str | None = None) -> Cell:
    return Cell.model_validate(
        {
            "accelerator": card,
            "accelerator_name": card.upper(),
            "count": count,
            "time": None if usd is None else 2.0 / count,
            "usd": usd,
            "hourly": True,
            "why": why,
        }
    )


def test_the_grid_has_the_cheapest_card_first_and_says_why_cells_fail() -> None:
    cells = [cell("a", 1, None, "memory"), cell("a", 2, 30.0), cell("a", 4, 50.0, "budget")]
    cells += [cell("b", 1, 9.0, "deadline"), cell("b", 2, 12.0)]
    table = grid_table(grid_frame(cells), by="usd")
    assert table.to_numpy().tolist() == [
        ["B", "too slow", "$12", "without offer or layout"],
        ["A", "too small", "$30", "too dear"],
    ]
    assert grid_table(grid_frame(cells), by="time").iloc[0, 2] == "60 min"


def test_each_cell_of_the_grid_is_an_estimate_of_that_number() -> None:
    cells = {(item.accelerator, item.count): item for item in api.turning(TRAINED).cells()}
    for place in (("rtx-4090", 1), ("l40s", 8)):
        hardware = {"accelerator": place[0], "count": place[1]}
        time = advisor.estimate({**TRAINED, "hardware": hardware}).time
        assert time is not None
        assert cells[place].time == pytest.approx(time.run_hours.expected, rel=0.03)
