"""The sentences of an answer: titles, plans, reasons, and limits that are missed."""

from collections.abc import Iterator, Sequence
from typing import Final

from advisor.architecture.table.model import Unit
from advisor.estimate.batch.report import counted_cameras
from advisor.estimate.beside_results import ApiComparison
from advisor.estimate.results import Estimate, StepTime, WayOut
from advisor.estimate.serving.results import ServingEstimate
from advisor.foundation.dates import dated
from advisor.foundation.formatting import (
    duration,
    hourly_price,
    lowered,
    memory,
    memory_against,
    milliseconds,
    money,
    money_at_most,
    percent,
    rate,
)
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOUR_S, MILLISECOND, plain, round_significant, trimmed
from advisor.nouns.hardware import TOGETHER, Offer
from advisor.nouns.limits import Objective
from advisor.planning.search.options import Option
from advisor.planning.search.systems import System
from advisor.planning.spot import price_age

OBJECTIVE_WORDS = {
    Objective.CHEAPEST: "cheapest",
    Objective.FASTEST: "fastest",
    Objective.BEST_VALUE: "best value",
}

BOUND_WORDS = {
    "compute": "arithmetic",
    "bandwidth": "memory bandwidth",
    "network": "traffic between accelerators",
    "bubble": "the pipeline bubble",
    "launch": "kernel launches",
    "host": "the host's memory and its link",
    "input": "the input pipeline on the host",
    "optimizer": "the optimizer update",
    "weights": "reading the weights from memory",
    "cache": "reading the key-value cache from memory",
    "fixed": "fixed costs of the serving engine",
    "prefill": "prompts of other requests",
}


NOTED: Final = 1.1
"""Hours of a whole run over those of its steps in a benchmark, from which a plan names both."""
UNPROVEN: Final = "No published run on this card supports these times."


def label(option: Option, system: System) -> str:
    """Return a short label, e.g. ``8x NVIDIA H100 SXM5 80GB (Lambda)``."""
    where = option.offer.provider if option.offer else "owned"
    return f"{option.cards:,}x {system.accelerator.name} ({where})"


def cards(count: int, replicas: int, name: str, spares: int = 0) -> str:
    """Return cards by their number, or by replicas of a number of them.

    >>> cards(8, 1, "H100"), cards(8, 4, "H100")
    ('8x H100', '4 replicas of 2x H100')
    >>> cards(4, 4, "H100", spares=1), cards(2, 1, "H100", spares=2)
    ('4 replicas of 1x H100 and one spare', '1 replica of 2x H100 and 2 spares')
    """
    if replicas < 2 and not spares:
        return f"{count:,}x {name}"
    plural = "" if replicas == 1 else "s"
    return f"{replicas:,} replica{plural} of {count // replicas:,}x {name}{_beside(spares)}"


def _beside(spares: int) -> str:
    if not spares:
        return ""
    return " and one spare" if spares == 1 else f" and {spares:,} spares"


def title(option: Option, system: System) -> str:
    """Return what to do, e.g. ``Rent 8x NVIDIA H100 SXM5 80GB at Lambda``."""
    layout = option.layout
    replicas = layout.replicas if option.first_token_s is not None else 1
    name = cards(option.count, replicas, system.accelerator.name, option.spares)
    if option.offer is None:
        return f"Use your {name}"
    rented = option.instances * system.node.accelerators
    if TOGETHER in option.offer.key:
        machines = option.offer.instance_type
        return f"Rent {name} at {renter(option.offer)} on several offers ({machines})"
    if rented > option.cards:
        whole = f"{rented:,}x {system.accelerator.name}"
        several = replicas > 1 or option.spares
        used = name.partition(" of ")[0] if several else f"{option.count:,}"
        each = f" of {option.count // replicas:,}{_beside(option.spares)}" if several else ""
        return f"Rent {whole} at {renter(option.offer)} and use {used}{each}"
    return f"Rent {name} at {renter(option.offer)}"


def renter(offer: Offer) -> str:
    """Return the provider, with the term of a commitment, or the kind of a rent that ends."""
    if offer.billing.longest_s is not None:
        return f"{offer.provider} ({offer.tier})"
    term = offer.commitment.partition(":")[0]
    return f"{offer.provider} for {term}" if term else offer.provider


def benchmark_note(time: StepTime) -> str:
    """Say what the steps alone take in a tuned benchmark, if whole runs deliver much less."""
    hours = time.benchmark_hours.expected
    if time.run_hours.expected < NOTED * hours:
        return ""
    return f"In a tuned benchmark, the steps alone take {duration(hours * HOUR_S)}."


