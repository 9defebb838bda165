"""The times that a benchmark's client measures on the deployment of a row."""

from functools import partial
from statistics import NormalDist
from typing import Final

import numpy as np

from advisor.calibration.tables.deployments import ONLINE, Deployment
from advisor.equations.serving.bursts import in_step_wait_s, start_burst_s
from advisor.equations.serving.queueing import gamma_quantile
from advisor.equations.serving.shared_steps import token_time_variance
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.serving.arrivals import BenchmarkTimes, burst_times
from advisor.estimate.serving.demand import PEOPLE, ServingLoad
from advisor.estimate.serving.times import ServingTimes, serving_times
from advisor.nouns.software.efficiency import Calibration

LATE: Final = 0.9
"""Share of the requests from which a percentile is one of the tail."""


def benchmark_times(
    deployment: Deployment, load: ServingLoad, calibration: Calibration, kind: str
) -> BenchmarkTimes:
    """Return the times of a benchmark, which starts all its requests at once.

    ``kind``: ``ONLINE``: requests pass through a server, each followed by another, unless they are
    a finite number that comes together. Otherwise the engine is called directly.

    Requests that wait for the prompts of their wave do not wait for them again: the time that the
    wave adds to the first token is taken from the later ones. A percentile of the first token is
    that of the wave, one of the later tokens that of the prompts that answers meet.
    """
    engine, candidates, at = deployment.engine, deployment.candidates, deployment.percentile
    if deployment.finite:
        equal = deployment.in_step
        return burst_times(deployment.served, load, candidates, calibration, engine, at, equal)
    times = serving_times(deployment.served, load, candidates, calibration, engine)
    if kind != ONLINE:
        bare_s = times.ttft_s - engine.request_overhead_s
        whole_s = times.request_latency_s - engine.request_overhead_s
        return BenchmarkTimes(bare_s, times.tpot_s, whole_s)
    requests = load.per_engine(candidates.layout)
    in_step = 1.0 * deployment.in_step
    # Runs of many rounds that fall out of step show no wait for a shared step.
    together = np.clip(times.prompts_per_step, 1.0, requests) if in_step else np.ones(1)
    service, further = times.prompt_service_s, times.further_prompt_s
    waves = partial(
        start_burst_s,
        concurrency=requests,
        service_s=service,
        rounds=1 / engine.start_wave,
        together=together,
        further_s=further,
        admission_s=in_step * engine.admission_s,
        later_s=in_step
        * in_step_wait_s(
            concurrency=requests, service_s=service, together=together, further_s=further
        ),
    )
    wave = np.asarray(waves())
    later = times.tpot_s - wave / np.maximum(load.output_tokens - 1, 1.0)
    if at is not None:
        wave = np.asarray(waves(share=at))
        if at >= LATE:
            later = later + _token_beyond_s(times, load, candidates, at)
            wave = np.hypot(wave, _prompt_beyond_s(times, load, at))
    met_s = engine.prompts_in_step * times.prompt_service_s * (1 - 1 / requests)
    return BenchmarkTimes(
        first_s=times.ttft_s + engine.template_s + wave + met_s,
        token_s=np.maximum(later, times.decode_step_s),
        whole_s=times.request_latency_s + engine.template_s,
    )


def _prompt_beyond_s(times: ServingTimes, load: ServingLoad, at: float) -> Floats:
    """Return by how much a percentile of the time of a prompt alone exceeds its mean. [s]"""
    variation = np.where(np.isnan(load.prompt_scv), PEOPLE, load.prompt_scv)
    variance = variation * np.square(times.length_s)
    late = gamma_quantile(times.length_s, variance, NormalDist().inv_cdf(at))
    return np.asarray(late - times.length_s)


def _token_beyond_s(
    times: ServingTimes, load: ServingLoad, candidates: Candidates, at: float
) -> Floats:
    """Return by how much a percentile of the time per token in a closed loop exceeds its mean. [s]

    Prompts of others come at random. Short answers meet few or many of them for each token: of
    exponentially distributed lengths, the mean of 1 / O is ln O / (O - 1).
    """
    requests, answer = load.per_engine(candidates.layout), load.output_tokens
    unlike = np.log(answer) * answer / np.maximum(answer - 1, 1.0)
    alike = ~np.isnan(load.prompt_scv)
    variance = token_time_variance(
        step_s=times.decode_step_s,
        prompt_s=times.prompt_extra_s,
        rate_per_s=times.requests_per_s / candidates.layout.data * (1 - 1 / requests),
        waited_variance=0.0,
        prompt_scv=np.where(alike, load.prompt_scv, 0.0),
        arrival_scv=1.0,
        output_tokens=answer / np.where(alike, 1.0, unlike),
    )
    added = np.maximum(times.tpot_s - times.decode_step_s, 1e-12)
    late = gamma_quantile(added, np.maximum(variance, 1e-24), NormalDist().inv_cdf(at))
    return np.asarray(late - added)
