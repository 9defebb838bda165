"""Predicting rows of start-up logs of serving engines: weights, cache and what is left for it."""

from __future__ import annotations

from typing import Final

import numpy as np

from advisor.architecture.model import ModelArchitecture
from advisor.calibration.engine import Engine
from advisor.calibration.engine_releases import Share, engine_release
from advisor.calibration.formats import CACHE_BYTES, weight_format
from advisor.calibration.report import ValidationRow, scored
from advisor.calibration.tables import Row, cell, choice, integer, number
from advisor.engines import ServingFacts
from advisor.errors import InputError
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.serving_memory import serving_memory
from advisor.estimate.serving_rows import (
    SIXTEEN_BIT_BYTES,
    ServedModel,
    ServingLoad,
    cached_bytes_per_sequence,
    communication_bytes,
)
from advisor.estimate.shape import shape_widening
from advisor.layout import ParallelLayout
from advisor.quantities import Evidence, Range
from advisor.units import GIB

QUANTITIES: Final = ("weights_gib", "activation_peak_gib", "kv_cache_gib", "kv_tokens")


def predict_cache_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict what an engine tells of its memory at start-up.

    Parameters
    ----------
    row : mapping
        A row of a table of start-up logs.
    engine : Engine

    Returns
    -------
    list of ValidationRow
        The row's primary quantity: GiB per accelerator, or tokens of the whole cache; where it
        is GiB of cache and the log tells tokens too, both.

    Raises
    ------
    InputError
        If the model or its format is unknown, or the device's memory is not told.
    """
    quantity = cell(row, "primary_quantity") or "kv_cache_gib"
    if quantity not in QUANTITIES or not number(row, quantity):
        raise InputError(
            "the row has no measured quantity that the engine predicts",
            value=quantity,
            allowed=", ".join(QUANTITIES),
            remedy="Leave the row out.",
            field="primary_quantity",
        )
    wanted = [quantity]
    if quantity == "kv_cache_gib" and number(row, "kv_tokens"):
        wanted.append("kv_tokens")
    architecture = engine.architecture(row)
    calibration = engine.calibration
    layout = LayoutArrays.of(
        ParallelLayout(
            tensor=integer(row, "tensor_parallel", 1), pipeline=integer(row, "pipeline_parallel", 1)
        )
    )
    served = ServedModel.of(
        architecture,
        weight_format=weight_format(row),
        cache_bytes=choice(row, "kv_precision", CACHE_BYTES),
    )
    # Weights do not depend on the card's memory, and are all that some logs tell.
    device = 1.0 if quantity == "weights_gib" else _device_bytes(row, engine)
    release = engine_release(row, calibration.serving, device)
    calibration = calibration.model_copy(update={"serving": release.facts})
    one = np.array([1.0])
    load = ServingLoad(one, one, one)
    memory = serving_memory(served, load, layout, np.array([device]), calibration)
    interval = calibration.interval("serving_memory", measured=True)
    widening = shape_widening(architecture)
    fraction = number(row, "gpu_memory_utilization") or release.facts.memory_fraction
    card = np.array([device])
    held = memory.context + communication_bytes(release.facts, card, layout)
    # vLLM starts its collectives within its share of the card; the others before they look.
    passing = memory.engine - (memory.context if release.share is Share.CARD else held)
    if release.keeps_reductions:
        passing = passing + _reduced_bytes(architecture, layout, release.facts)
    rooms = [
        float(
            release.cache_room(
                fraction=fraction,
                device=card,
                held=held * factor,
                weights=memory.weights,
                passing=passing * factor,
            )[0]
        )
        for factor in (interval.high * widening, 1.0, interval.low / widening)
    ]
    length = float(integer(row, "max_model_len", 1))
    per_token = float(cached_bytes_per_sequence(served, layout, length)[0]) / length
    low, expected, high = (max(room, 0.0) for room in rooms)
    cache = Range(low=low, expected=expected, high=high, evidence=interval.evidence)
    predicted = {
        "weights_gib": Range.exact(float(memory.weights[0]) / GIB, Evidence.DERIVED),
        "activation_peak_gib": Range.around(
            float((memory.activations + memory.logits)[0]) / GIB,
            low_factor=interval.low / widening,
            high_factor=interval.high * widening,
            evidence=interval.evidence,
        ),
        "kv_cache_gib": cache.scaled(1 / GIB),
        "kv_tokens": cache.scaled(1 / per_token),
    }
    return [
        scored(
            id=cell(row, "id"),
            quantity=name,
            regime=f"{cell(row, 'engine') or 'unstated'}|quality {cell(row, 'quality') or '?'}",
            group=f"{cell(row, 'source')} | {cell(row, 'model')}",
            source=cell(row, "source"),
            measured=number(row, name) or 0.0,
            predicted=predicted[name],
        )
        for name in wanted
    ]


def _device_bytes(row: Row, engine: Engine) -> float:
    """Return the memory that the driver reports: the row's own, or the catalog's."""
    reported = (number(row, "reported_device_memory_gib") or 0.0) * GIB
    if not cell(row, "accelerator"):
        if reported:
            return reported
        raise InputError(
            "the row tells neither the accelerator nor its memory",
            value=None,
            allowed="reported_device_memory_gib or accelerator",
            remedy="Fill one of the two.",
            field="reported_device_memory_gib",
        )
    seen = engine.accelerator(row).memory_reported_bytes - engine.calibration.serving.driver_bytes
    # Some logs round up to what the card is sold as.
    return reported if 0 < reported < seen + engine.calibration.serving.driver_bytes else seen


def _reduced_bytes(
    architecture: ModelArchitecture, layout: LayoutArrays, facts: ServingFacts
) -> Floats:
    """Return the inputs of one step's all-reduces, two in each layer. [bytes]"""
    tokens = facts.batched_tokens
    reduced = 2.0 * architecture.num_hidden_layers * tokens * architecture.hidden_size
    return np.where(layout.tensor > 1, SIXTEEN_BIT_BYTES * reduced, 0.0)
