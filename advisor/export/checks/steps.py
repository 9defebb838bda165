"""Set-up steps, from ``data/setup_steps.yaml``, and those that a plan needs on a platform."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.catalog.records import IsoDay
from advisor.errors import refusal
from advisor.foundation.names import check_known
from advisor.foundation.noun import Noun, read_record
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.inputs import Labelled

FILE: Final = "setup_steps.yaml"


class Platform(Labelled):
    """Where a plan is set up."""

    LINUX = "linux", "My Linux machine"
    WINDOWS = "windows", "Windows (WSL 2)"
    CLOUD = "cloud", "Rented machine"
    SLURM = "slurm", "Slurm"
    KUBERNETES = "kubernetes", "Kubernetes"
    JETSON = "jetson", "Jetson"
    MACOS = "macos", "macOS"
    TPU = "tpu", "TPU VM"


OWN_CARDS: Final = (Platform.JETSON, Platform.MACOS, Platform.TPU)
"""Platforms with cards that no other machine takes."""


class Stage(Labelled):
    """The order of the work."""

    SYSTEM = "system", "Operating system"
    DRIVER = "driver", "Driver"
    LIBRARIES = "libraries", "Libraries"
    ENVIRONMENT = "environment", "Environment"
    INSTALL = "install", "Software"
    RUN = "run", "Run"
    MONITOR = "monitor", "Watch"


Way = Literal["pip", "image", "program"]


class Step(Noun):
    """One step, as the head of the file explains it."""

    stage: Stage
    name: str
    platforms: tuple[Platform, ...] = ()
    backends: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    work: tuple[Literal["train", "serve"], ...] = ()
    way: tuple[Way, ...] = ()
    several: bool = False
    cards: int = 1
    data_center: bool = False
    each_package: bool = False
    check_tool: bool = False
    do: str
    command: str = ""
    check: tuple[str, ...] = ()
    reads: str = ""
    least: str = ""
    equals: str = ""
    expect: str = ""
    source: Annotated[str, Field(min_length=1)]
    date: IsoDay


class _Table(Noun):
    steps: tuple[Step, ...]


@cache
def all_steps() -> tuple[Step, ...]:
    """Return every step, in the order of the file."""
    return read_record(data_path(FILE), _Table, under="steps").steps


class Situation(Noun):
    """What decides which steps apply."""

    platform: Platform
    provider: str | None
    """Of rented machines."""
    backend: str
    architecture: str
    work: Literal["train", "serve"]
    way: Way
    machines: int
    """That work on one copy of the model."""
    cards: int
    """Of one machine."""
    data_center: bool
    packages: tuple[tuple[str, str], ...] = ()
    """Packages with their versions."""
    tool_check: tuple[str, ...] = ()


def platforms() -> dict[str, str]:
    """Return the names of the platforms, with their titles."""
    return {item.value: item.label for item in Platform}


def platform_named(name: str) -> Platform:
    """Return the platform with this name; raise ``InputError`` if there is none."""
    check_known(name, Platform, what="platform", field="--platform")
    return Platform(name)


def usual_platform(card: Accelerator, *, rented: bool) -> Platform:
    """Return the platform on which a card is usually set up."""
    if card.segment is Segment.EDGE:
        return Platform.JETSON
    if card.segment is Segment.TPU:
        return Platform.TPU
    if card.vendor == "Apple":
        return Platform.MACOS
    return Platform.CLOUD if rented else Platform.LINUX


def check_platform(platform: Platform, card: Accelerator) -> None:
    """Refuse a platform that has no such card."""
    own = usual_platform(card, rented=False)
    if platform is own or (platform not in OWN_CARDS and own is not Platform.MACOS):
        return
    others = [item for item in Platform if item not in OWN_CARDS]
    raise refusal(
        "card_not_of_platform",
        value=platform.value,
        allowed=", ".join(dict.fromkeys((own, *(() if own is Platform.MACOS else others)))),
        platform=platform,
        card=card,
    )


def steps_for(situation: Situation, facts: Mapping[str, str]) -> Iterator[Step]:
    """Yield the steps that apply, in the order of the work, with their facts filled in.

    A step that names an unknown fact is left out.
    """
    for stage in Stage:
        for step in all_steps():
            if step.stage is not stage or not _applies(step, situation):
                continue
            packages = situation.packages if step.each_package else (("", ""),)
            for package, version in packages:
                filled = _filled(step, {**facts, "package": package, "version": version})
                if filled is None:
                    continue
                if step.check_tool:
                    filled = filled.changed(check=situation.tool_check)
                yield filled


def _applies(step: Step, situation: Situation) -> bool:
    return (
        (not step.platforms or situation.platform in step.platforms)
        and (not step.providers or situation.provider in step.providers)
        and (not step.backends or situation.backend in step.backends)
        and (not step.architectures or situation.architecture in step.architectures)
        and (not step.work or situation.work in step.work)
        and (not step.way or situation.way in step.way)
        and (not step.several or situation.machines > 1)
        and situation.cards >= step.cards
        and (situation.data_center or not step.data_center)
    )


def _filled(step: Step, facts: Mapping[str, str]) -> Step | None:
    texts = ("name", "do", "command", "least", "equals", "expect")
    try:
        update: dict[str, object] = {name: getattr(step, name).format_map(facts) for name in texts}
        update["check"] = tuple(word.format_map(facts) for word in step.check)
    except KeyError:
        return None
    return step.changed(**update)
