"""Requests that arrive at a stated rate, or all together."""

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from advisor.equations import Number
from advisor.equations.serving.bursts import (
    backlog_rate_per_s,
    burst_first_token_s,
    burst_s,
    equal_wave_s,
)
from advisor.equations.serving.queueing import log_normal_scv, state_grid
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.serving.demand import PEOPLE, ServedModel, ServingLoad
from advisor.estimate.serving.engine_limits import running_sequences
from advisor.estimate.serving.memory import serving_capacity
from advisor.estimate.serving.queue import Arrivals, EngineCurve, queued, within_limit
from advisor.estimate.serving.queued import Queued
from advisor.estimate.serving.times import ServingTimes, serving_times
from advisor.foundation.record import record
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.workload import Serving

HALVINGS = 6
"""Batches of the tail at which the step is evaluated, beside the full one."""


@record
class BenchmarkTimes:
    """Times as the clients of a benchmark measure them, one element per configuration."""

    first_s: Floats
    """Time to the first token: the mean, or at the percentile. [s]"""
    token_s: Floats
    """Time per output token after the first. [s]"""
    whole_s: Floats
    """From a request to its last token; of a burst, from the first request. [s]"""


@record
class BurstTimes(BenchmarkTimes):
    """Times of requests that arrive together, those of a token in the full engine."""

    running: Floats
    """Requests that run at the same time."""


def burst_times(
    served: ServedModel,
    load: ServingLoad,
    candidates: Candidates,
    calibration: Calibration,
    engine: ServingFacts,
    percentile: float | None = None,
    equal: bool = False,
) -> BurstTimes:
    """Return the times of ``load.concurrency`` requests that arrive together.

    The parameters are those of ``times.serving_times``; the time to the first token is the mean,
    or that under which this share of the requests stays. Unless all answers are ``equal``, their
    lengths are taken as exponentially distributed, as those of chats nearly are.
    """
    layout = candidates.layout
    memory = candidates.hardware.served_memory_bytes
    asked = load.per_engine(layout)
    one = np.ones_like(asked)
    capacity = serving_capacity(
        served,
        replace(load, concurrency=one * layout.data),
        layout,
        memory,
        calibration,
        candidates.hardware.host_memory_bytes,
    )
    held = np.maximum(capacity.expected_concurrency / layout.data, 1.0)
    places = running_sequences(engine, memory)
    running = np.minimum(np.minimum(asked, held), places)

    def at_once(*batches: Floats) -> list[ServingTimes]:
        """Return the times of engines that hold each of these batches, computed together."""
        place = np.tile(np.arange(len(asked)), len(batches))
        each, own = candidates.take(place), load.take(place)
        own = replace(own, concurrency=np.concatenate(batches) * each.layout.data)
        # A fit tries constants in columns.
        tried = {
            name: value[place]
            for name, value in vars(engine).items()
            if isinstance(value, np.ndarray)
        }
        facts = engine.changed(**tried) if tried else engine
        found = serving_times(served, own, each, calibration, facts)
        return [
            found.take(slice(end - len(asked), end))
            for end in range(len(asked), len(place) + 1, len(asked))
        ]

    if equal:
        full, first = at_once(running, one)
        prompt_s = first.shared_prompt_s(running)
        together = np.minimum(first.prompts_per_step, running)
        share = np.minimum(running / first.prompts_per_step / load.output_tokens, 1.0)
        ending = np.minimum(running, together * load.output_tokens)
        one_s = (full.decode_step_s - first.decode_step_s) / np.maximum(running - 1, 1.0)
        wave = equal_wave_s(share=share, step_s=full.decode_step_s, ridden_s=running * one_s)
        (half,) = at_once(np.maximum(ending / 2, 1.0))
        draining = np.asarray(wave + share * (half.decode_step_s - one_s * ending / 2))
        rate: Number = running / (running * prompt_s + load.output_tokens * wave)
    else:
        # The sum over all batches, by trapezoids on a logarithmic scale; the last batch is one.
        shares = np.linspace(1.0, 0.0, HALVINGS + 1)[1:-1]
        full, *between, first = at_once(running, *(running**share for share in shares), one)
        prompt_s = first.shared_prompt_s(running)
        steps = [times.decode_step_s for times in (full, *between, first)]
        pieces = [(one + other) / 2 for one, other in pairwise(steps)]
        ends = (steps[0] / running + steps[-1]) / 2
        draining = np.asarray(sum(pieces)) * np.log(running) / HALVINGS + ends
        rate = backlog_rate_per_s(
            running=running,
            answer_s=full.first_token_s + (load.output_tokens - 1) * full.tpot_s,
            service_s=full.prompt_service_s,
        )
    # The host renders all chats before it hands over the first of them. It takes in later requests
    # while the engine runs the first ones.
    rendered_s = load.concurrency * engine.template_s
    taken_s = running * engine.admission_s
    common = {
        "requests": asked,
        "running": running,
        "rate_per_s": rate,
        # The first steps are full of prompts: what runs beside them is counted where it ends.
        "prompt_s": engine.burst_slowdown * prompt_s,
    }
    waits = burst_first_token_s(**common, share=percentile)
    before = 0.5 if percentile is None else percentile
    return BurstTimes(
        whole_s=np.asarray(
            burst_s(
                **common,
                output_tokens=load.output_tokens,
                draining_s=engine.burst_slowdown * draining,
            )
        )
        + first.ttft_s
        + rendered_s
        + taken_s,
        first_s=np.asarray(waits) + first.ttft_s + rendered_s + before * taken_s,
        token_s=full.tpot_s,
        running=running,
    )


