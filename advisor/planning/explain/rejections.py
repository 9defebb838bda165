"""Why each accelerator is in no plan: by how much it misses, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from advisor.catalog import Catalog
from advisor.estimate.candidates import matmul_peak
from advisor.estimate.software import Lack
from advisor.foundation.formatting import (
    memory,
    memory_against,
    milliseconds,
)
from advisor.foundation.units import GIB
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.software.quality import quality_words
from advisor.planning.explain.devices import bought_remedy
from advisor.planning.explain.why_not import Ends, reason_it_lost
from advisor.planning.results import Rejection, RejectionCode
from advisor.planning.search.options import Miss, Option, meets_budget, meets_time
from advisor.planning.search.systems import LOWEST_ASK


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search found out about the accelerators, by catalog key."""

    options: Mapping[str, Sequence[Option]]
    """All configurations that fit, limits not yet applied."""
    misses: Mapping[str, Miss]
    """The layout that needs least memory, for each accelerator where no layout fits."""
    smaller: Mapping[str, Option]
    """Where no layout fits: the fastest with smaller weights or with the host's memory."""
    bought: Mapping[str, Option]
    """What one of a device does that nobody rents."""
    searched: frozenset[str]
    """Accelerators with at least one system and a supported number format."""
    rentable: frozenset[str]
    """Accelerators with at least one system."""
    startup_s: float
    """Time before the first step of every training run. [s]"""
    requests_per_s: float | None = None
    """Of serving under a rate of requests. [requests/s]"""


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
    lack: Callable[[Accelerator], Lack | None],
) -> tuple[Rejection, ...]:
    """Return one rejection for every accelerator of the catalog that is in no plan.

    Parameters
    ----------
    catalog : Catalog
        Accelerators and offers.
    limits : Constraints
        Limits that the user set.
    outcome : Outcome
        Results of the search.
    chosen : frozenset of str
        Accelerators that some plan uses.
    best : Option or None
        The best plan of the asked objective.
    best_name : str
        Its label.
    objective : Objective
        The asked objective.
    formats : tuple of str
        Number formats the workload would accept.
    memory_remedy : str
        What lowers the memory need of this workload.
    answer : str
        Unit of the shown time: ``token`` or ``batch``; empty for training, shown in hours.
    lack : callable
        Why no software does the work on an accelerator; None if some does.

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
        elif limits.vendors and accelerator.vendor not in limits.vendors:
            rejections.append(_other_vendor(accelerator, limits))
        elif (missing := lack(accelerator)) is not None:
            rejections.append(_no_software(accelerator, missing))
        elif key not in outcome.rentable:
            rejections.append(_not_offered(accelerator, catalog, limits, outcome.bought))
        elif key not in outcome.searched:
            rejections.append(_no_format(accelerator, formats))
        elif not outcome.options.get(key):
            miss = outcome.misses.get(key)
            if miss is None and outcome.requests_per_s is not None:
                rejections.append(_overloaded(accelerator, outcome.requests_per_s, limits))
            else:
                way = outcome.smaller.get(key)
                remedy = memory_remedy if way is None else how_it_fits(way)
                rejections.append(_too_small(accelerator, miss, remedy))
        else:
            rejections.append(
                reason_it_lost(
                    accelerator,
                    outcome.options[key],
                    limits,
                    best,
                    best_name,
                    ends,
                    objective,
                    answer=answer,
                    startup_s=outcome.startup_s,
                )
            )
    return tuple(rejections)


def how_it_fits(option: Option) -> str:
    """Return how a card serves what fits only with smaller weights or the host's memory."""
    layout, speed = option.layout, f"{milliseconds(option.time)} per token"
    form = f"--weights {option.precision}"
    if layout.gpu_layers is None and not layout.cpu_expert_layers:
        quality = quality_words(option.precision)
        return f"It fits with {form}: {speed}{f'; {quality}' if quality else ''}."
    held = (
        f"--cpu-expert-layers {layout.cpu_expert_layers}"
        if layout.gpu_layers is None
        else f"--gpu-layers {layout.gpu_layers}"
    )
    return (
        f"It fits with layers in the host's memory: {form} {held} --engine llama-cpp, {speed}. "
        "Without these options, the card's own estimate chooses them."
    )


