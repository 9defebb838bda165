"""Laws of answers, checked on the figures that they show."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import api
from advisor.estimate.training.delivered import interrupted_time
from advisor.foundation import formatting
from advisor.foundation.quantities import Evidence, Range
from advisor.planning.results import RejectionCode
from tests.cases import CASES, LORA, PRETRAIN, SERVE, serve

SPOT = {"price_kind": "spot"}


@pytest.mark.parametrize("case", [LORA, PRETRAIN], ids=["lora", "pretrain"])
@pytest.mark.parametrize("rate", [None, 0.01, 2.0])
def test_the_terms_of_a_spot_run_sum_to_its_hours(
    case: dict[str, object], rate: float | None
) -> None:
    asked = case | {
        "limits": SPOT,
        "renting": {"interruptions_per_hour": rate},
        "hardware": {"accelerator": "h100-sxm", "count": 8},
    }

    on_demand = api.estimate({**asked, "limits": {}, "renting": {}}).time
    time = api.estimate(asked).time

    assert time is not None
    assert on_demand is not None
    terms = {term.name: term.value for term in time.run_terms}
    assert terms["spot"] > 0
    assert math.fsum(terms.values()) == pytest.approx(time.run_hours.expected * 3600, rel=1e-9)
    # All that spot adds to the run on demand is the one term.
    longer = (time.run_hours.expected - on_demand.run_hours.expected) * 3600
    assert terms["spot"] == pytest.approx(longer, rel=1e-9)


def test_half_an_hour_more_for_an_hour_is_a_third_of_the_terms() -> None:
    time = api.estimate({**LORA, "hardware": {"accelerator": "h100-sxm", "count": 8}}).time
    assert time is not None

    longer = interrupted_time(time, Range.exact(1.5, Evidence.ASSUMED))

    terms = {term.name: term.value for term in longer.run_terms}
    assert terms["spot"] == pytest.approx(sum(terms.values()) / 3)
    assert longer.run_hours.expected == pytest.approx(1.5 * time.run_hours.expected)


@pytest.mark.parametrize("accelerator", ["rtx-3070-ti", "t4", "l40s"])
@pytest.mark.parametrize("name", CASES)
def test_ways_out_save_what_the_figures_say_and_never_less_than_nothing(
    name: str, accelerator: str
) -> None:
    found = api.estimate(CASES[name] | {"hardware": {"accelerator": accelerator}})

    for way in found.ways_out:
        spared = found.memory.needed_bytes - way.needed_bytes
        assert way.saved_bytes == pytest.approx(max(0.0, spared))
        assert way.needed_bytes <= way.usable_bytes


# The engine leaves a part of the card to others: 48 GiB were told where 45 are usable.
CROWDED = serve("qwen2.5-32b", concurrency=128, input_tokens=8192, output_tokens=1024)


@pytest.mark.parametrize("case", [*CASES.values(), CROWDED], ids=[*CASES, "crowded"])
def test_what_lacks_memory_needs_more_than_it_has(case: dict[str, object]) -> None:
    found = api.recommend(case)

    lacking = [
        item
        for item in found.rejections
        if item.code is RejectionCode.MEMORY and item.actual is not None
    ]
    assert lacking
    for item in lacking:
        assert item.limit is not None
        assert item.actual is not None
        assert item.actual > item.limit
        assert not re.search(r"-\d", re.sub(r"\S*[A-Za-z]\S*", "", item.message))


BUSY = {"model": {"preset": "llama-3.1-8b"}, "workload": {"kind": "serving", "concurrency": 32}}


def test_what_is_expected_is_never_over_the_most() -> None:
    """The upper end was rounded to the nearest: $1,745 expected, up to $1,700."""
    plans = [
        plan
        for case in (SERVE, LORA, PRETRAIN, BUSY)
        for ranking in api.recommend(case).rankings
        for plan in ranking.plans
    ]
    pattern = r"\$([\d,.]*\d)(?: a month)? expected, up to \$([\d,.]*\d)"
    pairs = [pair for plan in plans for pair in re.findall(pattern, plan.why)]

    assert pairs
    for expected, most in pairs:
        assert float(expected.replace(",", "")) <= float(most.replace(",", ""))


@given(usd=st.floats(0.01, 1e12))
def test_the_most_that_is_shown_is_no_less_than_the_sum_in_full(usd: float) -> None:
    full, most = (
        float(re.sub(r"[$,]", "", text))
        for text in (formatting.money(usd), formatting.money_at_most(usd))
    )

    assert full <= most <= 1.1 * full + 0.01


FORMS: list[Callable[..., str]] = [
    formatting.money,
    formatting.memory,
    formatting.duration,
    formatting.milliseconds,
    formatting.percent,
    lambda value, **told: formatting.rate(value, "tokens/s", **told),
]


@pytest.mark.parametrize("form", FORMS, ids=["money", "memory", "time", "ms", "share", "rate"])
@given(expected=st.floats(1e-3, 1e13), below=st.floats(0.01, 1.0), above=st.floats(1.0, 20.0))
def test_ranges_are_in_order_as_a_reader_sees_them(
    form: Callable[..., str], expected: float, below: float, above: float
) -> None:
    value = Range.around(expected, low_factor=below, high_factor=above, evidence=Evidence.ASSUMED)

    shown = [
        float(number.replace(",", ""))
        for number in re.findall(r"\d[\d,]*(?:\.\d+)?", form(value, with_range=True))
    ]

    if len(shown) == 3:
        middle, low, high = shown
        assert all(first <= second for first, second in pairwise((low, middle, high)))


@pytest.mark.parametrize("name", CASES)
def test_every_answer_is_json_of_finite_numbers(name: str) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    placed = CASES[name] | {"hardware": {"accelerator": "h100-sxm", "count": 8}}
    for answer in (api.recommend(CASES[name]), api.estimate(placed), api.own(placed)):
        assert json.loads(answer.to_json(), parse_constant=refuse)
