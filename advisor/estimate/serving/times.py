"""Serving under continuous batching: latency, throughput and their parts.

The same code serves one configuration and a million.
"""

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from advisor.equations.serving.continuous_batching import (
    first_token_s,
    prefill_extra_s,
    prompt_service_s,
    prompts_sharing_step,
    stopped_wait_s,
)
from advisor.equations.serving.engine import (
    prefill_wait_s,
    request_rate_per_s,
    time_per_output_token_s,
)
from advisor.estimate.candidates import Candidates, Columns, Floats, LayoutArrays
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.memory import ServingCapacity, serving_capacity
from advisor.estimate.serving.running import Running, running_at_once
from advisor.estimate.serving.step import BRANCHES_PER_BLOCK, StepShares
from advisor.estimate.together import together
from advisor.foundation.record import record
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts


@record
class TokenShares(StepShares):
    """Exclusive shares of the time per output token in seconds."""

    drafts: Floats
    """Drafting tokens for speculative decoding."""
    prefill: Floats
    """Prompts of other requests in the same steps."""


@record
class ServingTimes(Columns):
    """Steady state of many configurations at once, one element each."""

    ttft_s: Floats
    tpot_s: Floats
    decode_step_s: Floats
    request_latency_s: Floats
    """From arrival to the last token. [s]"""
    prompt_service_s: Floats
    """Time for which one prompt occupies the engine. A load generator that starts all requests at
    once adds more to the first token: see ``equations.bursts.start_burst_s``. [s]"""
    first_token_s: Floats
    """To the first token of a request that waits for no other. [s]"""
    further_prompt_s: Floats
    """What a prompt adds to a step that reads others, too. [s]"""
    length_s: Floats
    """Part of a prompt's time that grows with its length: the rest starts kernels and reads
    weights. [s]"""
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

    def shared_prompt_s(self, most: Floats) -> Floats:
        """Return the time of each prompt in steps that hold as many of ``most`` as fit. [s]"""
        alone, further = self.prompt_service_s, self.further_prompt_s
        return further + (alone - further) / np.clip(self.prompts_per_step, 1.0, most)


@record
class _Prompt:
    """What one prompt takes. [s]"""

    extra_s: Floats
    """Added to the steps that carry it."""
    first_token_s: Floats
    """To its own first token."""
    service_s: Floats
    """For which it occupies the engine."""
    wait_s: Floats | None
    """For the prompts of others; None where generation goes on beside them."""


@together
def serving_times(
    served: ServedModel,
    load: ServingLoad,
    candidates: Candidates,
    calibration: Calibration,
    engine: ServingFacts | None = None,
    capacity: ServingCapacity | None = None,
) -> ServingTimes:
    """Return latency and throughput at a steady concurrency.

    Times are infinite if a card lacks a format or a link; ``feasible`` states whether the cache
    fits. Nothing is raised.

    ``load``: requests in flight over the whole deployment, and their lengths. ``candidates``:
    ``data`` ranks answer requests in parallel; hardware rates are for :func:`compute_format` of the
    weights. ``engine``: by default the one that serves the weights' format. ``capacity``: what
    fits, if the caller has it already.

    Notes
    -----
    Requests beyond the cache's memory, or beyond the engine's places, wait for one and raise the
    time to the first token, but not the throughput. A decode step carries the running sequences of
    one micro-batch (a pipeline keeps ``pipeline_batches`` of them in flight). A prompt rides in
    ``n = prompt / batched_tokens`` steps, at least one, together with the other sequences; the
    time that it adds to them is its interference. Little's law gives the rates, a closed queue the
    waiting: see ``equations.serving``. Requests are assumed to be out of phase. Leaves out
    preemption and separate prefill servers.

    References
    ----------
    .. [1] Kwon et al., 2023, arXiv:2309.06180.
    .. [2] Agrawal et al., 2024, arXiv:2403.02310.
    """
    engine = engine or calibration.engine_for(served.weight_format)
    layout, hardware = candidates.layout, candidates.hardware
    capacity = capacity or serving_capacity(
        served, load, layout, hardware.served_memory_bytes, calibration, hardware.host_memory_bytes
    )
    held = np.minimum(
        capacity.possible_concurrency / layout.data, engine.running_sequences or np.inf
    )
    with np.errstate(invalid="ignore"):
        at_once = running_at_once(served, load, candidates, engine, calibration.network, held)
        prompt = _prompt(served, at_once, load, layout, engine)
        tpot = _token_s(at_once, prompt, load)
        arrival_s = served.arrival_s(engine) + load.image_host_s
        gathered_s = engine.gathering_steps * at_once.alone_s
        known = engine.loop_variation + load.prompt_scv / 2
        variation = np.where(np.isnan(load.prompt_scv), 1.0, known)
        before_s = arrival_s + gathered_s
        ttft, latency = _answer_s(at_once, prompt, load, tpot, before_s, variation)
        # Infinite steps have no difference, so a missing link makes every time infinite.
        ttft, tpot, latency = (
            np.where(np.isfinite(at_once.mixed_s), time, np.inf) for time in (ttft, tpot, latency)
        )
        requests_per_s = load.concurrency / latency
        further_s = at_once.further_prompt_s
        shares = TokenShares(
            **{
                item.name: getattr(at_once.decode, item.name) / load.accepted
                for item in fields(StepShares)
            },
            drafts=np.asarray(at_once.drafts_s / load.accepted),
            prefill=tpot - at_once.token_s,
        )
    return ServingTimes(
        ttft_s=ttft,
        tpot_s=tpot,
        decode_step_s=at_once.token_s,
        request_latency_s=latency,
        prompt_service_s=prompt.service_s,
        first_token_s=np.asarray(arrival_s + prompt.first_token_s),
        # The stages of a pipeline read different prompts.
        further_prompt_s=np.asarray(further_s / at_once.apart),
        length_s=np.where(at_once.steps_per_prompt < 1, further_s, prompt.extra_s),
        prompt_extra_s=np.asarray(prompt.extra_s / layout.pipeline),
        prompts_per_step=np.asarray(layout.pipeline / np.maximum(at_once.steps_per_prompt, 1e-9)),
        requests_per_s=np.asarray(requests_per_s),
        output_tokens_per_s=np.asarray(requests_per_s * load.output_tokens),
        shares=shares,
        capacity=capacity,
        feasible=np.asarray(capacity.fits & np.isfinite(latency)),
    )


