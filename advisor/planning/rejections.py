"""Why each accelerator lost, told with the nearest miss and what would mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.catalog import Catalog
from advisor.estimate.candidates import matmul_peak
from advisor.formatting import (
    duration,
    memory,
    memory_against,
    milliseconds,
    money,
    round_significant,
)
from advisor.hardware import Accelerator, PriceKind
from advisor.limits import Constraints, Objective
from advisor.planning.options import NEAR_FASTEST, Option, meets_budget, meets_time, meets_tpot
from advisor.planning.results import Rejection, RejectionCode
from advisor.planning.sentences import cost_text
from advisor.planning.systems import LOWEST_ASK
from advisor.units import GIB, HOUR_S, MILLISECOND


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search learned about the accelerators, by catalog key."""

    options: Mapping[str, Sequence[Option]]
    """All configurations that fit, limits not yet applied."""
    least_memory_bytes: Mapping[str, float]
    """Smallest need of any layout where none fits. [bytes]"""
    searched: frozenset[str]
    """Accelerators with at least one system and a supported number format."""
    rentable: frozenset[str]
    """Accelerators with at least one system."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The least cost and the least time of any configuration within the limits, upper ends."""

    least_cost_usd: float
    least_time: float


def reject(
    catalog: Catalog,
    limits: Constraints,
    outcome: Outcome,
    *,
    chosen: frozenset[str],
    best: Option | None,
    best_name: str,
    objective: Objective,
    formats: tuple[str, ...],
    memory_remedy: str,
    answer: str,
) -> tuple[Rejection, ...]:
    """Return one rejection for every accelerator of the catalog that is in no plan.

    Parameters
    ----------
    catalog : Catalog
    limits : Constraints
    outcome : Outcome
    chosen : frozenset of str
        Accelerators that some plan uses.
    best : Option or None
        The best plan of the asked objective.
    best_name : str
        Its label.
    objective : Objective
        What the best plan is best at.
    formats : tuple of str
        Number formats the workload would accept.
    memory_remedy : str
        What lowers the memory need of this workload.
    answer : str
        What time is told for instead of hours: ``token`` or ``batch``; empty for training.

    Returns
    -------
    tuple of Rejection
        In the catalog's order.
    """
    allowed = {catalog.accelerator(key).key for key in limits.accelerators}
    owned = {catalog.accelerator(item.accelerator).key for item in limits.owned}
    feasible = [
        option
        for group in outcome.options.values()
        for option in group
        if meets_time(option, limits) and meets_budget(option, limits)
    ]
    ends = Ends(
        least_cost_usd=min((option.cost_high_usd for option in feasible), default=0.0),
        least_time=min((option.time_high for option in feasible), default=0.0),
    )
    rejections = []
    for accelerator in catalog.accelerators:
        key = accelerator.key
        if key in chosen:
            continue
        if (allowed and key not in allowed) or (owned and key not in owned):
            rejections.append(_excluded(accelerator))
        elif accelerator.inference_only and not answer:
            rejections.append(_inference_only(accelerator))
        elif key not in outcome.rentable:
            rejections.append(_not_offered(accelerator, catalog, limits))
        elif key not in outcome.searched:
            rejections.append(_no_format(accelerator, formats))
        elif not outcome.options.get(key):
            rejections.append(
                _too_small(accelerator, outcome.least_memory_bytes.get(key), memory_remedy)
            )
        else:
            rejections.append(
                _lost(
                    accelerator,
                    outcome.options[key],
                    limits,
                    best,
                    best_name,
                    ends,
                    objective,
                    answer=answer,
                )
            )
    return tuple(rejections)


def _rejection(
    accelerator: Accelerator,
    code: RejectionCode,
    message: str,
    remedy: str,
    *,
    actual: float | None = None,
    limit: float | None = None,
    unit: str = "",
) -> Rejection:
    return Rejection(
        accelerator=accelerator.key,
        accelerator_name=accelerator.name,
        code=code,
        actual=actual,
        limit=limit,
        unit=unit,
        message=message,
        remedy=remedy,
    )


def _excluded(accelerator: Accelerator) -> Rejection:
    return _rejection(
        accelerator,
        RejectionCode.EXCLUDED,
        f"{accelerator.name} is outside the accelerators you allowed.",
        "Add it to the allowed accelerators to have it searched.",
    )


def _inference_only(accelerator: Accelerator) -> Rejection:
    return _rejection(
        accelerator,
        RejectionCode.INFERENCE_ONLY,
        f"{accelerator.name} serves models only: no training software runs on it.",
        "Choose another accelerator for training; compare it for serving.",
    )


