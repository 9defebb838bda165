"""Plans under other futures."""

import pytest

from advisor import plan_fleet
from advisor.fleet.results import RegretTable
from tests.cases import serve

PORTFOLIO = {
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


def test_dear_rents_never_favour_renting(table: RegretTable) -> None:
    rent = {row.future: row.usd for row in table.rows if row.plan == "rent everything"}
    low, high = rent["rents 30 % lower"], rent["rents 30 % higher"]
    assert low is not None
    assert high is not None
    assert low <= high
