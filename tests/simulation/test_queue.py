"""The queue formulas beside a simulation of the engine, step by step."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from advisor.equations.serving.continuous_batching import prompt_service_s
from advisor.equations.serving.engine import (
    prefill_wait_s,
    request_rate_per_s,
    time_per_output_token_s,
)
from advisor.equations.serving.queueing import state_grid, state_probabilities
from advisor.estimate.serving.queue import Arrivals, EngineCurve, queued, within_limit
from advisor.estimate.serving.queued import PERCENTILES, Queued
from tests.simulation.engine import Engine, poisson

Floats = NDArray[np.float64]

PROMPT, ANSWER, SPREAD = 1024, 256, 0.25
REQUESTS, SEEDS = 6000, (1, 2, 3)


def curve_of(engine: Engine, prompt: int = PROMPT, answer: int = ANSWER) -> EngineCurve:
    """Return the closed formulas of ``equations.serving`` for an engine's step times."""
    states = state_grid(1024)
    step = engine.base + engine.per_request * states
    extra = np.full_like(states, engine.per_token * prompt)
    first = engine.base + engine.per_request * (states - 1) + extra
    others = extra * (states - 1) / states
    rate = request_rate_per_s(
        concurrency=states,
        decode_step_s=step,
        prefill_extra_s=others,
        first_token_s=first,
        output_tokens=answer,
    )
    occupied = prompt / engine.budget
    tpot = np.asarray(
        time_per_output_token_s(
            decode_step_s=step, prefill_extra_s=others, request_rate_per_s=rate, steps=occupied
        )
    )
    service = prompt_service_s(
        steps_per_prompt=occupied,
        running_step_s=step,
        extra_s=extra,
        full_step_s=engine.base + engine.per_token * engine.budget,
        pipeline=1.0,
    )
    wait = prefill_wait_s(concurrency=states, service_s=service, generation_s=(answer - 1) * tpot)
    one = np.ones(1)
    return EngineCurve(
        states=states,
        completions_per_s=(states / (first + wait + (answer - 1) * tpot))[None],
        tpot_s=tpot[None],
        step_s=step[None],
        first_token_s=first[None],
        prompt_extra_s=extra[None],
        slots_per_step=one / occupied,
        length_s=np.inf * one,
        steps_ahead=0 * one,
        limit=one * engine.limit,
        need_bytes=0 * one,
        usable_bytes=one,
    )


def most(curve: EngineCurve, limit: int) -> float:
    return max(
        float(np.interp(n, curve.states, curve.completions_per_s[0])) for n in range(1, limit + 1)
    )


@lru_cache
def simulated(
    load: float,
    prompt: int = PROMPT,
    scv: float = 1.0,
    requests: int = REQUESTS,
    answer: int = ANSWER,
) -> tuple[dict[str, float], Queued]:
    """Return times to the first token and per token, simulated and by formula. [s]"""
    engine = Engine(limit=512)
    curve = curve_of(engine, prompt, answer)
    rate = load * most(curve, engine.limit)
    first, later = [], []
    for seed in SEEDS:
        arrived = poisson(
            rate, requests, prompt=prompt, answer=answer, seed=seed, scv=scv, answer_scv=SPREAD
        )
        done = sorted(Engine(limit=512).run(arrived), key=lambda one: one.arrived_s)
        for one in done[requests // 6 : -requests // 20]:
            first.append(one.first_s - one.arrived_s)
            later.append((one.last_s - one.first_s) / (one.answer - 1))
    figures = {"ttft": float(np.mean(first)), "tpot": float(np.mean(later))}
    for name, share in PERCENTILES.items():
        figures[f"ttft {name}"] = float(np.quantile(first, share))
        figures[f"tpot {name}"] = float(np.quantile(later, share))
    arrivals = Arrivals(np.array([rate]), arrival_scv=scv, answer_scv=SPREAD, output_tokens=answer)
    return figures, queued(within_limit(curve), arrivals)


def errors_of(figures: dict[str, float], found: Queued) -> dict[str, float]:
    """Return the errors of the formulas, in shares of the simulated times."""
    formula = {"ttft": found.ttft_s[0], "tpot": found.tpot_s[0]}
    for name in PERCENTILES:
        formula[f"ttft {name}"] = found.ttft_at[name][0]
        formula[f"tpot {name}"] = found.tpot_at[name][0]
    return {name: float(formula[name] / value - 1) for name, value in figures.items()}


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
def test_means_and_percentiles_are_those_of_the_simulation(load: float) -> None:
    errors = errors_of(*simulated(load))
    assert max(abs(error) for error in errors.values()) < 0.10, errors


@pytest.mark.parametrize("prompt", [256, 4096, 8192])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8, 0.95])
def test_short_and_long_prompts_wait_as_in_the_simulation(load: float, prompt: int) -> None:
    errors = errors_of(*simulated(load, prompt))
    means = {name: abs(errors[name]) for name in ("ttft", "tpot")}
    assert max(means.values()) < 0.10, errors
    usual = {name: abs(errors[name]) for name in ("ttft p50", "tpot p50", "ttft p95", "tpot p95")}
    assert max(usual.values()) < 0.16, errors


