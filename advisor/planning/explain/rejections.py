"""Why each accelerator is in no plan: by how much it misses, and what would help."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from advisor.catalog import Catalog
from advisor.estimate.tools.software import Lack
from advisor.foundation.formatting import memory, memory_against, milliseconds
from advisor.foundation.record import record
from advisor.foundation.units import GIB, plain, round_significant, trimmed
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.limits import Constraints
from advisor.nouns.software.quality import quality_words
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Serving
from advisor.planning.explain.devices import bought_remedy
from advisor.planning.explain.why_not import Contest, reason_it_lost
from advisor.planning.results import Rejection, RejectionCode
from advisor.planning.search.options import Miss, Option
from advisor.planning.search.systems import only_lowest_asks

REQUESTS_UNIT: Final = "requests/s"
"""Of what a card carries on all cards that a search takes."""


@record
class Outcome:
    """What the search found out about the accelerators, by catalog key."""

    options: Mapping[str, Sequence[Option]]
    """All configurations that fit, limits not yet applied."""
    misses: Mapping[str, Miss]
    """The layout that needs least memory, for each accelerator where no layout fits."""
    carried: Mapping[str, float]
    """Most of a stated rate, for each accelerator that carries less. [requests/s]"""
    smaller: Mapping[str, Option]
    """Where no layout fits: the fastest with smaller weights or with the host's memory."""
    bought: Mapping[str, Option]
    """What one of a device does that nobody rents."""
    searched: frozenset[str]
    """Accelerators with at least one system and a supported number format."""
    rentable: frozenset[str]
    """Accelerators with at least one system."""
    formats: tuple[str, ...]
    """Number formats that the workload would accept."""
    contest: Contest
    lack: Callable[[Accelerator], Lack | None]
    """Why no software does the work on an accelerator; None if some does."""


def reject(
    catalog: Catalog, case: Case, outcome: Outcome, chosen: Collection[str]
) -> tuple[Rejection, ...]:
    """Return one rejection for every accelerator that no plan uses, in the catalog's order."""
    limits = case.limits
    allowed = {catalog.accelerator(key).key for key in limits.accelerators}
    owned = {catalog.accelerator(item.accelerator).key for item in limits.owned}
    return tuple(
        Rejection.of(
            card,
            RejectionCode.EXCLUDED,
            f"{card.name} is not among the accelerators that you allow.",
            "Add it to the allowed accelerators.",
        )
        if (allowed and card.key not in allowed) or (owned and card.key not in owned)
        else _reason(card, catalog, case, outcome)
        for card in catalog.accelerators
        if card.key not in chosen
    )


def _reason(card: Accelerator, catalog: Catalog, case: Case, outcome: Outcome) -> Rejection:
    limits, key = case.limits, card.key
    if card.inference_only and not outcome.contest.answer:
        what = f"{card.name} serves models only: no training software runs on it."
        remedy = "Choose another accelerator for training; compare it for serving."
        return Rejection.of(card, RejectionCode.INFERENCE_ONLY, what, remedy)
    if limits.vendors and card.vendor not in limits.vendors:
        what = f"{card.name} is from {card.vendor}; you allow {', '.join(limits.vendors)}."
        return Rejection.of(card, RejectionCode.EXCLUDED, what, f"Allow {card.vendor}.")
    if (missing := outcome.lack(card)) is not None:
        what = f"No software does this on {card.name}: {missing.reason}."
        return Rejection.of(card, RejectionCode.SOFTWARE, what, missing.remedy)
    if key not in outcome.rentable:
        return _not_offered(card, catalog, case, outcome)
    if key not in outcome.searched:
        return _no_format(card, outcome.formats)
    if options := outcome.options.get(key):
        return reason_it_lost(card, options, outcome.contest)
    return _lacking(card, case, outcome, _most_cards(card, catalog, limits))


