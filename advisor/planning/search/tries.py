"""One way to serve on one system: what a search tries, and what it found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import Final, NamedTuple

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.hardware.card_formats import serves_in
from advisor.estimate.tools.serving_formats import Way
from advisor.estimate.tools.software import ToolRules
from advisor.nouns.precision import WEIGHT_FORMATS, WeightFormat
from advisor.planning.search.replicas import LAYER_DEGREES
from advisor.planning.search.serving import ServingSearch
from advisor.planning.search.systems import System

SMALLEST_FILE: Final = 0.8
"""Weights of a whole model over its parameters times the format's size, at least."""


class Try(NamedTuple):
    """One way to serve on one of the searched systems."""

    place: int
    way: Way

    @property
    def form(self) -> WeightFormat:
        """The weight format."""
        return WEIGHT_FORMATS[self.way.weight_format]

    @property
    def key(self) -> tuple[object, ...]:
        """What decides its figures."""
        return self.place, self.way.tool.name, self.way.weight_format, self.way.cache


class Found(NamedTuple):
    """What the search of a try found, beside other tries."""

    item: Try
    search: ServingSearch
    at: int
    """The place of its system in the search."""


@dataclass
class Tried:
    """What is known of tries on the same systems, of searches that differ in their rules only."""

    also: tuple[ToolRules, ...] = ()
    """Rules of later searches: the first way of each is tried together with that of the first."""
    found: dict[tuple[object, ...], Found] = field(default_factory=dict)
    """By what decides the figures."""


def ladders_of(rules: ToolRules, systems: Sequence[System]) -> list[list[Way]]:
    """Return the ways to serve on each system in formats that its card has, the first first."""
    known: dict[tuple[str, bool], list[Way]] = {}
    found = []
    for system in systems:
        card, many = system.accelerator, system.counts[-1] > LAYER_DEGREES[-1]
        if (card.key, many) not in known:
            ways = rules.ways(card, many=many)
            known[card.key, many] = [way for way in ways if serves_in(card, way.weight_format)]
        found.append(known[card.key, many])
    return found


def may_hold(system: System, ways: Sequence[Way], model: ModelArchitecture) -> list[bool]:
    """Whether the weights of each way could fit all cards, with the host's memory if they may."""
    cards = system.accelerator.memory_raised_bytes * system.counts[-1]
    machines = -(-system.counts[-1] // system.node.accelerators)
    both = cards + machines * (system.node.host_memory_bytes or inf)
    parameters = model.total_parameters
    least = (_smallest_bytes(way.weight_format) * parameters for way in ways)
    return [need <= (both if way.hosted else cards) for need, way in zip(least, ways, strict=True)]


@cache
def _smallest_bytes(weight_format: str) -> float:
    """Return the least size of a parameter. [bytes]"""
    # Of a mixture's experts in MXFP4, the format's own size is that of a dense model.
    return SMALLEST_FILE * WEIGHT_FORMATS[weight_format.removesuffix("_moe")].bytes_per_parameter
