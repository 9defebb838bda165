"""Serving under continuous batching: latency, throughput and their parts.

The same code serves one configuration and a million.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.equations.continuous_batching import (
    first_token_s,
    pipeline_batches,
    prefill_extra_s,
    prompt_service_s,
    prompts_sharing_step,
)
from advisor.equations.serving import prefill_wait_s, request_rate_per_s, time_per_output_token_s
from advisor.estimate.candidates import Candidates, Floats, Shares, matmul_peak
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.memory import ServingCapacity, serving_capacity
from advisor.estimate.serving.step import (
    BRANCHES_PER_BLOCK,
    StepContent,
    StepShares,
    engine_step,
)
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration, NetworkEfficiency
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.workload import Serving

SIXTEEN_BIT: Final = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class TokenShares(Shares):
    """Exclusive shares of the time per output token in seconds."""

    weights: Floats
    cache: Floats
    compute: Floats
    network: Floats
    fixed: Floats
    host: Floats
    drafts: Floats
    """Drafting tokens for speculative decoding."""
    prefill: Floats
    """Prompts of other requests in the same steps."""


@dataclass(frozen=True, slots=True)
class ServingTimes:
    """Steady state of many configurations at once, one element each."""

    ttft_s: Floats
    tpot_s: Floats
    decode_step_s: Floats
    request_latency_s: Floats
    """From arrival to the last token. [s]"""
    prompt_service_s: Floats
    """Time for which one prompt occupies the engine. A load generator that starts all requests at
    once adds more to the first token: see ``equations.serving.start_burst_s``. [s]"""
    first_token_s: Floats
    """To the first token of a request that waits for no other. [s]"""
    prompt_extra_s: Floats
    """What a prompt adds to the steps that carry it. [s]"""
    prompts_per_step: Floats
    """Prompts that a full step carries; under 1 for long ones."""
    requests_per_s: Floats
    """Whole deployment."""
    output_tokens_per_s: Floats
    """Whole deployment. [tokens/s]"""
    shares: TokenShares
    capacity: ServingCapacity
    feasible: NDArray[np.bool_]
    """Whether the cache of the asked concurrency fits and every group has its links."""


def compute_format(accelerator: Accelerator, weight_format: WeightFormat) -> str:
    """Return the format in which ``accelerator`` multiplies weights stored as ``weight_format``.

    If the card has no matrix units for the format, engines expand the weights to 16 bits inside
    the kernel (Marlin in vLLM, weight-only kernels in TensorRT-LLM). Memory and traffic stay
    small, and arithmetic runs at the 16-bit rate. Cards without 16-bit units use fp32.
    """
    for name in (weight_format.compute, *SIXTEEN_BIT):
        if matmul_peak(accelerator, name) is not None:
            return name
    return "fp32"


def stored_format(accelerator: Accelerator, name: str) -> str:
    """Return the format in which ``accelerator`` stores weights published as ``name``.

    Engines convert 16-bit weights on loading if the card lacks their format: vLLM runs bf16
    checkpoints as fp16 below compute capability 8.0. Cards without 16-bit units store fp32, as in
    training. Other formats stay as they are: see :func:`compute_format`.
    """
    if name not in SIXTEEN_BIT:
        return name
    able = (item for item in (name, *SIXTEEN_BIT) if matmul_peak(accelerator, item) is not None)
    return next(able, "fp32")


def serves_in(accelerator: Accelerator, name: str) -> bool:
    """Return whether engines serve a weight format on a card: 16 bits needs 16-bit units."""
    return name not in SIXTEEN_BIT or matmul_peak(accelerator, name) is not None


def cache_format(workload: Serving, accelerator: Accelerator) -> str:
    """Return the format of the key-value cache: the asked one, or that of 16-bit weights."""
    return workload.kv_cache_format or stored_format(accelerator, "bf16")


def _steps(
    served: ServedModel,
    load: ServingLoad,
    candidates: Candidates,
    engine: ServingFacts,
    network: NetworkEfficiency,
    *kinds: tuple[Floats, Floats],
    verified: Floats | None = None,
) -> list[StepShares]:
    """Return a step for each pair of sequences and prompt tokens."""
    sequences, prompt_tokens = (np.stack(part) for part in zip(*kinds, strict=True))
    before = load.cached_prompt(served)
    content = StepContent(
        sequences=sequences,
        context_first=before,
        context_last=before + load.output_tokens,
        prompt_tokens=prompt_tokens,
        prompt_length=load.input_tokens,
        prompt_cached=load.cached_tokens,
        verified=load.verified if verified is None else verified,
    )
    found = engine_step(served, content, candidates, engine, network)
    values = [getattr(found, item.name) for item in fields(StepShares)]
    return [StepShares(*(value[kind] for value in values)) for kind in range(len(kinds))]


def serving_times(
    served: ServedModel,
    load: ServingLoad,
    candidates: Candidates,
    calibration: Calibration,
    engine: ServingFacts | None = None,
) -> ServingTimes:
    """Return latency and throughput at a steady concurrency.

    Parameters
    ----------
    served : ServedModel
        The network as the engine stores it.
    load : ServingLoad
        Requests in flight over the whole deployment, and their lengths.
    candidates : Candidates
        ``data`` ranks answer requests in parallel; hardware rates are for
        :func:`compute_format` of the weights.
    calibration : Calibration
        Constants of engine and network.
    engine : ServingFacts, optional
        By default the one that serves the weights' format.

    Returns
    -------
    ServingTimes
        Times are infinite if a card lacks a format or a link; ``feasible`` states whether the
        cache fits. Nothing is raised.

    Notes
    -----
    Requests beyond the cache's memory wait for a place and raise the time to the first token, but
    not the throughput. A decode step carries the running sequences of one micro-batch (a pipeline
    keeps ``pipeline_batches`` of them in flight). A prompt rides in
    ``n = prompt / batched_tokens`` steps, at least one, together with the other sequences; the
    time that it adds to them is its interference. Little's law gives the rates, a closed queue the
    waiting: see ``equations.serving``. Requests are assumed to be out of phase. Leaves out
    preemption and separate prefill servers.

    References
    ----------
    .. [1] Kwon et al., 2023, arXiv:2309.06180.
    .. [2] Agrawal et al., 2024, arXiv:2403.02310.
    """
    layout = candidates.layout
    engine = engine or calibration.engine_for(served.weight_format)
    memory_bytes = candidates.hardware.served_memory_bytes
    capacity = serving_capacity(
        served, load, layout, memory_bytes, calibration, candidates.hardware.host_memory_bytes
    )
    asked = load.per_engine(layout)
    held = capacity.possible_concurrency / layout.data
    # Requests whose cache does not fit wait for others to end.
    requests = np.where(held >= 1, np.minimum(asked, held), asked)
    apart = pipeline_batches(stages=layout.pipeline, share=engine.pipeline_share)
    batch = np.ceil(requests / apart)
    limit = load.step_limit(engine, memory_bytes)
    new_tokens = load.input_tokens - load.cached_tokens
    chunk = np.minimum(new_tokens, limit)

    steps = partial(_steps, served, load, candidates, engine, calibration.network)
    prompt_s = engine.prompt_overhead_s * served.model.branches / BRANCHES_PER_BLOCK
    batch, chunk, limit, none = np.broadcast_arrays(batch, chunk, limit, 0.0)
    decode, mixed, full = steps((batch, none), (batch - 1, chunk), (none, limit))
    with np.errstate(invalid="ignore"):
        occupied = new_tokens / limit
        chunks = np.maximum(occupied, 1.0)
        drafts_s = np.zeros(1)
        if np.any(load.drafting > 0):
            [draft] = steps((batch, none), verified=np.ones(1))
            drafts_s = load.drafting * draft.total
        decode_s = (decode.total + drafts_s) / load.accepted
        # A single request starts a step only for its prompt; otherwise the prompt joins a step
        # that runs anyway.
        running = np.where(batch > 1, decode.total, 0.0)
        extra = prefill_extra_s(
            # One scheduler sets up the prompts of all micro-batches.
            prompt_overhead_s=prompt_s * apart,
            prompts_sharing=prompts_sharing_step(
                concurrency=requests,
                output_tokens=np.maximum(load.output_tokens / load.accepted, 1.0),
                steps_per_prompt=occupied,
            ),
            chunks=chunks,
            mixed_step_s=mixed.total,
            running_step_s=running,
        )
        first_token = first_token_s(
            prompt_overhead_s=prompt_s,
            chunks=chunks,
            mixed_step_s=mixed.total,
            chunks_at_once=layout.pipeline if engine.chunks_follow else 1.0,
        )
        # Stages work on different micro-batches, so a prompt delays each by its share.
        others = extra / apart * (requests - 1) / requests
        rate = request_rate_per_s(
            concurrency=requests,
            decode_step_s=decode_s,
            prefill_extra_s=others,
            first_token_s=first_token,
            output_tokens=load.output_tokens,
        )
        tpot = time_per_output_token_s(
            decode_step_s=decode_s,
            prefill_extra_s=others,
            request_rate_per_s=rate,
            steps=occupied * load.accepted,
        )
        generation = (load.output_tokens - 1) * tpot
        service = prompt_service_s(
            steps_per_prompt=occupied,
            running_step_s=running,
            extra_s=extra,
            full_step_s=full.total,
            pipeline=apart,
        )
        # A wider cache or a slower link slows generation, but it does not shorten the queue.
        unhindered = generation - (load.output_tokens - 1) / load.accepted * (
            decode.cache + decode.network
        )
        wait = prefill_wait_s(concurrency=requests, service_s=service, generation_s=unhindered)
        routed_s = served.routed_layers * engine.routed_request_overhead_s
        arrival = engine.request_overhead_s + routed_s
        ttft = arrival + first_token + wait
        # Infinite steps have no difference, so a missing link makes every time infinite.
        reachable = np.isfinite(mixed.total)
        tpot = np.where(reachable, tpot, np.inf)
        running_s = ttft + np.where(reachable, generation, np.inf)
        latency = running_s * asked / requests
        # Requests wait for a place or, at the least, for the prompts of all others.
        queued = prefill_wait_s(concurrency=asked, service_s=service, generation_s=unhindered)
        ttft = np.maximum(ttft + (latency - running_s), arrival + first_token + queued)
        latency = np.maximum(latency, ttft + np.where(reachable, generation, np.inf))
        ttft, latency = (np.where(reachable, time, np.inf) for time in (ttft, latency))
        requests_per_s = load.concurrency / latency
        shares = TokenShares(
            **{
                item.name: getattr(decode, item.name) / load.accepted for item in fields(StepShares)
            },
            drafts=np.asarray(drafts_s / load.accepted),
            prefill=tpot - decode_s,
        )
    return ServingTimes(
        ttft_s=np.asarray(ttft),
        tpot_s=np.asarray(tpot),
        decode_step_s=decode_s,
        request_latency_s=np.asarray(latency),
        prompt_service_s=np.asarray(service),
        first_token_s=np.asarray(engine.request_overhead_s + first_token),
        prompt_extra_s=np.asarray(extra / layout.pipeline),
        prompts_per_step=np.asarray(layout.pipeline / np.maximum(occupied, 1e-9)),
        requests_per_s=np.asarray(requests_per_s),
        output_tokens_per_s=np.asarray(requests_per_s * load.output_tokens),
        shares=shares,
        capacity=capacity,
        feasible=np.asarray(capacity.fits & np.isfinite(latency)),
    )
