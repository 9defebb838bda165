"""Servers that requests arrive at: engines in every state, and what a stated rate makes of them."""

from dataclasses import replace
from typing import Final

import numpy as np

from advisor.equations.queueing import log_normal_scv, state_grid
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.queue import Arrivals, EngineCurve, Queued, queued
from advisor.estimate.serving.times import serving_times
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.workload import Serving

EVALUATED: Final = np.array(
    [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024], dtype=float
)
"""Requests in flight at which an engine is estimated; the states between are interpolated."""
STATES: Final = state_grid(int(EVALUATED[-1]))


def engine_curves(
    served: ServedModel,
    workload: Serving,
    candidates: Candidates,
    calibration: Calibration,
    engine: ServingFacts | None = None,
) -> EngineCurve:
    """Return one data-parallel rank of each candidate in every state.

    Ranks that share experts are evaluated together, each in the same state. Without ``engine``,
    the one that serves the weights' format.
    """
    rows, numbers = len(candidates.layout.tensor), len(EVALUATED)
    each = candidates.take(np.repeat(np.arange(rows), numbers))
    layout = replace(each.layout, data=each.layout.expert)
    load = replace(
        ServingLoad.of(workload), concurrency=np.tile(EVALUATED, rows) * each.layout.expert
    )
    times = serving_times(served, load, Candidates(layout, each.hardware), calibration, engine)

    def table(values: Floats) -> Floats:
        return np.broadcast_to(values, rows * numbers).reshape(rows, numbers)

    # Places of the states between those that are evaluated.
    place = np.clip(np.searchsorted(EVALUATED, STATES), 1, numbers - 1)
    part = (STATES - EVALUATED[place - 1]) / (EVALUATED[place] - EVALUATED[place - 1])

    def between(values: Floats) -> Floats:
        known = table(values)
        with np.errstate(invalid="ignore"):
            return np.asarray(known[:, place - 1] + part * (known[:, place] - known[:, place - 1]))

    room = table(times.capacity.max_concurrency / layout.expert)[:, 0]
    fits = np.broadcast_to(times.feasible, rows * numbers)[::numbers]
    return EngineCurve(
        states=STATES,
        completions_per_s=between(times.requests_per_s / layout.expert),
        tpot_s=between(times.tpot_s),
        step_s=between(times.decode_step_s),
        first_token_s=between(times.first_token_s),
        prompt_extra_s=between(times.prompt_extra_s),
        slots_per_step=table(times.prompts_per_step)[:, 0],
        limit=np.where(fits, np.minimum(room, EVALUATED[-1]), 0.0),
        need_bytes=table(times.capacity.high_bytes)[:, 0],
        usable_bytes=table(times.capacity.usable_bytes)[:, 0],
    )


def arrivals_of(workload: Serving, ranks: Floats) -> Arrivals:
    """Return how a workload's requests arrive at each of equal ranks.

    A balancer that takes turns makes the arrivals at one of many ranks more even. That is left
    out, because most balancers choose at random or by sessions.
    """
    assert workload.requests_per_s is not None
    return Arrivals(
        rate_per_s=workload.requests_per_s / ranks,
        arrival_scv=workload.arrivals.scv,
        prompt_scv=_spread(workload.input_tokens, workload.input_tokens_p95),
        answer_scv=_spread(workload.output_tokens, workload.output_tokens_p95),
        output_tokens=float(workload.output_tokens),
    )


def _spread(mean: int, high: int | None) -> float:
    return 0.0 if high is None else log_normal_scv(ratio=high / mean)


def under_arrivals(
    served: ServedModel, workload: Serving, candidates: Candidates, calibration: Calibration
) -> Queued:
    """Return the steady state of each rank of some candidates under a workload's arrivals."""
    curves = engine_curves(served, workload, candidates, calibration)
    return queued(curves, arrivals_of(workload, candidates.layout.data))
