"""The full estimate of one serving configuration."""

from collections.abc import Callable

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Phase
from advisor.equations.serving.engine import mean_attended_tokens
from advisor.errors import refusal
from advisor.estimate.candidates import Candidates
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.results import FlopCount, MemoryBreakdown
from advisor.estimate.serving.arrivals import under_arrivals
from advisor.estimate.serving.demand import ServedModel, ServingLoad, served_on
from advisor.estimate.serving.memory import buffer_factors, context_of, longest_request, loose_part
from advisor.estimate.serving.queued import Queued, QueuedSpreads
from advisor.estimate.serving.results import LatencyAt, ServingEstimate
from advisor.estimate.serving.speculation import widening as technique_widening
from advisor.estimate.serving.terms import memory_facts, time_facts
from advisor.estimate.serving.times import ServingTimes, serving_times
from advisor.estimate.serving.unlike import working_card
from advisor.estimate.terms import memory_terms, shape_widening, term, time_terms
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import MILLISECOND, trimmed
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import (
    DIRECT_FIRST_TOKEN,
    DIRECT_ROUTED,
    DIRECT_TIME,
    HOST_TIME,
    TAIL,
    ServingFacts,
)
from advisor.nouns.software.tools import tool_choice
from advisor.nouns.workload import Serving

LONGEST_CONTEXT_TOKENS = 10_000_000
"""Longest request of a workload; shown if windows limit the cache of every layer."""

_BINDING = {
    "bandwidth": ("weights", "cache"),
    "compute": ("compute", "prefill", "drafts"),
    "network": ("network",),
    "launch": ("fixed",),
    "host": ("host",),
}


@record
class ServingReport:
    """The parts of an ``Estimate`` for one serving configuration."""

    memory: MemoryBreakdown
    flops: FlopCount
    serving: ServingEstimate


def describe_serving(
    *,
    architecture: ModelArchitecture,
    workload: Serving,
    layout: ParallelLayout,
    accelerator: Accelerator,
    node: Node,
    weight_format: WeightFormat,
    calibration: Calibration,
) -> ServingReport:
    """Estimate one serving configuration with ranges and terms.

    If the memory does not fit, ``fits`` is False and the times are those of a card with enough
    memory.

    ``layout``: ``data`` ranks answer in parallel; ``expert`` of them share the routed experts.
    """
    engine = calibration.engine_for(weight_format)
    accelerator, kernels, measured = working_card(
        accelerator, architecture, workload, weight_format, calibration
    )
    served = served_on(accelerator, architecture, workload, weight_format)
    compute = compute_format(accelerator, weight_format)
    candidates = Candidates.of([layout], accelerator, node, kernels, compute=compute)
    found = None
    if workload.requests_per_s is not None:
        found = under_arrivals(served, workload, candidates, calibration)
        workload = at_once(workload, found, layout)
    load = ServingLoad.of(workload)
    times = serving_times(served, load, candidates, calibration)
    longest = longest_request(served, load, candidates.layout, times.capacity)
    widening = shape_widening(architecture)
    # A full description of the model is exact; only an assumed shape weakens the evidence.
    assumed = architecture.evidence is Evidence.ASSUMED
    speech = tool_choice().speech.get(architecture.family)
    known = Evidence.ASSUMED if assumed else kernels.evidence

    def ranges(quantity: str, *, later: bool) -> Callable[[float], Range]:
        interval = calibration.served_interval(quantity, weight_format, measured=measured)
        least, most = technique_widening(workload, later=later)
        return lambda value: Range.around(
            value,
            low_factor=interval.low / widening * least,
            high_factor=interval.high * widening * most,
            evidence=interval.evidence.weakest(known),
        )

    return ServingReport(
        memory=_memory(
            served,
            workload=workload,
            layout=layout,
            times=times,
            memory_bytes=float(candidates.hardware.served_memory_bytes[0]),
            calibration=calibration,
        ),
        flops=_flops(served, workload),
        serving=_serving(
            times,
            workload,
            layout,
            longest_tokens=float(longest[0]),
            later=ranges(later_quantity(architecture, engine, layout), later=True),
            first=ranges(first_quantity(engine, layout), later=False),
            late=ranges(first_quantity(engine, layout, late=True), later=False),
            facts=time_facts(served, workload, layout, engine, accelerator),
            window_s=speech.window_s if speech else None,
            found=found,
        ),
    )