def sentence(option: Option, system: System, estimate: Estimate) -> str:
    """Return the plan in one line with its ranges."""
    total, usable = estimate.memory.total_bytes, estimate.memory.usable_bytes
    host = estimate.memory.host_bytes
    beside = f", and {memory(host)} of its host's memory" if host.expected else ""
    fill = f"Uses {memory(total)} of {memory(usable)}{estimate.memory_of}{beside}."
    if estimate.memory.tight:
        most = memory(total.high)
        most = "a little more" if most == memory(usable) else most
        fill += f" Tight: measure one step; a run unlike the published ones may take {most}."
    if estimate.software is not None:
        fill += f" {estimate.software.sentence}"
    if not option.proven:
        fill += f" {UNPROVEN}"
    fill += price_age(estimate)
    rent = estimate.cost.rent_usd
    start = title(option, system)
    if estimate.time is not None:
        hours = estimate.time.run_hours
        text = f"{start}: {duration(hours.scaled(HOUR_S), with_range=True)}"
        if rent is not None:
            text += f", {money(rent, with_range=True)}"
        return " ".join(filter(None, (f"{text}.", benchmark_note(estimate.time), fill)))
    serving = estimate.serving
    if serving is None:
        raise AssertionError("an estimate has either a training time or serving figures")
    first = milliseconds(serving.ttft_ms.scaled(MILLISECOND), with_range=True)
    if serving.unit is Unit.TOKEN and not serving.streams:
        text = f"{start}: first token after {first}{_tail(serving)}"
    elif serving.unit is Unit.TOKEN:
        pace = serving.tpot_ms.scaled(MILLISECOND).reciprocal()
        each = rate(pace, "tokens/s", with_range=True)
        text = f"{start}: {each} for each user, first token after {first}{_tail(serving)}"
    else:
        output = rate(serving.output_tokens_per_s, f"{serving.unit.value}s/s")
        after = f", {output}" if serving.arrivals is None else _tail(serving)
        carried = f"carries {counted_cameras(serving.cameras)}, " if serving.cameras else ""
        text = f"{start}: {carried}{first} {serving.timed}{after}"
    if serving.sound_s_per_s is not None and serving.arrivals is None:  # else the stated rate
        text += f", {rate(serving.sound_s_per_s, 'x real time', with_range=True)}"
    if rent is not None:
        text += f", {money(rent)} a month"
    return f"{text}. {fill}"


def _tail(serving: ServingEstimate) -> str:
    """Return the 95th percentiles under a stated rate of requests."""
    under = serving.arrivals
    if under is None or under.percentiles is None:
        return ""
    tail = under.percentiles.p95
    met = f"within {milliseconds(tail.ttft_ms.expected * MILLISECOND)}"
    if serving.unit is Unit.TOKEN and serving.streams:
        least = rate(1 / (tail.tpot_ms.expected * MILLISECOND), "tokens/s")
        met = f"above {least}, {met}"
    return (
        f" (95 % of requests: {met}), {percent(under.load)} loaded by "
        f"{trimmed(under.asked_requests_per_s, 3)} requests/s"
    )


def why(
    option: Option,
    estimate: Estimate,
    objective: Objective,
    runner_up: tuple[Option, System] | None,
    *,
    alone: bool = False,
) -> str:
    """Return what limits the plan and what the next accelerator would cost or take.

    ``alone``: only this accelerator may be used.
    """
    bound = estimate.time.bound_by if estimate.time else ""
    terms = estimate.time.terms if estimate.time else ()
    if estimate.serving is not None:
        bound, terms = estimate.serving.bound_by, estimate.serving.terms
    total = sum(item.value for item in terms)
    largest = max(terms, key=lambda item: item.value) if terms else None
    text = f"Limited mostly by {BOUND_WORDS.get(bound, bound)}"
    if largest is not None and total > 0:
        share = percent(largest.value / total)
        part = lowered(largest.title)
        text += f"; the largest single part of the time, {share}, is {part}"
    text += "."
    if runner_up is None:
        return (
            text
            if alone or option.offer is None
            else f"{text} No other accelerator meets the limits."
        )
    other, system = runner_up
    return f"{text} {_compared(option, other, objective)} with {label(other, system)}."


def _compared(option: Option, other: Option, objective: Objective) -> str:
    serving = option.first_token_s is not None
    if objective is Objective.FASTEST:
        figure = milliseconds(other.time) if serving else duration(other.time * HOUR_S)
        if other.time < option.time and other.cost_usd > 0:
            return f"Faster, for {cost_text(other)}: {figure}"
        return f"Next fastest: {figure}"
    if objective is Objective.BEST_VALUE and not serving and other.cost_usd > 0:
        return f"Runner-up: {cost_text(other)} in {duration(other.time * HOUR_S)}"
    if other.cost_usd == 0:
        figure = milliseconds(other.time) if serving else duration(other.time * HOUR_S)
        return f"Runner-up: {figure}"
    if other.cost_usd < option.cost_usd:
        # Plans are ranked by the upper end: without it, this one would look better.
        most = money_at_most(other.cost_high_usd)
        return f"Runner-up: {cost_text(other)} expected, up to {most},"
    return f"Runner-up: {cost_text(other)}"


