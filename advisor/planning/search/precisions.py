"""From a case to priced options: which precisions to try, on which systems."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.tools.trainers import kinds_of
from advisor.estimate.training.report import model_flops_per_token
from advisor.estimate.training.run import (
    TrainingRun,
    offer_for,
    resolve_training,
    software_of,
    trains_adapters,
)
from advisor.foundation.dates import current_day
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints
from advisor.nouns.precision import RECIPES, PrecisionRecipe
from advisor.nouns.software.stacks import Work
from advisor.nouns.software.tools import Tool
from advisor.nouns.workload import Pretraining, Training
from advisor.planning.search.bound import within_reach
from advisor.planning.search.found import SearchResult, keep_least
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.options import Miss, Option, Price, priced_options
from advisor.planning.search.ranking import worth_advising
from advisor.planning.search.systems import System
from advisor.planning.search.training import search_training, with_range
from advisor.planning.spot import interruptions_of
from advisor.planning.time_ranges import TimeSpreads

PROVEN_RECIPES = ("bf16_mixed", "fp16_mixed", "fp32")
"""Tried in this order; a card uses the first that it supports."""
SAMPLE_RECIPES = ("bf16_amp", "fp16_amp", "fp32")
"""The same for networks that take images or samples, which frameworks train in autocast."""
LOW_PRECISION_RECIPES = ("fp8",)
"""Searched too, but only as advice: the user has to accept the lower precision."""


def proven_recipes(
    workload: Training,
    architecture: ModelArchitecture,
    tool: Tool | None,
    layout: ParallelLayout | None,
    *,
    hosted: bool = False,
) -> tuple[str, ...]:
    """Return the recipes to try with a tool, the usual first.

    ``layout``: stated. ``hosted``: the search may use the host's memory.
    """
    if workload.precision:
        return (workload.precision,)
    if architecture.unit is not Unit.TOKEN:
        return SAMPLE_RECIPES
    offer = offer_for(tool, workload, architecture)
    alone = None if offer is None or trains_adapters(workload) else offer.without_master
    if offer is None or alone is None or workload.optimizer in offer.unshared:
        return PROVEN_RECIPES
    always = {*offer.offloads} <= {*alone.offloads} and {*offer.sharding} <= {*alone.sharding}
    if always or (not hosted and alone.takes(layout or ParallelLayout())):
        return alone.recipes
    return PROVEN_RECIPES


def search(
    asked: ResolvedCase,
    workload: Training,
    systems: Sequence[System],
    *,
    hosted: bool = False,
    advising: bool = True,
) -> SearchResult:
    """Evaluate training on all systems, in every precision worth trying.

    ``hosted``: use layouts with the host's memory; tried if nothing fits without it. ``advising``:
    also try lower precisions, as ``alternatives``.
    """
    case, architecture, calibration = asked.case, asked.architecture, asked.calibration
    stated = workload.precision
    # The usual stack for pretraining language models is made for 8-bit training.
    text = architecture.unit is Unit.TOKEN and isinstance(workload, Pretraining)
    advising = advising and text and not stated and not hosted
    interruptions = interruptions_of(case, calibration)
    kind, today = case.limits.price_kind, current_day()
    prices = [Price.of(system, kind, interruptions, today) for system in systems]
    options, alternatives = list[Option](), list[Option]()
    misses, searched = dict[str, Miss](), 0
    runs: dict[tuple[str, str], TrainingRun] = {}
    served: set[int] = set()
    spreads = TimeSpreads(architecture, calibration, workload)
    formats: dict[str, None] = {}
    for proven, members in _alike(asked, workload, systems, hosted=hosted):
        alike = [systems[index] for index in members]
        formats |= dict.fromkeys(RECIPES[name].compute for name in proven)
        space: LayoutSpace | None = None
        stack = software_of(workload, architecture, RECIPES[proven[0]], alike[0].tool)
        lower = LOW_PRECISION_RECIPES if advising and Work.PRETRAINING in stack.default_for else ()
        for name in (*proven, *lower):
            advised = name in lower
            run = _run_of_all(workload, architecture, RECIPES[name], alike)
            indices = [
                index
                for index in members
                if computes(systems[index], run.recipe) and (advised or index not in served)
            ]
            if not indices and runs:
                continue
            if space is None:
                counts = {count for system in alike for count in system.counts}
                space = LayoutSpace(
                    run, counts, asked.calibration, stated=case.layout, hosted=hosted
                )
            recipe = _RecipeSearch(asked, run, space, prices)
            if advised:
                recipe.try_better(systems, indices, options)
            else:
                recipe.try_reachable(systems, indices)
                recipe.try_left_out(systems, indices)
                served.update(indices)
                keep_least(misses, recipe.misses, systems)
            searched += recipe.searched
            for index in indices or members[:1]:
                key = name, systems[index].tool_name
                if key not in runs:
                    tool = systems[index].tool
                    runs[key] = resolve_training(workload, architecture, RECIPES[name], tool)
            found = priced_options([*_trained(recipe, systems, runs, spreads)], prices)
            (alternatives if advised else options).extend(found)
    if not runs:
        [first, *_] = proven_recipes(workload, architecture, None, case.layout)
        runs["", ""] = resolve_training(workload, architecture, RECIPES[first])
    return SearchResult(
        options=tuple(options),
        alternatives=tuple(alternatives),
        searched=searched,
        misses=misses,
        with_format=frozenset(systems[index].accelerator.key for index in served),
        formats=tuple(formats),
        spreads=spreads,
        runs=tuple(runs.values()),
        prices=prices,
    )


def _alike(
    asked: ResolvedCase, workload: Training, systems: Sequence[System], *, hosted: bool
) -> list[tuple[tuple[str, ...], list[int]]]:
    """Group systems whose tools are estimated alike: they share layouts and their memory.

    Each group has the recipes to try.
    """
    architecture = asked.architecture
    kinds: dict[str, Hashable] = {}
    groups: dict[Hashable, tuple[tuple[str, ...], list[int]]] = {}
    for index, system in enumerate(systems):
        tool = system.tool_name
        if tool not in kinds:
            recipes = proven_recipes(
                workload, architecture, system.tool, asked.case.layout, hosted=hosted
            )
            kinds[tool] = recipes, *kinds_of(workload, architecture, system.tool, recipes)
            groups.setdefault(kinds[tool], (recipes, []))
        groups[kinds[tool]][1].append(index)
    return list(groups.values())


def _run_of_all(
    workload: Training,
    architecture: ModelArchitecture,
    recipe: PrecisionRecipe,
    members: Sequence[System],
) -> TrainingRun:
    """Return the workload with what any of the tools of some systems offers."""
    run = resolve_training(workload, architecture, recipe, members[0].tool)
    tools = {one.tool_name: one.tool for one in members}
    offers = map(run.offer_of, tools.values())
    return replace(run, offers=tuple(dict.fromkeys(one for one in offers if one is not None)))


def computes(system: System, recipe: PrecisionRecipe) -> bool:
    """Return whether card and tool have the format of a recipe."""
    offer = None if system.tool is None else system.tool.training
    offered = offer is None or recipe.compute in offer.computes
    return offered and recipe.compute in system.accelerator.peak_flops_per_s


def _trained(
    recipe: _RecipeSearch,
    systems: Sequence[System],
    runs: Mapping[tuple[str, str], TrainingRun],
    spreads: TimeSpreads,
) -> Iterator[Option]:
    """Yield what the search of one recipe found, with the run of each system's tool."""
    name = recipe.run.recipe.name
    known: dict[int, tuple[System, TrainingRun, bool]] = {}
    for found in recipe.found:
        index = found.system
        if index not in known:
            system = systems[index]
            run = runs[name, system.tool_name]
            known[index] = system, run, spreads.proven(system.accelerator)
        system, run, proven = known[index]
        yield with_range(found, index, system, run, spreads, proven=proven)


