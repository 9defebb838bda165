"""How releases of the serving engines size their cache.

The shipped facts are those of today's vLLM. A row states the release that wrote its log.
``data/engine_releases.yaml`` lists the differences of that release, each with its source.
"""

import datetime
import re
from enum import StrEnum
from functools import cache
from math import inf
from typing import Final

from pydantic import Field

from advisor.calibration.tables.reading import Release, Row, cell, integer, release
from advisor.foundation.data_records import read_mapping
from advisor.foundation.noun import Noun
from advisor.foundation.record import record
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
        return release(row, COLUMN, _numbers(self._meant(cell(row, "engine_version"))))

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
    history = histories().get(cell(row, "engine"), EngineHistory())
    version, accelerator = history.release_of(row), cell(row, "accelerator")
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
                integer(row, "max_model_len", facts.small_batched_tokens),
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
