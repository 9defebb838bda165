"""Predictions for tables of serving measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from advisor.calibration.scoring.report import ValidationRow, scored
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.formats import cache_bytes, weight_format
from advisor.calibration.tables.guesses import filled
from advisor.calibration.tables.image_rows import IMAGE_KINDS, predict_image_row
from advisor.calibration.tables.reading import Row, built, cell, choice, integer, number, stated
from advisor.catalog.nodes import owned_node
from advisor.equations.serving import start_burst_s
from advisor.errors import InputError
from advisor.estimate.assumed_shape import shape_widening
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.serving.burst import burst_times
from advisor.estimate.serving.demand import ServedModel, ServingLoad, host_parts
from advisor.estimate.serving.times import compute_format, serving_times
from advisor.foundation.quantities import Range
from advisor.foundation.units import GB, MILLISECOND
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.efficiency import Calibration, Interval
from advisor.nouns.software.engines import (
    DIRECT_FIRST_TOKEN,
    DIRECT_TIME,
    HOST_TIME,
    ServingFacts,
    builds_at,
)
from advisor.nouns.software.generations import generations
from advisor.nouns.workload import Serving

KINDS: Final = (
    "llm_online",
    "llm_saturated",
    "llm_single_stream",
    "llm_prefill",
    "llm_static_batch",
)
QUANTITIES: Final = (
    "tpot_ms",
    "ttft_ms",
    "total_output_tokens_per_s",
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
    "latency_ms",
)
ONLINE: Final = "llm_online"
SATURATED: Final = "llm_saturated"
BURST: Final = "llm_burst"
"""Finite bursts, which tables state as saturated runs with ``arrival`` ``burst``."""
BURST_TIME: Final = "serving_burst"
"""Name of the interval for their times."""
BURST_REQUESTS: Final = 1000
"""Requests of a burst if the row states none: the default of ``vllm bench serve``."""
FIXED: Final = ("llm_static_batch", "llm_prefill")
"""Kinds without arrivals."""
SINGLE: Final = "llm_single_stream"
OTHER: Final = "_other"
FIRST_ENGINE: Final = "vllm"
"""The engine whose constants and intervals have no prefix in their names."""
FIRST: Final = "first"
"""Time to the first token, or of a whole prompt."""
TOKEN: Final = "token"
"""Time per output token."""
WHOLE: Final = "whole"
"""Time of a request; for a rate of all requests, by Little's law."""
UNLIMITED: Final = 2048
"""Most sequences of an engine at an unlimited request rate (TensorRT-LLM's
``max_batch_size``)."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A row's model under its engine on its hardware."""

    served: ServedModel
    candidates: Candidates
    engine: ServingFacts
    engine_name: str
    routed: bool
    measured: bool
    """The kernels of the card's kind, and the engine."""
    widening: float
    interface: str = ""
    """Interface of the engine to the card; empty for the usual one."""
    settings: tuple[tuple[str, float], ...] = ()
    """Facts of the engine that the run set otherwise."""

    def under(self, facts: ServingFacts) -> ServingFacts:
        """Return an engine's facts with the settings of the run."""
        return facts.model_copy(update=dict(self.settings)) if self.settings else facts


def row_node(row: Row, accelerator: Accelerator) -> Node:
    """Return the machine of a row: one for its cards, with the bandwidth that the row states."""
    node = owned_node(accelerator, integer(row, "num_accelerators", 1))
    rate = number(row, "host_memory_bandwidth_gb_s")
    if rate is None:
        return node
    return node.model_copy(update={"host_memory_bandwidth_bytes_per_s": rate * GB})


BENCH: Final = "llama-bench"
"""A run that only calls the kernels: it samples nothing, and no request comes in."""


def _settings(row: Row) -> tuple[tuple[str, float], ...]:
    """Return what a run set: tokens of a step, places of a burst, and no sampling."""
    found: dict[str, float] = {}
    if cell(row, "step_tokens"):
        tokens = integer(row, "step_tokens", 1)
        found |= {"batched_tokens": tokens, "small_batched_tokens": tokens}
    if cell(row, "harness") == BENCH:
        found["step_overhead_s"] = 0.0
    if row_kind(row) == BURST and cell(row, "concurrency"):
        found["running_sequences"] = integer(row, "concurrency", 1)
    return tuple(found.items())


