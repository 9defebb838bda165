"""What releases of the serving engines do when they size their cache.

The shipped facts are today's vLLM's. A row tells which release wrote its log; what that release did
otherwise stands, each with its source, in ``data/engine_releases.yaml``.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import inf
from typing import Final

from pydantic import Field, TypeAdapter

from advisor.calibration.tables.reading import Release, Row, cell, integer, release
from advisor.foundation.data_files import read_yaml
from advisor.foundation.data_records import checked
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path
from advisor.nouns.engines import ServingFacts

FILE: Final = "engine_releases.yaml"
COLUMN: Final = "engine_release"
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MIDDLE: Final = "jun"
"""Month that a year alone is taken for."""


class Share(StrEnum):
    """Of what the engine's fraction is a share, and what comes out of it."""

    CARD = "card"
    """Of the card: weights, activations, libraries and cache (vLLM)."""
    AT_START = "at_start"
    """Of what is free at the start: weights and cache (SGLang)."""
    AT_END = "at_end"
    """Of what weights and a first run leave free: cache (TensorRT-LLM)."""


class Change(Noun):
    """What releases ``since`` one and ``before`` another did otherwise."""

    since: str = "0.0"
    before: str = ""
    accelerators: str = ""
    """How the catalog keys of the cards begin that it is for alone."""
    takes: dict[str, float | str] = Field(default_factory=dict)
    """Fact of the engine -> its value, or the fact whose value it has."""
    whole_prompts: int = 0
    """Longest prompt that is one step. [tokens]"""
    counts_context: bool = False
    keeps_reductions: bool = False
    why: str
    source: str
    date: datetime.date

    def concerns(self, version: Release, accelerator: str) -> bool:
        """Whether it is about this version on this card."""
        known = _numbers(self.since) <= version and (
            not self.before or version < _numbers(self.before)
        )
        return known and accelerator.startswith(self.accelerators)


class ReserveStep(Noun):
    """What an engine reserves on cards below a size."""

    below_gb: float = inf
    tokens: int
    sequences: int


class Reserve(Noun):
    """What an engine reserves beside weights and cache."""

    mb_per_token: float
    mb_per_sequence: float
    steps: tuple[ReserveStep, ...]

    def fraction(self, memory_bytes: float) -> float:
        """Return the share of a card that is left for weights and cache."""
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
        """Return a row's release: stated, or what the words of ``engine_version`` mean."""
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
    adapter = TypeAdapter(dict[str, EngineHistory])
    return checked(adapter.validate_python, read_yaml(data_path(FILE)), file=FILE)


@dataclass(frozen=True, slots=True)
class EngineRelease:
    """How the engine of one log divides its card."""

    facts: ServingFacts
    share: Share = Share.CARD
    keeps_reductions: bool = False
    """The input of every all-reduce of the sizing step stays alive to its end."""
    counts_context: bool = False
    """The driver's context comes out of the engine's share of the card."""

    def cache_room(
        self, *, fraction: float, device: float, held: float, weights: float, transient: float
    ) -> float:
        """Return the bytes left for the cache.

        Parameters
        ----------
        fraction : float
            The engine's share.
        device, held : float
            Memory of the card, and of it the driver's context and collective buffers. [bytes]
        weights, transient : float
            Weights; activations, sampler, graphs and workspaces. [bytes]
        """
        if self.share is Share.AT_END:
            return fraction * (device - held - weights - transient)
        if self.share is Share.AT_START:
            return fraction * (device - held) - weights
        return fraction * device - weights - transient


def engine_release(row: Row, facts: ServingFacts, memory_bytes: float) -> EngineRelease:
    """Return what the engine that wrote a row's log did, where it differs from today's vLLM.

    Parameters
    ----------
    row : mapping
        ``engine``, ``engine_release`` or ``engine_version``, ``max_model_len`` and ``accelerator``
        are read.
    facts : ServingFacts
        Of today's engine.
    memory_bytes : float
        What the driver reports. [bytes]
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
        facts.model_copy(update=update),
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
