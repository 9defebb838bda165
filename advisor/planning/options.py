"""Priced configurations, and the limits that sift them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from advisor import cents
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.cost import billed_usd
from advisor.hardware import Offer, PriceKind
from advisor.layout import ParallelLayout
from advisor.limits import Constraints, Objective
from advisor.planning.spot import Interruptions
from advisor.planning.systems import System, price_usd_per_hour
from advisor.quantities import Range
from advisor.units import HOURS_PER_MONTH

NEAR_FASTEST = 1.05
"""Options within this factor of the least time count as equally fast."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One configuration with a price: a point of the cost-time chart. Equal only to itself."""

    system: int
    count: int
    instances: int
    offer: Offer | None
    precision: str
    layouts: LayoutArrays
    row: int
    """The layout is element ``row`` of ``layouts``."""
    time: float
    """What "fast" means: hours of the run (training), seconds per output token (serving)."""
    time_high: float
    """Upper end of its range."""
    first_token_s: float | None
    """Serving only. [s]"""
    tokens_per_s: float | None
    """Serving only: generated tokens of the whole deployment. [tokens/s]"""
    usd_per_hour: float
    """0 for owned hardware. [USD/h]"""
    cost_usd: float
    """Run (training) or month (serving). [USD]"""
    interrupted: Range | None = None
    """Spot: hours of the run for an hour of work; within ``time`` already."""

    @property
    def layout(self) -> ParallelLayout:
        """The layout as a noun."""
        return self.layouts.layout(self.row)

    @property
    def cost_high_usd(self) -> float:
        """Upper end of the cost: a run pays by the hour, a month of serving is a list price."""
        if self.first_token_s is not None:
            return self.cost_usd
        return _run_usd(self.offer, self.usd_per_hour, self.time_high)

    @property
    def value(self) -> float:
        """Cost x time at their upper ends, the smaller the better.

        Owned hardware costs no rent, so its time alone counts.
        """
        return self.time_high * (self.cost_high_usd if self.cost_usd > 0 else 1.0)

    def key(self, objective: Objective) -> tuple[float, float]:
        """Sort key: the objective first, then the other axis.

        Ranked by the upper ends of the ranges: what comparable runs seldom exceed. An
        accelerator without measurements has a wide range and so has to win clearly.
        """
        if objective is Objective.CHEAPEST:
            return (self.cost_high_usd, self.time_high)
        if objective is Objective.FASTEST:
            return (self.time_high, self.cost_high_usd)
        return (self.value, self.cost_high_usd)


def cheapest_offer(system: System, kind: PriceKind) -> tuple[Offer | None, float]:
    """Return the cheapest offer of a system and its price; owned systems cost nothing. [USD/h]"""
    if system.owned:
        return None, 0.0
    priced = [(price_usd_per_hour(offer, kind), offer) for offer in system.offers]
    price, offer = min(
        ((price, offer) for price, offer in priced if price is not None),
        key=lambda item: (item[0], item[1].key),
    )
    return offer, price


@dataclass(frozen=True, slots=True)
class Price:
    """What the cheapest instance of a system costs; None for owned hardware."""

    offer: Offer | None
    usd_per_hour: float
    """One instance. [USD/h]"""
    accelerators: int
    """In one instance."""
    interruptions: Interruptions | None = None
    """Of a run on spot instances."""

    @classmethod
    def of(
        cls, system: System, kind: PriceKind, interruptions: Interruptions | None = None
    ) -> Price:
        """Return the price of a system's cheapest offer."""
        offer, per_hour = cheapest_offer(system, kind)
        return cls(offer, per_hour, system.node.accelerators, interruptions if offer else None)


def _run_usd(offer: Offer | None, usd_per_hour: float, hours: float) -> float:
    """Rent of a run in the provider's billing steps; owned hardware has none. [USD]"""
    if offer is None:
        return 0.0
    return billed_usd(offer.billing, hours=hours, usd_per_hour=usd_per_hour)