def _excluded(accelerator: Accelerator) -> Rejection:
    return Rejection.of(
        accelerator,
        RejectionCode.EXCLUDED,
        f"{accelerator.name} is not among the accelerators that you allow.",
        "Add it to the allowed accelerators.",
    )


def _inference_only(accelerator: Accelerator) -> Rejection:
    return Rejection.of(
        accelerator,
        RejectionCode.INFERENCE_ONLY,
        f"{accelerator.name} serves models only: no training software runs on it.",
        "Choose another accelerator for training; compare it for serving.",
    )


def _other_vendor(accelerator: Accelerator, limits: Constraints) -> Rejection:
    return Rejection.of(
        accelerator,
        RejectionCode.EXCLUDED,
        f"{accelerator.name} is from {accelerator.vendor}; you allow {', '.join(limits.vendors)}.",
        f"Allow {accelerator.vendor}.",
    )


def _no_software(accelerator: Accelerator, missing: Lack) -> Rejection:
    return Rejection.of(
        accelerator,
        RejectionCode.SOFTWARE,
        f"No software does this on {accelerator.name}: {missing.reason}.",
        missing.remedy,
    )


def _not_offered(
    accelerator: Accelerator,
    catalog: Catalog,
    limits: Constraints,
    bought: Mapping[str, Option],
) -> Rejection:
    offers = catalog.offers_for(accelerator.key)
    if not offers:
        return Rejection.of(
            accelerator,
            RejectionCode.NOT_OFFERED,
            f"No provider in the catalog rents {accelerator.name}.",
            bought_remedy(accelerator, bought.get(accelerator.key), tried=bool(bought)),
        )
    kind = "spot" if limits.price_kind is PriceKind.SPOT else "on-demand"
    smallest = min(offer.accelerators for offer in offers)
    if smallest > limits.max_accelerators:
        return Rejection.of(
            accelerator,
            RejectionCode.NOT_OFFERED,
            f"{accelerator.name} is rented only in machines of {smallest} or more; you allow "
            f"{limits.max_accelerators:,}.",
            f"Allow {smallest} accelerators.",
            actual=float(smallest),
            limit=float(limits.max_accelerators),
            unit="accelerators",
        )
    elsewhere = sorted({offer.provider for offer in offers})
    if not limits.providers and all(offer.tier == LOWEST_ASK for offer in offers):
        return Rejection.of(
            accelerator,
            RejectionCode.NOT_OFFERED,
            f"{accelerator.name} has no price except the lowest ask of a marketplace, which one "
            "host can withdraw.",
            f"To search it, name the provider: {', '.join(elsewhere)}.",
        )
    return Rejection.of(
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
    usual = next((name for name in ("bf16", "fp16", "fp32") if name in has), None)
    return Rejection.of(
        accelerator,
        RejectionCode.FORMAT,
        f"The catalog has no dense {' or '.join(formats)} rate for {accelerator.name}; it has "
        f"{', '.join(has) or 'none'}.",
        f"Choose a precision that computes in {usual}." if usual else "Choose another accelerator.",
    )


def _overloaded(accelerator: Accelerator, asked: float, limits: Constraints) -> Rejection:
    return Rejection.of(
        accelerator,
        RejectionCode.LATENCY,
        f"{accelerator.name} does not keep up with {asked:,.3g} requests/s on "
        f"{limits.max_accelerators:,} cards.",
        "Allow more accelerators, or quantise the weights.",
    )


def _too_small(accelerator: Accelerator, miss: Miss | None, memory_remedy: str) -> Rejection:
    if miss is None:
        return Rejection.of(
            accelerator,
            RejectionCode.MEMORY,
            f"{accelerator.name} has no layout for this work: its smallest machine has too many "
            "accelerators for the sequences of one step and the parts of the model.",
            "Raise the global batch, or choose a smaller machine.",
        )
    least_bytes, usable = miss
    needs, has = memory_against(least_bytes, usable)
    return Rejection.of(
        accelerator,
        RejectionCode.MEMORY,
        f"{accelerator.name} is {memory(least_bytes - usable)} short: the smallest layout needs up "
        f"to {needs} on each, {has} is usable.",
        memory_remedy,
        actual=least_bytes / GIB,
        limit=usable / GIB,
        unit="GiB",
    )
