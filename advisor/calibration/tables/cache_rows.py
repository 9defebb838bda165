"""Predictions for start-up logs of serving engines, by how each release sizes its cache."""

import datetime
import re
from enum import StrEnum
from functools import cache
from math import inf
from typing import Final

import numpy as np
from pydantic import Field

from advisor.architecture.table.model import ModelArchitecture
from advisor.calibration.fitting.robust import range_of_groups
from advisor.calibration.scoring.report import ValidationRow, next_interval, scored
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.guesses import table_words, weight_format
from advisor.calibration.tables.reading import Release, Row, shipped_rows
from advisor.errors import AdvisorError, refusal
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.hardware.card_formats import UNPADDED, padded_widths
from advisor.estimate.serving.cache import cached_bytes_per_sequence
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.engine_limits import communication_bytes, sampled_sequences
from advisor.estimate.serving.memory import loose_part, serving_memory
from advisor.estimate.serving.stored_bytes import SIXTEEN_BIT_BYTES
from advisor.estimate.terms import shape_widening
from advisor.foundation.noun import Noun, read_mapping
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import GIB
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.efficiency import Interval
from advisor.nouns.software.engines import ServingFacts

COLUMN: Final = "engine_release"
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MIDDLE: Final = "jun"
"""Month that is assumed for a year without month."""


class Share(StrEnum):
    """The memory that the engine's fraction refers to, and what it includes."""

    CARD = "card"
    """Share of the card: weights, activations, libraries and cache (vLLM)."""
    AT_START = "at_start"
    """Share of the free memory at the start: weights and cache (SGLang)."""
    AT_END = "at_end"
    """Share of the free memory after weights and a first run: cache (TensorRT-LLM)."""


class Change(Noun):
    """Differences of the releases from ``since`` up to, not including, ``before``."""

    since: str = "0.0"
    before: str = ""
    accelerators: str = ""
    """Starts of the catalog keys of the cards that it applies to."""
    takes: dict[str, float | str] = Field(default_factory=dict)
    """Values of the engine's facts, or the names of facts with the same value."""
    whole_prompts: int = 0
    """Longest prompt that fits in one step. [tokens]"""
    counts_context: bool = False
    keeps_reductions: bool = False
    why: str
    source: str
    date: datetime.date

    def concerns(self, version: Release, accelerator: str) -> bool:
        """Whether the change applies to this version on this card."""
        known = _numbers(self.since) <= version and (
            not self.before or version < _numbers(self.before)
        )
        return known and accelerator.startswith(self.accelerators)


class ReserveStep(Noun):
    """Memory that an engine reserves on cards below a size."""

    below_gb: float = inf
    tokens: int
    sequences: int


class Reserve(Noun):
    """Memory that an engine reserves besides weights and cache."""

    mb_per_token: float
    mb_per_sequence: float
    steps: tuple[ReserveStep, ...]

    def fraction(self, memory_bytes: float) -> float:
        """Return the share of a card for weights and cache."""
        gigabytes = memory_bytes / 2**30
        step = next(step for step in self.steps if gigabytes < step.below_gb)
        reserved = step.tokens * self.mb_per_token + step.sequences * self.mb_per_sequence
        return max(1 - reserved / (gigabytes * 1024), 0.0)


class EngineHistory(Noun):
    """One engine's entry of the file."""

    share: Share = Share.CARD
    newest: str = "0.0"
    released: dict[str, str] = Field(default_factory=dict)
    named: dict[str, str] = Field(default_factory=dict)
    named_undated: dict[str, str] = Field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    reserve: Reserve | None = None

    def release_of(self, row: Row) -> Release:
        """Return a row's release: the stated one, or the meaning of ``engine_version``."""
        return row.release(COLUMN, _numbers(self._meant(row.cell("engine_version"))))

    def _meant(self, text: str) -> str:
        version = re.search(r"\b(\d+\.\d+)", text)
        if version is not None:
            return version[1]
        for word, meant in self.named.items():
            if word in text:
                return meant
        date = re.search(r"(?:([A-Za-z]{3})-)?(20\d\d)", text)
        if date is not None and self.released:
            name = (date[1] or MIDDLE).lower()
            month = f"{date[2]}-{MONTHS.index(name if name in MONTHS else MIDDLE) + 1:02d}"
            past = [one for one, start in self.released.items() if start <= month]
            return (past or list(self.released)[:1])[-1]
        return next(
            (meant for word, meant in self.named_undated.items() if word in text), self.newest
        )


