"""Workloads of a large portfolio are sized in several processes: the jobs stay the same."""

import os
import signal
import subprocess
from typing import Any

import pytest

from advisor import InputError, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.economy import load_economy
from advisor.fleet import sizing
from advisor.fleet.build import Built, build
from advisor.fleet.portfolio import load_portfolio
from advisor.foundation.concurrency import processes
from tests.cases import serve

CHAT = {"name": "chat", "case": serve("llama-3.2-1b", concurrency=8, limits={"max_tpot_ms": 50})}
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
    monkeypatch.setattr(sizing, "MANY", 0)
    monkeypatch.setattr(sizing, "usable_cores", lambda: 2)


def sized(*workloads: dict[str, Any]) -> Built:
    portfolio = load_portfolio({"workloads": list(workloads), "owning": {"months": 12}})
    return build(portfolio, load_catalog(), load_calibration(), load_economy())


def test_two_processes_size_as_one_does(helped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    two = sized(CHAT, TUNE)
    monkeypatch.setattr(sizing, "usable_cores", lambda: 1)

    assert two.problem == sized(CHAT, TUNE).problem


def test_what_a_helper_that_dies_leaves_is_done_here(
    helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(answer: bytes) -> subprocess.Popen[bytes]:
        worker = processes.started(answer)
        os.kill(worker.pid, signal.SIGKILL)
        return worker

    monkeypatch.setattr(sizing, "started", dying)

    assert [job.name for job in sized(CHAT, TUNE).problem.jobs] == ["chat", "tune"]


def test_the_first_workload_that_nothing_can_do_is_named(helped: None) -> None:
    run = {"kind": "pretraining", "tokens": 1e12}
    case = {"model": {"preset": "llama-3.1-8b"}, "workload": run, "limits": {"deadline_hours": 1}}
    with pytest.raises(InputError, match="nothing can do 'b'"):
        sized(CHAT, *({**TUNE, "name": name, "case": case} for name in ("b", "a")))
