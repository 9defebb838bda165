"""How files start the serving tools: ``data/serving_programs.yaml``, which explains its fields.

What a tool runs on, and which formats it serves there, is in the table of software
(``advisor.nouns.software.tools``).
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final

from pydantic import Field

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Part
from advisor.catalog.records import IsoDay
from advisor.estimate.tools.serving_formats import loaded
from advisor.export.filling import Lines
from advisor.export.versions import image_named, version_of
from advisor.foundation.data_files import read_yaml
from advisor.foundation.noun import Noun, checked, refuse
from advisor.foundation.quantities import Evidence
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.stacks import Degree
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.software.tool_offers import numbers
from advisor.nouns.software.tools import Tool, known_tools

FILE: Final = "serving_programs.yaml"


class Build(Noun):
    """What brings a program to the cards of one backend."""

    install: tuple[str, ...] = ()
    image: str | None = None
    images: dict[str, str] = Field(default_factory=dict)
    boards: bool = False
    bare: bool = False
    device: str = ""
    without: tuple[Duty, ...] = ()
    ranks: dict[str, int] = Field(default_factory=dict)
    segments: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    alone: str = ""
    compile_s: int = 0
    board: str = ""
    note: str = ""

    def image_for(self, card: Accelerator) -> str | None:
        """Return the image for a card, with its version; None if there is none.

        Boards with a system of their own (Jetson) run few of these images.
        """
        name = self.image_key(card)
        return image_named(name) if name else None

    def image_key(self, card: Accelerator) -> str | None:
        """Return the same image as ``data/launch_versions.yaml`` names it."""
        if card.segment is Segment.EDGE and not self.boards:
            return None
        own = card.compute_capability or card.architecture
        name = self.images.get(own, self.image)
        if name is None and own[:1].isdigit():
            reached = [each for each in self.images if numbers(each) <= numbers(own)]
            name = self.images[max(reached, key=numbers)] if reached else None
        return name


class Weights(Noun):
    """How a program is told a weight format."""

    options: tuple[str, ...] = ()
    whole: bool = False
    extra: tuple[str, ...] = ()
    gguf: str = ""


class Program(Noun):
    """A serving tool, as a file starts it."""

    name: str
    port: int
    probe: str
    queue: str = ""
    running: str = ""
    backends: dict[str, Build]
    weights: dict[str, Weights]
    instead: dict[str, str] = Field(default_factory=dict)
    cache: dict[str, str]
    extras: dict[Duty, tuple[str, ...]] = Field(default_factory=dict)
    most: int = 1024
    steps: bool = False
    adapters: bool = False
    masked: tuple[str, ...] | None = None
    families: dict[Duty, tuple[str, ...]] = Field(default_factory=dict)
    images: bool = False
    whole_layers: bool = False
    copies: bool = False
    joins: bool = False
    alone: str = ""
    command: tuple[str, ...]
    options: Lines = ()
    before: Lines = ()
    once: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    scripts: dict[Duty, str] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str | dict[str, object]] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    source: Annotated[str, Field(min_length=1)]
    date: IsoDay

    @property
    def tool(self) -> Tool:
        """The tool's row in the table of software."""
        return known_tools()[self.name]

    @property
    def title(self) -> str:
        """The tool's name for display."""
        return self.tool.title

    @property
    def reads_gguf(self) -> bool:
        """Whether it loads GGUF files."""
        return any(item.gguf for item in self.weights.values())

    def divides(self, card: Accelerator, degree: Degree) -> bool:
        """Whether it divides a model this way on a card.

        Programs that read GGUF files give each card whole layers.
        """
        return self.tool.divides(card, degree) or (degree == "pipeline" and self.reads_gguf)

    def backend(self, card: Accelerator) -> str | None:
        """Return the backend under which a file starts it on a card; None if none does."""
        found = self.tool.support(card)
        return found[0] if found and found[0] in self.backends else None

    def build_for(self, card: Accelerator) -> Build | None:
        """Return what brings it to a card; None if no file does."""
        return self.backends.get(self.backend(card) or "")

    def on_board(self, card: Accelerator) -> str:
        """Return the command that brings it to a board; empty for other cards, or without one."""
        build = self.build_for(card) if card.segment is Segment.EDGE else None
        arch = (card.compute_capability or "").replace(".", "")
        return build.board.format(release=self.tool.release, arch=arch) if build else ""

    def does(self, duty: Duty, card: Accelerator | None) -> bool:
        """Whether a file starts it for a duty, on a card if one is given."""
        if not self.tool.still_does(duty):
            return False
        build = self.build_for(card) if card else None
        return card is None or (build is not None and duty not in build.without)

    def loads(self, model: ModelArchitecture) -> bool:
        """Whether it loads an encoder as its published weights are."""
        return self.masked is None or model.family in self.masked or not predicts_tokens(model)

    def knows(self, duty: Duty, model: ModelArchitecture, card: Accelerator | None = None) -> bool:
        """Whether its file serves a family, on a card if one is given."""
        if self.families and model.family not in self.families.get(duty, ()):
            return False
        found = self.tool.support(card) if card and model.evidence is not Evidence.ASSUMED else None
        return card is None or found is None or found[1].knows(card, model.family)

    def states(self, weight_format: str) -> Weights | None:
        """Return how it is told a weight format; None if it cannot be."""
        if self.reads_gguf and WEIGHT_FORMATS[weight_format].mixture:
            return Weights(gguf=weight_format.upper())
        return self.weights.get(weight_format)

    def serves(self, card: Accelerator, weight_format: str) -> bool:
        """Whether it can be told a weight format, and serves it on a card."""
        stated, found = self.states(weight_format), self.tool.support(card)
        if stated is None or found is None:
            return False
        # The table lists what the tool was published for: a GGUF file holds any of its formats.
        return bool(stated.gguf) or found[1].serves(card, weight_format)

    def stored_on(self, card: Accelerator) -> frozenset[str]:
        """Return the weight formats that a checkpoint must hold already on a card."""
        found, offer = self.tool.support(card), self.tool.serving
        return frozenset((*(found[1].stored if found else ()), *(offer.stored if offer else ())))

    def published(self, card: Accelerator, model: ModelArchitecture, name: str) -> str | None:
        """Return the hub id of published weights in a format that it loads on a card."""
        found = self.tool.support(card)
        return loaded((self.tool, found[1]), name, model) if found else None

    def release(self, card: Accelerator) -> str:
        """Return the release that a file for a card installs or runs, with its name."""
        build = self.build_for(card)
        assert build is not None
        image = build.image_for(card)
        if build.install:
            return f"{self.title} {version_of(build.install[0])}"
        return f"{self.title} {image.rpartition(':')[2]}" if image else f"{self.title}, newest"


def predicts_tokens(model: ModelArchitecture) -> bool:
    """Whether the published weights predict masked tokens and so name no pooling.

    Poolers are as wide as the network, classifiers narrower, vocabularies wider.
    """
    head = (op for op in model.operators if op.part is Part.HEAD)
    return any(op.out_features > model.hidden_size for op in head)


def scores_text(model: ModelArchitecture) -> bool:
    """Whether a network of text scores it instead of embedding it."""
    return not predicts_tokens(model) and model.operators[-1].out_features < model.hidden_size


class _Table(Noun):
    programs: dict[str, Program]


@cache
def programs() -> Mapping[str, Program]:
    """Return every serving program by name."""
    content = read_yaml(data_path(FILE))
    if not isinstance(content, dict):
        refuse(FILE, type(content).__name__, "It must be a mapping of programs.")
    rows = {name: {"name": name, **row} for name, row in content.items()}
    return checked(_Table.model_validate, {"programs": rows}, file=FILE).programs
