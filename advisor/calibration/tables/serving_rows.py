"""Predictions for tables of serving measurements: text, and batches of images."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.architecture.table.model import Unit
from advisor.calibration.scoring.report import ValidationRow, scored
from advisor.calibration.tables.client_times import LATE, benchmark_times
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.deployments import (
    ARRIVALS,
    ARRIVING,
    BURST,
    BURST_REQUESTS,
    KINDS,
    ONLINE,
    SINGLE,
    Deployment,
    row_deployment,
    row_group,
    row_kind,
    row_load,
)
from advisor.calibration.tables.guesses import weight_format
from advisor.calibration.tables.reading import Row, built
from advisor.catalog.nodes import node_for
from advisor.errors import refusal
from advisor.estimate.batch.forward import batch_interval, batch_times, image_kernels
from advisor.estimate.candidates import Candidates
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.sample import SIZES
from advisor.estimate.serving.arrivals import BenchmarkTimes, arrivals_of, engine_curves
from advisor.estimate.serving.demand import ServingLoad
from advisor.estimate.serving.host_parts import host_parts
from advisor.estimate.serving.queue import queued
from advisor.foundation.quantities import Range
from advisor.foundation.units import MILLISECOND
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import (
    DIRECT_FIRST_TOKEN,
    DIRECT_ROUTED,
    DIRECT_TIME,
    HOST_TIME,
    TAIL,
)
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving

IMAGE_KINDS: Final = ("vision", "diffusion")
QUANTITY: Final = "images_per_s"


def predict_image_rate_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the images per second of one batched run.

    Raises InputError if the row has no measured rate, the network takes no images, or a cell is
    unusable.
    """
    measured = row.positive(QUANTITY)
    if measured is None:
        what, remedy = f"the row has no {QUANTITY}", "Leave the row out."
        raise row.unusable(what, QUANTITY, "images per second", remedy)
    architecture = engine.architecture(row)
    if architecture.unit is not Unit.IMAGE:
        raise refusal("row_without_images", value=architecture.name)
    stack = row.choice("software", known_stacks())
    kind = "eager" if stack.eager else "compiled"
    tool = known_tools().get(row.cell("engine"))
    calibration = engine.calibration.under(tool.engine if tool else None)
    if image_kernels(architecture, weight_format(row), calibration):
        kind = "fused"
    return [
        scored(
            *(row, QUANTITY, measured, _image_rate(row, engine, calibration, stack.name)),
            regime=f"{row.cell('kind')}|{kind}",
            group=" | ".join(row.cell(part) for part in ("model", "accelerator", "engine")),
        )
    ]


def _image_rate(row: Row, engine: Engine, calibration: Calibration, stack: str) -> Range:
    """Predict the images per second of a row."""
    architecture, accelerator = engine.architecture(row), engine.accelerator(row)
    stored = weight_format(row)
    kernels, known = calibration.kernels_for(accelerator)
    batch = {"concurrency": row.integer("concurrency", 1)}
    workload = built(Serving, row.stated(Serving, leave=(*SIZES, "engine")) | batch)
    candidates = Candidates.of(
        [ParallelLayout(data=row.integer("num_accelerators", 1))],
        accelerator,
        node_for(accelerator, None),
        kernels,
        compute=compute_format(accelerator, stored),
    )
    times = batch_times(architecture, workload, stored, candidates, calibration, stack=stack)
    interval = batch_interval(
        architecture, workload, stored, accelerator, calibration, measured=known
    )
    return interval.around(1.0 / float(times.per_s[0])).reciprocal(1.0)


LATENCY: Final = "latency_ms"
QUANTITIES: Final = (
    "tpot_ms",
    "ttft_ms",
    "total_output_tokens_per_s",
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
    LATENCY,
)
BURST_TIME: Final = "serving_burst"
"""Name of the interval for the times of finite bursts."""
ROUTED: Final = "_routed"
"""Behind the name of an interval: that of mixtures of experts."""
OTHER: Final = "_other"
FIRST: Final = "first"
"""Time to the first token, or of a whole prompt."""
TOKEN: Final = "token"
"""Time per output token."""
WHOLE: Final = "whole"
"""Time of a request; for a rate of all requests, by Little's law."""


