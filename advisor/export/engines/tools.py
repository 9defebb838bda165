"""Serving programs, from ``data/serving_tools.yaml``: what each runs on, and what it can state."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, ValidationError

from advisor.catalog.records import IsoDay
from advisor.errors import CatalogError
from advisor.export.versions import image_named, version_of
from advisor.foundation.data_files import read_yaml
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.precision import WEIGHT_FORMATS

FILE: Final = "serving_tools.yaml"
NVIDIA: Final = "NVIDIA"


def platform_of(card: Accelerator) -> str:
    """Return the name under which programs support a card: its vendor, or a narrower one."""
    if card.segment is Segment.CPU:
        return "CPU"
    if card.architecture.lower().startswith("gaudi"):
        return "Gaudi"
    return "Jetson" if card.segment is Segment.EDGE else card.vendor


class Work(StrEnum):
    """What a model does when it serves."""

    TEXT = "text"
    """Writes token after token."""
    SPEECH = "speech"
    """Reads sound and writes text."""
    EMBEDDINGS = "embeddings"
    """Reads whole sequences."""
    PAIRS = "pairs"
    """Reads a text and writes another: T5, BART, Marian."""
    IMAGES = "images"
    """Makes images by denoising."""
    NUMBERS = "numbers"
    """Everything else: classifies images, reads vectors."""


class Build(Noun):
    """What brings a program to one vendor's accelerators."""

    install: tuple[str, ...] = ()
    """Packages of ``launch_versions.yaml``."""
    image: str | None = None
    """Image of ``launch_versions.yaml``."""
    by_capability: dict[str, str] = Field(default_factory=dict)
    """Image by lowest compute capability."""
    only: tuple[str, ...] = ()
    """Architectures or catalog keys; empty: all of the platform's."""
    note: str = ""

    def image_for(self, card: Accelerator) -> str | None:
        """Return the image for a card, with its version; None if there is none."""
        name = self.image
        if self.by_capability:
            reached = [
                each
                for each in self.by_capability
                if _number(each) <= _number(card.compute_capability or "0")
            ]
            name = self.by_capability[max(reached, key=_number)] if reached else None
        return image_named(name) if name else None


class Weights(Noun):
    """How a program is told a weight format."""

    options: tuple[str, ...] = ()
    stored: bool = False
    """Whether the checkpoint must hold the format already."""
    extra: tuple[str, ...] = ()
    """Packages that it needs beside the program."""
    platforms: tuple[str, ...] = ()
    """Empty: all of the program's."""
    gguf: str = ""
    """Name of the format in GGUF files."""


class Tool(Noun):
    """One serving program."""

    title: str
    port: int
    probe: str
    """Path that answers when the server is ready."""
    queue: str
    """Gauge of waiting requests; empty if there is none."""
    lowest_capability: str
    """Of NVIDIA cards."""
    does: tuple[Work, ...]
    platforms: dict[str, Build]
    weights: dict[str, Weights]
    instead: dict[str, str]
    """Weight format -> the format that the program takes in its place."""
    cache: dict[str, str]
    """Format of keys and values -> the option's value; empty: the program's own 16 bits."""
    copies: bool
    machines: bool
    tensor: bool
    pipeline: bool
    experts: bool
    source: Annotated[str, Field(min_length=1)]
    date: IsoDay
    name: str = ""

    def states(self, weight_format: str) -> Weights | None:
        """Return how it is told a weight format; None if it cannot be."""
        found = self.weights.get(weight_format)
        if found is None and self.reads_gguf and WEIGHT_FORMATS[weight_format].mixture:
            return Weights(gguf=weight_format.upper())
        return found

    @property
    def reads_gguf(self) -> bool:
        """Whether it loads GGUF files."""
        return any(item.gguf for item in self.weights.values())

    def runs_on(self, card: Accelerator) -> bool:
        """Whether its release runs on a card."""
        platform = platform_of(card)
        build = self.platforms.get(platform)
        if build is None:
            return False
        if platform != NVIDIA:
            return not build.only or card.architecture in build.only or card.key in build.only
        return _number(card.compute_capability or "0") >= _number(self.lowest_capability)

    def build_for(self, card: Accelerator) -> Build:
        """Return what brings it to a card on which it runs."""
        return self.platforms[platform_of(card)]

    def release(self, card: Accelerator) -> str:
        """Return the release that a file for a card installs or runs, with its name."""
        build = self.build_for(card)
        if build.install:
            return f"{self.title} {version_of(build.install[0])}"
        image = build.image_for(card)
        return f"{self.title} {image.rpartition(':')[2]}" if image else f"{self.title}, newest"


def _number(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


def read_tools(path: Path) -> dict[str, Tool]:
    """Read ``serving_tools.yaml``.

    Raises
    ------
    CatalogError
        If the file cannot be read or has a wrong field. The message names the field.
    """
    content = read_yaml(path)
    entries = content if isinstance(content, dict) else {}
    found = {}
    for name, fields in entries.items():
        try:
            found[str(name)] = Tool.model_validate({**fields, "name": str(name)})
        except (TypeError, ValidationError) as error:
            raise CatalogError(
                file=path.name,
                entry=str(name),
                field="",
                value=str(error).partition("\n")[2][:80],
                remedy="Correct the entry; the head of the file explains the fields.",
            ) from None
    return found


@cache
def tools() -> dict[str, Tool]:
    """Return every serving program by name."""
    return read_tools(data_path(FILE))
