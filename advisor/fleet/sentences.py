"""The answer of a fleet in words."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from advisor.architecture.resolve import resolve_model
from advisor.catalog import load_catalog
from advisor.fleet.account import Account
from advisor.fleet.machines import CONSUMER_FLOOR_BYTES, PLATFORMS, Machine, below_floor, classics
from advisor.fleet.platforms import Chosen, software_share
from advisor.fleet.portfolio import Portfolio
from advisor.fleet.results import WHOLE, Alternative, Purchase
from advisor.fleet.solving.problem import Way
from advisor.foundation.formatting import duration, money, percent
from advisor.foundation.units import GB, MONTHS_PER_YEAR
from advisor.nouns.hardware import Segment
from advisor.nouns.workload import Serving

LEFT: Final = 0.005
"""Smallest share of a workload that is told to be left out."""
SHOWN = 3
FASTER, MIXED, ONE_KIND, MORE = "faster", "mixed", "kind", "times "
WORTH_TELLING = 0.005
"""Smallest share of the cost that is stated as a difference."""
LITTLE_USE = 0.1
"""Share of the hours of cards below which their use is told."""
LONG_S = 60.0
"""Longer answers are told where no limit on latency is stated. [s]"""
OUTLET_W: Final = 1440.0
"""What a circuit of 15 A at 120 V carries for hours: 80 % of it (NFPA 70, 210.20(A)). [W]"""
MUCH_LEFT = 0.25
"""Share of the budget for machines that needs a reason if it is left."""


def answer(
    portfolio: Portfolio,
    purchases: Sequence[Purchase],
    account: Account,
    others: Sequence[Alternative],
    chosen: Chosen,
    *,
    feasible: bool,
) -> str:
    """Return the plan in a few sentences for somebody who decides about money."""
    horizon = years(account.problem.horizon)
    bought = [item for item in purchases if not item.committed]
    modes = [(use.job, account.mode(use)) for use, _ in account.solution.used()]
    own = {supply for _, mode in modes if (supply := mode.supply) is not None}
    there = any(account.problem.supplies[at].way is Way.OWNED for at in own)
    parts = ["use the machines that you have"] if there else []
    parts += _orders(bought)
    terms = [item for item in purchases if item.committed]
    if terms:
        parts.append(f"rent {_counted(terms)} for a term")
    hosts = sorted({mode.title for _, mode in modes if mode.hosted})
    if hosts:
        parts.append(f"call the {' and the '.join(hosts)}")
    rented = [(job, mode) for job, mode in modes if mode.supply is None and not mode.hosted]
    if rented:
        jobs = [account.problem.jobs[at].name for at in sorted({job for job, _ in rented})]
        work = " and ".join(jobs) if len(jobs) < SHOWN else "the rest"
        kinds = {mode.title.startswith("spot ") for _, mode in rented}
        how = " and ".join(("on demand", "on spot")[kind] for kind in sorted(kinds))
        parts.append(f"rent {how} for {work}" if parts else f"rent everything {how}")
    first = ", ".join(parts) or "buy and rent nothing"
    text = f"{first[:1].upper()}{first[1:]}: {money(account.total_usd)} over {horizon}."
    if there and len(parts) == 1:
        text += " That is their power, place and staff."
    if chosen.saving is not None:
        text += (
            f" Further machines or rentals would save {money(chosen.saving)}, less than a week of "
            "whoever sets them up."
        )
    if account.worth_usd > WORTH_TELLING * account.total_usd:
        text += (
            f" That is {money(account.total_usd + account.worth_usd)} paid, less "
            f"{money(account.worth_usd)} that the machines are worth at the end, "
            "in today's money."
        )
    kept = sum(account.lines[kind] for kind in ("owned", "upkeep", "power"))
    if bought and kept > WORTH_TELLING * account.total_usd:
        text += f" It includes {money(kept)} for power, place and staff."
    for way, some, whose in ((Way.BUY, bought, "Its"), (Way.OWNED, there, "Your")):
        if some and (use := account.use(way)) < LITTLE_USE:
            text += f" {whose} machines are in use {percent(use)} of the time."
    text += _spares(account) + _latencies(portfolio, account)
    if account.caution_usd > WORTH_TELLING * account.total_usd:
        text += (
            " Rented cards without published runs count at the slow end of their range; the "
            f"expected total is {money(account.total_usd - account.caution_usd)}."
        )
    text += _platforms(account.total_usd, others, chosen)
    idle = [
        item.title
        for at, item in enumerate(account.problem.supplies)
        if item.way is Way.OWNED and at not in own
    ]
    if idle:
        text += f" No work runs on the {' or '.join(idle)}: too small, too slow, or dearer to run."
    text += _other_ways(account.total_usd, others)
    text += _rest(portfolio, account, others) if feasible else ""
    if not feasible:
        left = [charge for charge in account.charges() if charge.left_out > LEFT]
        names = ", ".join(
            item.workload
            + f" (up to {percent(item.left_out)})" * (item.left_out < WHOLE)
            + _when_left(account, item.workload)
            for item in left[:SHOWN]
        )
        text += f" The limits do not allow everything. Left out: {names}."
        if len(left) > SHOWN:
            text += f" So are {len(left) - SHOWN} more."
        text += (
            f" All of it could be done with {', or with '.join(chosen.obstacles)}."
            if chosen.obstacles
            else " No single limit is the reason: several are too narrow."
        )
    return text


def _when_left(account: Account, workload: str) -> str:
    """Return in which months a workload is left out; empty if in all."""
    problem = account.problem
    periods = [
        column.period
        for column, share in account.solution.left()
        if share > LEFT and problem.jobs[column.job].name == workload
    ]
    first, last = min(periods), max(periods) + 1
    begin = f" from month {problem.starts[first]}" if first else ""
    return begin + (f" until month {problem.starts[last]}" if last < len(problem.starts) else "")


def _orders(bought: Sequence[Purchase]) -> Iterator[str]:
    """Yield what is bought at the start, and what later."""
    for now in (True, False):
        items = [item for item in bought if now is (item.month == 0)]
        if items:
            months = sorted({item.month for item in items})
            until = f" to {months[-1]}" if months[1:] else ""
            later = "" if now else f" in month{'s' * bool(until)} {months[0]}{until}"
            yield f"buy {_counted(items)} for {money(sum(item.usd for item in items))}{later}"


def _counted(items: Sequence[Purchase]) -> str:
    return counted((item.title, item.count, item.usd) for item in items)


def _other_ways(usd: float, others: Sequence[Alternative]) -> str:
    """Return what renting or buying everything, or machines of one kind, would cost."""
    text = ""
    for item in others:
        if item.name in (FASTER, MIXED) or item.name.startswith(MORE):
            continue
        if item.name == ONE_KIND and item.usd:
            more = item.usd - usd
            words = f"{money(more)} more" if more > WORTH_TELLING * item.usd else "as much"
            text += f" Machines of one kind, {item.machines}, would cost {words}."
            continue
        words = re.sub(r"^(Rent|Buy|Call)\b", r"\1ing", item.title)
        if item.feasible and item.usd and item.usd > usd * (1 + WORTH_TELLING):
            most = "at most " * (item.gap > WORTH_TELLING)
            text += f" {words} would cost {most}{money(item.usd)}."
        elif not item.feasible:
            text += f" {words}: {none_found(item.timed_out)}."
    return text


def _latencies(portfolio: Portfolio, account: Account) -> str:
    """Return which services wait long since they state no limit, and whose limits are open."""
    text, hosted = "", []
    for at, item in enumerate(portfolio.workloads):
        modes = [account.mode(use) for use, _ in account.solution.used() if use.job == at]
        serving, limits = item.case.workload, item.case.limits
        if not isinstance(serving, Serving):
            continue
        if limits.max_tpot_ms is not None or limits.max_ttft_ms is not None:
            hosted += [item.name] * any(mode.hosted for mode in modes)
            continue
        tokens = serving.output_tokens * resolve_model(item.case.model).generates
        slowest = max((mode.first_s + tokens * mode.token_s for mode in modes), default=0.0)
        if slowest > LONG_S:
            text += f" An answer of {item.name} takes {duration(slowest)} at the peak: it states no"
            text += " limit on latency."
    if hosted:
        ask = f"{' and '.join(hosted)} ask{'s' * (len(hosted) == 1)} for"
        text += f" No API promises the latency that {ask}: measure it."
    return text


def _spares(account: Account) -> str:
    """Return for which services machines stay free."""
    problem, kept = account.problem, {}
    for use, _ in account.solution.used():
        job, supply = problem.jobs[use.job], account.mode(use).supply
        if job.spares and supply is not None and problem.supplies[supply].on_site:
            kept[job.name] = job.spares
    if not kept:
        return ""
    machines = " and ".join(f"{number} of each kind for {name}" for name, number in kept.items())
    return f" Should a machine fail, others stay free: {machines}; training may use them till then."


def none_found(timed_out: bool) -> str:
    """Return why there is no plan of a kind."""
    if timed_out:
        return "no plan was found before the search ended"
    return "not possible within the limits"


def _rest(portfolio: Portfolio, account: Account, others: Sequence[Alternative]) -> str:
    """Return why a budget is not spent, and what more of it would buy."""
    budget, spent = portfolio.budget.purchase_usd, account.purchase_usd
    if budget is None or not spent or budget - spent < MUCH_LEFT * budget:
        return ""
    text = f" The work needs no more: {money(budget - spent)} of the budget are left."
    steps = [
        (item.title, money(item.purchase_usd))
        for item in others
        if item.name.startswith(MORE) and item.purchase_usd and item.purchase_usd > spent
    ]
    if steps:
        text += f" {steps[0][0]} would need machines for {steps[0][1]}"
        text += "".join(f", {title.partition(' the ')[0]} {usd}" for title, usd in steps[1:])
        text += "; each run takes as long as before."
    for item in others:
        if item.name == FASTER and item.purchase_usd and item.usd:
            text += f" {item.title} would need {item.machines} for {money(item.purchase_usd)}"
            text += f", and cost {money(item.usd)} in all."
    return text


def _platforms(usd: float, others: Sequence[Alternative], chosen: Chosen) -> str:
    """Return on which software platform the plan runs, and what others or a mix would save."""
    used = " and ".join(chosen.platforms)
    if chosen.forced:
        return " No single software platform does all of it, so the plan mixes them."
    if not chosen.single:
        return ""
    text = f" All of it runs on {used}."
    for name, other in chosen.others:
        if other and abs(other - usd) > WORTH_TELLING * usd:
            less = "less" if other < usd else "more"
            text += f" On {name} it would cost {money(abs(other - usd))} {less}."
    for item in others:
        if item.name == MIXED and item.usd and item.usd < (1 - WORTH_TELLING) * usd:
            saved = f"would save {money(usd - item.usd)} ({percent(1 - item.usd / usd)})"
            if item.title.startswith("On "):
                text += f" {item.title}, {item.machines or 'rents'} {saved}, but fewer tools run."
                continue
            text += f" Mixing platforms {saved}, but everybody would have to keep the software "
            text += "of each running."
    return text


def years(months: int) -> str:
    """Return a horizon in words."""
    whole, rest = divmod(months, MONTHS_PER_YEAR)
    if rest or not whole:
        return f"{months} month{'s' * (months != 1)}"
    return f"{whole} year{'s' * (whole > 1)}"


def counted(bought: Iterable[tuple[str, int, float]]) -> str:
    """Return machines in words, the dearest first, from title, number and price at each time."""
    numbers: dict[str, int] = {}
    for title, number, _ in sorted(bought, key=lambda each: -each[2]):
        numbers[title] = numbers.get(title, 0) + number
    shown = [f"{number} x {title}" for title, number in list(numbers.items())[:SHOWN]]
    others = sum(list(numbers.values())[SHOWN:])
    if others:
        shown.append(f"{others} more machine{'s' * (others > 1)}")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def card_alone(machines: Iterable[Machine], budget: float) -> str:
    """Return, after a space, the cheapest card for a desktop that is there; empty beyond a budget.

    ``budget``: for the card alone. [USD]
    """
    towers = (item for item in machines if item.row.kind == "desktop")
    cards = ((item.usd - item.host_usd, item.card.name) for item in towers)
    usd, name = min(cards, default=(math.inf, ""))
    if usd > budget:
        return ""
    words = f"{name} for {money(usd)}, if your computer has room and power for it"
    return f" A card alone is within the budget: {words} (--host-price 0)."


def machine_reasons(machine: Machine) -> tuple[str, ...]:
    """Return what a buyer has to know of a machine: memory, software, condition."""
    card, row = machine.card, machine.row
    run, known = software_share(card)
    platform = PLATFORMS.get(card.vendor, card.vendor)
    counted = f"{run} of the {known} tools of the advisor run on {platform} with this card."
    reasons = [f"Software: {row.software or counted}"]
    memory = f"{card.memory_marketed_bytes / GB:,.0f} GB"
    if card.segment is Segment.CONSUMER and not card.shares_host_memory:
        floor = f"{CONSUMER_FLOOR_BYTES / GB:.0f} GB"
        reasons.append(f"Memory: {memory} on each card; consumer cards below {floor} are left out.")
    else:
        reasons.append(f"Memory: {memory} on each accelerator.")
    if not row.rack_units and machine.rated_w > OUTLET_W:
        outlet = f"one of 15 A at 120 V carries {OUTLET_W:,.0f} W for hours"
        reasons.append(f"Power: {machine.rated_w:,.0f} W need 20 A, or 230 V; {outlet}.")
    if row.used:
        reasons.append("Used: no warranty, a shorter life, and a price that differs by offer.")
    return (*reasons, *beside_classics(machine))


def beside_classics(machine: Machine) -> list[str]:
    """Return how the classic budget cards compare with a desktop's consumer card; else nothing."""
    if machine.row.kind != "desktop" or machine.card.segment is not Segment.CONSUMER:
        return []
    told = []
    for card in classics(load_catalog()):
        share = card.memory_bandwidth_bytes_per_s / machine.card.memory_bandwidth_bytes_per_s
        judged = f"reads its memory at {percent(share)} of this card's rate"
        if below_floor(card):
            judged = f"is below the floor of {CONSUMER_FLOOR_BYTES / GB:.0f} GB"
        price = f"{money(card.purchase_usd or 0.0)}, {card.price_words()}"
        told.append(f"{card.name.removeprefix('NVIDIA GeForce ')} ({price}) {judged}")
    return [f"Classic picks: {'; '.join(told)}."]