def _not_offered(accelerator: Accelerator, catalog: Catalog, limits: Constraints) -> Rejection:
    offers = catalog.offers_for(accelerator.key)
    if not offers:
        bought = (
            f" It sells for about {money(accelerator.purchase_usd)}."
            if accelerator.purchase_usd
            else ""
        )
        return _rejection(
            accelerator,
            RejectionCode.NOT_OFFERED,
            f"No provider in the catalog rents {accelerator.name}.",
            f"Plan with it as owned hardware.{bought}",
        )
    kind = "spot" if limits.price_kind is PriceKind.SPOT else "on-demand"
    smallest = min(offer.accelerators for offer in offers)
    if smallest > limits.max_accelerators:
        return _rejection(
            accelerator,
            RejectionCode.NOT_OFFERED,
            f"{accelerator.name} is rented in machines of {smallest} or more; you allow "
            f"{limits.max_accelerators:,}.",
            f"Allow {smallest} accelerators.",
            actual=float(smallest),
            limit=float(limits.max_accelerators),
            unit="accelerators",
        )
    elsewhere = sorted({offer.provider for offer in offers})
    if not limits.providers and all(offer.tier == LOWEST_ASK for offer in offers):
        return _rejection(
            accelerator,
            RejectionCode.NOT_OFFERED,
            f"{accelerator.name} has only the lowest ask of a marketplace, which one host can "
            "withdraw.",
            f"Name the provider to search it: {', '.join(elsewhere)}.",
        )
    return _rejection(
        accelerator,
        RejectionCode.NOT_OFFERED,
        f"{accelerator.name} has no {kind} offer within your providers and regions.",
        f"Providers that rent it: {', '.join(elsewhere[:4])}"
        + (" and others." if len(elsewhere) > 4 else "."),
    )


def _no_format(accelerator: Accelerator, formats: tuple[str, ...]) -> Rejection:
    has = [
        name
        for name in ("fp32", "fp16", "bf16", "fp8", "fp4", "int8")
        if matmul_peak(accelerator, name)
    ]
    return _rejection(
        accelerator,
        RejectionCode.FORMAT,
        f"{accelerator.name} has no dense rate in {' or '.join(formats)} in the catalog; it has "
        f"{', '.join(has) or 'none'}.",
        f"Choose a precision that computes in {has[-1]}." if has else "Choose another accelerator.",
    )


def _too_small(
    accelerator: Accelerator, least_bytes: float | None, memory_remedy: str
) -> Rejection:
    usable = accelerator.memory_reported_bytes
    if least_bytes is None:
        return _rejection(
            accelerator,
            RejectionCode.MEMORY,
            f"{accelerator.name} has no layout for this work: its smallest machine has more "
            "accelerators than a step has sequences and the model can be divided into.",
            "Raise the global batch, or choose a smaller machine.",
        )
    needs, has = memory_against(least_bytes, usable)
    return _rejection(
        accelerator,
        RejectionCode.MEMORY,
        f"{accelerator.name} is {memory(least_bytes - usable)} short: the leanest layout needs up "
        f"to {needs} on each, it has {has}.",
        memory_remedy,
        actual=least_bytes / GIB,
        limit=usable / GIB,
        unit="GiB",
    )


def _lost(
    accelerator: Accelerator,
    options: Sequence[Option],
    limits: Constraints,
    best: Option | None,
    best_name: str,
    ends: Ends,
    objective: Objective,
    *,
    answer: str,
) -> Rejection:
    in_time = [option for option in options if meets_time(option, limits)]
    if not in_time:
        return (
            _latency(accelerator, options, limits)
            if answer
            else _late(accelerator, options, limits)
        )
    affordable = [option for option in in_time if meets_budget(option, limits)]
    if not affordable:
        least = round_significant(min(option.cost_usd for option in in_time), 3, "up")
        limit = limits.budget_usd or 0.0
        per = " a month" if answer else ""
        return _rejection(
            accelerator,
            RejectionCode.BUDGET,
            f"{accelerator.name} costs at least {money(least)}{per}, budget {money(limit)}.",
            f"Raise the budget to {money(least)}"
            + ("." if limits.deadline_hours is None or answer else " or allow more time."),
            actual=least,
            limit=limit,
            unit="USD",
        )
    cheapest = min(affordable, key=lambda option: (option.cost_usd, option.time))
    if best is None:
        msg = "an affordable option exists, so a best plan must too"
        raise AssertionError(msg)
    return _rejection(
        accelerator,
        RejectionCode.DOMINATED,
        f"{accelerator.name} works, from {_figures(cheapest, answer=answer)}, but the chosen "
        f"{best_name} is {_figures(best, answer=answer)}.",
        _where_it_wins(affordable, best, ends, objective, answer=answer),
        actual=cheapest.cost_usd,
        limit=best.cost_usd,
        unit="USD",
    )


