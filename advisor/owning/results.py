"""What the comparison of renting and buying returns."""

from __future__ import annotations

from enum import StrEnum

from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range, Term


class Assumption(Noun):
    """One input of the comparison, with its spread and where it comes from."""

    field: str
    """Field of ``Owning`` or ``Renting``."""
    title: str
    unit: str
    value: Range
    """Bounds are equal where the user gave the value."""
    given: bool
    source: str


class Effect(Noun):
    """What one uncertain input does to the answer, all others at their expected values."""

    field: str
    title: str
    unit: str
    low: float
    """The input's bounds, in its unit."""
    high: float
    saving_at_low_usd: float
    """Renting less owning over the horizon; positive where owning is cheaper. [USD]"""
    saving_at_high_usd: float
    hours_at_low: float | None
    """Break-even hours a month; None where no use pays. [h]"""
    hours_at_high: float | None
    flips_at: float | None
    """Value at which owning and renting cost the same; None where none in reason does."""


class Strip(Noun):
    """Break-even hours across the range of one input, all others at their expected values."""

    field: str
    value: float
    """The value in use."""
    values: tuple[float, ...]
    hours: tuple[float | None, ...]
    """Break-even hours a month at each value; None where no use pays. [h]"""


class Line(Noun):
    """One line of a bill, present value over the horizon."""

    name: str
    title: str
    usd: float
    """Expected, in whole cents; the lines add up to the total. [USD]"""


class OwningCost(Noun):
    """What owning costs over the horizon, in money of today."""

    total_usd: Range
    """Worth at the end taken off. [USD]"""
    lines: tuple[Line, ...]
    usd_per_month: Range
    """The total over the months. [USD]"""
    usd_per_hour: Range
    """The total over the hours in use. [USD/h]"""
    usd_per_run: Range | None = None
    """Training: an hour's cost times the hours of the run. [USD]"""
    usd_per_million: Range | None = None
    """Million tokens (images for vision) at the rate of the estimate. [USD]"""
    purchase_usd: float
    """Paid on the first day: accelerators, hosts and network. [USD]"""
    machines: int
    rated_kw: float
    energy_kwh: Range
    """Over the horizon, cooling included. [kWh]"""
    carbon_kg: Range
    """Of that energy, at the mean of the grid; the making of the machines is left out. [kg]"""
    terms: tuple[Term, ...]


class RentKind(StrEnum):
    """How something is rented."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    COMMITTED = "committed"
    QUOTE = "quote"
    """A price per hour that the user entered."""
    API = "api"
    """A hosted model, paid by the token."""


class BreakEven(Noun):
    """Where owning overtakes one way of renting."""

    hours_per_month: Range | None
    """Owning is cheaper above it; None where no use pays at the expected values. The high end is
    730 h at most. [h]"""
    may_never: bool
    """Whether at the unlucky end of the assumptions no use pays."""
    hours_at_best: float | None
    """Break-even at the lucky end; None where no use pays even then. [h]"""
    first_month: int | None
    """At the stated hours: the first month in which owning may have cost less. [month]"""
    month: int | None
    """At the expected values; the worth at the end counts at the end of the horizon."""
    last_month: int | None
    """From then on owning has cost less even at the unlucky end."""


class RentCost(Noun):
    """One way of renting the same hardware, or the same work."""

    kind: RentKind
    title: str
    provider: str | None
    instance_type: str | None
    region: str | None
    price_date: str | None
    price_age_days: int | None
    price_source: str | None
    instances: int
    usd_per_hour: float
    """List price of all instances. [USD/h]"""
    hours_per_month: float
    """Hours paid: work lost to interruptions, and all hours of a commitment, are among them. [h]"""
    total_usd: Range
    """Over the horizon, money of today. [USD]"""
    usd_per_run: Range | None = None
    usd_per_million: Range | None = None
    checkpoint_interval_s: float | None = None
    """Spot: the best time between checkpoints (Young). [s]"""
    break_even: BreakEven
    terms: tuple[Term, ...]


class Month(Noun):
    """Cumulative cost after a month, money of today. [USD]"""

    month: int
    own_usd: Range
    rent_usd: Range
    """Of the way of renting that ``Ownership.against`` names."""


class ProcessorOption(Noun):
    """The same job on processors: as many as do it in the same time."""

    accelerator: str
    accelerator_name: str
    hours: Range | None
    """The run on one of them (training). [h]"""
    tokens_per_s: Range | None
    """Of one of them (serving). [tokens/s]"""
    slower: Range
    """Time on one over the time on the hardware compared with, starting up left out."""
    count: int
    """Processors of equal throughput."""
    scaling: float | None
    """Share of perfect scaling that so many reach; None for the hardware compared with."""
    apart: bool
    """Whether no cluster trains one run in that time, so that each works on a run of its own."""
    purchase_usd: float | None
    """With hosts; None where no price is known. [USD]"""
    rated_kw: float | None
    draw_kw: float | None
    """While in use, without cooling. [kW]"""
    cooling_kw: float | None
    """What the site adds to it. [kW]"""
    energy_kwh: float | None
    """Of one run, or one month of serving, cooling included. [kWh]"""
    carbon_kg: float | None


class Purchase(Noun):
    """One kind of card in what a budget buys."""

    accelerator: str
    accelerator_name: str
    count: int
    """Accelerators of one group."""
    groups: int
    """Groups that work side by side."""
    usd: float
    """All groups with hosts and network. [USD]"""
    price_of: str
    """What kind of price the cards have, and of when."""
    at_launch_price: bool = False
    rated_w: float
    hours: float | None
    """A run on one group (training). [h]"""
    tokens_per_s: float | None
    """All groups together (serving). [tokens/s]"""


class BudgetAnswer(Noun):
    """What a budget buys for the work."""

    sentence: str
    """The best mix in words; empty where there is none."""
    budget_usd: float
    power_limit_w: float | None
    slots: int | None
    best: tuple[Purchase, ...]
    """The mix with the highest throughput; empty where nothing affordable can do the work."""
    runs_per_month: float | None
    """Training: runs that the mix finishes in 730 h."""
    tokens_per_s: float | None
    """Serving: all cards together. [tokens/s]"""
    usd: float
    rated_w: float
    alternatives: tuple[Purchase, ...]
    """The best with one kind of card each, best first."""


class Ownership(Noun):
    """Rent or buy, answered."""

    answer: str
    """One sentence: buy above how many hours a month."""
    accelerator: str
    accelerator_name: str
    count: int
    workload: str
    unit: str
    """What is counted: ``token``, ``image`` or ``sample``."""
    months: int
    hours_per_month: float
    place: str
    own: OwningCost
    rents: tuple[RentCost, ...]
    """Cheapest over the horizon first; empty where nothing rents the hardware."""
    against: int | None
    """Which of ``rents`` the timeline, effects and strips are told against: the cheapest without
    commitment, spot only where it was asked for."""
    saving_usd: Range | None
    """Cheapest way of renting less owning; positive where owning is cheaper. [USD]"""
    timeline: tuple[Month, ...]
    effects: tuple[Effect, ...]
    """Largest first, against the same."""
    strips: tuple[Strip, ...]
    """Against the same."""
    processors: tuple[ProcessorOption, ...]
    budget: BudgetAnswer | None
    inputs: tuple[Assumption, ...]
    assumptions: tuple[str, ...]
    attributions: tuple[str, ...]