def predict_serving_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the quantities that one serving run was measured for.

    Parameters
    ----------
    row : mapping
        A row of a table of serving measurements.

    Returns
    -------
    list of ValidationRow
        Its primary quantity and, if it has one, its secondary, in the column's unit.

    Raises
    ------
    InputError
        If the row's model cannot be served or does not fit its card, or if a cell is unusable.
    """
    if cell(row, "kind") in IMAGE_KINDS:
        return predict_image_row(row, engine)
    choice(row, "kind", dict(zip(KINDS, KINDS, strict=True)))
    kind = row_kind(row)
    names = [cell(row, "primary_quantity"), cell(row, "secondary_quantity")]
    wanted = [
        (name, value)
        for name in names
        if name in QUANTITIES and (value := number(row, name)) is not None and value > 0
    ]
    if not wanted:
        raise InputError(
            "the row has no measured quantity that the engine predicts",
            value=names[0],
            allowed=", ".join(QUANTITIES),
            remedy="Leave the row out.",
            field="primary_quantity",
        )
    deployment = row_deployment(row, engine)
    load = row_load(row, kind, deployment, engine)
    times = benchmark_times(deployment, load, engine.calibration, kind)
    if not np.isfinite(times.whole_s[0]):
        raise InputError(
            "the row's layout needs a link or a format that its hardware lacks",
            value=cell(row, "accelerator"),
            allowed="groups within one node, or nodes joined by a network",
            remedy="Correct the row.",
        )
    found = _quantities(load, times, deployment, engine, kind)
    routing = "experts" if deployment.routed else "dense"
    return [
        scored(
            id=cell(row, "id"),
            quantity=name,
            regime=f"{kind}|{cell(row, 'engine')}|{routing}",
            group=row_group(row),
            source=cell(row, "source"),
            measured=value,
            predicted=found[name],
        )
        for name, value in wanted
    ]


def row_kind(row: Row) -> str:
    """Return a row's kind: a finite burst is apart from an engine that stays full."""
    kind = cell(row, "kind")
    return BURST if kind == SATURATED and cell(row, "arrival") == "burst" else kind


def row_group(row: Row) -> str:
    """Return the key of the runs that differ from this row only in their load."""
    columns = ("kind", "model", "accelerator", "engine", "weight_precision", "num_accelerators")
    return " | ".join(cell(row, column) for column in columns)


