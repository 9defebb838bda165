"""Plans under other futures."""

from typing import Any

import pytest

from advisor import plan_fleet
from advisor.fleet import regret
from advisor.fleet.results import RegretTable
from advisor.fleet.solving.columns import Solution
from advisor.fleet.solving.problem import Problem, Way
from advisor.fleet.solving.solver import solve
from tests.cases import serve

PORTFOLIO: dict[str, Any] = {
    "owning": {"months": 36},
    "workloads": [
        {
            "name": "chatbot",
            "case": serve("llama-3.1-8b", concurrency=8, limits={"max_tpot_ms": 50}),
        }
    ],
    "means": {"machines": ["desktop-1/rtx-5090", "desktop-1/rtx-pro-4000-blackwell"]},
}


@pytest.fixture(scope="module")
def table() -> RegretTable:
    found = plan_fleet(PORTFOLIO, alternatives=False, regret=True).regret
    assert found is not None
    return found


def test_the_cheapest_plan_has_no_regret_where_everything_comes_as_planned(
    table: RegretTable,
) -> None:
    planned = {row.plan: row for row in table.rows if row.future == "as planned"}
    assert planned["the cheapest plan"].regret_usd is not None
    assert planned["the cheapest plan"].regret_usd <= 1
    assert all(row.regret_usd is None or row.regret_usd >= 0 for row in table.rows)
    futures = {row.future for row in table.rows}
    assert {"rents 30 % lower", "rents 30 % higher", "models twice as large"} <= futures
    assert "a new generation after 18 months" in futures


def test_the_least_wrong_plan_has_the_smallest_largest_regret(table: RegretTable) -> None:
    worst: dict[str, float] = {}
    for row in table.rows:
        regret = float("inf") if row.regret_usd is None else row.regret_usd
        worst[row.plan] = max(worst.get(row.plan, 0.0), regret)
    assert worst[table.least_wrong] == min(worst.values())
    assert table.least_wrong in table.sentence


def test_plans_of_many_workloads_are_compared_by_a_bound_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thirteen wards with one assistant each: whole machines cost as much or little more."""
    case = serve("llama-3.1-8b", concurrency=8, limits={"max_tpot_ms": 50})
    rows = [
        {"name": f"ward {number}", "case": case, "on_premises": True, "growth_per_year": 0.5}
        for number in range(13)
    ]
    content = {"workloads": rows, "means": {"machines": ["desktop-1/rtx-5090"]}}
    relaxed = plan_fleet(content, alternatives=False, regret=True).regret
    monkeypatch.setattr(regret, "FEW", len(rows))
    exact = plan_fleet(content, alternatives=False, regret=True).regret

    assert relaxed is not None
    assert exact is not None
    assert "count in fractions" in relaxed.sentence
    assert "count in fractions" not in exact.sentence
    for one, other in zip(relaxed.rows, exact.rows, strict=True):
        assert (one.plan, one.future) == (other.plan, other.future)
        assert one.usd is not None
        assert other.usd is not None
        assert 0.9 * other.usd <= one.usd <= 1.001 * other.usd


def test_a_plan_that_cannot_do_the_work_of_a_future_buys_more_then() -> None:
    """A model of 16 billion parameters in 16 bits does not fit one card of 24 GB."""
    content = {
        **PORTFOLIO,
        "workloads": [{**PORTFOLIO["workloads"][0], "on_premises": True}],
        "means": {"machines": ["desktop-1/rtx-pro-4000-blackwell", "desktop-1/rtx-5090"]},
    }
    found = plan_fleet(content, alternatives=False, regret=True).regret

    assert found is not None
    larger = [row for row in found.rows if row.future == "models twice as large"]
    assert larger
    assert all(row.usd is not None for row in larger)


def test_dear_rents_never_favour_renting(table: RegretTable) -> None:
    rent = {row.future: row.usd for row in table.rows if row.plan == "rent everything"}
    low, high = rent["rents 30 % lower"], rent["rents 30 % higher"]
    assert low is not None
    assert high is not None
    assert low <= high


def test_one_question_keeps_to_one_kind_of_machine_in_every_future(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The futures once bought what the plan itself may not: two kinds of machine side by side."""
    case = serve("llama-3.1-70b", concurrency=40, limits={"max_tpot_ms": 50})
    workload = {"name": "chat", "case": case, "growth_per_year": 1.0, "on_premises": True}
    seen: list[Problem] = []

    def watched(problem: Problem, **given: Any) -> Solution:
        seen.append(problem)
        return solve(problem, **given)

    monkeypatch.setattr(regret, "solve", watched)
    plan = plan_fleet({"single": True, "workloads": [workload]}, alternatives=False, regret=True)
    assert plan.regret is not None
    assert {row.plan for row in plan.regret.rows} >= {"the cheapest plan"}
    for problem in seen:
        sold = [one for one in problem.supplies if one.way is Way.BUY and not one.barred]
        kinds = {one.key.split(" ")[0] for one in sold}  # with and without network, and the next
        assert len(kinds) <= 2  # that of today's models, and in one future that of larger ones