def _prompt(
    served: ServedModel,
    at_once: Running,
    load: ServingLoad,
    layout: LayoutArrays,
    engine: ServingFacts,
) -> _Prompt:
    prompt_s = engine.prompt_overhead_s * served.model.branches / BRANCHES_PER_BLOCK
    prompt_s = prompt_s + engine.delta_prompt_s * served.delta_layers
    chunks = np.maximum(at_once.steps_per_prompt, 1.0)
    looks = np.maximum(load.output_tokens / load.accepted / engine.steps_between, 1.0)
    sharing = prompts_sharing_step(
        concurrency=at_once.running,
        output_tokens=looks,
        steps_per_prompt=at_once.steps_per_prompt,
    )
    read_s, own_s, beside_s = at_once.mixed_s, at_once.mixed_s, at_once.alone_s
    if engine.stops_generation:
        # Prompts share a step of their own, and nothing else runs in it.
        sharing = np.minimum(sharing, at_once.running)
        read_s = read_s + (sharing - 1) * at_once.further_prompt_s
        own_s, beside_s = read_s / sharing, np.zeros(1)
    extra = prefill_extra_s(
        # One scheduler sets up the prompts of all micro-batches.
        prompt_overhead_s=prompt_s * at_once.apart,
        prompts_sharing=sharing,
        chunks=chunks,
        mixed_step_s=own_s,
        running_step_s=beside_s,
    )
    first_token = first_token_s(
        prompt_overhead_s=prompt_s,
        chunks=chunks,
        mixed_step_s=read_s,
        chunks_at_once=layout.pipeline if engine.chunks_follow else 1.0,
    )
    service = prompt_service_s(
        steps_per_prompt=at_once.steps_per_prompt,
        running_step_s=at_once.alone_s,
        extra_s=extra,
        full_step_s=at_once.full_s,
        pipeline=at_once.apart,
    )
    wait = None
    if engine.stops_generation:
        further = np.where(at_once.steps_per_prompt < 1, at_once.further_prompt_s, service)
        met = stopped_wait_s(
            concurrency=at_once.running,
            # Requests that end together are a wave, which only a load generator has.
            output_tokens=np.inf if engine.ends_together else looks,
            prompts_sharing=sharing,
            prompt_s=further,
        )
        wait = np.asarray(met)
    return _Prompt(np.asarray(extra), np.asarray(first_token), np.asarray(service), wait)


def _token_s(at_once: Running, prompt: _Prompt, load: ServingLoad) -> Floats:
    """Return the time per token after the first, with the prompts of other requests."""
    # A prompt delays each micro-batch of a pipeline by its share.
    others = prompt.extra_s / at_once.apart * (at_once.running - 1) / at_once.running
    rate = request_rate_per_s(
        concurrency=at_once.running,
        decode_step_s=at_once.token_s,
        prefill_extra_s=others,
        first_token_s=prompt.first_token_s,
        output_tokens=load.output_tokens,
    )
    return np.asarray(
        time_per_output_token_s(
            decode_step_s=at_once.token_s,
            prefill_extra_s=others,
            request_rate_per_s=rate,
            steps=at_once.steps_per_prompt * load.accepted,
        )
    )


def _answer_s(
    at_once: Running,
    prompt: _Prompt,
    load: ServingLoad,
    tpot: Floats,
    arrival_s: Floats,
    variation: Floats,
) -> tuple[Floats, Floats]:
    """Return the times to the first and to the last token."""
    further = load.output_tokens - 1
    generation = further * tpot
    # A wider cache or a slower link slows generation, but it does not shorten the queue.
    hindered = further / load.accepted * (at_once.decode.cache + at_once.decode.network)
    alone = arrival_s + prompt.first_token_s

    def first_s(requests: Floats) -> Floats:
        if prompt.wait_s is not None:
            return alone + prompt.wait_s
        waited_s = prefill_wait_s(
            concurrency=requests,
            service_s=prompt.service_s,
            generation_s=generation - hindered,
            variation=variation,
        )
        return np.asarray(alone + waited_s)

    first, queued = first_s(at_once.placed), first_s(at_once.asked)
    running = first + generation
    # Little's law: as many requests end in a second, whatever waits.
    latency = running * at_once.asked / at_once.placed
    # Requests wait for a place or, at the least, for the prompts of all others.
    first = np.maximum(first + (latency - running), queued)
    return first, np.maximum(latency, first + generation)