def row_deployment(row: Row, engine: Engine) -> Deployment:
    """Return the deployment that a row of serving measurements describes.

    Raises
    ------
    InputError
        If the row's model or format is unknown, or a cell is unusable.
    """
    architecture = engine.architecture(row)
    accelerator = engine.accelerator(row)
    row = filled(row, "serving")
    stored = weight_format(row)
    pipeline, data = integer(row, "pipeline", 1), integer(row, "data", 1)
    count = integer(row, "num_accelerators", pipeline * data)
    layout = built(
        ParallelLayout,
        {
            # Data-parallel attention divides the experts among its ranks.
            "expert": data if architecture.num_experts > 1 else 1,
            **stated(row, ParallelLayout),
            "data": data,
            "pipeline": pipeline,
            "tensor": integer(row, "tensor", max(1, count // (pipeline * data))),
        },
    )
    engines = engine.calibration.engines
    date = cell(row, "software_date") or cell(row, "measured_date")
    name = builds_at(engines, cell(row, "engine"), date, generations(accelerator))
    facts = engines.get(name, engine.calibration.serving)
    interface = cell(row, "backend")
    kernels, measured = engine.calibration.served_kernels(accelerator, stored, facts, interface)
    settings = _settings(row)
    strange = name != FIRST_ENGINE and name not in engines
    if row_kind(row) == SINGLE and not facts.backends:
        # Bare generation has no scheduler.
        settings += (("sequence_overhead_s", 0.0), ("step_overhead_s", 0.0))
    elif row_kind(row) in FIXED and strange:
        # Scripts with a fixed batch schedule nothing, and replay captured graphs.
        settings += (("sequence_overhead_s", 0.0), ("prompt_overhead_s", 0.0))
    return Deployment(
        served=ServedModel.of(architecture, weight_format=stored, cache_bytes=cache_bytes(row)),
        candidates=Candidates(
            layout=LayoutArrays.of(layout),
            hardware=HardwareArrays.of(
                accelerator,
                row_node(row, accelerator),
                kernels,
                compute=compute_format(accelerator, stored),
            ),
        ),
        engine=facts.model_copy(update=dict(settings)) if settings else facts,
        engine_name=name,
        interface=interface,
        settings=settings,
        routed=architecture.num_experts > 1,
        measured=measured and (name == FIRST_ENGINE or name in engine.calibration.engines),
        widening=shape_widening(architecture),
    )


def row_load(row: Row, kind: str, deployment: Deployment, engine: Engine) -> ServingLoad:
    """Return the requests in flight: the row's, or as many as the cache holds."""
    counts = {
        "input_tokens": _tokens(row, "input_tokens"),
        "output_tokens": _tokens(row, "output_tokens"),
        "concurrency": integer(row, "burst_requests", BURST_REQUESTS)
        if kind == BURST
        else integer(row, "concurrency", 1),
    }
    load = ServingLoad.of(
        built(Serving, stated(row, Serving, leave=("engine", "requests_per_s")) | counts)
    )
    if cell(row, "cached_tokens"):
        cached = min(integer(row, "cached_tokens", 1), counts["input_tokens"] - 1)
        load = replace(load, cached_tokens=np.array([float(cached)]))
    if kind not in (SATURATED, BURST):
        return load
    times = serving_times(
        deployment.served, load, deployment.candidates, engine.calibration, deployment.engine
    )
    # The run ran, so the expected memory counts, not its upper bound.
    held = float(times.capacity.expected_concurrency[0])
    if held < 1:
        raise InputError(
            "not even one request fits the row's accelerators",
            value=cell(row, "accelerator"),
            allowed="weights and one request's cache within the memory",
            remedy="Correct the row.",
        )
    if kind == BURST:
        return load
    return replace(load, concurrency=np.array([min(held, float(UNLIMITED))]))


def _tokens(row: Row, column: str) -> int:
    """Return a length; 0 for the prompt of bare generation and the answer of bare prefill."""
    return 1 if number(row, column) == 0 else integer(row, column, 1)


@dataclass(frozen=True, slots=True)
class BenchmarkTimes:
    """Times as the clients of a benchmark measure them."""

    first_s: Floats
    """Time to the first token. [s]"""
    token_s: Floats
    """Time per output token after the first. [s]"""
    whole_s: Floats
    """From a request to its last token. [s]"""


def benchmark_times(
    deployment: Deployment, load: ServingLoad, calibration: Calibration, kind: str
) -> BenchmarkTimes:
    """Return the times of a benchmark, which starts all its requests at once.

    Parameters
    ----------
    kind : str
        ``ONLINE``: requests pass through a server, each followed by another. ``BURST``: a finite
        number of requests. Otherwise the engine is called directly.

    Notes
    -----
    Requests that wait for the prompts of their wave do not wait for them again: the time that the
    wave adds to the first token is taken from the later ones.
    """
    engine, candidates = deployment.engine, deployment.candidates
    if kind == BURST:
        burst = burst_times(deployment.served, load, candidates, calibration, engine)
        return BenchmarkTimes(burst.first_s, burst.token_s, burst.whole_s)
    times = serving_times(deployment.served, load, candidates, calibration, engine)
    if kind != ONLINE:
        bare_s = times.ttft_s - engine.request_overhead_s
        whole_s = times.request_latency_s - engine.request_overhead_s
        return BenchmarkTimes(bare_s, times.tpot_s, whole_s)
    wave = np.asarray(
        start_burst_s(
            concurrency=load.per_engine(candidates.layout),
            service_s=times.prompt_service_s,
            rounds=1 / engine.start_wave,
        )
    )
    later = times.tpot_s - wave / np.maximum(load.output_tokens - 1, 1.0)
    return BenchmarkTimes(
        first_s=times.ttft_s + wave,
        token_s=np.maximum(later, times.decode_step_s),
        whole_s=times.request_latency_s,
    )


def _quantities(
    load: ServingLoad,
    times: BenchmarkTimes,
    deployment: Deployment,
    engine: Engine,
    kind: str,
) -> Mapping[str, Range]:
    """Return every quantity of a serving table in its unit."""
    calibration = engine.calibration
    concurrency = float(load.concurrency[0])

    def around(value: float, what: str) -> Range:
        name = interval_name(kind, what, deployment)
        interval = engine_interval(
            calibration, name, deployment.engine_name, measured=deployment.measured
        )
        return Range.around(
            value,
            low_factor=interval.low / deployment.widening,
            high_factor=interval.high * deployment.widening,
            evidence=interval.evidence,
        )

    token = around(float(times.token_s[0]), TOKEN)
    first = around(float(times.first_s[0]), FIRST)
    whole = around(float(times.whole_s[0]), WHOLE)
    return {
        "tpot_ms": token.scaled(1 / MILLISECOND),
        "ttft_ms": first.scaled(1 / MILLISECOND),
        "total_output_tokens_per_s": whole.reciprocal(concurrency * float(load.output_tokens[0])),
        "decode_tokens_per_s": token.reciprocal(concurrency),
        "prefill_tokens_per_s": first.reciprocal(
            concurrency * float(load.input_tokens[0] - load.cached_tokens[0])
        ),
        "latency_ms": whole.scaled(1 / MILLISECOND),
    }


def interval_name(kind: str, what: str, deployment: Deployment) -> str:
    """Name the interval of a time: ``what`` is ``FIRST``, ``TOKEN`` or ``WHOLE``."""
    direct = DIRECT_FIRST_TOKEN if what == FIRST else DIRECT_TIME
    if deployment.engine.backends:
        parts = host_parts(deployment.served.model, deployment.candidates.layout)
        return HOST_TIME if np.any(parts.touched > 0) else direct
    if kind == SINGLE:
        # No fit has such runs: a server with one stream, or another engine that is called directly.
        return f"{direct}{OTHER}"
    if kind == BURST:
        return BURST_TIME
    if what == FIRST:
        return "serving_first_token"
    if what == WHOLE and kind != ONLINE:
        return "serving_saturated"
    return "serving_time_routed" if deployment.routed else "serving_time"


def engine_interval(
    calibration: Calibration, name: str, engine: str, *, measured: bool
) -> Interval:
    """Return the interval of a time: the engine's own if it has one and is measured."""
    own = calibration.intervals.get(f"{name}_{engine}")
    if own and (measured or name in (DIRECT_TIME, DIRECT_FIRST_TOKEN)):
        return own
    return calibration.interval(name, measured=measured)
