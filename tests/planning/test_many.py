"""Many cases at once have the answers that each has alone, to the last digit."""

from typing import Any

import pytest

import advisor
from advisor.errors import InputError
from advisor.nouns.case import Case
from advisor.planning.many import Figures, estimate_many

EXPLAINS = {"neighbours", "improvements", "ways_out", "curves"}
"""What a single answer has beside its figures."""
WORK: dict[str, dict[str, Any]] = {
    "lora": {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "tokens": 50e6},
    },
    "serving": {
        "model": {"preset": "llama-3.1-70b"},
        "workload": {"kind": "serving", "concurrency": 32},
    },
}


def figures(found: Figures) -> object:
    if isinstance(found, InputError):
        return str(found)
    return None if found is None else found.model_dump(exclude=EXPLAINS)


def alone(case: Case) -> Figures:
    try:
        if case.hardware is not None:
            return advisor.estimate(case)
        plans = advisor.recommend(case).plans
        return plans[0].estimate if plans else None
    except InputError as error:
        return error


@pytest.mark.parametrize("work", list(WORK))
def test_on_hardware(work: str) -> None:
    cases = [
        advisor.load_case(WORK[work] | {"hardware": {"accelerator": card, "count": count}})
        for card in ("rtx-4090", "mi300x", "h100-sxm", "no-such-card")
        for count in (1, 2, 3, 16)
    ]

    assert list(map(figures, estimate_many(cases))) == [figures(alone(case)) for case in cases]


def test_without_hardware() -> None:
    limits = ({"deadline_hours": 1}, {"deadline_hours": 30, "budget_usd": 5}, {"budget_usd": 0.01})
    cases = [
        advisor.load_case(WORK["lora"] | {"limits": limit, "objective": objective})
        for limit in limits
        for objective in ("cheapest", "fastest")
    ]

    assert list(map(figures, estimate_many(cases))) == [figures(alone(case)) for case in cases]