def cost_text(option: Option) -> str:
    """Return an option's cost: an estimate of a run, or the list price of a month."""
    if option.first_token_s is not None:
        return f"{money(option.cost_usd)} a month"
    return money(round_significant(option.cost_usd, 2))


def too_close(first: Range, second: Range) -> bool:
    """Return whether each range contains the expected value of the other."""
    return (
        first.low <= second.expected <= first.high and second.low <= first.expected <= second.high
    )


def nothing_works(
    reasons: Sequence[str], *, deadline_hours: float | None, budget_usd: float | None
) -> str:
    """Return the answer when no configuration meets the limits.

    ``reasons``: why the nearest ones do not, and what would help.
    """
    limits = []
    if deadline_hours is not None:
        limits.append(f"within {duration(deadline_hours * HOUR_S)}")
    if budget_usd is not None:
        limits.append(f"under {money(budget_usd)}")
    asked = " ".join(limits) or "within your limits"
    nearest = f" Nearest: {' '.join(reasons)}" if reasons else ""
    return f"Nothing works {asked}.{nearest}"


def way_out_sentence(way: WayOut, estimate: Estimate) -> str:
    """Return a change with the memory it needs and the time that it takes then."""
    need, usable = memory_against(way.needed_bytes, way.usable_bytes)
    needs = f"needs up to {need} of {usable}"
    if way.likely_bytes is not None:
        likely, usable = memory_against(way.likely_bytes, way.usable_bytes)
        needs = f"may fit, with {likely} of {usable} expected and up to {need} possible"
    host = f" and {memory(way.host_bytes)} of host memory for each" if way.host_bytes else ""
    fewer = ", and fewer run at once" if way.sacrifice == "load" else ""
    serving, time = estimate.serving, estimate.time
    if serving is not None:
        taken = milliseconds(way.time_ratio * serving.tpot_ms.expected * MILLISECOND)
        pace = f"{taken} {'a token' if serving.streams else 'an answer'}"
    elif time is not None:
        pace = f"takes {duration(way.time_ratio * time.run_hours.expected * HOUR_S)}"
    else:
        raise ValueError("an estimate has a time of training or of serving")
    return f"{way.change}: {needs}{host}; {pace}{fewer}"


def neighbour_cells(estimate: Estimate) -> Iterator[dict[str, str]]:
    """Yield the layouts one step away with their time and memory, by column."""
    time = "Time of a token" if estimate.serving else "Time of a step"
    for item in estimate.neighbours:
        needed = memory_against(item.memory_bytes, estimate.memory.usable_bytes)
        yield {
            "Change": item.change,
            time: duration(item.time_s) if item.time_s >= 1 else milliseconds(item.time_s),
            "Of the plan's": f"{plain(item.time_ratio, 3)}x",
            "Memory on each": " of ".join(needed),
            "Verdict": "; ".join(
                filter(None, ("fits" if item.fits else "does not fit", item.note))
            ),
        }


def hosted_cells(found: ApiComparison) -> Iterator[dict[str, str]]:
    """Yield hosted models beside machines, by column."""
    for item in found.options:
        cached, requests = item.cached_input_usd_per_million, item.break_even_requests_per_day
        above = requests and f"{round_significant(requests, 2):,.0f} requests a day"
        yield {
            "Hosted model": f"{item.provider} {item.model}".strip(),
            "In, per million": money(item.input_usd_per_million),
            "Cached": "-" if cached is None else money(cached),
            "Out, per million": money(item.output_usd_per_million),
            "The same requests, a month": money(round_significant(item.usd_per_month, 2)),
            "Machines win above": above or "-",
            "Price of": dated(item.price_date) or "you",
            "Note": item.caveat,
        }


def rent_sentence(estimate: Estimate) -> str:
    """Return the rent with its provider, machines, date and source, or that there is none."""
    cost = estimate.cost
    if cost.usd_per_hour is None or cost.provider is None:
        return "Your own hardware: no rent."
    where = f"{cost.provider}, {cost.region}" if cost.region else cost.provider
    several = cost.instances not in (None, 1) and TOGETHER not in (cost.offer or "")
    machines = f"{cost.instances:,} machines: " if several else ""
    terms = f" {cost.rental_terms}" if cost.rental_terms else ""
    return (
        f"{hourly_price(cost.usd_per_hour)} at {where} ({machines}{cost.instance_type}), "
        f"price of {dated(cost.price_date)} ({cost.price_source}).{terms}"
    )


def energy_used(estimate: Estimate) -> str:
    """Return energy and carbon, after a space, or that the power is not known."""
    cost = estimate.cost
    if cost.energy_kwh is None or cost.carbon_kg is None:
        return " Energy and carbon are not known: this card states no power."
    period = "" if estimate.time is not None else " a month"
    return (
        f" Takes {rate(cost.energy_kwh, 'kWh')} of electricity{period}, cooling included: "
        f"{rate(cost.carbon_kg, 'kg')} of CO2 ({cost.carbon_place})."
    )
