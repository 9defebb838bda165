"""Predicting rows of tables of serving measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.calibration.engine import Engine
from advisor.calibration.formats import (
    CACHE_BYTES,
    FITTED_ENGINES,
    arithmetic_share,
    weight_format,
)
from advisor.calibration.image_rows import IMAGE_KINDS, predict_image_row
from advisor.calibration.report import ValidationRow, scored
from advisor.calibration.tables import Row, cell, choice, integer, number
from advisor.catalog.nodes import node_for
from advisor.equations.serving import start_burst_s
from advisor.errors import InputError
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.serving import ServingTimes, compute_format, serving_times
from advisor.estimate.serving_rows import ServedModel, ServingLoad
from advisor.estimate.shape import shape_widening
from advisor.layout import ParallelLayout
from advisor.quantities import Range
from advisor.units import MILLISECOND
from advisor.workload import Serving

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
BURST_ROUNDS: Final = 10.0
"""Requests of a benchmark over its concurrency (SemiAnalysis InferenceMAX scripts)."""
UNLIMITED: Final = 2048
"""Sequences that an engine runs at most under an unlimited request rate (TensorRT-LLM's
``max_batch_size``)."""
FP8_CACHE_WEIGHTS: Final = ("fp8", "nvfp4")
"""Checkpoints that usually carry an fp8 cache; taken where a row states none."""


@dataclass(frozen=True, slots=True)
class _Deployment:
    """A row's model on its hardware."""

    served: ServedModel
    candidates: Candidates
    routed: bool
    measured: bool
    widening: float


def predict_serving_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the quantities that one serving run was measured for.

    Parameters
    ----------
    row : mapping
        A row of a table of serving measurements.
    engine : Engine

    Returns
    -------
    list of ValidationRow
        Its primary and, where it has one, its secondary quantity, in the column's unit.

    Raises
    ------
    InputError
        If the row's model is of no served kind, does not fit its card, or a cell is unusable.
    """
    if cell(row, "kind") in IMAGE_KINDS:
        return predict_image_row(row, engine)
    kind = choice(row, "kind", dict(zip(KINDS, KINDS, strict=True)))
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
    deployment = _deployment(row, engine)
    load = _load(row, kind, deployment, engine)
    times = serving_times(deployment.served, load, deployment.candidates, engine.calibration)
    if not np.isfinite(times.request_latency_s[0]):
        raise InputError(
            "the row's layout needs a link or a format that its hardware lacks",
            value=cell(row, "accelerator"),
            allowed="groups within one node, or nodes joined by a network",
            remedy="Correct the row.",
        )
    found = _quantities(load, times, deployment, engine, kind)
    routing = "experts" if deployment.routed else "dense"
    group = ("model", "accelerator", "engine", "weight_precision", "num_accelerators")
    return [
        scored(
            id=cell(row, "id"),
            quantity=name,
            regime=f"{kind}|{cell(row, 'engine')}|{routing}",
            group=" | ".join((kind, *(cell(row, column) for column in group))),
            source=cell(row, "source"),
            measured=value,
            predicted=found[name],
        )
        for name, value in wanted
    ]


def _deployment(row: Row, engine: Engine) -> _Deployment:
    architecture = engine.architecture(row)
    accelerator = engine.accelerator(row)
    stored = weight_format(row)
    cache = choice(row, "kv_precision", CACHE_BYTES)
    if not cell(row, "kv_precision") and stored.name in FP8_CACHE_WEIGHTS:
        cache = CACHE_BYTES["fp8"]
    pipeline = integer(row, "pipeline_parallel", 1)
    data = integer(row, "attention_data_parallel", 1)
    count = integer(row, "num_accelerators", pipeline * data)
    layout = ParallelLayout(
        data=data,
        tensor=integer(row, "tensor_parallel", max(1, count // (pipeline * data))),
        pipeline=pipeline,
        # Data-parallel attention spreads the experts over its ranks.
        expert=data if architecture.num_experts > 1 else 1,
    )
    kernels, measured = engine.calibration.kernels_for(accelerator)
    kernels = kernels.scaled(arithmetic_share(row, accelerator.architecture, stored))
    return _Deployment(
        served=ServedModel.of(architecture, weight_format=stored, cache_bytes=cache),
        candidates=Candidates(
            layout=LayoutArrays.of(layout),
            hardware=HardwareArrays.of(
                accelerator,
                node_for(accelerator, None),
                kernels,
                compute=compute_format(accelerator, stored),
            ),
        ),
        routed=architecture.num_experts > 1,
        measured=measured and cell(row, "engine") in FITTED_ENGINES,
        widening=shape_widening(architecture),
    )


def _load(row: Row, kind: str, deployment: _Deployment, engine: Engine) -> ServingLoad:
    """Return the requests in flight: the row's, or as many as the cache holds."""
    workload = Serving(
        input_tokens=_tokens(row, "input_tokens"),
        output_tokens=_tokens(row, "output_tokens"),
        concurrency=integer(row, "concurrency", 1),
    )
    load = ServingLoad.of(workload)
    if kind != "llm_saturated":
        return load
    times = serving_times(deployment.served, load, deployment.candidates, engine.calibration)
    held = float(times.capacity.max_concurrency[0])
    if held < 1:
        raise InputError(
            "not even one request fits the row's accelerators",
            value=cell(row, "accelerator"),
            allowed="weights and one request's cache within the memory",
            remedy="Correct the row.",
        )
    return ServingLoad(
        load.input_tokens, load.output_tokens, np.array([min(held, float(UNLIMITED))])
    )


