"""Rented replicas that stop when nobody asks: what they cost, and when they are no way."""

import io
import random
from typing import Any

import pytest

from advisor import plan_fleet
from advisor.fleet.alternatives import Variant
from advisor.fleet.solving.columns import Solution
from advisor.fleet.solving.problem import Pauses, Problem
from advisor.terminal.console import Report
from advisor.terminal.fleet import show_fleet


def simulated(pauses: Pauses, load: float, *, requests: int = 200_000) -> float:
    """Billed share of the time, request by request."""
    draw, now, billed, until = random.Random(7), 0.0, 0.0, -1.0
    for _ in range(requests):
        now += draw.expovariate(load / pauses.answer_s)
        if now > until:  # it had stopped: the request wakes it and is answered after the start
            billed += pauses.start_s
            now += pauses.start_s
            until = now
        end = max(until, now + pauses.answer_s + pauses.kept_s)
        billed += end - max(until, now)
        until = end
    return billed / max(now, until)


@pytest.mark.parametrize("load", [0.005, 0.05, 0.2])
def test_the_billed_share_is_that_of_a_simulation(load: float) -> None:
    pauses = Pauses(answer_s=10.0, kept_s=60.0, start_s=120.0)
    assert pauses.on_share(load) == pytest.approx(simulated(pauses, load), rel=0.02)


def test_a_busy_replica_never_stops() -> None:
    assert Pauses(answer_s=10.0, kept_s=60.0, start_s=0.0).on_share(16.0) == pytest.approx(1.0)


def plan(*, means: dict[str, bool] | None = None, quiet: float = 0.002, **more: Any) -> Any:
    limits = {"max_tpot_ms": 50, **more.pop("limits", {})}
    chat = {
        "name": "chat",
        "case": {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {"kind": "serving", "concurrency": 1, "output_tokens": 200},
            "limits": limits,
        },
        "quiet_share": quiet,
        **more,
    }
    allowed = {"buy": False, "api": False, **(means or {})}
    return plan_fleet(
        {"workloads": [chat], "owning": {"months": 12}, "means": allowed}, alternatives=False
    )


def quiet_places(answer: Any) -> set[str]:
    return {item.where for item in answer.assignments if item.slot == "quiet"}


def test_a_night_with_a_few_requests_is_served_by_a_replica_that_stops() -> None:
    found, without = plan(), plan(means={"serverless": False})

    [place] = quiet_places(found)
    assert "serverless" in place
    assert found.total_usd < without.total_usd
    assert place.endswith("stopped when unused")
    assert any("after the last request" in note for note in found.notes)
    # In office hours one request is in flight on average: it would never stop.
    [office] = {item.where for item in found.assignments if item.slot == "office"}
    assert "serverless" not in office


@pytest.mark.parametrize(
    "more",
    [{"limits": {"max_ttft_ms": 2000}}, {"quiet": 1.0}],
    ids=["the first token may not wait", "busy at night"],
)
def test_it_stays_out_where_a_slow_first_answer_or_the_load_forbids_it(more: Any) -> None:
    assert not any("serverless" in place for place in quiet_places(plan(**more)))


def test_the_terminal_tells_a_place_once_until_it_changes() -> None:
    answer = plan(means={"serverless": False})
    assert len({item.month for item in answer.assignments}) > 1
    console = Report(record=True, width=160, file=io.StringIO())
    show_fleet(console, answer, everything=True)
    text = console.export_text().partition("Where each workload runs")[2]
    assert text.count("day and night") == 1


def test_an_alternative_whose_search_ended_early_says_so() -> None:
    problem = Problem(jobs=(), supplies=(), months=(12,))
    early = Variant("0.5", "With $50", problem, Solution(feasible=True, gap=0.057))
    whole = Variant("0.5", "With $50", problem, Solution(feasible=True, gap=0.0))

    assert "up to 5.7 % less is possible" in early.result(100.0).sentence
    assert "search" not in whole.result(100.0).sentence


def test_who_can_afford_nothing_is_not_told_to_use_machines_that_are_not_there() -> None:
    chat = {"model": {"preset": "llama-3.1-70b"}, "workload": {"kind": "serving"}}
    poor = {
        "workloads": [{"name": "chat", "case": chat}],
        "means": {"rent": False},
        "budget": {"purchase_usd": 900},
    }
    assert plan_fleet(poor, alternatives=False).sentence.startswith("Buy and rent nothing")
