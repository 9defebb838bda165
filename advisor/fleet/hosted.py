"""Hosted models (API) as a way to serve a workload, at list prices by the token."""

from typing import Final

from advisor.catalog.api_prices import load_api_prices
from advisor.fleet.portfolio import FleetWorkload
from advisor.fleet.solving.problem import Mode
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.nouns.limits import Constraints
from advisor.nouns.workload import Serving
from advisor.planning.beside_api import Hosted

READ_S: Final = 0.05
"""Time between the tokens of an answer where no target is stated: 20 tokens a second, faster than
people read. Assumed. [s]"""


def token_s(limits: Constraints) -> float:
    """Return the time between the tokens of an answer at the pace of the target. [s]"""
    return READ_S if limits.max_tpot_ms is None else limits.max_tpot_ms * MILLISECOND


def hosted_mode(workload: FleetWorkload) -> Mode | None:
    r"""Return the cheapest hosted model with the same weights, for one request in flight.

    None if no provider of the table hosts it, or the case limits machines or regions. An answer
    comes as fast as the latency target says, so that a request takes :math:`n_{out}\,t` and an hour
    holds :math:`3600 / (n_{out}\,t)` of them.
    """
    case, serving = workload.case, workload.case.workload
    limits = case.limits
    if not isinstance(serving, Serving) or case.model.preset is None:
        return None
    if limits.accelerators or limits.vendors or limits.regions or limits.software:
        return None
    cached = serving.prefix_hit_share or 0.0
    providers = {name.casefold() for name in limits.providers}
    priced = [
        (Hosted.listed(item, case.model.preset).request_usd(serving, cached), item)
        for item in load_api_prices()
        if item.weights == "same"
        and item.preset == case.model.preset
        and (not providers or item.provider.casefold() in providers)
    ]
    if not priced:
        return None
    usd, best = min(priced, key=lambda pair: (pair[0], pair[1].name))
    an_hour = HOUR_S / (serving.output_tokens * token_s(limits))
    return Mode(
        supply=None,
        title=f"{best.provider} API",
        serves=1.0,
        usd=usd * an_hour,
        hosted=True,
        detail=f"{best.model}, list price of {best.price_date}",
    )
