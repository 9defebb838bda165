"""Predictions for start-up logs of serving engines: weights, cache and room for the cache."""

from typing import Final

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.calibration.fitting.robust import range_of_groups
from advisor.calibration.scoring.report import ValidationRow, next_interval, scored
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.engine_releases import EngineRelease, Share, engine_release
from advisor.calibration.tables.guesses import table_words, weight_format
from advisor.calibration.tables.reading import (
    Row,
    cell,
    choice,
    integer,
    number,
    shipped_rows,
    unpredicted,
)
from advisor.errors import AdvisorError
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.hardware.card_formats import UNPADDED, padded_widths
from advisor.estimate.serving.demand import ServedModel, ServingLoad, cached_bytes_per_sequence
from advisor.estimate.serving.engine_limits import communication_bytes, sampled_sequences
from advisor.estimate.serving.memory import loose_part, serving_memory
from advisor.estimate.serving.stored_bytes import SIXTEEN_BIT_BYTES
from advisor.estimate.terms import shape_widening
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.refusals import refusal
from advisor.foundation.units import GIB
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.efficiency import Interval
from advisor.nouns.software.engines import ServingFacts

QUANTITIES: Final = ("weights_gib", "activation_peak_gib", "kv_cache_gib", "kv_tokens")
CACHES: Final = QUANTITIES[2:]
LOGS: Final = "cache_logs"


@record
class CacheLog:
    """Memory of one accelerator, as the engine of one log divides it. [bytes]"""

    group: str
    release: EngineRelease
    fraction: float
    """The engine's share of the card."""
    device: float
    weights: float
    activations: float
    held: float
    """Driver's context, and buffers of collectives that start before the engine measures."""
    transient: float
    """The engine's own memory, without weights and cache."""
    loose: float
    """The part of all that no formula fixes."""
    bytes_per_token: float
    widening: float
    """Factor on ranges for an assumed shape."""

    def room(self, factor: float) -> float:
        """Bytes for the cache if the loose part is ``factor`` times the expected one."""
        return self.release.cache_room(
            fraction=self.fraction,
            device=self.device,
            held=self.held,
            weights=self.weights + self.loose * (factor - 1.0),
            transient=self.transient,
        )

    def factor(self, cache: float) -> float:
        """Return the factor at which ``cache`` bytes are left."""
        none, expected = self.room(0.0), self.room(1.0)
        return (none - cache) / (none - expected)