def _lacking(card: Accelerator, case: Case, outcome: Outcome, most: int) -> Rejection:
    """Say what a searched card without a plan lacks: speed, a layout or memory."""
    key, rate = card.key, getattr(case.workload, "requests_per_s", None)
    miss, way = outcome.misses.get(key), outcome.smaller.get(key)
    carried = outcome.carried.get(key)
    # A smaller format may fit where a larger one does not: then the card lacks speed.
    if rate is not None and carried:
        return _slow(card, case, carried, most)
    if miss is None:
        return _without_layout(card, case, most)
    return _too_small(card, miss, memory_remedy(case) if way is None else how_it_fits(way))


def how_it_fits(option: Option) -> str:
    """Return how a card serves what fits only with smaller weights or the host's memory."""
    layout, speed = option.layout, f"{milliseconds(option.time)} per token"
    form, option_of_it = f"{option.precision} weights", f"--weights {option.precision}"
    if layout.gpu_layers is None and not layout.cpu_expert_layers:
        quality = quality_words(option.precision)
        quality = f"; {quality}" if quality else ""
        return f"It fits with {form} ({option_of_it}): {speed}{quality}."
    held = (
        f"--cpu-expert-layers {layout.cpu_expert_layers}"
        if layout.gpu_layers is None
        else f"--gpu-layers {layout.gpu_layers}"
    )
    return (
        f"It fits with {form} and layers in the host's memory ({option_of_it} {held} --engine "
        f"llama-cpp; 'estimate' chooses them): {speed}."
    )


def memory_remedy(case: Case) -> str:
    """Return what lowers the memory of this workload most, smallest sacrifice first."""
    workload = case.workload
    if isinstance(workload, Serving):
        return "Serve 8-bit or 4-bit weights, shorten the context, or use more cards per replica."
    if isinstance(workload, FineTuning):
        if workload.method is FineTuningMethod.LORA:
            return "Use QLoRA, which keeps the base model in 4 bits, or shorten the sequences."
        if workload.method is FineTuningMethod.FULL:
            return "Use LoRA, which trains adapters only, or 8-bit optimizer states."
        return "Shorten the sequence or choose a smaller model."
    return "Use more accelerators, which share the states, or shorten the sequences."


def _not_offered(card: Accelerator, catalog: Catalog, case: Case, outcome: Outcome) -> Rejection:
    limits, key = case.limits, card.key
    asked = limits.max_accelerators, bool(limits.providers), limits.price_kind
    found = catalog.once(_unrented, asked)[key]
    if not outcome.bought or catalog.offers_for(key):
        return found
    return found.changed(remedy=bought_remedy(card, outcome.bought.get(key), tried=True))


def _unrented(catalog: Catalog, asked: tuple[int, bool, PriceKind]) -> dict[str, Rejection]:
    """Return why no offer of each card is searched.

    ``asked``: the most accelerators, whether providers are named, and the kind of price.
    """
    return {card.key: _without_offer(card, catalog, *asked) for card in catalog.accelerators}


def _without_offer(
    accelerator: Accelerator, catalog: Catalog, most: int, named: bool, price_kind: PriceKind
) -> Rejection:
    name, offers = accelerator.name, catalog.offers_for(accelerator.key)
    smallest = min((offer.accelerators for offer in offers), default=0)
    elsewhere = sorted({offer.provider for offer in offers})
    amounts: dict[str, Any] = {}
    if not offers:
        what = f"No provider in the catalog rents {name}."
        remedy = bought_remedy(accelerator, None, tried=False)
    elif smallest > most:
        what = f"{name} is rented only in machines of {smallest} or more; you allow {most:,}."
        remedy = f"Allow {smallest} accelerators."
        amounts = {"actual": float(smallest), "limit": float(most), "unit": "accelerators"}
    elif not named and only_lowest_asks(offers):
        what = (
            f"{name} has no price except the lowest ask of a marketplace, which one host can "
            "withdraw."
        )
        names = ", ".join(elsewhere)
        remedy = f"To search it, allow only this card, or name the provider: {names}."
    else:
        kind = "spot" if price_kind is PriceKind.SPOT else "on-demand"
        what = f"{name} has no {kind} offer within your providers and regions."
        others = " and others." if len(elsewhere) > 4 else "."
        remedy = f"Providers that rent it: {', '.join(elsewhere[:4])}{others}"
    return Rejection.of(accelerator, RejectionCode.NOT_OFFERED, what, remedy, **amounts)