def _tokens(row: Row, column: str) -> int:
    """Return a length; bare generation has no prompt and bare prefill no answer, told as 0."""
    return 1 if number(row, column) == 0 else integer(row, column, 1)


def _quantities(
    load: ServingLoad,
    times: ServingTimes,
    deployment: _Deployment,
    engine: Engine,
    kind: str,
) -> Mapping[str, Range]:
    """Return every quantity of a serving table in its unit."""
    calibration = engine.calibration
    concurrency = float(load.concurrency[0])
    # Bare prefill has no server in front of the engine.
    bare_s = float(times.ttft_s[0]) - calibration.serving.request_overhead_s
    first_s = bare_s if kind == "llm_prefill" else float(times.ttft_s[0])
    if kind == "llm_online":
        requests = float(load.per_engine(deployment.candidates.layout)[0])
        service = float(times.prompt_service_s[0])
        first_s += float(
            start_burst_s(concurrency=requests, service_s=service, rounds=BURST_ROUNDS)
        )
    name = "serving_time_routed" if deployment.routed else "serving_time"

    def around(value: float, quantity: str) -> Range:
        interval = calibration.interval(quantity, measured=deployment.measured)
        return Range.around(
            value,
            low_factor=interval.low / deployment.widening,
            high_factor=interval.high * deployment.widening,
            evidence=interval.evidence,
        )

    token = around(float(times.tpot_s[0]), name)
    whole_s = float(times.request_latency_s[0])
    latency = around(whole_s, name)
    throughput = around(whole_s, "serving_saturated") if kind == "llm_saturated" else latency
    return {
        "tpot_ms": token.scaled(1 / MILLISECOND),
        "ttft_ms": around(first_s / MILLISECOND, "serving_first_token"),
        "total_output_tokens_per_s": throughput.reciprocal(
            concurrency * float(load.output_tokens[0])
        ),
        "decode_tokens_per_s": token.reciprocal(concurrency),
        "prefill_tokens_per_s": around(bare_s, "serving_first_token").reciprocal(
            concurrency * float(load.input_tokens[0])
        ),
        "latency_ms": latency.scaled(1 / MILLISECOND),
    }
