"""The tool that does a case's work on a card, or why none does."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import dropwhile
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.errors import refusal
from advisor.estimate.hardware.card_formats import stored_format
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.serving_formats import (
    Program,
    Way,
    formats_of,
    hosted_ways,
    ladder_of,
    ways_of,
)
from advisor.estimate.tools.trainers import unlike
from advisor.estimate.training.defaults import usual
from advisor.estimate.training.run import offer_for
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import by_identity, record
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, Segment, UnlikeCards
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.serving_defaults import for_few
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.software.tool_offers import Kind, ServingOffer, Support
from advisor.nouns.software.tools import Tool, known_tools, tool_choice, tool_named, usual_tools
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Serving, Training

NARROWER: Final = 1.2
"""A tool that serves narrower weights is tried with formats of up to this share of the first tool's
narrowest: GGUF mixtures quantise embeddings too, so they need less than their mean size says."""


@by_identity(1024)
def kind_of(card: Accelerator) -> Hashable:
    """Return what decides which tools do a duty on a card, and in which formats."""
    formats = frozenset(card.peak_flops_per_s)
    own = card.inference_only, card.shares_host_memory, isinstance(card, UnlikeCards)
    return Kind.of(card), card.segment, formats, *own


@cache
def estimating_stacks() -> frozenset[str]:
    """Return the stacks that estimate at least one tool."""
    return frozenset(name for tool in known_tools().values() for name in tool.stacks)


@record
class Lack:
    """Why no tool does the work on a card."""

    reason: str
    """What is missing, to follow ``on this card``; without a full stop."""
    remedy: str


@dataclass(frozen=True)
class ToolRules:
    """What a case asks of its software. It chooses the tool for each card."""

    case: Case
    architecture: ModelArchitecture
    duty: Duty
    _chosen: dict[Hashable, Tool | Lack] = field(default_factory=dict)
    _following: dict[Hashable, tuple[Tool, ...]] = field(default_factory=dict)
    _ways: dict[tuple[Hashable, bool], tuple[Way, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, architecture: ModelArchitecture) -> ToolRules:
        """Return a case's rules. Raises InputError if its tool was retired or does other work."""
        rules = cls(case, architecture, duty_of(case.workload, architecture))
        rules._check_asked()
        return rules

    @property
    def asked(self) -> str | None:
        """The stated tool, or the stack whose tools may do the work."""
        workload = self.case.workload
        name = workload.engine if isinstance(workload, Serving) else workload.software
        if name is None or name in known_tools() or name in estimating_stacks():
            return name
        return None  # a stack that no row of the table names: any tool may have its constants

    def choose(self, card: Accelerator, weight_format: str | None = None) -> Tool | Lack:
        """Return the first tool that does the work on a card, or why there is none.

        ``weight_format``: of serving; None takes the asked one, or any that the tool may choose.
        """
        workload = self.case.workload
        if isinstance(workload, Serving) and weight_format not in (None, workload.weight_format):
            workload = workload.changed(weight_format=weight_format)
            case = self.case.changed(workload=workload)
            return ToolRules(case, self.architecture, self.duty).choose(card)
        kind = kind_of(card)
        if kind not in self._chosen:
            self._chosen[kind] = self._first(card)
        return self._chosen[kind]

    def following(self, card: Accelerator) -> tuple[Tool, ...]:
        """Return the tools with which to plan a fine-tune that needs too much under the first.

        In the order of trial: those that may need less and are estimated unlike those before.
        """
        kind = kind_of(card)
        if kind not in self._following:
            first, workload, found = self.choose(card), self.case.workload, list[Tool]()
            if isinstance(first, Tool) and isinstance(workload, FineTuning):
                whole = workload.method is FineTuningMethod.FULL and workload.precision is None
                smaller = (
                    tool.on(card)
                    for tool, _ in self._able(self._candidates(card), card)
                    if tool.name in tool_choice().smaller and not (whole and tool.rounds_updates)
                )
                found = unlike((first, *smaller), workload, self.architecture)[1:]
            self._following[kind] = tuple(found)
        return self._following[kind]

    def ways(self, card: Accelerator, *, many: bool = False) -> tuple[Way, ...]:
        """Return the ways to serve on a card in the order in which a plan tries them.

        First the tool of :meth:`choose` in its formats, largest first. Then, for text, tools that
        serve narrower weights, and last those that keep layers in the host's memory.

        ``many``: more cards than share a model by whole layers: then the next tool is tried, too.
        """
        key = kind_of(card), many
        if key not in self._ways:
            self._ways[key] = self._found_ways(card, many)
        return self._ways[key]

    def _found_ways(self, card: Accelerator, many: bool) -> tuple[Way, ...]:
        workload = self.case.workload
        if not isinstance(workload, Serving):
            return ()
        tool = self.choose(card)
        if isinstance(tool, Lack):
            return ()
        candidates = dropwhile(lambda one: one[0] is not tool, self._candidates(card))
        own = next(candidates)
        first = ways_of(own, card, workload, self.architecture)
        if self.duty is not Duty.GENERATE or self._states_layout:
            return first
        names = {way.weight_format for way in first}
        least = min(WEIGHT_FORMATS[name].bytes_per_parameter for name in names)
        # After a first tool that uses no host's memory, only one that does is tried.
        others: tuple[Way, ...] = ()
        hosts: Program | None = own
        if not ladder_of(own[0]).host:
            hosting = (program for program in candidates if ladder_of(program[0]).host)
            hosts = next(self._able(hosting, card), None)
        elif many and (following := next(self._able(candidates, card), None)):
            others = ways_of(following, card, workload, self.architecture)
        if hosts is None:
            return first
        narrower = (
            way._replace(usual=False, beside=False)
            for way in ways_of(hosts, card, workload, self.architecture)
            if hosts is not own
            and workload.weight_format is None
            and WEIGHT_FORMATS[way.weight_format].bytes_per_parameter < NARROWER * least
        )
        hosted = hosted_ways(hosts, card, workload, self.architecture)
        return (*first, *others, *narrower, *hosted)

    def _able(self, programs: Iterable[Program], card: Accelerator) -> Iterator[Program]:
        """Yield those that lack nothing."""
        return (one for one in programs if not self._miss(*one, card))

    def lack(self, card: Accelerator) -> Lack | None:
        """Return why no tool does the work on a card; None if one does."""
        found = self.choose(card)
        return found if isinstance(found, Lack) else None

    def _first(self, card: Accelerator) -> Tool | Lack:
        misses: list[tuple[Tool, str]] = []
        for tool, support in self._candidates(card):
            if not (miss := self._miss(tool, support, card)):
                return tool.on(card)
            misses.append((tool, miss))
        return self._lack(card, misses)

    def _candidates(self, card: Accelerator) -> Iterator[Program]:
        """Yield the allowed tools that do the duty on a card, the usual first."""
        limits = self.case.limits
        if self.duty.trains and card.inference_only:
            return
        free = self.asked is None and not limits.software and not limits.frameworks
        usual = self._usual(card)
        others: Iterable[Tool] = ()
        if not free or self._states_training:
            first = {tool.name for tool in usual}
            others = (
                tool
                for tool in known_tools().values()
                if tool.name not in first and tool.still_does(self.duty)
            )
        for tool in sorted((*usual, *others), key=lambda tool: tool.name != self.asked):
            if self._allows(tool.on(card)) and (found := tool.support(card)) is not None:
                yield tool, found[1]

    def _usual(self, card: Accelerator) -> tuple[Tool, ...]:
        """Return the usual tools; those for one's own card first, where it does this work.

        It generates text for few users. Sound comes in recordings, which one process cuts into
        windows and decodes together. Boards run compiled image networks.
        """
        usual = usual_tools(card, self.duty, self.architecture.total_parameters)
        few = tool_choice().few
        workload = self.case.workload
        always = card.architecture in few.any_number
        few_users = isinstance(workload, Serving) and for_few(workload)
        text = self.duty is Duty.GENERATE and (always or few_users)
        board = self.duty is Duty.CLASSIFY and card.segment is Segment.EDGE
        if (text or board or self.duty is Duty.TRANSCRIBE) and few.on(card):
            return tuple(sorted(usual, key=lambda tool: tool.name not in few.tools))
        return usual

    @property
    def _states_training(self) -> bool:
        return self.case.layout is not None and not isinstance(self.case.workload, Serving)

    @property
    def _states_layout(self) -> bool:
        """Whether the case says which layers the host's memory holds."""
        return self.case.layout is not None and bool(self.case.layout.host_options)

    def _allows(self, tool: Tool) -> bool:
        limits, asked = self.case.limits, self.asked
        return (
            (asked is None or asked in (tool.name, *tool.stacks))
            and (not limits.software or tool.name in limits.software)
            and (not limits.frameworks or tool.framework in limits.frameworks)
        )

    def _miss(self, tool: Tool, support: Support, card: Accelerator) -> str:
        """Return what the work asks beyond a tool; empty if nothing."""
        model, workload = self.architecture, self.case.workload
        families = tool.families if model.evidence is not Evidence.ASSUMED else ()
        named = self.duty in (Duty.PRETRAIN, Duty.TUNE, Duty.TRAIN_DIFFUSION)
        unknown = families and model.family not in families
        if named and (unknown or model.family in tool.without_families):
            return f"does not train {model.family} models"
        if isinstance(workload, Serving):
            return self._unserved(workload, tool, support, card)
        return self._untrained(workload, tool, support, card) or self._beyond(tool)

    def _unserved(self, workload: Serving, tool: Tool, support: Support, card: Accelerator) -> str:
        if not self._knows(support, card):
            return f"does not serve {self.architecture.family} models there"
        if not formats_of(tool, support, card, workload.weight_format, self.architecture):
            own = stored_format(card, self.architecture.weight_format)
            name = workload.weight_format or own
            return f"does not serve {name} weights there"
        offer, pools = tool.serving or ServingOffer(), workload.disaggregated
        layout, method = self.case.layout, workload.speculation
        few = tool.name in tool_choice().few.tools and self.asked is None
        splits = few and self.duty is Duty.GENERATE and layout is not None and layout.tensor > 1
        lacks = {
            "divides no model over unlike cards": isinstance(card, UnlikeCards)
            and not offer.unlike_cards,
            "serves no adapters beside a model": workload.adapters and not offer.adapters,
            f"offers no speculative decoding by {method and method.label}": method is not None
            and method.ready
            and not tool.drafts(card, method),
            "searches over no beams": workload.beam_size > 1 and not offer.beams,
            "has no prefill and decode pools there": pools and card.vendor not in offer.pools,
            "keeps no layers in the host's memory": self._states_layout
            and not ladder_of(tool).host,
            "offers no tensor parallelism": splits and "tensor" not in offer.divides,
        }
        return next((text for text, lacking in lacks.items() if lacking), "")

    def _untrained(
        self, workload: Training, tool: Tool, support: Support, card: Accelerator
    ) -> str:
        offer, text = tool.training, self.duty in (Duty.PRETRAIN, Duty.TUNE)
        if offer is None:
            return "does not train"
        if text and offer.only_writers and not self.architecture.generates:
            return "trains only models that write text"
        if offer.cards and (stated := self.case.hardware) and stated.count > offer.cards:
            return f"trains on {offer.cards} card"
        tuned = workload.method if isinstance(workload, FineTuning) else None
        optimizer = workload.optimizer or usual(self.architecture, tuned).optimizer
        if missing := offer.lacks(optimizer, in_backward=bool(workload.optimizer_in_backward)):
            return missing
        if not isinstance(workload, FineTuning):
            return ""
        method, wish, model = workload.method, workload.preference, self.architecture
        able = method in offer.methods and support.tunes(card, method)
        four, adapts = workload.four_bit, text or method is not FineTuningMethod.FULL
        halves = card.compute_capability is None or {"fp16", "bf16"} & {*card.peak_flops_per_s}
        apart = model.num_experts > 1 and not tool.reaches_experts(method, model.family)
        lacks = {
            f"offers no {method.value} there": adapts and not able,
            "computes 4-bit weights in fp16 or bf16, which the card lacks": four and not halves,
            f"keeps the experts of {model.family} in 16 bits": four and apart,
            f"offers no {(wish or method).upper()} with {method.value} training": text
            and not offer.prefers(wish, method),
        }
        return next((told for told, lacking in lacks.items() if lacking), "")

    def _beyond(self, tool: Tool) -> str:
        """Return what the stated fields of a layout ask beyond a tool."""
        layout, workload = self.case.layout, self.case.workload
        if layout is None or isinstance(workload, Serving):
            return ""
        offer = offer_for(tool, workload, self.architecture)
        four_bit = isinstance(workload, FineTuning) and workload.four_bit
        beyond = offer.lacking(layout, four_bit=four_bit) if offer else ()
        return f"offers no {' and no '.join(beyond)}" if beyond else ""

    def _lack(self, card: Accelerator, misses: list[tuple[Tool, str]]) -> Lack:
        work = self.duty.label
        if self.duty.trains and card.inference_only:
            return Lack("it serves models only", "Choose another accelerator for training.")
        asked, limits, tools = self.asked, self.case.limits, known_tools()
        told = f"no known software does {work} there"
        ended = [tools[one].ended for one in limits.software if one in tools]
        if misses:
            told = "; ".join(f"{tool.title} {miss}" for tool, miss in misses[:2])
        elif asked is not None and asked in tools:
            told = f"{tools[asked].title} does not run there"
        elif asked is not None:
            told = f"no {known_stacks()[asked].title} software does {work} there"
        elif names := ", ".join((*limits.software, *limits.frameworks)):
            told = " ".join(filter(None, ended)).rstrip(".") or f"none of {names} does {work} there"
        return Lack(told, self._remedy(card))

    def _remedy(self, card: Accelerator) -> str:
        """Return what would do the work on this card, or on another."""
        workload = self.case.workload
        if isinstance(workload, Serving) and (workload.beam_size > 1 or workload.disaggregated):
            beams = workload.beam_size > 1
            offers = [(one.title, one.serving) for one in known_tools().values() if one.serving]
            able = [t for t, has in offers if (has.beams if beams else card.vendor in has.pools)]
            use, option = " or ".join(able), "--beam-size" if beams else "--disaggregated"
            return f"Use {use or 'cards of another vendor'}, or leave {option} out."
        serves = isinstance(workload, Serving)
        tools = [one for one in self._usual(card) if not serves or self._formats(one, card)]
        if tools and serves:
            formats = ", ".join(self._formats(tools[0], card))
            return f"Use {tools[0].title} with weights in {formats}."
        if tools and isinstance(workload, FineTuning) and (offer := tools[0].training):
            _, support = tools[0].support(card) or ("", Support())
            methods = ", ".join(each for each in offer.methods if support.tunes(card, each))
            return f"Use {tools[0].title} with {methods}, or choose another accelerator."
        used = f"Use {tools[0].title}, or change what it does not offer." if tools else ""
        return used or "Choose another accelerator."

    def _knows(self, support: Support, card: Accelerator) -> bool:
        model = self.architecture
        return model.evidence is Evidence.ASSUMED or support.knows(card, model.family)

    def _formats(self, tool: Tool, card: Accelerator) -> list[str]:
        found = tool.support(card)
        if found is None or not self._knows(found[1], card):
            return []
        names = (name for name in found[1].weights if name != "gguf")
        able = [name for name in names if found[1].serves(card, name)]
        return [*able, *(["q4_k_m"] if found[1].serves(card, "q4_k_m") else [])]

    def _check_asked(self) -> None:
        asked = self.asked
        if asked is None or asked not in known_tools() or asked in known_stacks():
            return
        tool = tool_named(asked)
        if tool.still_does(self.duty):
            return
        able = [item.name for item in known_tools().values() if item.still_does(self.duty)]
        what = tool.ended.rstrip(".") or f"{tool.title} does no {self.duty.label}"
        name = "engine" if isinstance(self.case.workload, Serving) else "software"
        raise refusal("other_duty", value=tool.name, allowed=able, problem=what, name=name)


def tool_of(
    case: Case, architecture: ModelArchitecture, card: Accelerator, weight_format: str | None = None
) -> Tool | None:
    """Return the tool that a case uses on a card; None if no tool does the work there."""
    found = ToolRules.of(case, architecture).choose(card, weight_format)
    return found if isinstance(found, Tool) else None
