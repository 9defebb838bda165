"""A finite number of requests that arrive together: a ramp, a full engine, and a tail."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from advisor.equations.bursts import burst_first_token_quantile_s, burst_first_token_s, burst_s
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.serving.demand import ServedModel, ServingLoad, running_sequences
from advisor.estimate.serving.times import ServingTimes, serving_times
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts

HALVINGS = 6
"""Batches of the tail at which the step is evaluated, beside the full one."""


@dataclass(frozen=True, slots=True)
class BurstTimes:
    """Times of requests that arrive together, one element per configuration."""

    whole_s: Floats
    """From the first request to the last token. [s]"""
    first_s: Floats
    """Time to the first token: the mean, or at the percentile. [s]"""
    token_s: Floats
    """Mean time per output token of the full engine. [s]"""
    running: Floats
    """Requests that run at the same time."""


def burst_times(
    served: ServedModel,
    load: ServingLoad,
    candidates: Candidates,
    calibration: Calibration,
    engine: ServingFacts,
    percentile: float | None = None,
) -> BurstTimes:
    """Return the times of ``load.concurrency`` requests that arrive together.

    The parameters are those of ``times.serving_times``; the time to the first token is the mean,
    or that under which this share of the requests stays.

    Returns
    -------
    BurstTimes
        Lengths of answers are taken as exponentially distributed, as those of chats nearly are.
    """
    layout = candidates.layout
    memory = candidates.hardware.served_memory_bytes

    def times(requests: Floats) -> ServingTimes:
        own = replace(load, concurrency=requests * layout.data)
        return serving_times(served, own, candidates, calibration, engine)

    asked = load.per_engine(layout)
    first = times(np.ones_like(asked))
    held = np.maximum(first.capacity.expected_concurrency / layout.data, 1.0)
    places = running_sequences(engine, memory)
    running = np.minimum(np.minimum(asked, held), places)
    full = times(running)
    # The sum over all batches, by trapezoids on a logarithmic scale.
    shares = np.linspace(1.0, 0.0, HALVINGS + 1)[1:]
    steps = [full.decode_step_s, *(times(running**share).decode_step_s for share in shares)]
    pieces = [(one + other) / 2 for one, other in pairwise(steps)]
    ends = (steps[0] / running + steps[-1]) / 2
    draining = np.asarray(sum(pieces)) * np.log(running) / HALVINGS + ends
    rate = full.requests_per_s / layout.data
    taken_s = asked * engine.admission_s
    common = {
        "requests": asked,
        "running": running,
        "rate_per_s": rate,
        "prompt_s": full.prompt_service_s,
    }
    waits = (
        burst_first_token_s(**common)
        if percentile is None
        else burst_first_token_quantile_s(**common, share=percentile)
    )
    before = 0.5 if percentile is None else percentile
    return BurstTimes(
        whole_s=engine.burst_slowdown
        * np.asarray(burst_s(**common, output_tokens=load.output_tokens, draining_s=draining))
        + first.ttft_s
        + taken_s,
        first_s=engine.burst_slowdown * np.asarray(waits) + first.ttft_s + before * taken_s,
        token_s=full.tpot_s,
        running=running,
    )