def predict_cache_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the memory that an engine reports at start-up.

    The row's primary quantity: GiB per accelerator, or tokens of the whole cache; both if it is GiB
    of cache and the log also states tokens. Raises InputError if the model or its format is
    unknown, or the device's memory is not stated.
    """
    quantity = cell(row, "primary_quantity") or "kv_cache_gib"
    if quantity not in QUANTITIES or not number(row, quantity):
        raise unpredicted({"primary_quantity": quantity}, QUANTITIES)
    wanted = [quantity]
    if quantity == "kv_cache_gib" and number(row, "kv_tokens"):
        wanted.append("kv_tokens")
    log = read_log(row, engine, quantity)
    interval = engine.calibration.interval("serving_memory", measured=True)
    facts, low, high = log.release.facts, interval.low / log.widening, interval.high * log.widening
    rooms = [max(log.room(factor), 0.0) for factor in (high, 1.0, low)]
    cache = Range(low=rooms[0], expected=rooms[1], high=rooms[2], evidence=interval.evidence)
    predicted = {
        "weights_gib": Range.around(
            log.weights / GIB,
            low_factor=1.0 + facts.loaded_share * (low - 1.0),
            high_factor=1.0 + facts.loaded_share * (high - 1.0),
            evidence=Evidence.DERIVED,
        ),
        "activation_peak_gib": Range.around(
            log.activations / GIB,
            low_factor=1.0 + facts.loose_share * (low - 1.0),
            high_factor=1.0 + facts.loose_share * (high - 1.0),
            evidence=interval.evidence,
        ),
        "kv_cache_gib": cache.scaled(1 / GIB),
        "kv_tokens": cache.scaled(1 / log.bytes_per_token),
    }
    return [
        scored(
            *(row, name, number(row, name) or 0.0, predicted[name]),
            regime=f"{cell(row, 'engine') or 'unstated'}|quality {cell(row, 'quality') or '?'}",
            group=log.group,
        )
        for name in wanted
    ]


def read_log(row: Row, engine: Engine, quantity: str) -> CacheLog:
    """Return how the engine of a log divides memory among weights, itself and the cache.

    Raises InputError if the model or its format is unknown, or the device's memory is not stated.
    """
    architecture = engine.architecture(row)
    calibration = engine.calibration
    layout = LayoutArrays.of(
        ParallelLayout(
            tensor=integer(row, "tensor_parallel", 1), pipeline=integer(row, "pipeline_parallel", 1)
        )
    )
    stored, known = weight_format(row), cell(row, "accelerator")
    served = ServedModel.of(
        architecture,
        weight_format=stored,
        cache_bytes=choice(row, "kv_precision", table_words().cache_bytes),
        padded_to=padded_widths(engine.accelerator(row), stored) if known else UNPADDED,
    )
    # Weights do not depend on the card's memory, and some logs state only them.
    device = 1.0 if quantity == "weights_gib" else _device_bytes(row, engine)
    release = engine_release(row, calibration.serving, device)
    calibration = calibration.changed(serving=release.facts)
    one, card = np.array([1.0]), np.array([device])
    # Servers that nobody tells how many requests run at once are ready for the most.
    load = ServingLoad(one, one, sampled_sequences(release.facts, card))
    memory = serving_memory(served, load, layout, card, calibration)
    held = memory.context + communication_bytes(release.facts, card, layout)
    # vLLM starts its collectives within its share; other engines start them before they measure.
    outside = memory.context if release.share is Share.CARD else held
    transient = memory.engine - (0.0 if release.counts_context else outside)
    if release.keeps_reductions:
        transient = transient + _reduced_bytes(architecture, layout, release.facts)
    loose = loose_part(release.facts, "workspace", transient)
    loose = loose + loose_part(release.facts, "weights", memory.weights)
    length = float(integer(row, "max_model_len", 1))
    return CacheLog(
        group=f"{cell(row, 'source')} | {cell(row, 'model')}",
        release=release,
        fraction=number(row, "gpu_memory_utilization") or release.facts.memory_fraction,
        device=device,
        weights=float(memory.weights[0]),
        activations=float((memory.activations + memory.logits)[0]),
        held=float(held[0]),
        transient=float(transient[0]),
        loose=float(loose[0]),
        bytes_per_token=float(cached_bytes_per_sequence(served, layout, length)[0]) / length,
        widening=shape_widening(architecture),
    )


def fit_cache_interval(engine: Engine) -> Interval:
    """80 % interval on an engine's own share, from the start-up logs that ship.

    The interval of :meth:`CacheLog.factor`. No constant is fitted on these logs, so each log counts
    as unseen.

    ``engine``: of its calibration, only stated facts count.
    """
    factors, groups = [], []
    for row in shipped_rows(LOGS):
        quantity = cell(row, "primary_quantity")
        measured = number(row, quantity)
        if quantity not in CACHES or not measured:
            continue
        try:
            log = read_log(row, engine, quantity)
        except AdvisorError:
            # `validate` reports such rows with the reason.
            continue
        unit = log.bytes_per_token if quantity == "kv_tokens" else GIB
        factors.append(log.factor(measured * unit))
        groups.append(log.group)
    return range_of_groups(
        next_interval(factors, groups),
        f"range for one more log, from {len(factors)} start-up logs in {len(set(groups))} "
        "groups: what no formula fixes (loose_bytes, loose_share and loaded_share of the engine), "
        "measured over predicted",
        len(set(groups)),
    )


def _device_bytes(row: Row, engine: Engine) -> float:
    """Return the memory that the driver reports: the row's own, or the catalog's."""
    reported = (number(row, "reported_device_memory_gib") or 0.0) * GIB
    if not cell(row, "accelerator"):
        if reported:
            return reported
        raise refusal("row_without_memory")
    seen = engine.accelerator(row).memory_reported_bytes - engine.calibration.serving.driver_bytes
    # Some logs round up to the marketed memory.
    return reported if 0 < reported < seen + engine.calibration.serving.driver_bytes else seen


def _reduced_bytes(
    architecture: ModelArchitecture, layout: LayoutArrays, facts: ServingFacts
) -> Floats:
    """Return the inputs of one step's all-reduces, two in each layer. [bytes]"""
    tokens = facts.batched_tokens
    reduced = 2.0 * architecture.num_hidden_layers * tokens * architecture.hidden_size
    return np.where(layout.tensor > 1, SIXTEEN_BIT_BYTES * reduced, 0.0)