def priced_option(
    system_index: int,
    price: Price,
    *,
    count: int,
    precision: str,
    layouts: LayoutArrays,
    row: int,
    time: float,
    time_high: float,
    first_token_s: float | None = None,
    tokens_per_s: float | None = None,
) -> Option:
    """Price one configuration.

    Parameters
    ----------
    system_index : int
    price : Price
        Of the system.
    count : int
        Accelerators; whole instances are paid.
    precision : str
    layouts : LayoutArrays
    row : int
        The layout is element ``row`` of ``layouts``.
    time : float
        Hours of the run without interruptions (training), seconds per output token (serving).
    time_high : float
        Upper end of its range.
    first_token_s, tokens_per_s : float, optional
        Serving only: the price is then for a month.

    Returns
    -------
    Option
    """
    instances = -(-count // price.accelerators) if price.offer else 0
    per_hour = cents.times(price.usd_per_hour, instances)
    interrupted = price.interruptions.hours(instances) if price.interruptions else None
    if interrupted is not None:
        time, time_high = time * interrupted.expected, time_high * interrupted.high
    if first_token_s is None:
        cost = _run_usd(price.offer, per_hour, time)
    else:
        cost = per_hour * HOURS_PER_MONTH
    return Option(
        system=system_index,
        count=count,
        instances=instances,
        offer=price.offer,
        precision=precision,
        layouts=layouts,
        row=row,
        time=time,
        time_high=time_high,
        first_token_s=first_token_s,
        tokens_per_s=tokens_per_s,
        usd_per_hour=per_hour,
        cost_usd=cost,
        interrupted=interrupted,
    )


def meets_time(option: Option, limits: Constraints) -> bool:
    """Return whether an option meets the deadline (training) or the latency targets (serving)."""
    if option.first_token_s is None:
        return limits.deadline_hours is None or option.time <= limits.deadline_hours
    return meets_tpot(option, limits) and (
        limits.max_ttft_ms is None or option.first_token_s * 1e3 <= limits.max_ttft_ms
    )


def meets_tpot(option: Option, limits: Constraints) -> bool:
    """Return whether a served option meets the target for the time per output token."""
    return limits.max_tpot_ms is None or option.time * 1e3 <= limits.max_tpot_ms


def meets_budget(option: Option, limits: Constraints) -> bool:
    """Return whether an option costs no more than the budget."""
    return limits.budget_usd is None or option.cost_usd <= limits.budget_usd


def frontier(options: Iterable[Option]) -> list[Option]:
    """Return the options that none beats in both cost and time, fastest first."""
    best: list[Option] = []
    for option in sorted(options, key=lambda item: (item.time, item.cost_usd)):
        if not best or option.cost_usd < best[-1].cost_usd:
            best.append(option)
    return best


def best_option(options: Sequence[Option], objective: Objective) -> Option | None:
    """Return the best option under an objective, or None where there is none.

    The fastest is the cheapest of those that differ by less than ``NEAR_FASTEST``: a few percent
    of speed lie far inside every range and can cost a multiple.
    """
    if not options:
        return None
    if objective is not Objective.FASTEST:
        return min(options, key=lambda option: option.key(objective))
    least = min(option.time_high for option in options)
    near = (option for option in options if option.time_high <= NEAR_FASTEST * least)
    return min(near, key=lambda option: option.key(Objective.CHEAPEST))


def best_of_systems(options: Sequence[Option]) -> list[Option]:
    """Return the cheapest, the fastest and the best value of each system."""
    if not options:
        return []
    columns = [(item.system, item.cost_usd, item.time, item.value) for item in options]
    system, cost, time, value = np.array(columns, dtype=np.float64).T
    least = np.full(int(system.max()) + 1, np.inf)
    np.minimum.at(least, system.astype(np.intp), time)
    # Outside the near fastest, cost no longer decides which is the fastest.
    far = time > NEAR_FASTEST * least[system.astype(np.intp)]
    chosen = []
    for keys in ((time, cost), (time, cost, far), (cost, value)):
        order = np.lexsort((*keys, system))
        first = np.diff(system[order], prepend=-1.0) > 0
        chosen.extend(order[first].tolist())
    return [options[place] for place in chosen]


def best_per_accelerator(
    options: Iterable[Option], systems: Sequence[System], objective: Objective
) -> list[Option]:
    """Return each accelerator's best option under an objective, best first."""
    groups: dict[str, list[Option]] = {}
    everything = list(options)
    for option in everything:
        groups.setdefault(systems[option.system].accelerator.key, []).append(option)
    first = best_option(everything, objective)
    if first is None:
        return []
    groups.pop(systems[first.system].accelerator.key)
    best = [found for group in groups.values() if (found := best_option(group, objective))]
    return [first, *sorted(best, key=lambda item: item.key(objective))]
