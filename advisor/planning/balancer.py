"""A load balancer in front of a plan's servers: its price, and what an answer says of it."""

from collections.abc import Iterator

from advisor.catalog.economy import load_balancers
from advisor.equations.serving.autoscaling import load_balancer_usd_per_hour
from advisor.estimate.results import Estimate
from advisor.estimate.terms import term
from advisor.foundation.formatting import count
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.hardware import Offer
from advisor.nouns.techniques import technique_facts
from advisor.nouns.workload import Serving


def balancer_usd_per_month(
    offer: Offer | None, workload: Serving, tokens_per_s: float | None
) -> float:
    """Return the price of the provider's load balancer; 0 where none is known to be sold. [USD]

    ``tokens_per_s``: generated tokens of all replicas. [tokens/s]
    """
    sold = None if offer is None else load_balancers().get(offer.provider)
    if sold is None:
        return 0.0
    traffic = technique_facts().traffic
    per_hour = load_balancer_usd_per_hour(
        usd_per_hour=sold.usd_per_hour,
        usd_per_gb=sold.usd_per_gb,
        requests_per_s=(tokens_per_s or 0.0) / workload.output_tokens,
        request_bytes=workload.input_tokens * traffic.prompt_token_bytes
        + workload.output_tokens * traffic.streamed_token_bytes,
    )
    return float(per_hour) * HOURS_PER_MONTH


def with_front(case: Case, offer: Offer | None, estimate: Estimate) -> Estimate:
    """Return an estimate with the load balancer in its cost, and what to know of the spares."""
    workload, serving = case.workload, estimate.serving
    if not isinstance(workload, Serving) or serving is None:
        return estimate
    notes = tuple(_notes(workload, offer, estimate))
    if not notes:
        return estimate
    estimate = estimate.changed(assumptions=(*estimate.assumptions, *notes))
    cost = estimate.cost
    if not workload.load_balancer or cost.usd_per_hour is None or cost.rent_usd is None:
        return estimate
    month = balancer_usd_per_month(offer, workload, serving.output_tokens_per_s.expected)
    factor = 1 + month / HOURS_PER_MONTH / cost.usd_per_hour.expected
    names = ("usd_per_hour", "rent_usd", *(f"usd_per_million{one}tokens" for one in SPLIT))
    raised = {
        name: value.scaled(factor) for name in names if (value := getattr(cost, name)) is not None
    }
    added = term("money", "load_balancer", month, "USD", f"{month:,.2f}")
    cost = cost.changed(**raised, terms=(*cost.terms, added))
    day = estimate.day
    if day is not None:
        ways = (way.changed(usd_per_month=way.usd_per_month + month) for way in day.ways)
        day = day.changed(ways=tuple(ways))
    return estimate.changed(cost=cost, day=day)


SPLIT = ("_", "_input_", "_output_")
"""Prices of a million tokens: of both, of prompts, of answers."""


def _notes(workload: Serving, offer: Offer | None, estimate: Estimate) -> Iterator[str]:
    spares = workload.spare_replicas
    if spares:
        layout = estimate.layout
        named = "one spare replica" if spares == 1 else f"{count(spares)} spare replicas"
        yield (
            f"{named} in the rent: all {layout.replicas + spares} share the requests, and the "
            f"speeds here are those of {layout.replicas}"
        )
        room = offer.accelerators // layout.replica_cards if offer else 1
        each = min(room, layout.replicas + spares)
        if each > spares:
            yield (
                f"a machine holds {each} replicas: if it fails, more than the spare is lost; "
                f"--spare-replicas {each} covers a machine"
            )
    if workload.load_balancer and offer is not None:
        sold = load_balancers().get(offer.provider)
        if sold is None:
            yield (
                f"no published price of a load balancer at {offer.provider}: run one (HAProxy, "
                "nginx, the router of vLLM) on the processor of a machine, at no rent of its own"
            )
        else:
            about = f"{sold.source}, {sold.source_date}"
            yield f"load balancer: {sold.provider} {sold.product} ({about})"
