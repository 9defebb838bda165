"""The rate of a long burst beside a simulation of the engine, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.equations.serving.bursts import backlog_rate_per_s
from advisor.equations.serving.continuous_batching import prompt_service_s
from tests.simulation.engine import Engine, poisson
from tests.simulation.test_queue import curve_of

REQUESTS = 6000


def simulated_per_s(engine: Engine, prompt: int, answer: int) -> float:
    """Return the rate between the first and the last fifth of a burst."""
    burst = poisson(1e9, REQUESTS, prompt=prompt, answer=answer, seed=1)
    ends = sorted(request.last_s for request in engine.run(burst))
    first, last = REQUESTS // 5, REQUESTS * 4 // 5
    return (last - first) / (ends[last] - ends[first])


@pytest.mark.parametrize(
    ("prompt", "answer", "places"),
    [(217, 202, 256), (871, 128, 128), (1024, 32, 256), (4096, 32, 64), (6144, 16, 64)],
)
def test_a_backlog_is_served_as_in_the_simulation(prompt: int, answer: int, places: int) -> None:
    """Short prompts leave the places full of answers; long ones fill the steps."""
    engine = Engine(limit=places)
    curve = curve_of(engine, prompt, answer)
    token, step, first, extra = (
        float(np.interp(places, curve.states, each[0]))
        for each in (curve.tpot_s, curve.step_s, curve.first_token_s, curve.prompt_extra_s)
    )
    service = prompt_service_s(
        steps_per_prompt=prompt / engine.budget,
        running_step_s=step,
        extra_s=extra,
        full_step_s=engine.base + engine.per_token * engine.budget,
        pipeline=1.0,
    )
    rate = backlog_rate_per_s(
        running=places, answer_s=first + (answer - 1) * token, service_s=service
    )

    assert rate == pytest.approx(simulated_per_s(engine, prompt, answer), rel=0.1)
