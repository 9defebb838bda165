"""The full estimate of one configuration that processes batches, and its cameras."""

from collections.abc import Iterator
from functools import partial

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.equations.serving.bursts import periodic_wait_share
from advisor.estimate.batch.arrivals import batches_under_arrivals
from advisor.estimate.batch.forward import (
    BatchTimes,
    batch_interval,
    batch_times,
    inputs_per_answer,
    passes_per_answer,
)
from advisor.estimate.candidates import Candidates
from advisor.estimate.fold import fold_flops
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.results import FlopCount, MemoryBreakdown
from advisor.estimate.serving.queued import QueuedSpreads
from advisor.estimate.serving.report import ServingReport
from advisor.estimate.serving.results import ServingEstimate
from advisor.estimate.terms import memory_terms, shape_widening, term, time_terms
from advisor.estimate.training.report import binding
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.units import MILLISECOND, trimmed
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving

TAIL = 0.01
"""Share of the frames that may be answered later than stated."""
MOST_STREAMS = 2000
"""Beyond it the tail is not computed: the formula sums over all streams."""


def camera_notes(workload: Serving, serving: ServingEstimate) -> Iterator[str]:
    """Yield how many cameras the hardware carries; nothing where no camera is stated."""
    frames, cameras = workload.frames_per_s, serving.cameras
    if frames is None or cameras is None:
        return
    if cameras.high < 1:
        yield f"one camera of {frames:g} frames/s is more than the hardware carries"
        return
    low, said = (
        int(cameras.low),
        f"the hardware carries {counted_cameras(cameras)} of {frames:g} frames/s",
    )
    # A replica serves its share of the cameras; frames of a batch wait for each other.
    low = int(cameras.low)
    each, service_s = low // serving.replicas, serving.tpot_ms.high * MILLISECOND
    if workload.concurrency == serving.replicas and 1 <= each <= MOST_STREAMS:
        tail = _tail(each, 1.0 / (frames * service_s)) * service_s / MILLISECOND
        said += (
            f"; with {low:,} of them 99 % of the frames are answered within {trimmed(tail, 3)} ms"
        )
    elif workload.concurrency > serving.replicas:
        said += "; latency is stated for batches of one (--concurrency 1)"
    yield f"{said}; decoding and resizing of frames left out"


def counted_cameras(cameras: Range) -> str:
    """Return whole cameras with their range."""
    low, expected, high = (int(each) for each in (cameras.low, cameras.expected, cameras.high))
    return f"{expected:,} cameras ({low:,}–{high:,})"


def _tail(streams: int, period: float) -> float:
    """Return the latency that 99 % of the frames stay under. [services]"""
    low, high = 0.0, float(streams)
    for _ in range(30):
        middle = (low + high) / 2
        over = periodic_wait_share(streams=streams - 1, period=period, wait=middle)
        low, high = (middle, high) if over > TAIL else (low, middle)
    return 1.0 + high


