"""The search of a case under the software of each card, with the hosts' memory if it must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.tools.software import ToolRules
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.tools import Tool
from advisor.nouns.workload import FineTuning, Serving, Training
from advisor.planning.search.found import SearchResult
from advisor.planning.search.options import Option, meets_budget, meets_time
from advisor.planning.search.precisions import search
from advisor.planning.search.systems import System, by_host_memory, with_host

if TYPE_CHECKING:
    from advisor.planning.search.tries import Tried

SMALLEST_BASE: Final = 0.8
"""Base weights on the cards over parameters times their format's size, at least: a table of inputs
may stay in the host's memory."""


def search_and_host(
    asked: ResolvedCase,
    systems: Sequence[System],
    *,
    advising: bool = True,
    rules: ToolRules | None = None,
    tried: Tried | None = None,
) -> tuple[Sequence[System], SearchResult]:
    """Evaluate a case on all systems; if nothing fits, use the hosts' memory too.

    The searched systems, each with its tool, and the result. If the host's memory is used, systems
    are separate for each host memory size.

    ``advising``: also try lower precisions, as ``alternatives``. ``rules``: of the case, if they
    are known already.
    """
    case, architecture, workload = asked.case, asked.architecture, asked.case.workload
    rules = rules or ToolRules.of(case, architecture)
    systems = with_host(systems, case.host)
    if isinstance(workload, Serving):
        from advisor.planning.search.served import search_served

        return search_served(asked, workload, systems, rules, advising=advising, tried=tried)
    found, result = _by_tools(asked, workload, systems, rules, advising=advising)
    stated = case.layout if case.layout and case.layout.states("offload") else None
    hosts = bool(stated.offload) if stated else architecture.unit is Unit.TOKEN
    if result.options or not hosts:
        return found, result
    parted = by_host_memory(systems, case.host, serving=False)
    places, hosted = _by_tools(asked, workload, parted, rules, hosted=True, advising=advising)
    if not hosted.options:
        return found, result
    # Cards that still do not fit show their need without host memory.
    return places, replace(hosted, misses=result.misses)


def equipped(rules: ToolRules, systems: Sequence[System]) -> list[System]:
    """Return the systems on which a tool does the work, each with it."""
    chosen = [(system, rules.choose(system.accelerator)) for system in systems]
    return [replace(system, tool=tool) for system, tool in chosen if isinstance(tool, Tool)]


def least_bytes(workload: Training, model: ModelArchitecture) -> float:
    """Return what the base weights of a fine-tune take at least, on all cards together. [bytes]"""
    four_bit = isinstance(workload, FineTuning) and workload.four_bit
    size = WEIGHT_FORMATS["nf4" if four_bit else "bf16"].bytes_per_parameter
    return SMALLEST_BASE * size * model.total_parameters


class _Trial(NamedTuple):
    """A system under a tool."""

    system: System
    wanted: tuple[int, ...]
    """Numbers of accelerators that no earlier tool carries; the tool may train on fewer."""
    rest: tuple[Tool, ...] | None = None
    """Tools to try afterwards; None if they are not known yet."""
    carried: bool = False
    """Whether an earlier tool carries more accelerators."""


def _by_tools(
    asked: ResolvedCase,
    workload: Training,
    systems: Sequence[System],
    rules: ToolRules,
    *,
    hosted: bool = False,
    advising: bool = True,
) -> tuple[Sequence[System], SearchResult]:
    """Search with the first tool of each card, and what does not fit with the next ones.

    A number of cards keeps the first tool under which it fits. Where none does, the first one's
    need is told.
    """
    limits, searched = asked.case.limits, equipped(rules, systems)
    result = search(asked, workload, searched, hosted=hosted, advising=advising)
    trials, options = [_Trial(system, system.counts) for system in searched], result.options
    least = 0.0 if hosted else least_bytes(workload, asked.architecture)
    while trials := list(_left(trials, options, rules, least)):
        under = [trial.system for trial in trials]
        found = search(asked, workload, under, hosted=hosted, advising=False)
        options = found.options
        # What an earlier tool carries, but too slowly, stays its own.
        kept = [
            option
            for option in options
            if not trials[option.system].carried
            or (meets_time(option, limits) and meets_budget(option, limits))
        ]
        result = result.followed(kept, found, len(searched))
        searched += under
    return searched, result


def _left(
    trials: Sequence[_Trial], options: Sequence[Option], rules: ToolRules, least_bytes: float
) -> Iterator[_Trial]:
    """Yield the systems that some tools did not carry, with the next.

    ``least_bytes``: of all cards together, under any tool.
    """
    solved: dict[int, int] = {}
    for option in options:
        solved[option.system] = min(option.count, solved.get(option.system, option.count))
    for place, (system, wanted, rest, carried) in enumerate(trials):
        least = solved.get(place, inf)
        fewest = least_bytes / system.accelerator.memory_reported_bytes
        tried = {n for n in system.counts if system.tool is None or n <= system.tool.most_cards}
        left = tuple(n for n in wanted if fewest <= n and (n not in tried or n < least))
        tools = rules.following(system.accelerator) if left and rest is None else rest or ()
        for step, tool in enumerate(tools):
            if able := tuple(n for n in left if n <= tool.most_cards):
                under = replace(system, tool=tool, counts=able)
                yield _Trial(under, left, tools[step + 1 :], carried or place in solved)
                break
