"""A second process does some of the planning: the answer stays the same."""

import os
from functools import partial
from typing import Any

import pytest

from advisor import plan_fleet
from advisor.errors import InputError
from advisor.fleet import helper, plan
from advisor.fleet.helper import Helper

SERVICE: dict[str, Any] = {
    "name": "chat",
    "case": {
        "model": {"preset": "llama-3.2-1b"},
        "workload": {"kind": "serving", "concurrency": 8},
        "limits": {"max_tpot_ms": 50},
    },
}
TUNE: dict[str, Any] = {
    "name": "tune",
    "case": {
        "model": {"preset": "llama-3.2-1b"},
        "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 1e7},
    },
    "runs_per_month": 4,
}


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY", 0)
    monkeypatch.setattr(helper, "usable_cores", lambda: 2)


def portfolio() -> dict[str, Any]:
    return {
        "workloads": [SERVICE, TUNE],
        "budget": {"purchase_usd": 9000},
        "owning": {"months": 12},
    }


def test_two_processes_give_the_plan_of_one(helped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    two = plan_fleet(portfolio())
    monkeypatch.setattr(helper, "usable_cores", lambda: 1)

    assert two.to_json() == plan_fleet(portfolio()).to_json()


def test_the_first_workload_that_nothing_can_do_is_named(helped: None) -> None:
    run = {"kind": "pretraining", "tokens": 1e12}
    case = {"model": {"preset": "llama-3.1-8b"}, "workload": run, "limits": {"deadline_hours": 1}}
    lost = [{**TUNE, "name": name, "case": case} for name in ("b", "a")]
    with pytest.raises(InputError, match="nothing can do 'b'"):
        plan_fleet({"workloads": [SERVICE, *lost]})


def test_work_of_a_lost_worker_is_done_here(helped: None) -> None:
    with Helper(useful=True) as two:
        assert two._worker is not None
        assert two.together([(1.0, partial(divmod, 7, 2))] * 3) == [(3, 1)] * 3
        answers = two.ask([os.getpid])
        there = answers()
        two._worker.kill()
        two._worker.wait()
        assert two.ask([os.getpid])() == [os.getpid()]
    assert there != [os.getpid()]


def test_a_mistake_of_the_worker_is_raised_here(helped: None) -> None:
    with Helper(useful=True) as two, pytest.raises(ZeroDivisionError):
        two.ask([partial(divmod, 7, 0)])()