def predict_serving_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the quantities that one serving run was measured for.

    Its primary quantity and, if it has one, its secondary, in the column's unit. Raises InputError
    if the row's model cannot be served or does not fit its card, or if a cell is unusable.
    """
    if row.cell("kind") in IMAGE_KINDS:
        return predict_image_rate_row(row, engine)
    row.choice("kind", dict(zip(KINDS, KINDS, strict=True)))
    kind = row_kind(row)
    names = [row.cell("primary_quantity"), row.cell("secondary_quantity")]
    wanted = [
        (name, value) for name in names if name in QUANTITIES and (value := row.positive(name))
    ]
    if not wanted:
        raise row.unpredicted(QUANTITIES)
    deployment = row_deployment(row, engine)
    if kind == ARRIVING:
        load, times = arrived(row, deployment, engine)
    else:
        load = row_load(row, kind, deployment, engine)
        times = benchmark_times(deployment, load, engine.calibration, kind)
    if not np.isfinite(times.whole_s[0]):
        raise refusal("row_without_link", value=row.cell("accelerator"))
    found = _quantities(load, times, deployment, engine, kind)
    routing = "experts" if deployment.routed else "dense"
    return [
        scored(
            *(row, name, value, found[name]),
            regime=f"{kind}|{row.cell('engine')}|{routing}",
            group=row_group(row),
        )
        for name, value in wanted
    ]


def _quantities(
    load: ServingLoad, times: BenchmarkTimes, deployment: Deployment, engine: Engine, kind: str
) -> Mapping[str, Range]:
    """Return every quantity of a serving table in its unit."""
    seconds = {FIRST: times.first_s, TOKEN: times.token_s, WHOLE: times.whole_s}
    found = {}
    for quantity, (what, tokens) in measures(load).items():
        interval = engine.calibration.engine_interval(
            interval_name(kind, what, deployment),
            deployment.engine_name,
            measured=deployment.measured,
        )
        time = interval.around(float(seconds[what][0]), widening=deployment.widening)
        through = time.widened(seconds[what].tolist()).scaled(1 / MILLISECOND)
        found[quantity] = time.reciprocal(tokens) if tokens else through
    return found


def measures(load: ServingLoad) -> Mapping[str, tuple[str, float]]:
    """Return which time each quantity of a table states, and the tokens of a rate.

    The tokens that pass in the time; 0 for a quantity that is a time.
    """
    requests = float(load.concurrency[0])
    new_tokens = float(load.input_tokens[0] - load.cached_tokens[0])
    return {
        "tpot_ms": (TOKEN, 0.0),
        "ttft_ms": (FIRST, 0.0),
        "total_output_tokens_per_s": (WHOLE, requests * float(load.output_tokens[0])),
        "decode_tokens_per_s": (TOKEN, requests),
        "prefill_tokens_per_s": (FIRST, requests * new_tokens),
        LATENCY: (WHOLE, 0.0),
    }


def interval_name(kind: str, what: str, deployment: Deployment) -> str:
    """Name the interval of a time: ``what`` is ``FIRST``, ``TOKEN`` or ``WHOLE``."""
    direct = DIRECT_FIRST_TOKEN if what == FIRST else DIRECT_TIME
    if deployment.engine.backends:
        parts = host_parts(deployment.served.model, deployment.candidates.layout)
        direct = DIRECT_ROUTED if what != FIRST and deployment.routed else direct
        return HOST_TIME if np.any(parts.touched > 0) else direct
    if kind == SINGLE:
        # No fit has such runs: a server with one stream, or another engine that is called directly.
        return f"{direct}{OTHER}"
    late = what == FIRST and (deployment.percentile or 0.0) >= LATE
    if kind == BURST:
        return f"{BURST_TIME}{TAIL if late else ROUTED if deployment.routed else ''}"
    if what == FIRST:
        return f"serving_first_token{TAIL if late else ''}"
    if what == WHOLE and kind not in (ONLINE, ARRIVING):
        return "serving_saturated"
    return f"serving_time{ROUTED if deployment.routed else ''}"


def arrived(row: Row, deployment: Deployment, engine: Engine) -> tuple[ServingLoad, BenchmarkTimes]:
    """Return the requests in flight at a row's rate, and its times at the row's percentile.

    Then the same times at both ends of the range of the engine's steps. Raises InputError if a cell
    is unusable.

    An engine that does not keep up lets its queue grow until the run ends; so its times depend on
    the number of requests: ``burst_requests``, by default that of ``vllm bench serve``.
    """
    workload = built(
        Serving,
        row.stated(Serving, leave=("engine", "concurrency"))
        | {"arrivals": ARRIVALS[row.cell("arrival")]},
    )
    assert workload.requests_per_s is not None
    interval = engine.calibration.engine_interval(
        interval_name(ARRIVING, TOKEN, deployment),
        deployment.engine_name,
        measured=deployment.measured,
    )
    steps = interval.around(1.0, widening=deployment.widening)
    curve = engine_curves(
        deployment.served, workload, deployment.candidates, engine.calibration, deployment.engine
    )
    lasts_s = row.integer("burst_requests", BURST_REQUESTS) / workload.requests_per_s
    arrivals = arrivals_of(workload, deployment.candidates.layout.data)
    if row.cell("lengths"):
        arrivals = replace(arrivals, prompt_scv=0.0)
    found = queued(curve, arrivals).strained(
        np.array([1.0, steps.low, steps.high]), lasts_s=lasts_s
    )
    at = deployment.percentile
    token, first = found.latencies("mean" if at is None else row.cell("percentile"))
    whole = first + (workload.output_tokens - 1) * token
    load = ServingLoad.of(workload)
    served = workload.requests_per_s / np.maximum(found.load[:1], 1.0)
    return replace(load, concurrency=served * whole[:1]), BenchmarkTimes(first, token, whole)
