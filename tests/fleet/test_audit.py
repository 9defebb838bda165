"""The books of a plan of two hundred workloads, added up again from what the plan states."""

from collections import defaultdict
from typing import Any

import pytest

from advisor import plan_fleet
from advisor.fleet.results import FleetPlan
from tests.cases import serve, tune

DEADLINES = {"tune 8b": 48.0, "tune 14b": 96.0}
NUMBER = 200


def _workload(at: int) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {
            "name": "tune 8b",
            "case": tune("llama-3.1-8b", method="lora", tokens=3e7, limits={"deadline_hours": 48}),
            "runs_per_month": 4,
        },
        {
            "name": "tune 14b",
            "case": tune("qwen3-14b", method="qlora", tokens=1e7, limits={"deadline_hours": 96}),
            "runs_per_month": 2,
            "preemptible": True,
        },
        {
            "name": "chat",
            "case": serve("llama-3.1-8b", concurrency=8, limits={"max_tpot_ms": 80}),
            "hours": "office",
        },
        {
            "name": "kept here",
            "case": serve("llama-3.1-8b", concurrency=16, limits={"max_tpot_ms": 80}),
            "on_premises": True,
        },
    ]
    found = kinds[at % len(kinds)]
    return {**found, "name": f"{found['name']} {at}"}


@pytest.fixture(scope="module")
def plan() -> FleetPlan:
    owned = [{"machine": "server-8/l40s", "count": 2}]
    workloads = [_workload(at) for at in range(NUMBER)]
    return plan_fleet({"owned": owned, "workloads": workloads}, alternatives=False)


def test_the_bills_of_all_workloads_are_the_whole_cost(plan: FleetPlan) -> None:
    assert plan.feasible
    assert len({item.workload for item in plan.charges}) >= NUMBER
    for total in (
        sum(item.usd for item in plan.charges),
        sum(item.own_usd + item.rent_usd for item in plan.charges),
        sum(item.usd for item in plan.lines),
    ):
        assert total == pytest.approx(plan.total_usd, abs=0.01 * NUMBER)


def test_the_cash_less_the_worth_at_the_end_is_the_cost_without_interest(plan: FleetPlan) -> None:
    """Payments of the quarters, undiscounted, are more than their present value plus the worth."""
    paid = sum(item.purchase_usd + item.rent_usd + item.running_usd for item in plan.cash)

    assert paid > plan.total_usd


def test_no_machine_works_more_than_all_hours(plan: FleetPlan) -> None:
    for machine in plan.fleet:
        assert max(machine.utilisation) <= 1 + 1e-6
    held: dict[tuple[str, int, str], float] = defaultdict(float)
    for part in plan.weeks:
        held[part.machine, part.month, part.slot] += part.share
    assert max(held.values()) <= 1 + 1e-6


def test_replicas_and_runs_fit_the_cards_that_are_there(plan: FleetPlan) -> None:
    cards = {
        (machine.title, month): sum(
            one.cards * one.count[period] for one in plan.fleet if one.title == machine.title
        )
        for machine in plan.fleet
        for period, month in enumerate(sorted({item.month for item in plan.assignments}))
    }
    held: dict[tuple[str, int, str], float] = defaultdict(float)
    for item in plan.assignments:
        if (item.where, item.month) in cards and item.slot:
            held[item.where, item.month, item.slot] += item.replicas * item.cards
    assert held
    for (where, month, _), number in held.items():
        assert number <= cards[where, month] + 1e-6


def test_every_run_is_placed_once_and_ends_within_its_deadline(plan: FleetPlan) -> None:
    shares: dict[tuple[str, int], float] = defaultdict(float)
    for item in plan.assignments:
        if item.slot:
            continue
        shares[item.workload, item.month] += item.share
        kind = item.workload.rsplit(" ", 1)[0]
        assert item.hours <= DEADLINES[kind]
    assert len(shares) == len(plan.period_months) * NUMBER / 2
    assert list(shares.values()) == pytest.approx([1.0] * len(shares))


def test_work_of_the_house_is_never_rented(plan: FleetPlan) -> None:
    assert not any(item.rented for item in plan.assignments if item.workload.startswith("kept"))