def _figures(option: Option, *, answer: str) -> str:
    if answer:
        return f"{cost_text(option)} at {milliseconds(option.time)} per {answer}"
    return f"{cost_text(option)} in {duration(option.time * HOUR_S)}"


def _where_it_wins(
    options: Sequence[Option], best: Option, ends: Ends, objective: Objective, *, answer: str
) -> str:
    """Say under which other objective the card wins, or how far its rent is from winning."""
    cheapest = min(options, key=lambda option: option.key(Objective.CHEAPEST))
    fastest = min(options, key=lambda option: option.key(Objective.FASTEST))
    if cheapest.cost_high_usd <= ends.least_cost_usd:
        return "Choose it if cost alone matters."
    if fastest.time_high <= ends.least_time * NEAR_FASTEST:
        return f"Choose it if speed alone matters: {_figures(fastest, answer=answer)}."
    if objective is Objective.FASTEST:
        return f"It takes {fastest.time / best.time:.1f} times as long; no rent mends that."
    if best.cost_usd <= 0:
        return "Choose it if the best plan's hardware is taken."
    if not answer and any(option.cost_usd < best.cost_usd for option in options):
        upper = money(round_significant(cheapest.cost_high_usd, 2))
        return f"Its range reaches {upper}: time a few steps on it before you trust the difference."
    nearest = min(options, key=lambda option: option.key(objective))
    ratio = best.key(objective)[0] / nearest.key(objective)[0]
    return f"Its rent would have to fall by {1 - ratio:.0%}."


def _late(accelerator: Accelerator, options: Sequence[Option], limits: Constraints) -> Rejection:
    hours = min(option.time for option in options)
    deadline = limits.deadline_hours or 0.0
    count = min(options, key=lambda option: option.time).count
    return _rejection(
        accelerator,
        RejectionCode.DEADLINE,
        f"{accelerator.name} misses your deadline: {duration(hours * HOUR_S)} on {count:,}, limit "
        f"{duration(deadline * HOUR_S)}.",
        f"Meets it with {deadline / hours:.0%} of the tokens, or with a deadline of "
        f"{duration(hours * HOUR_S)}.",
        actual=hours,
        limit=deadline,
        unit="h",
    )


def _latency(accelerator: Accelerator, options: Sequence[Option], limits: Constraints) -> Rejection:
    per_token = min(option.time for option in options)
    first_token = min(option.first_token_s or 0.0 for option in options)
    if limits.max_tpot_ms is not None and limits.max_ttft_ms is not None:
        prompt = [option for option in options if meets_tpot(option, limits)]
        if prompt and first_token * 1e3 <= limits.max_ttft_ms:
            return _not_both(accelerator, prompt, limits.max_ttft_ms)
    if limits.max_tpot_ms is not None and per_token * 1e3 > limits.max_tpot_ms:
        what, actual, limit = "time per output token", per_token * 1e3, limits.max_tpot_ms
    else:
        what = "time to first token"
        actual = first_token * 1e3
        limit = limits.max_ttft_ms or 0.0
    return _rejection(
        accelerator,
        RejectionCode.LATENCY,
        f"{accelerator.name} misses your {what}: {milliseconds(actual / 1e3)}, limit "
        f"{milliseconds(limit / 1e3)}.",
        f"Allow {milliseconds(actual / 1e3)}, quantise the weights, or lower the concurrency.",
        actual=actual,
        limit=limit,
        unit="ms",
    )


def _not_both(accelerator: Accelerator, options: Sequence[Option], max_ttft_ms: float) -> Rejection:
    """Reject a card that meets either latency target, but not both with one layout."""
    nearest = min(options, key=lambda option: option.first_token_s or 0.0)
    first = nearest.first_token_s or 0.0
    return _rejection(
        accelerator,
        RejectionCode.LATENCY,
        f"{accelerator.name} meets either latency target, but no layout meets both: with "
        f"{milliseconds(nearest.time)} per token the first token takes {milliseconds(first)}, "
        f"limit {milliseconds(max_ttft_ms * MILLISECOND)}.",
        f"Allow {milliseconds(first)} to the first token, or relax the time per token.",
        actual=first / MILLISECOND,
        limit=max_ttft_ms,
        unit="ms",
    )