HALF: Final = 0.5
"""Of the running step, which is still to run when a request arrives."""
EVALUATED: Final = np.array([1.0, *(part * 2.0**power for power in range(12) for part in (2, 3))])
"""Requests in flight at which an engine is estimated; the states between are interpolated."""


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
    engine = engine or calibration.engine_for(served.weight_format)
    most = float(engine.running_sequences or engine.sampled_sequences)
    evaluated, states = np.append(EVALUATED[most > EVALUATED], most), state_grid(int(most))
    layout, hardware = candidates.layout, candidates.hardware
    load, rows, numbers = ServingLoad.of(workload), len(layout.tensor), len(evaluated)
    memory = hardware.served_memory_bytes, calibration, hardware.host_memory_bytes
    layout = replace(layout, data=layout.expert)
    one = serving_capacity(served, replace(load, concurrency=layout.expert), layout, *memory)
    limit = np.where(one.fits, np.minimum(one.max_concurrency / layout.expert, most), 0.0)
    # Places of the states between those that are evaluated: each engine's up to its limit.
    place = np.clip(np.searchsorted(evaluated, states), 1, numbers - 1)
    part = (states - evaluated[place - 1]) / (evaluated[place] - evaluated[place - 1])
    within = np.arange(numbers) <= place[np.searchsorted(states, limit)][:, None]
    row, number = np.nonzero(within)
    each = Candidates(layout, hardware).take(row)
    load = replace(load, concurrency=evaluated[number] * each.layout.expert)
    times = serving_times(served.take(row), load, each, calibration, engine)

    def table(values: Floats) -> Floats:
        found = np.zeros((rows, numbers))
        found[within] = values
        return found

    def between(values: Floats) -> Floats:
        known = table(values)
        with np.errstate(invalid="ignore"):
            return np.asarray(known[:, place - 1] + part * (known[:, place] - known[:, place - 1]))

    curve = EngineCurve(
        states=states,
        completions_per_s=between(times.requests_per_s / each.layout.expert),
        tpot_s=between(times.tpot_s),
        step_s=between(times.decode_step_s),
        first_token_s=between(times.first_token_s),
        prompt_extra_s=between(times.prompt_extra_s),
        slots_per_step=table(times.prompts_per_step)[:, 0],
        length_s=table(times.length_s)[:, 0],
        steps_ahead=np.full(rows, max(engine.gathering_steps - HALF, 0.0)),
        limit=np.where(np.isfinite(table(times.request_latency_s)[:, 0]), limit, 0.0),
        need_bytes=one.high_bytes,
        usable_bytes=one.usable_bytes,
    )
    return within_limit(curve)


def arrivals_of(workload: Serving, ranks: Floats) -> Arrivals:
    """Return how a workload's requests arrive at each of equal ranks.

    A balancer that takes turns makes the arrivals at one of many ranks more even. That is left
    out, because most balancers choose at random or by sessions.
    """
    assert workload.requests_per_s is not None
    return Arrivals(
        rate_per_s=workload.requests_per_s / ranks,
        arrival_scv=workload.arrivals.scv,
        prompt_scv=_spread(workload.input_tokens, workload.input_tokens_p95, unknown=PEOPLE),
        chunk_scv=_spread(workload.input_tokens, workload.input_tokens_p95, unknown=0.0),
        answer_scv=_spread(workload.output_tokens, workload.output_tokens_p95, unknown=0.0),
        output_tokens=float(workload.output_tokens),
    )


def _spread(mean: int, high: int | None, *, unknown: float) -> float:
    return unknown if high is None else log_normal_scv(ratio=high / mean)


def under_arrivals(
    served: ServedModel, workload: Serving, candidates: Candidates, calibration: Calibration
) -> Queued:
    """Return the steady state of each rank of some candidates under a workload's arrivals."""
    curves = engine_curves(served, workload, candidates, calibration)
    return queued(curves, arrivals_of(workload, candidates.layout.data))
