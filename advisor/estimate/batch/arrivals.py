"""Batches of requests that arrive at a stated rate."""

from dataclasses import replace

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.equations.serving.batching import batched_answers_s
from advisor.estimate.batch.forward import BatchTimes, batch_times
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.serving.queued import EVERY, PERCENTILES, Queued, Rows
from advisor.foundation.record import record
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving


@record
class ArrivingBatches:
    """Replicas that gather requests into batches, one element each."""

    full: BatchTimes
    """The largest batch of one replica."""
    one: BatchTimes
    """A single request."""
    queued: Queued
    """Both latencies are those of an answer."""


def batches_under_arrivals(
    architecture: ModelArchitecture,
    workload: Serving,
    weight_format: WeightFormat,
    candidates: Candidates,
    calibration: Calibration,
) -> ArrivingBatches:
    """Return the steady state of replicas that share a workload's requests.

    A replica that is free starts with all requests that wait, up to ``concurrency`` of them.
    Arrivals count as Poisson's, however they are stated.
    """
    assert workload.requests_per_s is not None
    layout = candidates.layout
    each = Candidates(replace(layout, data=np.ones_like(layout.data)), candidates.hardware)
    most = workload.concurrency
    full, one = (
        batch_times(
            architecture, workload.changed(concurrency=size), weight_format, each, calibration
        )
        for size in (most, 1)
    )
    rate = workload.requests_per_s / layout.data

    def answered(factor: Floats, rows: Rows) -> Queued:
        rates, one_s, full_s = np.broadcast_arrays(
            rate[rows] * factor, one.latency_s[rows], full.latency_s[rows]
        )
        load = rates * full_s / most
        stable = load < 1
        mean, shares = batched_answers_s(
            rate_per_s=rates,
            one_s=one_s,
            full_s=full_s,
            most=most,
            shares=list(PERCENTILES.values()),
        )
        at = dict(zip(PERCENTILES, shares, strict=True))
        return Queued(
            stable=stable,
            load=load,
            rate_per_s=rates,
            in_flight=np.where(stable, rates * np.where(stable, mean, 0.0), most),
            outside=np.where(stable, 0.0, 1.0),
            ttft_s=mean,
            tpot_s=mean,
            ttft_at=at,
            tpot_at=at,
            full_tpot_s=full_s,
            busier=answered,
            whole=True,
        )

    return ArrivingBatches(full=full, one=one, queued=answered(np.ones(1), EVERY))
