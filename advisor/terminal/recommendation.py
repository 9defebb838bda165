"""The answer to a case: plans, trade-offs, and why the other accelerators lost."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from rich.text import Text

from advisor.catalog import load_catalog
from advisor.estimate.results import Estimate
from advisor.foundation.formatting import count, money
from advisor.foundation.units import plain
from advisor.nouns.limits import Objective
from advisor.planning.explain.sentences import energy_used, rent_sentence
from advisor.planning.results import (
    Candidate,
    Plan,
    Ranking,
    Recommendation,
    Rejection,
    RejectionCode,
)
from advisor.terminal.console import Report, Screen, listed
from advisor.terminal.estimate import RANGES, arrangement, day_line, show_day, ways_out

SHOWN_TRADE_OFFS: Final = 10
SHOWN_FEWEST: Final = 8
SHOWN_LAYOUTS: Final = 3
SHOWN_REJECTIONS: Final = 12
SHOWN_ADVICE: Final = 4

Item = TypeVar("Item")

TITLES: Final = {
    Objective.CHEAPEST: "Cheapest",
    Objective.FASTEST: "Fastest (twice the cost must save over 10 %)",
    Objective.BEST_VALUE: "Best value (least cost x time)",
}


def show_recommendation(
    console: Report, recommendation: Recommendation, *, top: int = 1, everything: bool = False
) -> None:
    """Print ``top`` plans for each objective, and ``everything`` or what fits one screen."""
    if not everything and top == 1:
        _short(console, recommendation)
        return
    console.print(recommendation.answer, style="bold")
    if recommendation.plans:
        console.print()
        console.paragraph(f"The work: {_named(recommendation.plans[0].estimate)}.")
    console.print()
    console.paragraph(_searched(recommendation))
    shown: dict[Plan, str] = {}
    for ranking in recommendation.rankings:
        _ranking(console, ranking, top, shown, answer=recommendation.answer)
    if recommendation.plans:
        show_day(console, recommendation.plans[0].estimate.day)
    _frontier(console, recommendation, everything=everything)
    _fewest(console, recommendation.fewest, everything=everything)
    _rejections(console, recommendation.rejections, everything=everything)
    console.bullets(
        "Advice", (f"{item.severity}: {item.message}" for item in recommendation.advice)
    )
    console.bullets("Assumed", recommendation.assumptions)
    console.references(recommendation.references)


def _short(console: Report, found: Recommendation) -> None:
    """Print the plans, advice and assumptions of a recommendation."""
    screen = Screen(console, "--explain shows every trade-off, reason, range and source.")
    screen.add(0, Text(found.answer, style="bold"))
    if found.plans:
        first = found.plans[0].estimate
        screen.say(0, f"{_named(first)}.", title="The work")
        screen.say(1, found.plans[0].why, title="Why")
        screen.say(0, f"{arrangement(first)}.{_beside(first)}")
        screen.say(2, offered(first), title="Offer")
        screen.say(1, day_line(first.day) if first.day else "", title="Through the day")
        screen.say(2, first.api.sentence if first.api else "", title="Beside an API")
    if found.nearest is not None:
        title = f"What would make it fit on {found.nearest.count}x {found.nearest.accelerator_name}"
        better = [f"- {text}" for text in found.nearest.improvements]
        screen.say(0, "\n".join(["", *better, *ways_out(found.nearest)]), title=title)
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
    screen.say(6, _lost(found.rejections), title="The others")
    screen.say(2, listed(found.assumed) if found.assumed else "", title="Assumed")
    screen.say(7, _searched(found))
    screen.show()


def _other(plan: Plan, seen: Iterable[Plan]) -> str:
    same = any(plan.estimate == other.estimate for other in seen)
    return f"the same: {plan.title}." if same else plan.sentence


def _named(estimate: Estimate) -> str:
    """Return the work with the model's name, e.g. ``llama-3.1-8b: fine-tune with LoRA on …``."""
    return f"{estimate.model}: {estimate.workload}"


def _searched(recommendation: Recommendation) -> str:
    parameters = recommendation.parameters
    active = f", {count(parameters.active)} active" if parameters.active < parameters.total else ""
    trained = (
        f", {count(parameters.trainable)} trained"
        if 0 < parameters.trainable < parameters.total
        else ""
    )
    date = recommendation.catalog_date
    return (
        f"{count(parameters.total)} parameters{active}{trained}. "
        f"Configurations: {count(recommendation.searched)} searched, "
        f"{count(recommendation.feasible)} feasible"
        f"{f'; newest price of {date}' if date else ''}. {RANGES}"
    )