def describe_batch(
    *,
    architecture: ModelArchitecture,
    workload: Serving,
    layout: ParallelLayout,
    accelerator: Accelerator,
    node: Node,
    weight_format: WeightFormat,
    calibration: Calibration,
) -> ServingReport:
    """Estimate one configuration that processes batches, with ranges and terms.

    If the memory does not fit, ``fits`` is False and the times are those of a card with enough
    memory.

    ``workload``: inputs at a time, their size, and the passes for one image of a diffusion model.
    Raises UnsupportedArchitectureError for encoder-decoder pairs.
    """
    kernels, measured = calibration.kernels_for(accelerator)
    compute = compute_format(accelerator, weight_format)
    candidates = Candidates.of([layout], accelerator, node, kernels, compute=compute)
    arriving, of_each = None, 1
    given = architecture, workload, weight_format, candidates, calibration
    if workload.requests_per_s is None:
        times = batch_times(*given)
    else:
        arriving, of_each = batches_under_arrivals(*given), layout.data
        times = arriving.full
    interval = batch_interval(
        architecture, workload, weight_format, accelerator, calibration, measured=measured
    )
    known = kernels.evidence.weakest(architecture.evidence)
    spread = partial(interval.around, widening=shape_widening(architecture), known=known)
    latency = spread(float(times.latency_s[0]))
    most_per_s = per_s = latency.reciprocal(workload.concurrency * of_each)
    shares = times.shares.row()
    bound_by, under = binding(shares), None
    if arriving is not None and workload.requests_per_s is not None:
        queued, alone = arriving.queued, arriving.one.shares
        spreads = QueuedSpreads(queued, later=spread, first=spread, late=spread)
        under = spreads.under(workload.requests_per_s)
        if queued.stable[0]:
            latency = spreads.at("mean").ttft_ms.scaled(MILLISECOND)
            per_s = Range.exact(workload.requests_per_s)
            shares = alone.row()
            shares["waiting"] = float(queued.ttft_s[0]) - sum(shares.values())
    unit = Unit.SAMPLE if architecture.unit is Unit.TOKEN else architecture.unit
    return ServingReport(
        memory=_memory(times, calibration, known),
        flops=_flops(architecture, workload),
        serving=ServingEstimate(
            ttft_ms=latency.scaled(1 / MILLISECOND),
            tpot_ms=latency.scaled(1 / MILLISECOND),
            streams=False,
            output_tokens_per_s=per_s,
            requests_per_s=per_s,
            max_concurrency=int(times.largest_batch[0]) * layout.data,
            arrivals=under,
            max_context_tokens=architecture.max_position_embeddings or 1,
            unit=unit,
            images_per_s=most_per_s if unit is Unit.IMAGE else None,
            cameras=most_per_s.scaled(1 / workload.frames_per_s) if workload.frames_per_s else None,
            replicas=layout.data,
            bound_by=bound_by,
            terms=time_terms("batch_time", shares),
        ),
    )


def _memory(times: BatchTimes, calibration: Calibration, known: Evidence) -> MemoryBreakdown:
    interval = calibration.interval("batch_memory", measured=True)

    shown = {
        "weights": float(times.weights_bytes[0]),
        "activations": float(times.activations_bytes[0]),
        "workspace": float(times.workspace_bytes[0]),
        "context": calibration.memory.context_bytes["expected"],
    }
    return MemoryBreakdown(
        weights_bytes=Range.exact(shown["weights"], known),
        activations_bytes=interval.around(shown["activations"], known=known),
        workspace_bytes=interval.around(shown["workspace"], known=known),
        context_bytes=Range(**calibration.memory.context_bytes, evidence=Evidence.ASSUMED),
        total_bytes=Range(
            low=float(times.low_bytes[0]),
            expected=float(times.expected_bytes[0]),
            high=float(times.high_bytes[0]),
            evidence=interval.evidence.weakest(known),
        ),
        usable_bytes=float(times.usable_bytes[0]),
        fits=bool(times.feasible[0]),
        peak_moment="serving",
        limiting_stage="all",
        terms=memory_terms("batch_memory", shown),
    )


def _flops(architecture: ModelArchitecture, workload: Serving) -> FlopCount:
    """Count the operations of one answer and of one batch."""
    token = architecture.unit is Unit.TOKEN
    length = workload.input_tokens if token else 1
    passes = passes_per_answer(architecture, workload) * inputs_per_answer(architecture, workload)
    fold = fold_flops(architecture, length)
    scale = passes * length
    batch = workload.concurrency * scale * fold.forward
    parts = {"matmul": fold.block_matmul + fold.head, "attention": fold.block_attention}
    return FlopCount(
        model_per_step=batch,
        hardware_per_step=batch,
        per_token=scale * fold.forward,
        terms=tuple(
            term(
                *("batch_flops", name, value * workload.concurrency * scale, "FLOPs"),
                inputs=workload.concurrency,
                passes=passes,
                each=trimmed(length * value, 4),
            )
            for name, value in parts.items()
            if value
        ),
    )
