"""Requests that gather into batches: the formula against a simulation, and what it sizes."""

from functools import lru_cache

import numpy as np
import pytest

import advisor
from advisor.equations.serving.batching import batched_answers_s

REQUESTS, SHARES = 60_000, (0.5, 0.95)
ONE = 1.0


@lru_cache
def simulated(load: float, most: int, slope: float) -> tuple[float, ...]:
    """Mean, P50 and P95 of a server that starts with all that wait, up to a batch."""
    rate = load * most / (ONE + slope * (most - 1))
    came = np.cumsum(np.random.default_rng(1).exponential(1 / rate, REQUESTS))
    done, first, free = np.empty(REQUESTS), 0, 0.0
    while first < REQUESTS:
        free = max(free, float(came[first]))
        last = min(int(np.searchsorted(came, free, side="right")), first + most)
        free += ONE + slope * (last - first - 1)
        done[first:last] = free
        first = last
    times = (done - came)[REQUESTS // 10 :]
    return rate, float(times.mean()), *(float(np.quantile(times, share)) for share in SHARES)


@pytest.mark.parametrize("slope", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("most", [4, 8, 32])
@pytest.mark.parametrize("load", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
def test_answers_in_batches_take_as_long_as_in_the_simulation(
    load: float, most: int, slope: float
) -> None:
    rate, mean, _, high = simulated(load, most, slope)
    found, [_, tail] = batched_answers_s(
        rate_per_s=np.array([rate]),
        one_s=np.array([ONE]),
        full_s=np.array([ONE + slope * (most - 1)]),
        most=most,
        shares=SHARES,
    )
    assert found[0] == pytest.approx(mean, rel=0.10)
    assert tail[0] == pytest.approx(high, rel=0.25)


def test_a_server_that_does_not_keep_up_never_answers() -> None:
    mean, [tail] = batched_answers_s(
        rate_per_s=np.array([8.0]), one_s=np.ones(1), full_s=np.ones(1), most=8, shares=[0.95]
    )
    assert np.isinf(mean[0])
    assert np.isinf(tail[0])


def case(rate: float | None) -> dict[str, object]:
    stated = {} if rate is None else {"requests_per_s": rate}
    return {
        "model": {"preset": "bge-reranker-v2-m3"},
        "workload": {"kind": "serving", "input_tokens": 512, **stated},
    }


@pytest.mark.parametrize("rate", [20.0, 200.0, 2000.0])
def test_a_reranker_is_sized_by_the_rate_that_its_batches_complete(rate: float) -> None:
    """Fewest cards whose full batches, at their slow end, complete the rate."""
    plan = advisor.recommend(advisor.load_case(case(rate))).plans[0].estimate
    assert plan.serving is not None
    hardware = {"accelerator": plan.accelerator, "count": 1}
    alone = advisor.estimate(advisor.load_case(case(None) | {"hardware": hardware})).serving
    assert alone is not None
    assert plan.serving.replicas == -(-rate // alone.requests_per_s.low)
    assert plan.serving.arrivals is not None
    assert plan.serving.arrivals.load == pytest.approx(
        rate / plan.serving.replicas / alone.requests_per_s.expected, rel=1e-3
    )
    assert sum(term.value for term in plan.serving.terms) == pytest.approx(
        plan.serving.ttft_ms.expected / 1e3
    )


def test_cards_that_are_too_few_are_told_how_many_would_do() -> None:
    """Four cards carry, at the low end, what four replicas of the same card complete."""
    limits = {"accelerators": ["rtx-4090"], "max_accelerators": 4}
    asked = advisor.load_case(case(100_000.0) | {"limits": limits})
    [told] = [
        item for item in advisor.recommend(asked).rejections if item.accelerator == "rtx-4090"
    ]
    hardware = {"accelerator": "rtx-4090", "count": 4}
    able = advisor.estimate(advisor.load_case(case(100.0) | {"hardware": hardware})).serving
    assert able is not None
    assert able.arrivals is not None
    assert told.unit == "requests/s"
    assert told.limit == pytest.approx(able.arrivals.most_requests_per_s.low, rel=0.01)
