"""One software platform for a plan, and what others or a mix would save."""

from typing import Any

import pytest

from advisor import plan_fleet
from advisor.fleet.account import Account
from advisor.fleet.platforms import choose
from advisor.fleet.portfolio import Means
from advisor.fleet.solving.problem import Job, Mode, Problem, Supply, Way
from tests.cases import serve


def problem(cuda_usd: float, rocm_usd: float, jobs: int = 2) -> Problem:
    """Services that each need the one card of a machine of either platform for a year."""
    supplies = tuple(
        Supply(name, name, Way.BUY, cards=1, capital_usd=usd, platform=name, life_months=12)
        for name, usd in (("CUDA", cuda_usd), ("ROCm", rocm_usd))
    )
    modes = (Mode(0, "", serves=1.0), Mode(1, "", serves=1.0))
    work = tuple(Job(f"job {place}", modes, load=((1.0, 1.0),)) for place in range(jobs))
    return Problem(jobs=work, supplies=supplies, months=(12,))


@pytest.mark.parametrize(
    ("cuda", "rocm", "expected"),
    [
        (10_000.0, 9_000.0, "CUDA"),  # 2,000 less: under a week of an engineer
        (10_000.0, 8_000.0, "ROCm"),
        (100_000.0, 96_000.0, "CUDA"),  # 8,000 less, but only 4 %
        (100_000.0, 94_000.0, "ROCm"),
    ],
)
def test_another_platform_has_to_save_more_than_the_change(
    cuda: float, rocm: float, expected: str
) -> None:
    chosen = choose(problem(cuda, rocm), Means())

    assert chosen.platforms == (expected,)
    bought = {chosen.problem.supplies[buy.supply].platform for buy, _ in chosen.solution.bought()}
    assert bought == {expected}


def test_a_stated_cost_of_zero_leaves_the_share_alone() -> None:
    chosen = choose(problem(10_000.0, 9_000.0), Means(other_platform_usd=0))

    assert chosen.platforms == ("ROCm",)
    [(name, usd)] = chosen.others
    assert (name, round(usd)) == ("CUDA", 20_000)


def test_work_that_only_one_platform_can_do_brings_it_in() -> None:
    base = problem(10_000.0, 30_000.0, jobs=1)
    only = Job("for ROCm", (Mode(1, "", serves=1.0),), load=((1.0, 1.0),))
    chosen = choose(Problem(jobs=(*base.jobs, only), supplies=base.supplies, months=(12,)), Means())

    # The one machine that has to be there cannot carry both.
    assert chosen.platforms == ("ROCm",)
    assert Account(chosen.problem, chosen.solution).total_usd == pytest.approx(60_000.0)


def test_machines_that_are_there_decide_the_platform() -> None:
    base = problem(10_000.0, 1_000.0)
    owned = Supply("old", "old", Way.OWNED, cards=1, platform="CUDA", owned=(1,))
    jobs = tuple(
        Job(job.name, (*job.modes, Mode(2, "", serves=1.0)), load=job.load) for job in base.jobs
    )
    chosen = choose(Problem(jobs=jobs, supplies=(*base.supplies, owned), months=(12,)), Means())

    assert chosen.platforms == ("CUDA",)


LAB: dict[str, Any] = {
    "means": {"rent": False},
    "workloads": [
        {
            "name": "chat",
            "case": serve(
                "llama-3.1-70b", concurrency=6, weight_format="w4a16", limits={"max_tpot_ms": 100}
            ),
        },
        {
            "name": "people",
            "people": 6,
            "case": {
                "model": {"preset": "llama-3.1-8b"},
                "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 10e6},
            },
        },
    ],
}


def test_a_lab_buys_machines_of_one_vendor_and_a_mix_never_costs_more() -> None:
    single = plan_fleet(LAB)
    means = {**LAB["means"], "mixed_vendors": True}
    mixed = plan_fleet({**LAB, "means": means}, alternatives=False)

    assert len(single.platforms) == 1
    assert f"All of it runs on {single.platforms[0]}." in single.sentence
    [beside] = [item for item in single.alternatives if item.name == "mixed"]
    assert mixed.total_usd <= single.total_usd * (1 + 1e-6)
    assert beside.usd == pytest.approx(mixed.total_usd, rel=2e-3)
