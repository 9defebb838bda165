"""Software that a plan can name: a row of ``data/tools.yaml`` for each tool, with what it offers.

A training tool is estimated by a stack (``stacks.py``), a serving tool by the constants of an
engine (``engines.py``). ``data/tool_choice.yaml`` maps cards to backends and orders the tools for
each duty.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from math import inf
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.errors import refusal
from advisor.foundation.data_files import kept, read_yaml
from advisor.foundation.noun import Noun, checked, read_record, refuse
from advisor.foundation.record import by_identity
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import PrecisionRecipe
from advisor.nouns.software.stacks import Degree
from advisor.nouns.software.tool_choice import Duty, ToolChoice, Words
from advisor.nouns.software.tool_offers import Kind, ServingOffer, Support, TrainingOffer
from advisor.nouns.techniques import Speculation
from advisor.nouns.training_choices import FineTuningMethod, Optimizer, Preference

TOOLS: Final = "tools.yaml"
CHOICE: Final = "tool_choice.yaml"


class Status(StrEnum):
    """Whether to start with a tool today."""

    CURRENT = "current"
    MAINTAINED = "maintained"
    """It gets corrections; its authors no longer develop it."""
    RETIRED = "retired"


class Tool(Noun):
    """One tool: a row of ``data/tools.yaml``, whose head explains each field."""

    name: str
    title: str
    does: tuple[Duty, ...]
    framework: str
    status: Status = Status.CURRENT
    since: Annotated[str, Field(pattern=r"^\d{4}(-\d\d){0,2}$")] | None = None
    instead: str = ""
    release: str
    released: Annotated[str, Field(pattern=r"^\d{4}(-\d\d){0,2}$")] | None = None
    stack: str | None = None
    stack_with_master: str | None = None
    fused_stack: str | None = None
    fused: tuple[str, ...] = ()
    stacks_too: tuple[str, ...] = ()
    engine: (
        Literal[
            "vllm",
            "sglang",
            "tensorrt_llm",
            "tensorrt",
            "llama_cpp",
            "whisper_cpp",
            "exllamav2",
            "exllamav3",
            "faster_whisper",
            "mlx",
        ]
        | None
    ) = None
    python: str = ""
    packages: tuple[str, ...] = ()
    image: str = ""
    verify: tuple[str, ...] = ()
    start: str = ""
    on_boards: str = ""
    backends: Annotated[dict[str, Support], Field(min_length=1)]
    families: tuple[str, ...] = ()
    without_families: tuple[str, ...] = ()
    training: TrainingOffer | None = None
    serving: ServingOffer | None = None
    note: str = ""
    sources: dict[str, Words]

    @by_identity(2048)
    def support(self, card: Accelerator) -> tuple[str, Support] | None:
        """Return the backend under which the tool runs on a card, or None."""
        return _support(self.name, Kind.of(card))

    def on(self, card: Accelerator) -> "Tool":
        """Return the tool as it runs on a card: without fused kernels that do not."""
        kernels = known_tools().get(self.fused_stack or "")
        if not self.fused or kernels is None or kernels.support(card):
            return self
        return self.changed(fused=(), fused_stack=None)

    def release_on(self, card: Accelerator) -> str:
        """Return the release that runs on a card; empty where its plugin's is not known."""
        _, support = self.support(card) or ("", Support())
        return support.newest_on(card) or ("" if support.plugin else self.release)

    def named_on(self, card: Accelerator) -> str:
        """Return what runs on a card: ``TRL 1.5.0``, ``vLLM 0.26.0 with vllm-gaudi``."""
        plugin = f"with {self.plugin_on(card)}" if self.plugin_on(card) else ""
        return " ".join(filter(None, (self.title, self.release_on(card), plugin)))

    def plugin_on(self, card: Accelerator) -> str:
        """Return the package without which the tool does not run on a card; empty if none."""
        _, support = self.support(card) or ("", Support())
        return support.plugin

    def supports(self, kind: Kind) -> tuple[str, Support] | None:
        """Return :meth:`support` of a kind of card, without a cache."""
        found = ((name, self.backends.get(name)) for name in _backends(kind))
        return next(
            ((name, item) for name, item in found if item is not None and item.runs_on(kind)), None
        )

    def trains(
        self,
        method: FineTuningMethod | None,
        preference: Preference | None,
        *,
        whole: bool,
        mixture: str | None = None,
        recipe: PrecisionRecipe | None = None,
        optimizer: Optimizer | None = None,
    ) -> TrainingOffer | None:
        """Return what it offers for a kind of training; None if it does not train.

        ``whole``: flash attention of every token to all tokens before it. ``mixture``: family of a
        mixture of experts. ``recipe``, ``optimizer``: None takes any.
        """
        alone = None
        if recipe is not None and method in (None, FineTuningMethod.FULL):
            alone = recipe.working == "fp32"
        added = method is FineTuningMethod.LORA and mixture is not None
        added = added and self.reaches_experts(method, mixture or "")
        return _trains(self.name, method, preference, whole, alone, added, optimizer)

    def stack_for(self, family: str, *, master: bool) -> str | None:
        """Return the stack that estimates training of a family.

        ``master``: all weights train beside a copy in fp32.
        """
        if family in self.fused:
            return self.fused_stack
        return (master and self.stack_with_master) or self.stack

    def drafts(self, card: Accelerator, method: Speculation) -> bool:
        """Whether it drafts this way on a card, without a checkpoint of one's own."""
        backend, _ = self.support(card) or ("", Support())
        return self.serving is not None and backend in self.serving.drafts.get(method, ())

    @by_identity(4096)
    def divides(self, card: Accelerator, degree: Degree) -> bool:
        """Whether it divides a served model this way on a card."""
        _, support = self.support(card) or ("", Support())
        able = self.serving.divides if self.serving and support.divides is None else support.divides
        return degree in (able or ())

    @property
    def most_cards(self) -> float:
        """Most accelerators of one training run; infinite without a limit."""
        return (self.training and self.training.cards) or inf

    @property
    def rounds_updates(self) -> bool:
        """Whether full training keeps its only weights in bf16 unless asked otherwise."""
        alone = self.training and self.training.without_master
        return bool(alone and alone.recipes[0] == "bf16_pure")

    def at_once(self, duty: Duty) -> int | None:
        """Return the most requests that one copy computes together; None has no limit."""
        return self.serving.at_once.get(duty.value) if self.serving else None

    def still_does(self, duty: Duty) -> bool:
        """Whether it does a duty and was not retired."""
        return duty in self.does and self.status is not Status.RETIRED

    def reaches_experts(self, method: FineTuningMethod | None, family: str) -> bool:
        """Whether adapters of a method reach the routed experts of a family's mixtures."""
        offer = self.training
        if method is None or offer is None:
            return True
        four_bit = method is FineTuningMethod.QLORA
        held = offer.qlora_experts if four_bit else offer.lora_experts
        return not held or family in tool_choice().experts[held]

    def adapts_experts(self, method: FineTuningMethod | None, family: str) -> bool:
        """Whether they do by the names of projections, and not only the experts' 4 bits."""
        if method is not FineTuningMethod.QLORA or not (
            self.training and self.training.qlora_adapts
        ):
            return self.reaches_experts(method, family)
        return family in tool_choice().experts[self.training.qlora_adapts]

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks by whose names people ask for it, the usual of its files first."""
        return tuple(filter(None, (self.fused_stack, self.stack, *self.stacks_too)))

    @property
    def named(self) -> str:
        """Return title and release, e.g. ``TRL 1.5.0``."""
        return f"{self.title} {self.release}".strip()

    @property
    def ended(self) -> str:
        """Return a sentence on its end; empty while its authors develop it."""
        if self.status is Status.CURRENT:
            return ""
        if self.status is Status.MAINTAINED:
            word = f"gets corrections only{f' since {self.since}' if self.since else ''}"
        else:
            day = "on" if self.since and self.since.count("-") == 2 else "in"
            word = f"was retired {day} {self.since}"
        return f"{self.title} {word}; use {self.instead}."


class _Table(Noun):
    tools: dict[str, Tool]


@cache
def known_tools() -> Mapping[str, Tool]:
    """Return all tools by name, in the order of their file."""
    return kept("checked_tools", _read_tools)


def _read_tools() -> dict[str, Tool]:
    content = read_yaml(data_path(TOOLS))
    if not isinstance(content, dict):
        refuse(TOOLS, type(content).__name__, "It must be a mapping of rows.")
    rows = {name: {"name": name, **row} for name, row in content.items()}
    return checked(_Table.model_validate, {"tools": rows}, file=TOOLS).tools


@cache
def tool_choice() -> ToolChoice:
    """Return backends, usual tools and terms."""
    return kept("checked_tool_choice", _read_choice)


def _read_choice() -> ToolChoice:
    choice = read_record(data_path(CHOICE), ToolChoice)
    tables = (choice.usual, *(each.usual for each in choice.sizes))
    for duty, by_backend in (row for table in tables for row in table.items()):
        for backend, names in by_backend.items():
            for name in names:
                if name not in known_tools():
                    refuse(CHOICE, name, "Name a row of tools.yaml.", entry=duty, field=backend)
    for tool in known_tools().values():
        offer = tool.training
        for held in (offer.lora_experts, offer.qlora_experts, offer.qlora_adapts) if offer else ():
            if held and held not in choice.experts:
                allowed = f"Name one of {', '.join(choice.experts)}."
                refuse(TOOLS, held, allowed, entry=tool.name, field="lora_experts")
    for name in choice.few.tools:
        if name not in known_tools():
            refuse(CHOICE, name, "Name a row of tools.yaml.", entry="few", field="tools")
    return choice


def spelled(name: str) -> str:
    """Return a name as the table spells it, however a person types it."""
    return "".join("-" if letter in "_ ." else letter for letter in name.casefold())


def tool_named(name: str) -> Tool:
    """Return one tool.

    Raises InputError if no tool has this name. The message lists the existing ones.

    >>> tool_named("mxnet").status.value
    'retired'
    """
    found = known_tools().get(spelled(name))
    if found is None:
        raise refusal("unknown_software", value=name, allowed=known_tools())
    return found


@cache
def _backends(kind: Kind) -> tuple[str, ...]:
    return tuple(
        name
        for name, item in tool_choice().backends.items()
        if item.reaches(kind.vendor, kind.architecture, processor=kind.processor)
    )


@cache
def _support(name: str, kind: Kind) -> tuple[str, Support] | None:
    return known_tools()[name].supports(kind)


@cache
def _trains(
    name: str,
    method: FineTuningMethod | None,
    preference: Preference | None,
    whole: bool,
    alone: bool | None,
    added: bool,
    optimizer: Optimizer | None,
) -> TrainingOffer | None:
    offer = known_tools()[name].training
    if offer and optimizer in offer.unshared and method in offer.unshared_with:
        offer = offer.not_shared()
    if offer and added and offer.recompute_experts:
        offer = offer.changed(recompute=offer.recompute_experts)
    if offer and not offer.hosts_lone_base and method in (None, FineTuningMethod.FULL):
        offer = offer.changed(hosts_lone_base=True)
    held = offer and offer.without_master
    if offer and held and alone:
        offer = offer.changed(sharding=held.sharding, offloads=held.offloads)
    if offer is None or offer.context is None:
        return offer
    shared = held is None or alone is not False
    if whole and preference is None and method in offer.context.methods and shared:
        return offer
    divides = tuple(degree for degree in offer.divides if degree != "context")
    return offer.changed(divides=divides)


@cache
def _usual(kind: Kind, duty: Duty, sizes: tuple[int, ...]) -> tuple[Tool, ...]:
    choice = tool_choice()
    usual = dict(choice.usual.get(duty, {}))
    for index in sizes:
        usual |= choice.sizes[index].usual.get(duty, {})
    found: dict[str, Tool] = {}
    for backend in _backends(kind):
        for name in usual.get(backend, ()):
            tool = known_tools()[name]
            support = tool.backends.get(backend)
            if tool.still_does(duty) and support is not None and support.runs_on(kind):
                found.setdefault(name, tool)
    return tuple(found.values())


def usual_tools(card: Accelerator, duty: Duty, parameters: float | None = None) -> tuple[Tool, ...]:
    """Return the tools that do a duty on a card, the usual first; some sizes have others."""
    if duty.trains and card.inference_only:
        return ()
    sizes = tuple(
        index
        for index, each in enumerate(tool_choice().sizes)
        if parameters is not None and each.least <= parameters <= each.most
    )
    return _usual(Kind.of(card), duty, sizes)


def backends_of(card: Accelerator) -> tuple[str, ...]:
    """Return the backends that reach a card, the first counting first."""
    return _backends(Kind.of(card))


def tools_on(card: Accelerator) -> tuple[Tool, ...]:
    """Return all tools that run on a card, in the order of the table."""
    return tuple(tool for tool in known_tools().values() if tool.support(card) is not None)
