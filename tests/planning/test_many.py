"""Many cases at once have the answers that each has alone, to the last digit."""

import threading
from typing import Any

import pytest

import advisor
from advisor.errors import InputError
from advisor.estimate.together import side_by_side
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


def test_cases_that_differ_in_numbers_only_are_computed_together() -> None:
    """Beside them: another model, arrivals, drafts, a lack of memory and a mistake."""
    card = {"accelerator": "h100-sxm", "count": 4}
    work = {"model": {"preset": "llama-3.1-8b"}, "hardware": card, "workload": {"kind": "serving"}}
    several = [
        advisor.load_case(
            work | {"workload": {"kind": "serving", "input_tokens": tokens, "concurrency": users}}
        )
        for tokens in (100, 3000)
        for users in (1, 7, 500)
    ]
    others = [
        advisor.load_case(work | change)
        for change in (
            {"model": {"preset": "qwen3-30b-a3b"}},
            {"workload": {"kind": "serving", "requests_per_s": 3}},
            {"workload": {"kind": "serving", "speculation": "eagle3"}},
            {"hardware": {"accelerator": "rtx-4090", "count": 1}, "model": {"parameters": 4e11}},
            {"hardware": {"accelerator": "no-such-card", "count": 1}},
        )
    ]
    cases = [*several[:3], *others, *several[3:]]

    assert list(map(figures, estimate_many(cases))) == [figures(alone(case)) for case in cases]


def test_the_tasks_that_wait_end_with_the_one_that_fails() -> None:
    def failing() -> None:
        raise LookupError

    case = Case.model_validate(
        WORK["serving"] | {"hardware": {"accelerator": "h100-sxm", "count": 4}}
    )
    before = threading.active_count()
    with pytest.raises(LookupError):
        side_by_side([lambda: advisor.estimate(case), failing, lambda: advisor.estimate(case)])

    assert threading.active_count() == before