def at_once(workload: Serving, found: Queued, layout: ParallelLayout) -> Serving:
    """Return a workload with the requests in flight that its arrivals lead to."""
    mean = float(found.in_flight[0]) * layout.data
    return workload.changed(concurrency=max(1, round(mean)))


def later_quantity(
    architecture: ModelArchitecture, engine: ServingFacts, layout: ParallelLayout
) -> str:
    """Name of the interval for times per output token under an engine."""
    if not architecture.generates:
        return "serving_denoising" if architecture.denoises else "serving_batch"
    routed = architecture.num_experts > 1
    if not engine.backends:
        return "serving_time_routed" if routed else "serving_time"
    direct = DIRECT_ROUTED if routed else DIRECT_TIME
    return HOST_TIME if layout.host_options else direct


def first_quantity(engine: ServingFacts, layout: ParallelLayout, *, late: bool = False) -> str:
    """Name of the interval for times to the first token: ``late`` ones are P95 and P99."""
    if not engine.backends:
        return f"serving_first_token{TAIL if late else ''}"
    return HOST_TIME if layout.host_options else DIRECT_FIRST_TOKEN


STREAM_TOKENS = 3
"""Shorter answers have at most one interval between tokens, so only the first token counts."""


def _serving(
    times: ServingTimes,
    workload: Serving,
    layout: ParallelLayout,
    *,
    longest_tokens: float,
    later: Callable[[float], Range],
    first: Callable[[float], Range],
    late: Callable[[float], Range],
    facts: dict[str, object],
    window_s: float | None,
    found: Queued | None = None,
) -> ServingEstimate:
    """Add ranges to the time of the first token (``first``) and of later ones (``later``).

    ``late``: around P95 and P99 of the first token. ``window_s``: sound of a request. [s]
    """
    latency = float(times.request_latency_s[0])
    if not np.isfinite(latency):
        raise refusal("no_such_link", layout=layout)
    rate = later(latency).reciprocal(workload.concurrency)
    tpot, arrivals = float(times.tpot_s[0]), None
    means = LatencyAt(
        ttft_ms=first(float(times.ttft_s[0]) / MILLISECOND), tpot_ms=later(tpot / MILLISECOND)
    )
    if found is not None and workload.requests_per_s is not None:
        spreads = QueuedSpreads(found, later=later, first=first, late=late)
        arrivals = spreads.under(workload.requests_per_s)
        if found.stable[0]:
            tpot, means = float(found.tpot_s[0]), spreads.at("mean")
            rate = Range.exact(workload.requests_per_s)
    shares = _over_arrivals(times.shares.row(), tpot)
    return ServingEstimate(
        streams=workload.output_tokens >= STREAM_TOKENS,
        ttft_ms=means.ttft_ms,
        tpot_ms=means.tpot_ms,
        output_tokens_per_s=rate.scaled(workload.output_tokens),
        requests_per_s=rate,
        max_concurrency=int(times.capacity.max_concurrency[0]),
        max_context_tokens=int(min(longest_tokens, LONGEST_CONTEXT_TOKENS)),
        sound_s_per_s=rate.scaled(window_s) if window_s else None,
        replicas=layout.replicas,
        arrivals=arrivals,
        bound_by=binding(shares),
        terms=time_terms("serving_time", shares, **facts),
    )