@dataclass(slots=True)
class _RecipeSearch:
    """Search of one recipe: its results, and the need of systems on which nothing fits."""

    asked: ResolvedCase
    run: TrainingRun
    space: LayoutSpace
    prices: Sequence[Price]
    found: list[Option] = field(default_factory=list)
    """The fastest of each system and count."""
    misses: dict[int, Miss] = field(default_factory=dict)
    searched: int = 0
    cut: set[int] = field(default_factory=set)
    """Systems that were tried only at some of their counts."""

    def try_reachable(self, systems: Sequence[System], indices: Sequence[int]) -> None:
        """Search the counts that can meet the limits at the data sheet's peak."""
        reachable = self._reachable(systems, indices, self.asked.case.limits)
        self._try(reachable, indices)
        self.cut = {
            index
            for index, tried in zip(indices, reachable, strict=True)
            if tried.counts != systems[index].counts
        }

    def try_better(
        self, systems: Sequence[System], indices: Sequence[int], others: Sequence[Option]
    ) -> None:
        """Search the counts that can beat every one of ``others`` by enough to be advised."""
        limits = worth_advising(self.asked.case, others)
        reachable = self._reachable(systems, indices, limits, with_ends=False)
        able = [place for place, system in enumerate(reachable) if system.counts]
        usd = [self.prices[indices[place]].usd_per_hour for place in able]
        kept = [reachable[place] for place in able], [indices[place] for place in able]
        self._try(*kept, within=(limits, usd))

    def _reachable(
        self,
        systems: Sequence[System],
        indices: Sequence[int],
        limits: Constraints,
        *,
        with_ends: bool = True,
    ) -> list[System]:
        flops = model_flops_per_token(self.run) * self.run.tokens
        return [
            within_reach(
                systems[index],
                self.run,
                flops,
                limits,
                self.space.has_layouts,
                self.prices[index].usd_per_hour,
                with_ends=with_ends,
            )
            for index in indices
        ]

    def try_left_out(self, systems: Sequence[System], indices: Sequence[int]) -> None:
        """Search all counts of a card if the tried ones do not fit.

        The card is then rejected for the limit that it misses, not for memory.
        """
        solved = {one.system for one in self.found}
        again = [index for index in indices if index in self.cut and index not in solved]
        if again:
            for index in again:
                self.misses.pop(index, None)
            self._try([systems[index] for index in again], again)

    def _try(
        self,
        systems: Sequence[System],
        indices: Sequence[int],
        *,
        within: tuple[Constraints, Sequence[float]] | None = None,
    ) -> None:
        known = self.asked
        result = search_training(
            self.run,
            systems,
            self.space,
            known.calibration,
            deadline_hours=known.case.limits.deadline_hours or float("inf"),
            within=within,
        )
        self.searched += result.searched
        for one in result.found:
            one.system = indices[one.system]
        self.found += result.found
        self.misses |= {indices[at]: miss for at, miss in result.misses.items()}
