"""One question has the same machines and the same bill in *Rent or buy* and in *Fleet*."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.catalog.economy import load_economy
from advisor.fleet.machines import machine_named
from advisor.fleet.results import FleetPlan
from advisor.nouns.money import TRAINING_HOURS_PER_MONTH
from tests.cases import serve, tune


def fleet(case: dict[str, Any], **often: float) -> FleetPlan:
    work = {"name": "work", "case": case, **often}
    return advisor.plan_fleet(
        {"workloads": [work], "single": True, "means": {"rent": False}}, alternatives=False
    )


@pytest.mark.parametrize("spares", [0, 1])
def test_a_service_has_one_bill(spares: int) -> None:
    asked = serve("llama-3.1-8b", concurrency=32)
    work = {**asked["workload"], "spare_replicas": spares}
    own = advisor.own({**asked, "workload": work})
    plan = fleet(asked, quiet_share=1.0, spare_machines=spares)

    assert own.own.total_usd.expected == pytest.approx(plan.total_usd, abs=1)
    assert own.own.purchase_usd == pytest.approx(sum(item.usd for item in plan.purchases))
    assert own.own.energy_kwh.expected == pytest.approx(plan.energy_kwh, rel=1e-6)


@pytest.mark.parametrize("method", ["qlora", "lora"])
def test_training_has_one_bill(method: str) -> None:
    """The runs of *Rent or buy*, which no machine does for less."""
    asked = tune("llama-3.1-8b", None, method=method, tokens=1e7)
    own = advisor.own(asked)
    assert own.runs_per_month is not None
    plan = fleet(asked, runs_per_month=own.runs_per_month)

    assert own.own.total_usd.expected == pytest.approx(plan.total_usd, abs=1)
    assert own.own.purchase_usd == pytest.approx(sum(item.usd for item in plan.purchases))
    assert own.hours_per_month >= TRAINING_HOURS_PER_MONTH - 1e-6


def test_stated_hours_are_those_of_what_is_bought() -> None:
    asked = tune("llama-3.1-8b", None, method="lora", tokens=1e7)
    own = advisor.own({**asked, "owning": {"hours_per_month": 150}})
    assert own.hours_per_month == 150
    assert "runs a month" not in own.answer


def test_one_question_buys_machines_of_one_kind() -> None:
    """Once another chassis for the last card: up to 6 % less, and a second kind to keep."""
    asked = serve("llama-3.1-70b", requests_per_s=2)
    plan = fleet(asked, quiet_share=1.0)
    assert len({item.key for item in plan.purchases}) == 1


def test_a_spare_machine_idles() -> None:
    """Two replicas at work and one waiting draw two thirds of what three draw, and no idle power.

    Computers at home are off when unused: 300 W x 1.5 x 0.76 x 730 h x 36 for each at work.
    """
    case = serve("llama-3.1-8b", "rtx-pro-6000-blackwell-maxq", 3, concurrency=64)
    case["workload"] = {**case["workload"], "spare_replicas": 1}
    found = advisor.own(case)
    assert found.count == 3
    each = 300 * 1.5 * 0.76 * 730 * 36 / 1000
    assert found.own.energy_kwh.expected == pytest.approx(2 * each)


def test_a_purchase_stays_within_its_budget_where_a_machine_does() -> None:
    asked = serve("llama-3.1-8b", concurrency=4)
    open_, bounded = advisor.own(asked), advisor.own({**asked, "owning": {"budget_usd": 2000}})
    assert bounded.own.purchase_usd <= 2000
    assert bounded.own.purchase_usd <= open_.own.purchase_usd


def test_a_complete_computer_has_one_power() -> None:
    """Apple: a Mac Studio with an Ultra takes 295 W at the wall; NVIDIA's DGX Spark comes with 240.

    Once half of it in ``own``, whose figure was of the chip.
    """
    catalog, economy = advisor.load_catalog(), load_economy()
    rated = {"mac-studio-ultra/apple-m5-ultra-64c": 295, "compact-spark/dgx-spark-gb10": 240}
    for key, watts in rated.items():
        card = key.partition("/")[2]
        found = advisor.own(serve("gpt-oss-20b", card, 1, concurrency=1))
        assert machine_named(key, catalog, economy).rated_w == pytest.approx(watts)
        assert found.own.rated_kw == pytest.approx(watts / 1000)
