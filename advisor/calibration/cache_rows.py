"""Predicting rows of start-up logs of serving engines: weights, cache and what is left for it."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from advisor.calibration.engine import Engine
from advisor.calibration.formats import CACHE_BYTES, weight_format
from advisor.calibration.report import ValidationRow, scored
from advisor.calibration.tables import Row, cell, choice, integer, number
from advisor.errors import InputError
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.serving_memory import serving_memory
from advisor.estimate.serving_rows import (
    ServedModel,
    ServingLoad,
    cached_bytes_per_sequence,
)
from advisor.estimate.shape import shape_widening
from advisor.layout import ParallelLayout
from advisor.quantities import Evidence, Range
from advisor.units import GIB

QUANTITIES: Final = ("weights_gib", "activation_peak_gib", "kv_cache_gib", "kv_tokens")
FIRST_CHUNKED: Final = (0, 8)
"""vLLM's V1 engine, the default from 0.8 on, cuts prompts into steps of ``batched_tokens``."""
WHOLE_PROMPT_TOKENS: Final = 32768
"""Before that, an engine sized itself for one prompt of the whole context, up to this length;
for longer contexts it cut prompts too (vllm/engine/arg_utils.py, releases 0.5 to 0.7)."""
CUT_TOKENS: Final = 2048
LEAST_WHOLE_TOKENS: Final = 2048
"""Its least step."""


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
        The row's primary quantity: GiB per accelerator, or tokens of the whole cache.

    Raises
    ------
    InputError
        If the model or its format is unknown, or the device's memory is not told.
    """
    quantity = cell(row, "primary_quantity") or "kv_cache_gib"
    measured = number(row, quantity) if quantity in QUANTITIES else None
    if measured is None or measured <= 0:
        raise InputError(
            "the row has no measured quantity that the engine predicts",
            value=quantity,
            allowed=", ".join(QUANTITIES),
            remedy="Leave the row out.",
            field="primary_quantity",
        )
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
    device = np.array([1.0 if quantity == "weights_gib" else _device_bytes(row, engine)])
    whole = _whole_prompt_tokens(row)
    if whole is not None:
        limits = {"batched_tokens": whole, "small_batched_tokens": whole}
        calibration = calibration.model_copy(
            update={"serving": calibration.serving.model_copy(update=limits)}
        )
    one = np.array([1.0])
    memory = serving_memory(served, ServingLoad(one, one, one), layout, device, calibration)
    interval = calibration.interval("serving_memory", measured=True)
    widening = shape_widening(architecture)
    # Graphs and the driver's context lie outside the engine's share of the card.
    outside = calibration.serving.graph_bytes + memory.context
    fraction = number(row, "gpu_memory_utilization") or calibration.serving.memory_fraction
    # SGLang's share of the card is for weights and cache alone.
    inside = 0.0 if cell(row, "engine") == "sglang" else 1.0
    variable = inside * (memory.engine - outside)
    weights = float(memory.weights[0])
    rooms = [
        float((fraction * device - memory.weights - variable * factor)[0])
        for factor in (interval.high * widening, 1.0, interval.low / widening)
    ]
    if quantity == "weights_gib":
        predicted = Range.exact(weights, Evidence.DERIVED).scaled(1 / GIB)
    elif quantity == "activation_peak_gib":
        predicted = Range.around(
            float((memory.activations + memory.logits)[0]) / GIB,
            low_factor=interval.low / widening,
            high_factor=interval.high * widening,
            evidence=interval.evidence,
        )
    else:
        each = GIB
        if quantity == "kv_tokens":
            length = float(integer(row, "max_model_len", 1))
            each = float(cached_bytes_per_sequence(served, layout, length)[0]) / length
        low, expected, high = (max(room, 0.0) / each for room in rooms)
        predicted = Range(low=low, expected=expected, high=high, evidence=interval.evidence)
    return [
        scored(
            id=cell(row, "id"),
            quantity=quantity,
            regime=f"{cell(row, 'engine') or 'unstated'}|quality {cell(row, 'quality') or '?'}",
            group=f"{cell(row, 'source')} | {cell(row, 'model')}",
            source=cell(row, "source"),
            measured=measured,
            predicted=predicted,
        )
    ]


def _device_bytes(row: Row, engine: Engine) -> float:
    """Return the memory that the driver reports: the row's own, or the catalog's."""
    reported = number(row, "reported_device_memory_gib")
    if reported:
        return reported * GIB
    if not cell(row, "accelerator"):
        raise InputError(
            "the row tells neither the accelerator nor its memory",
            value=None,
            allowed="reported_device_memory_gib or accelerator",
            remedy="Fill one of the two.",
            field="reported_device_memory_gib",
        )
    return engine.accelerator(row).memory_reported_bytes


def _whole_prompt_tokens(row: Row) -> int | None:
    """Tokens for which an older engine sized its step; None for today's."""
    text = cell(row, "engine_version")
    release = re.search(r"\b(\d+)\.(\d+)", text)
    old = "V0" in text or "2023" in text or "2024" in text
    if release is not None:
        old = old or (int(release[1]), int(release[2])) < FIRST_CHUNKED
    if cell(row, "engine") != "vllm" or not old:
        return None
    context = integer(row, "max_model_len", LEAST_WHOLE_TOKENS)
    if context > WHOLE_PROMPT_TOKENS:
        return CUT_TOKENS
    return max(context, LEAST_WHOLE_TOKENS)