@pytest.mark.parametrize("prompt", [8192, 24576])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8, 0.95])
def test_few_requests_with_prompts_that_fill_steps_wait_as_at_one_server(
    load: float, prompt: int
) -> None:
    figures, found = simulated(load, prompt, requests=4000, answer=64)
    errors = errors_of(figures, found)
    assert abs(errors["ttft"]) < 0.10, errors
    assert abs(errors["ttft p95"]) < 0.16, errors
    if load >= 0.6:
        # Of a nearly full engine, most answers meet nothing but full steps.
        assert abs(errors["tpot p50"]) < (0.40 if load > 0.9 else 0.16), errors
    # A chunk is the most that a prompt adds to one step.
    chunk = Engine.base + Engine.per_token * Engine.budget
    assert found.tpot_at["p99"][0] < 1.1 * (chunk + Engine.per_request * found.in_flight[0])


@pytest.mark.parametrize("prompt", [256, 1024, 4096, 8192])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_bursty_requests_wait_as_in_the_simulation(load: float, prompt: int) -> None:
    errors = errors_of(*simulated(load, prompt, 4.0))
    assert max(abs(errors[name]) for name in ("ttft", "tpot")) < 0.10, errors


def test_the_mean_number_in_flight_is_littles() -> None:
    """Requests in flight are arrivals times their mean stay."""
    figures, found = simulated(0.7)
    stay = figures["ttft"] + (ANSWER - 1) * figures["tpot"]
    assert found.in_flight[0] == pytest.approx(found.rate_per_s[0] * stay, rel=0.05)


@pytest.mark.parametrize(("servers", "busy"), [(20, 15.0), (200, 190.0)])
def test_states_are_those_of_erlang(servers: int, busy: float) -> None:
    """Equal servers are M/M/c, of which Erlang's C gives the share that waits."""
    states = state_grid(servers)
    _, _, outside = state_probabilities(states=states, completions_per_s=states, rate_per_s=busy)
    terms = np.cumsum(np.r_[0.0, np.log(busy / np.arange(1, servers + 1))])
    weights = np.exp(terms - terms.max())
    erlang = weights[-1] / (1 - busy / servers)
    waits = erlang / (weights[:-1].sum() + erlang)
    # Outside counts states beyond the limit; whoever arrives at the limit waits too.
    assert float(outside) == pytest.approx(waits * busy / servers, rel=0.05)


def loaded(load: float, **changes: Floats) -> Queued:
    """Return an engine under a share of what it completes."""
    engine = Engine(limit=512)
    curve = curve_of(engine)
    rate = load * most(curve, engine.limit)
    arrivals = Arrivals(np.array([rate]), answer_scv=SPREAD, output_tokens=ANSWER)
    return queued(within_limit(replace(curve, **changes)), arrivals)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_slower_steps_make_requests_wait_as_in_the_simulation(load: float) -> None:
    """An engine whose steps take 1.15 times as long, under the same arrivals."""
    slower = 1.15
    usual = Engine(limit=512)
    rate = load * most(curve_of(usual), usual.limit)
    first, later = [], []
    for seed in SEEDS:
        slow = Engine(
            base=slower * usual.base,
            per_request=slower * usual.per_request,
            per_token=slower * usual.per_token,
            limit=512,
        )
        arrived = poisson(
            rate, REQUESTS, prompt=PROMPT, answer=ANSWER, seed=seed, scv=1.0, answer_scv=SPREAD
        )
        done = sorted(slow.run(arrived), key=lambda one: one.arrived_s)[REQUESTS // 6 : -300]
        first += [one.first_s - one.arrived_s for one in done]
        later += [(one.last_s - one.first_s) / (one.answer - 1) for one in done]
    found = loaded(load).strained(np.array([slower]))
    for name, share in PERCENTILES.items():
        assert found.ttft_at[name][0] == pytest.approx(np.quantile(first, share), rel=0.10)
        assert found.tpot_at[name][0] == pytest.approx(np.quantile(later, share), rel=0.10)


@pytest.mark.parametrize("load", [0.05, 0.3, 0.6, 0.8, 0.9, 0.94, 0.97])
def test_a_queue_widens_the_range_of_its_services(load: float) -> None:
    """Work that takes longer waits longer: times grow by more than the factor, without end."""
    factors = np.array([0.7, 0.85, 1.0, 1.1, 1.2, 1.5, 2.0])
    usual = loaded(load)
    found = usual.strained(factors)
    for at in ("mean", *PERCENTILES):
        pairs = zip(usual.latencies(at), found.latencies(at), strict=True)
        for alone, times in pairs:
            assert np.isfinite(times).all()
            assert (np.diff(times) > 0).all()
            assert times[2] == pytest.approx(alone[0], rel=1e-6)
            ratio = times / alone[0] / factors
            assert (ratio[:2] <= 1.005).all(), (at, ratio)
            assert (ratio[3:] >= 0.995).all(), (at, ratio)


def test_an_overloaded_engine_is_full_and_its_queue_grows_for_as_long_as_it_lasts() -> None:
    """At 1.6 times what it serves, each hour leaves 0.6 hours of work, and half wait half of it."""
    found = loaded(0.8).strained(np.array([2.0]), lasts_s=3600.0)
    assert found.load[0] == pytest.approx(1.6)
    assert found.ttft_at["p50"][0] == pytest.approx(0.5 * 0.6 * 3600, rel=0.01)
    assert found.tpot_at["p50"][0] >= 2.0 * loaded(0.8).full_tpot_s[0]


def test_a_state_that_hardly_occurs_changes_no_percentile() -> None:
    """Alone, a request starts its own step: its prompt is dear. At 80 % load nobody is alone."""
    dear = curve_of(Engine(limit=512)).prompt_extra_s.copy()
    dear[:, 0] *= 30
    assert loaded(0.8, prompt_extra_s=dear).tpot_at["p99"] == pytest.approx(
        loaded(0.8).tpot_at["p99"], rel=0.001
    )
