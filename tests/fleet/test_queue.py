"""The simulated queue against queueing theory."""

import pytest
import simpy

from advisor import plan_fleet
from advisor.fleet.queue import simulated
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