def _numbers(text: str) -> Release:
    major, minor = text.split(".")
    return int(major), int(minor)


@cache
def histories() -> dict[str, EngineHistory]:
    """Return what changed from release to release, by engine."""
    return read_mapping("engine_releases.yaml", dict[str, EngineHistory])


@record
class EngineRelease:
    """How the engine of one log divides its card."""

    facts: ServingFacts
    share: Share = Share.CARD
    keeps_reductions: bool = False
    """Whether the inputs of all all-reduces stay allocated in the sizing step."""
    counts_context: bool = False
    """Whether the engine's share of the card includes the driver's context."""

    def cache_room(
        self, *, fraction: float, device: float, held: float, weights: float, transient: float
    ) -> float:
        """Return the bytes left for the cache.

        ``fraction``: the engine's share. ``device`` and ``held``: memory of the card, and of it the
        driver's context and collective buffers. [bytes] ``weights`` and ``transient``: weights;
        activations, sampler, graphs and workspaces. [bytes]
        """
        if self.share is Share.AT_END:
            return fraction * (device - held - weights - transient)
        if self.share is Share.AT_START:
            return fraction * (device - held) - weights
        return fraction * device - weights - transient


def engine_release(row: Row, facts: ServingFacts, memory_bytes: float) -> EngineRelease:
    """Return how the engine of a row's log differs from today's vLLM.

    ``row``: ``engine``, ``engine_release`` or ``engine_version``, ``max_model_len`` and
    ``accelerator`` are read. ``facts``: facts of today's engine. ``memory_bytes``: what the driver
    reports. [bytes]
    """
    history = histories().get(row.cell("engine"), EngineHistory())
    version, accelerator = history.release_of(row), row.cell("accelerator")
    changes = [one for one in history.changes if one.concerns(version, accelerator)]
    update: dict[str, float] = {}
    if history.reserve:
        update["memory_fraction"] = history.reserve.fraction(memory_bytes)
    for change in changes:
        update |= {
            name: getattr(facts, value) if isinstance(value, str) else value
            for name, value in change.takes.items()
        }
        if change.whole_prompts:
            update |= _whole_prompts(
                row.integer("max_model_len", facts.small_batched_tokens),
                longest=change.whole_prompts,
                least=facts.small_batched_tokens,
            )
    return EngineRelease(
        facts.changed(**update),
        share=history.share,
        keeps_reductions=any(one.keeps_reductions for one in changes),
        counts_context=any(one.counts_context for one in changes),
    )


def _whole_prompts(context: int, *, longest: int, least: int) -> dict[str, float]:
    if context > longest:
        step, sampled = least, {"sampling_bytes_per_logit": 0.0}
    else:
        step, sampled = max(context, least), {}
    return {"batched_tokens": step, "small_batched_tokens": step} | sampled


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
    quantity = row.cell("primary_quantity") or "kv_cache_gib"
    if quantity not in QUANTITIES or not row.number(quantity):
        raise Row({"primary_quantity": quantity}).unpredicted(QUANTITIES)
    wanted = [quantity]
    if quantity == "kv_cache_gib" and row.number("kv_tokens"):
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
            *(row, name, row.number(name) or 0.0, predicted[name]),
            regime=f"{row.cell('engine') or 'unstated'}|quality {row.cell('quality') or '?'}",
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
            tensor=row.integer("tensor_parallel", 1), pipeline=row.integer("pipeline_parallel", 1)
        )
    )
    stored, known = weight_format(row), row.cell("accelerator")
    served = ServedModel.of(
        architecture,
        weight_format=stored,
        cache_bytes=row.choice("kv_precision", table_words().cache_bytes),
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
    length = float(row.integer("max_model_len", 1))
    return CacheLog(
        group=f"{row.cell('source')} | {row.cell('model')}",
        release=release,
        fraction=row.number("gpu_memory_utilization") or release.facts.memory_fraction,
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
        quantity = row.cell("primary_quantity")
        measured = row.number(quantity)
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
    reported = (row.number("reported_device_memory_gib") or 0.0) * GIB
    if not row.cell("accelerator"):
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