def _no_format(accelerator: Accelerator, formats: tuple[str, ...]) -> Rejection:
    has = [
        name
        for name in ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
        if name in accelerator.peak_flops_per_s
    ]
    usual = next((name for name in ("bf16", "fp16", "fp32") if name in has), None)
    return Rejection.of(
        accelerator,
        RejectionCode.FORMAT,
        f"The catalog has no dense {' or '.join(formats)} rate for {accelerator.name}; it has "
        f"{', '.join(has) or 'none'}.",
        f"Choose a precision that computes in {usual}." if usual else "Choose another accelerator.",
    )


def _most_cards(accelerator: Accelerator, catalog: Catalog, limits: Constraints) -> int:
    """Return how many cards the search may take: those of a computer that is owned, or to rent."""
    owned = (
        item.count
        for item in limits.owned
        if catalog.accelerator(item.accelerator).key == accelerator.key
    )
    return min(limits.max_accelerators, max(owned, default=limits.max_accelerators))


def _cards(number: int) -> str:
    return "1 card" if number == 1 else f"{number:,} cards"


def _slow(accelerator: Accelerator, case: Case, carried: float, most: int) -> Rejection:
    """Say which part of a stated rate the most cards of a search carry."""
    work = case.workload
    assert isinstance(work, Serving)
    assert work.requests_per_s
    spares = work.spare_replicas
    spare = f", {spares} spare among the replicas" if spares else ""
    needed = math.ceil(most * work.requests_per_s / carried)
    return Rejection.of(
        accelerator,
        RejectionCode.LATENCY,
        f"{accelerator.name} keeps up with {plain(carried, 2, 'down')} of the "
        f"{work.requests_per_s:,.15g} requests/s on {_cards(most)}{spare}.",
        f"About {round_significant(needed, 2, 'up'):,.0f} cards would: add cards, quantise the "
        "weights, or lower the rate.",
        actual=work.requests_per_s,
        limit=carried,
        unit=REQUESTS_UNIT,
    )


def _without_layout(accelerator: Accelerator, case: Case, most: int) -> Rejection:
    """Say why no layout remains where memory is not the reason."""
    spares = getattr(case.workload, "spare_replicas", 0)
    rate = getattr(case.workload, "requests_per_s", None)
    name = accelerator.name
    code = RejectionCode.LATENCY
    if spares:
        what = f"{name} does not carry the load with {spares} spare on the cards that you allow."
        remedy = "Allow more accelerators, or drop --spare-replicas."
    elif rate is not None:
        what = f"{name} does not keep up with {trimmed(rate, 3)} requests/s on {_cards(most)}."
        remedy = "Allow more accelerators, or quantise the weights."
    else:
        code = RejectionCode.MEMORY
        what = (
            f"{name} has no layout for this work: its smallest machine has too many accelerators "
            "for the sequences of one step and the parts of the model."
        )
        remedy = "Raise the global batch, or choose a smaller machine."
    return Rejection.of(accelerator, code, what, remedy)


def _too_small(accelerator: Accelerator, miss: Miss, memory_remedy: str) -> Rejection:
    least_bytes, usable = miss
    if least_bytes <= usable:
        return Rejection.of(
            accelerator,
            RejectionCode.MEMORY,
            f"{accelerator.name} holds its part, but its host's memory is too small for the rest, "
            "or its software runs fewer requests at once.",
            "State more of it (--host-memory 512GB), keep more layers on the card, or lower "
            "--concurrency.",
        )
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