def _lost(rejections: Sequence[Rejection]) -> str:
    """Return why the other accelerators lost, counted."""
    totals = Counter(item.code for item in rejections)
    told = "; ".join(f"{code.label}: {totals[code]}" for code in RejectionCode if totals[code])
    return told and f"{told}."


def _ranking(
    console: Report, ranking: Ranking, top: int, shown: dict[Plan, str], *, answer: str
) -> None:
    title = TITLES[ranking.objective]
    for plan in ranking.plans[:top]:
        console.heading(title if plan.rank == 1 else f"{title}, number {plan.rank}")
        first = next(
            (name for other, name in shown.items() if other.estimate == plan.estimate), None
        )
        if first is not None:
            console.paragraph(f"The same as {first.lower()}: {plan.title}.")
            continue
        shown[plan] = title if plan.rank == 1 else f"{title}, number {plan.rank}"
        console.paragraph(plan.sentence if plan.sentence != answer else f"{plan.title}, as above.")
        console.paragraph(plan.why)
        console.paragraph(f"{arrangement(plan.estimate)}.{_beside(plan.estimate)}")
        console.paragraph(offered(plan.estimate))
        if plan.estimate.api is not None:
            console.paragraph(f"Beside an API: {plan.estimate.api.sentence}")


def _beside(estimate: Estimate) -> str:
    """Return the times of the fastest other layouts that fit, after a space; empty if none fits."""
    quickest = [item for item in estimate.neighbours if item.fits][:SHOWN_LAYOUTS]
    times = ", ".join(f"{plain(item.time_ratio, 3)}x ({item.change})" for item in quickest)
    return f" Other layouts that fit, fastest first: {times}." if times else ""


def offered(estimate: Estimate) -> str:
    """Return the rent and its parts, and the energy that the work takes."""
    return f"{rent_sentence(estimate)}{_apart(estimate)}{energy_used(estimate)}"


def _apart(estimate: Estimate) -> str:
    """Return the cost of an hour of sound, or of prompts and answers apart, after a space."""
    if hour := estimate.sound_hour_usd:
        return f" An hour of sound costs {money(hour, with_range=True)}."
    prompt = estimate.cost.usd_per_million_input_tokens
    answer = estimate.cost.usd_per_million_output_tokens
    if prompt is None or answer is None:
        return ""
    return (
        f" A million tokens cost {money(prompt, with_range=True)} in the prompt and "
        f"{money(answer, with_range=True)} in the answer."
    )


def _frontier(console: Report, recommendation: Recommendation, *, everything: bool) -> None:
    frontier = recommendation.frontier
    shown = frontier if everything else spread(frontier, SHOWN_TRADE_OFFS)
    what = ""
    if any(item.hours is None for item in frontier):
        timed = "a batch" if recommendation.batches else "a token"
        what = f"; time of {timed}, cost of a month"
    title = f"Best trade-offs, fastest first ({len(shown)} of {len(frontier)}{what})"
    console.tabled_cells(title, [item.cells for item in shown], right=(1, 2))


def _fewest(console: Report, fewest: Sequence[Candidate], *, everything: bool) -> None:
    shown = fewest if everything else fewest[:SHOWN_FEWEST]
    title = f"Fewest that meet the deadline ({len(shown)} of {len(fewest)})"
    console.tabled_cells(title, [item.cells for item in shown], right=(1, 2))


def spread(items: Sequence[Item], number: int) -> list[Item]:
    """Return at most ``number`` evenly spaced items, including the first and the last."""
    if len(items) <= number:
        return list(items)
    return [items[round(step * (len(items) - 1) / (number - 1))] for step in range(number)]


def _rejections(console: Report, rejections: tuple[Rejection, ...], *, everything: bool) -> None:
    if not rejections:
        return
    shown = list(rejections) if everything else shortlist(rejections, SHOWN_REJECTIONS)
    console.heading(f"Why not the others ({len(shown)} of {len(rejections)})")
    console.paragraph(_lost(rejections))
    rows = [(item.accelerator_name, f"{item.message} {item.remedy}".strip()) for item in shown]
    console.tabled("", ["Accelerator", "Why, and what would help"], rows)
    if len(shown) < len(rejections):
        console.paragraph("--all and --json show the rest.")


def shortlist(rejections: Sequence[Rejection], number: int) -> list[Rejection]:
    """Return those that people ask about: rented by the most providers first, then near misses.

    Accelerators that the user excluded are left out.
    """
    rented = {(offer.accelerator, offer.provider) for offer in load_catalog().offers}
    providers = Counter(accelerator for accelerator, _ in rented)
    asked = (item for item in rejections if item.code is not RejectionCode.EXCLUDED)
    return sorted(asked, key=lambda item: (-providers[item.accelerator], item.miss))[:number]
