"""The simulated queue against queueing theory."""

import math

import numpy as np
import pytest
import simpy

from advisor import plan_fleet
from advisor.fleet.queue import simulated
from advisor.fleet.solving.problem import fillable
from tests.cases import tune


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_card_waits_as_pollaczek_and_khinchine_say(load: float) -> None:
    """M/D/1: the mean wait is load x hours / (2 (1 - load)) (Khinchine 1932)."""
    hours = 2.0

    waits = simulated(simpy.Environment(), 1, {"runs": (load / hours, 1, hours)})["runs"]

    assert waits.mean() == pytest.approx(load * hours / (2 * (1 - load)), rel=0.08)


def test_idle_cards_make_nobody_wait_and_wide_runs_wait_longer() -> None:
    waits = simulated(simpy.Environment(), 8, {"narrow": (0.2, 1, 10.0), "wide": (0.02, 8, 10.0)})

    assert waits["wide"].mean() > waits["narrow"].mean()
    alone = simulated(simpy.Environment(), 64, {"narrow": (0.2, 1, 1.0)})["narrow"]
    assert alone.max() == 0


def test_a_plan_tells_the_waits_of_its_runs() -> None:
    plan = plan_fleet(
        {
            "means": {"machines": ["desktop-1/rtx-5090"], "rent": False},
            "owning": {"months": 12},
            "workloads": [
                {
                    "name": "tunes",
                    "runs_per_month": 300,
                    "case": tune(
                        "llama-3.1-8b", method="qlora", tokens=5e6, limits={"deadline_hours": 24}
                    ),
                }
            ],
        },
        alternatives=False,
        queue=True,
    )

    assert {item.month for item in plan.waiting} == {0, 9}
    for item in plan.waiting:
        assert 0 <= item.median_h <= item.p90_h <= item.p99_h
        assert 0 <= item.late_share <= 1


@pytest.mark.parametrize(("work", "slack"), [(0.2, 0.5), (0.6, 1.0), (1.5, 0.25), (3.0, 2.0)])
def test_work_that_fills_its_share_of_the_cards_is_in_time(work: float, slack: float) -> None:
    """On the whole cards that the share asks for, nine of ten simulated runs wait no longer."""
    hours = 10.0
    cards = max(1, math.ceil(work / fillable(work, slack, 1.0)))

    waits = simulated(simpy.Environment(), cards, {"runs": (work / hours, 1, hours)})["runs"]

    assert np.mean(waits <= slack * hours) > 0.87
    if cards - 1 > work:
        fewer = simulated(simpy.Environment(), cards - 1, {"runs": (work / hours, 1, hours)})
        assert np.mean(fewer["runs"] <= slack * hours) < 0.93


def test_more_time_to_wait_never_takes_more_cards() -> None:
    for work in (0.05, 0.4, 1.3, 7.0):
        shares = [fillable(work, slack, 0.8) for slack in np.linspace(0, 4, 33)]
        assert shares == sorted(shares)


def test_a_rented_run_is_told_beside_those_that_queue() -> None:
    """Both runs are listed: what is rented for each run waits for no other."""
    run = tune("llama-3.1-8b", method="qlora", tokens=5e6, limits={"deadline_hours": 24})
    plan = plan_fleet(
        {
            "means": {"machines": ["desktop-1/rtx-5090"]},
            "owning": {"months": 12},
            "workloads": [
                {"name": "at home", "runs_per_month": 300, "case": run, "on_premises": True},
                {"name": "away", "runs_per_month": 0.1, "case": tune("llama-3.1-70b", tokens=1e6)},
            ],
        },
        alternatives=False,
        queue=True,
    )

    assert {item.workload for item in plan.waiting} == {"at home", "away"}
    assert all(item.p99_h == 0 for item in plan.waiting if item.workload == "away")
