"""Bursts and closed loops: the formulas against an engine that is simulated step by step."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from advisor.equations.serving.bursts import burst_s, equal_wave_s
from advisor.equations.serving.engine import request_rate_per_s
from advisor.equations.serving.queueing import gamma_quantile
from advisor.equations.serving.shared_steps import token_time_variance
from tests.simulation.engine import Engine, Request

ANSWER = 200.0
"""Mean of exponentially distributed answers. [tokens]"""


def together(number: int, prompt: int, seed: int) -> list[Request]:
    """Return requests that arrive at once."""
    answers = np.random.default_rng(seed).exponential(ANSWER, number)
    return [
        Request(place, 0.0, prompt, max(2, round(answer))) for place, answer in enumerate(answers)
    ]


def rate(engine: Engine, prompt: int) -> float:
    """Return the rate with all places of an engine taken. [requests/s]"""
    added = engine.per_token * prompt
    step = engine.base + engine.per_request * engine.limit
    others = added * (engine.limit - 1) / engine.limit
    return float(
        request_rate_per_s(
            concurrency=engine.limit,
            decode_step_s=step,
            prefill_extra_s=others,
            first_token_s=step + added,
            output_tokens=ANSWER,
        )
    )


@pytest.mark.parametrize("prompt", [64, 217, 1000])
@pytest.mark.parametrize("places", [128, 256, 1000])
def test_a_burst_ends_when_the_simulation_does(places: int, prompt: int) -> None:
    whole = []
    for seed in range(3):
        engine = Engine(limit=places, budget=2048)
        done = engine.run(together(1000, prompt, seed))
        whole.append(max(request.last_s for request in done))
    added, batches = engine.per_token * prompt, np.arange(1, places + 1)
    steps = engine.base + engine.per_request * batches
    expected = burst_s(
        requests=1000.0,
        running=float(places),
        rate_per_s=rate(engine, prompt),
        prompt_s=added + engine.base / (engine.budget / prompt),
        output_tokens=ANSWER,
        draining_s=float((steps / batches).sum()),
    )
    assert expected == pytest.approx(np.mean(whole), rel=0.1)


@pytest.mark.parametrize(("prompt", "answer"), [(128, 4), (2000, 100), (1000, 2000), (32000, 100)])
@pytest.mark.parametrize("places", [64, 142, 1000])
def test_equal_answers_end_when_those_of_the_simulation_do(
    places: int, prompt: int, answer: int
) -> None:
    """The last wave of 500 requests is whole here: a part of one takes as long."""
    number = 500 // places * places if places < 500 else 500
    engine = Engine(limit=places)
    done = engine.run([Request(place, 0.0, prompt, answer) for place in range(number)])
    running, slots, one = min(places, number), engine.budget / prompt, engine.per_request
    share = min(running / slots / answer, 1.0)
    prompt_s = engine.per_token * prompt + engine.base / min(slots, running)
    wave = equal_wave_s(share=share, step_s=engine.base + one * running, ridden_s=running * one)
    expected = burst_s(
        requests=float(number),
        running=float(running),
        rate_per_s=running / (running * prompt_s + answer * wave),
        prompt_s=prompt_s,
        output_tokens=float(answer),
        draining_s=wave + share * engine.base,
    )
    assert expected == pytest.approx(max(request.last_s for request in done), rel=0.05)


@pytest.mark.parametrize("places", [2, 4, 8])
@pytest.mark.parametrize("prompt", [233, 1000])
def test_late_tokens_of_a_closed_loop_are_those_of_the_simulation(prompt: int, places: int) -> None:
    """The last percent of short answers meets most prompts of others for each token."""
    late = []
    for seed in range(3):
        engine = Engine(limit=places)
        done = engine.run(together(4000, prompt, seed))
        times = [(each.last_s - each.first_s) / (each.answer - 1) for each in done]
        late.append(np.quantile(times, 0.99))
    step, added = engine.base + engine.per_request * places, engine.per_token * prompt
    others = rate(engine, prompt) * (1 - 1 / places)
    variance = token_time_variance(
        step_s=step,
        prompt_s=added,
        rate_per_s=others,
        waited_variance=0.0,
        prompt_scv=0.0,
        arrival_scv=1.0,
        output_tokens=(ANSWER - 1) / np.log(ANSWER),
    )
    mean = step / (1 - others * added) - step
    expected = step + gamma_quantile(mean, variance, NormalDist().inv_cdf(0.99))
    assert float(expected) == pytest.approx(np.mean(late), rel=0.15)
