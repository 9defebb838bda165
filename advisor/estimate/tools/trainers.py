"""Tools that train: which do another's work, and which are estimated alike."""

from collections.abc import Hashable, Iterable

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import RECIPES
from advisor.nouns.software.tools import Status, Tool, known_tools
from advisor.nouns.workload import Training


def kinds_of(
    workload: Training, architecture: ModelArchitecture, tool: Tool | None, recipes: Iterable[str]
) -> tuple[Hashable, ...]:
    """Return what decides the memory and the time of each recipe under a tool."""
    runs = [resolve_training(workload, architecture, RECIPES[name], tool) for name in recipes]
    return tuple(
        (run.software, run.cross_entropy, run.adapts_experts, run.switches) for run in runs
    )


def unlike(
    tools: Iterable[Tool], workload: Training, architecture: ModelArchitecture
) -> list[Tool]:
    """Return the tools that are estimated unlike all before them, or run on more cards."""
    recipes = [workload.precision] if workload.precision else ("bf16_mixed", "bf16_amp")
    found: dict[Hashable, Tool] = {}
    for tool in tools:
        kinds = kinds_of(workload, architecture, tool, recipes)
        found.setdefault((kinds, tool.most_cards), tool)
    return list(found.values())


def able_tools(
    tool: Tool, card: Accelerator, layout: ParallelLayout, run: TrainingRun
) -> tuple[str, ...]:
    """Return the names of the tools that do a tool's work on a card in a layout."""
    duties = {duty for duty in tool.does if duty.trains}
    return tuple(
        item.name
        for item in known_tools().values()
        if item.status is not Status.RETIRED
        and duties & {*item.does}
        and (found := item.support(card)) is not None
        and (offer := run.offer_of(item)) is not None
        and run.method in (None, *(each for each in offer.methods if found[1].tunes(card, each)))
        and offer.prefers(run.preference, run.method)
        and not offer.lacking(layout, four_bit=run.four_bit)
    )
