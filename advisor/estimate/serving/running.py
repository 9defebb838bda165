"""What runs on one serving engine at the same time, and the steps that serve it."""

from dataclasses import fields, replace
from functools import partial

import numpy as np

from advisor.equations.serving.continuous_batching import most_generating, pipeline_batches
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.row_times import StepContent
from advisor.estimate.serving.step import StepShares, engine_step
from advisor.foundation.record import record
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.links_and_memory import NetworkEfficiency


@record
class Running:
    """What runs on one engine at the same time, and the steps that serve it."""

    asked: Floats
    """Requests in flight."""
    placed: Floats
    """Those whose cache fits."""
    running: Floats
    """Those that run; the others wait for their cache or their prompt."""
    apart: Floats
    """Micro-batches at the same time."""
    steps_per_prompt: Floats
    """Prompt over the engine's token limit."""
    decode: StepShares
    drafts_s: Floats
    token_s: Floats
    """A step and its drafts, for each token that it yields. [s]"""
    alone_s: Floats
    """Step that runs without the prompt: none of a single request does. [s]"""
    mixed_s: Floats
    """Step with a chunk of prompt beside the other sequences. [s]"""
    full_s: Floats
    """Step full of prompts. [s]"""

    @property
    def further_prompt_s(self) -> Floats:
        """What a prompt adds to a step that reads others, too; 0 if steps read one at most. [s]"""
        share = np.minimum(self.steps_per_prompt, 1.0)
        # Both are infinite where the interconnect is missing.
        full, mixed = (np.nan_to_num(each, posinf=0.0) for each in (self.full_s, self.mixed_s))
        added = np.maximum(full - mixed, 0.0)
        return np.asarray(np.where(share < 1, added * share / np.maximum(1 - share, 1e-9), 0.0))


def running_at_once(
    served: ServedModel,
    load: ServingLoad,
    candidates: Candidates,
    engine: ServingFacts,
    network: NetworkEfficiency,
    held: Floats,
) -> Running:
    """Return what runs on the busiest engine; the cache of ``held`` requests fits."""
    layout = candidates.layout
    asked = load.per_engine(layout)
    requests = np.where(held >= 1, np.minimum(asked, held), asked)
    apart = pipeline_batches(stages=layout.pipeline, share=engine.pipeline_share)
    limit = load.step_limit(served, engine, candidates.hardware.served_memory_bytes)
    new_tokens = load.input_tokens - load.cached_tokens
    most = most_generating(
        prompt_tokens=new_tokens, steps=load.output_tokens / load.accepted, step_tokens=limit
    )
    # Whole requests share out unevenly; those that a step's tokens limit are a mean.
    each = np.minimum(np.ceil(requests / apart), most)
    steps = partial(_steps, served, load, candidates, engine, network)
    batch, chunk, full_chunk, none = np.broadcast_arrays(
        each, np.minimum(new_tokens, limit), limit, 0.0
    )
    beside = none if engine.stops_generation else batch - 1
    decode, mixed, full = steps((batch, none), (beside, chunk), (none, full_chunk))
    drafts_s = np.zeros(1)
    if np.any(load.drafting > 0):
        [draft] = steps((batch, none), verified=np.ones(1))
        drafts_s = load.drafting * draft.total
    decode_s = decode.total
    return Running(
        asked=asked,
        placed=requests,
        running=np.minimum(requests, apart * most),
        apart=np.asarray(apart),
        steps_per_prompt=new_tokens / full_chunk,
        decode=decode,
        drafts_s=drafts_s,
        token_s=(decode_s + drafts_s) / load.accepted,
        alone_s=np.where(batch > 1, decode_s, 0.0),
        mixed_s=mixed.total,
        full_s=full.total,
    )


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
        context_last=before + load.cached_answers(),
        prompt_tokens=prompt_tokens,
        prompt_length=load.input_tokens,
        prompt_cached=load.cached_tokens,
        verified=load.verified if verified is None else verified,
    )
    found = engine_step(served, content, candidates, engine, network)
    if np.any(load.slowdown > 1):
        # Adapters add kernels to every layer.
        found = replace(found, fixed=found.fixed + (load.slowdown - 1) * found.total)
    if np.any(load.image_flops > 0):
        hardware = candidates.hardware
        rate = hardware.peak16_flops_per_s * hardware.matmul16_compute * candidates.layout.tensor
        found = replace(found, compute=found.compute + load.image_flops * prompt_tokens / rate)
    values = [getattr(found, item.name) for item in fields(StepShares)]
    return [StepShares(*(value[kind] for value in values)) for kind in range(len(kinds))]
