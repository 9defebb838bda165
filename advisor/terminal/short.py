"""The first answer of each command: at most a screen; ``--explain`` or ``--all`` show the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from advisor.estimate.results import Estimate
from advisor.foundation.formatting import term_value
from advisor.foundation.quantities import Term
from advisor.planning.explain.sentences import way_out_sentence
from advisor.planning.results import Plan, Recommendation
from advisor.terminal.console import INDENT, table

MOST_LINES: Final = 40
SHOWN_TERMS: Final = 4
SHOWN_WAYS: Final = 4
SHOWN_ADVICE: Final = 4


@dataclass
class Screen:
    """Blocks of an answer, of which the least important make way for the others.

    Parameters
    ----------
    rest : str
        Closing line: how to see what is left out.
    """

    console: Console
    rest: str
    blocks: list[tuple[int, tuple[RenderableType, ...]]] = field(default_factory=list)

    def add(self, weight: int, *lines: RenderableType) -> None:
        """Add a block; of all blocks, those with the largest weight go first."""
        if lines:
            self.blocks.append((weight, lines))

    def say(self, weight: int, text: str, *, title: str = "") -> None:
        """Add a paragraph, with a title in bold at its start; nothing if it is empty."""
        if text:
            words = Text(f"{title}: " if title else "", style="bold")
            self.add(weight, Padding(words.append(Text(text, style="not bold")), (0, 0, 0, INDENT)))

    def show(self) -> None:
        """Print the blocks that fit."""
        self.say(0, self.rest)
        sizes = [self._lines(lines) for _, lines in self.blocks]
        kept = set(range(len(self.blocks)))
        while sum(sizes[place] for place in kept) > MOST_LINES:
            worst = max(kept, key=lambda place: (self.blocks[place][0], place))
            if self.blocks[worst][0] == 0:
                break
            kept.remove(worst)
        for place in sorted(kept):
            for line in self.blocks[place][1]:
                self.console.print(line)

    def _lines(self, lines: Iterable[RenderableType]) -> int:
        return sum(len(self.console.render_lines(line, pad=False)) for line in lines)


def short_recommendation(
    console: Console, found: Recommendation, *, arranged: str, offer: str, searched: str, lost: str
) -> None:
    """Print the plans, advice and assumptions of a recommendation.

    Parameters
    ----------
    arranged, offer : str
        Layout and offer of the first plan; empty without plans.
    searched : str
        What was searched.
    lost : str
        Why other accelerators lost, counted.
    """
    screen = Screen(console, "--explain shows every trade-off, reason, range and source.")
    screen.add(0, Text(found.answer, style="bold"))
    if found.plans:
        screen.say(0, f"{named(found.plans[0].estimate)}.", title="The work")
        screen.say(1, found.plans[0].why, title="Why")
        screen.say(0, arranged)
        screen.say(2, offer, title="Offer")
        hosted = found.plans[0].estimate.api
        screen.say(2, hosted.sentence if hosted else "", title="Beside an API")
    if found.nearest is not None:
        title = f"What would make it fit on {found.nearest.count}x {found.nearest.accelerator_name}"
        better = [f"- {text}" for text in found.nearest.improvements]
        screen.say(0, "\n".join(["", *better, *_ways(found.nearest)]), title=title)
    seen = list(found.plans[:1])
    for ranking in found.rankings[1:]:
        for plan in ranking.plans[:1]:
            title = ranking.objective.value.replace("_", " ").capitalize()
            screen.say(3, _other(plan, seen), title=title)
            seen.append(plan)
    ordered = sorted(found.advice, key=lambda item: item.severity != "warning")
    for place, item in enumerate(ordered[:SHOWN_ADVICE]):
        title = "Warning" if item.severity == "warning" else "Advice"
        screen.say(1 if item.severity == "warning" else 4 + place, item.message, title=title)
    screen.say(6, lost, title="The others")
    screen.say(2, listed(found.assumed) if found.assumed else "", title="Assumed")
    screen.say(7, searched)
    screen.show()


def _ways(found: Estimate) -> list[str]:
    """Return what would make an estimate fit, one line each."""
    return [f"- {way_out_sentence(way, found)}" for way in found.ways_out[:SHOWN_WAYS]]


def listed(items: Iterable[str]) -> str:
    """Return sentences or their parts as one list."""
    return "; ".join(item.removesuffix(".") for item in items) + "."


def _other(plan: Plan, seen: Iterable[Plan]) -> str:
    same = any(plan.estimate == other.estimate for other in seen)
    return f"the same: {plan.title}." if same else plan.sentence


def named(estimate: Estimate) -> str:
    """Return the work with the model's name, e.g. ``llama-3.1-8b: fine-tune with LoRA on …``."""
    return f"{estimate.model}: {estimate.workload}"


def short_estimate(
    console: Console, found: Estimate, *, arranged: str, fits: str, rows: list[tuple[str, str, str]]
) -> None:
    """Print the headline numbers of an estimate, and where memory and time go.

    Parameters
    ----------
    arranged, fits : str
        Layout, and whether it fits.
    rows : list of tuple of str
        Headline numbers: name, value, evidence.
    """
    screen = Screen(console, "--explain shows every term with its formula, source and neighbours.")
    screen.add(0, Text(f"{found.model} on {found.count:,}x {found.accelerator_name}", style="bold"))
    screen.say(0, f"{found.workload[:1].upper()}{found.workload[1:]}.")
    screen.say(0, f"{arranged}.")
    screen.say(0, " ".join((fits, *found.missed_limits)))
    better = [f"- {text}" for text in found.improvements]
    if better:
        screen.say(1, "\n".join(["", *better]), title="Faster or smaller on the same cards")
    ways = _ways(found)
    if ways:
        screen.say(1, "\n".join(["", *ways]), title="What would make it fit")
    screen.add(1, table(["Number", "Value", "Evidence"], rows))
    screen.say(2, found.api.sentence if found.api else "", title="Beside an API")
    timed = found.time or found.serving
    screen.say(3, _largest(found.memory.terms), title="Memory")
    screen.say(3, _largest(timed.terms if timed else ()), title="Time")
    near = [item for item in found.neighbours if item.fits][:3]
    others = ", ".join(f"{item.time_ratio:.3g}x ({item.change})" for item in near)
    screen.say(5, others and f"{others}.", title="Other layouts that fit")
    screen.say(4, " ".join(curve.sentence for curve in found.curves), title="Largest sizes")
    screen.say(2, listed(found.assumptions) if found.assumptions else "", title="Assumed")
    screen.show()


def _largest(terms: Iterable[Term]) -> str:
    ordered = sorted((term for term in terms if term.value > 0), key=lambda term: -term.value)
    parts = [f"{term.title[:1].lower()}{term.title[1:]} {term_value(term)}" for term in ordered]
    rest = f" and {len(parts) - SHOWN_TERMS} more" if len(parts) > SHOWN_TERMS else ""
    return f"{'; '.join(parts[:SHOWN_TERMS])}{rest}." if parts else ""
