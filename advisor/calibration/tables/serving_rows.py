"""Predictions for tables of serving measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from advisor.calibration.scoring.report import ValidationRow, scored
from advisor.calibration.tables.arrived import arrived
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.deployments import (
    ARRIVING,
    BURST,
    KINDS,
    ONLINE,
    SINGLE,
    BenchmarkTimes,
    Deployment,
    benchmark_times,
    row_deployment,
    row_group,
    row_kind,
    row_load,
)
from advisor.calibration.tables.image_rows import IMAGE_KINDS, predict_image_row
from advisor.calibration.tables.reading import Row, cell, choice, number
from advisor.errors import InputError
from advisor.estimate.serving.demand import ServingLoad, host_parts
from advisor.foundation.quantities import Range
from advisor.foundation.units import MILLISECOND
from advisor.nouns.software.efficiency import Calibration, Interval
from advisor.nouns.software.engines import (
    DIRECT_FIRST_TOKEN,
    DIRECT_TIME,
    HOST_TIME,
)

QUANTITIES: Final = (
    "tpot_ms",
    "ttft_ms",
    "total_output_tokens_per_s",
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
    "latency_ms",
)
BURST_TIME: Final = "serving_burst"
"""Name of the interval for the times of finite bursts."""
OTHER: Final = "_other"
FIRST: Final = "first"
"""Time to the first token, or of a whole prompt."""
TOKEN: Final = "token"
"""Time per output token."""
WHOLE: Final = "whole"
"""Time of a request; for a rate of all requests, by Little's law."""


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
    if kind == ARRIVING:
        load, times = arrived(row, deployment, engine)
    else:
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
    if what == WHOLE and kind not in (ONLINE, ARRIVING):
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
