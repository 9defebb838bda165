"""Rows of servers at which requests arrive at a stated rate: mean latencies and percentiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.deployments import (
    ARRIVALS,
    BURST_REQUESTS,
    BenchmarkTimes,
    Deployment,
    at_percentile,
)
from advisor.calibration.tables.reading import Row, built, cell, integer, stated
from advisor.equations.queueing import overload_wait_s
from advisor.estimate.candidates import Floats
from advisor.estimate.serving.arrivals import arrivals_of, engine_curves
from advisor.estimate.serving.demand import ServingLoad
from advisor.estimate.serving.queue import EngineCurve, queued
from advisor.nouns.serving import Serving

MIDDLE: Final = 0.5
"""Share of the requests before the mean one."""


def arrived(row: Row, deployment: Deployment, engine: Engine) -> tuple[ServingLoad, BenchmarkTimes]:
    """Return the requests in flight at a row's rate, and its times at the row's percentile.

    Raises
    ------
    InputError
        If a cell is unusable.

    Notes
    -----
    An engine that does not keep up lets its queue grow until the run ends; so its times depend on
    the number of requests: ``burst_requests``, by default that of ``vllm bench serve``.
    """
    workload = built(
        Serving,
        stated(row, Serving, leave=("engine", "concurrency"))
        | {"arrivals": ARRIVALS[cell(row, "arrival")]},
    )
    assert workload.requests_per_s is not None
    layout = deployment.candidates.layout
    curve = engine_curves(
        deployment.served,
        workload,
        deployment.candidates,
        engine.calibration,
        deployment.engine,
    )
    found = queued(curve, arrivals_of(workload, layout.data))
    at = at_percentile(row)
    token, first = found.latencies("mean" if at is None else cell(row, "percentile"))
    if not found.stable[0]:
        requests = integer(row, "burst_requests", BURST_REQUESTS)
        token, full = _full(curve)
        first = full + overload_wait_s(
            requests=requests / layout.data,
            rate_per_s=found.rate_per_s,
            served_per_s=curve.most_per_s,
            share=MIDDLE if at is None else at,
        )
    whole = first + (workload.output_tokens - 1) * token
    load = ServingLoad.of(workload)
    served = np.minimum(found.rate_per_s, curve.most_per_s) * layout.data
    return replace(load, concurrency=served * whole), BenchmarkTimes(first, token, whole)


def _full(curve: EngineCurve) -> tuple[Floats, Floats]:
    """Return time per token and time to the first, without a wait, of a full engine. [s]"""
    limit = float(max(curve.limit[0], 1.0))
    return (
        np.array([np.interp(limit, curve.states, curve.tpot_s[0])]),
        np.array([np.interp(limit, curve.states, curve.first_token_s[0])]),
    )