def _over_arrivals(shares: dict[str, float], tpot_s: float) -> dict[str, float]:
    """Return shares at the mean load whose sum is the mean time over all loads.

    What the times at other loads add comes from prompts that share the steps.
    """
    prompts = tpot_s - sum(shares.values()) + shares["prefill"]
    if prompts >= 0:
        return shares | {"prefill": prompts}
    scale = tpot_s / (tpot_s - prompts)
    return {name: scale * value for name, value in shares.items()} | {"prefill": 0.0}


def binding(shares: dict[str, float]) -> str:
    """Return the resource with the largest share of the time per output token."""
    totals = {resource: sum(shares[name] for name in names) for resource, names in _BINDING.items()}
    return max(totals, key=lambda resource: totals[resource])


def _memory(
    served: ServedModel,
    *,
    workload: Serving,
    layout: ParallelLayout,
    times: ServingTimes,
    memory_bytes: float,
    calibration: Calibration,
) -> MemoryBreakdown:
    capacity, memory = times.capacity, times.capacity.memory
    values = memory.row()
    interval = calibration.interval("serving_memory", measured=True)
    widening = shape_widening(served.model)
    known = served.model.evidence
    evidence = interval.evidence.weakest(known)

    engine = calibration.engine_for(served.weight_format)
    least, most = buffer_factors(engine, interval)

    def spread(name: str, found: Evidence = evidence) -> Range:
        value = values[name]
        loose = float(loose_part(engine, name, value))
        wider = 1.0 if name == "weights" else widening
        return Range(
            low=max(value / wider + loose * (least - 1.0) / widening, 0.0),
            expected=value,
            high=value * wider + loose * (most - 1.0) * widening,
            evidence=found,
        )

    facts = memory_facts(served, workload, layout, engine, memory_bytes)
    return MemoryBreakdown(
        weights_bytes=spread("weights", known),
        activations_bytes=spread("activations"),
        logits_bytes=spread("logits"),
        kv_cache_bytes=Range.around(
            values["kv_cache"], low_factor=1 / widening, high_factor=widening, evidence=known
        ),
        workspace_bytes=spread("workspace"),
        context_bytes=Range(**context_of(engine, calibration), evidence=Evidence.ASSUMED),
        # Nothing fragments: engines allocate the cache once, at start-up.
        total_bytes=Range(
            low=float(capacity.low_bytes[0]),
            expected=float(memory.total[0]),
            high=float(capacity.high_bytes[0]),
            evidence=evidence,
        ),
        usable_bytes=float(capacity.usable_bytes[0]),
        host_bytes=Range.exact(float(capacity.host_bytes[0]), evidence=known),
        fits=bool(capacity.fits[0]),
        peak_moment="serving",
        limiting_stage="all" if layout.pipeline == 1 else "first",
        terms=memory_terms("serving_memory", values, **facts),
    )


def _flops(served: ServedModel, workload: Serving) -> FlopCount:
    """Count the operations of one generated token and of one decode step of all requests."""
    first = 0 if served.reads_apart else workload.input_tokens
    written = [op for op in served.model.operators if op.phase is not Phase.PROMPT]
    matrices = float(sum(op.layers * op.flops_per_token for op in written))
    attention = sum(
        op.layers
        * op.flops_per_token_per_key
        * float(
            op.keys
            or mean_attended_tokens(
                first=float(first),
                last=float(first + workload.output_tokens),
                window=float(op.window) if op.window else np.inf,
            )
        )
        for op in served.attention
        if op.phase is not Phase.PROMPT
    )
    per_token = matrices + attention
    requests = workload.concurrency
    step = per_token * requests
    return FlopCount(
        model_per_step=step,
        hardware_per_step=step,
        per_token=per_token,
        terms=tuple(
            term(
                *("serving_flops", name, each * requests, "FLOPs"),
                requests=requests,
                each=trimmed(each, 4),
            )
            for name, each in (("matmul", matrices), ("attention", attention))
        ),
    )
