"""Results of the comparison of renting and buying."""

from enum import StrEnum

from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range, Term


class Assumption(Noun):
    """One input of the comparison, with its spread and source."""

    field: str
    """Field of ``Owning`` or ``Renting``."""
    title: str
    unit: str
    value: Range
    """The bounds are equal if the user gave the value."""
    given: bool
    source: str


class Effect(Noun):
    """Effect of one uncertain input on the answer, with all others at their expected values."""

    field: str
    title: str
    unit: str
    low: float
    """The input's bounds, in its unit."""
    high: float
    saving_at_low_usd: float
    """Renting minus owning over the horizon; positive if owning is cheaper. [USD]"""
    saving_at_high_usd: float
    hours_at_low: float | None
    """Break-even hours a month; None if owning never pays. [h]"""
    hours_at_high: float | None
    flips_at: float | None
    """Value at which owning and renting cost the same; None if no plausible value does."""


class Strip(Noun):
    """Break-even hours across the range of one input, with all others at expected values."""

    field: str
    value: float
    """The value in use."""
    values: tuple[float, ...]
    hours: tuple[float | None, ...]
    """Break-even hours a month at each value; None if owning never pays. [h]"""


class Line(Noun):
    """One line of a bill, present value over the horizon."""

    name: str
    title: str
    usd: float
    """Expected, in whole cents; the lines add up to the total. [USD]"""


class OwningCost(Noun):
    """Cost of owning over the horizon, in money of today."""

    total_usd: Range
    """Total minus the worth at the end. [USD]"""
    lines: tuple[Line, ...]
    usd_per_month: Range
    """The total over the months. [USD]"""
    usd_per_hour: Range
    """The total over the hours in use. [USD/h]"""
    usd_per_run: Range | None = None
    """Training: an hour's cost times the hours of the run. [USD]"""
    usd_per_million: Range | None = None
    """Cost of a million generated tokens (images for vision) at the estimated rate, with the
    prompts that they answer. [USD]"""
    usd_per_million_input: Range | None = None
    """Serving text: tokens of prompts. [USD]"""
    usd_per_million_output: Range | None = None
    """Serving text: tokens of answers alone. [USD]"""
    purchase_usd: float
    """Paid on the first day: accelerators, hosts and network. [USD]"""
    machines: int
    rated_kw: float
    energy_kwh: Range
    """Over the horizon: machines in use and idle, cooling included. [kWh]"""
    energy_kwh_per_run: Range | None = None
    """Training: machines in use for one run, cooling included, as ``estimate`` gives it. [kWh]"""
    carbon_kg: Range
    """Carbon of the energy over the horizon, without making the machines. [kg]"""
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
    """Where owning becomes cheaper than one way of renting."""

    hours_per_month: Range | None
    """Owning is cheaper above it; None if owning never pays at the expected values. The high
    end is 730 h at most. [h]"""
    may_never: bool
    """Whether owning never pays at the unfavourable end of the inputs."""
    hours_at_best: float | None
    """Break-even at the favourable end; None if owning never pays even then. [h]"""
    first_month: int | None
    """At the stated hours, the first month in which owning may have cost less. [month]"""
    month: int | None
    """At the expected values; the worth at the end counts at the end of the horizon."""
    last_month: int | None
    """From this month on, owning has cost less even at the unfavourable end."""


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
    """Hours paid, including lost work and unused hours of a commitment. [h]"""
    total_usd: Range
    """Over the horizon, money of today. [USD]"""
    break_even_requests_per_day: float | None = None
    """A hosted model: requests a day above which owning costs less; None if it never does.
    [1/day]"""
    usd_per_run: Range | None = None
    usd_per_million: Range | None = None
    """Of generated tokens (images for vision), with the prompts that they answer. [USD]"""
    usd_per_million_input: Range | None = None
    usd_per_million_output: Range | None = None
    """Serving text: tokens of prompts and of answers apart. [USD]"""
    note: str = ""
    """A hosted model: what differs from serving it yourself."""
    checkpoint_interval_s: float | None = None
    """Spot: the best time between checkpoints (Young). [s]"""
    break_even: BreakEven
    terms: tuple[Term, ...]


class Month(Noun):
    """Cumulative cost after a month, money of today. [USD]"""

    month: int
    own_usd: Range
    rent_usd: Range
    """Rent of the way of renting that ``Ownership.against`` names."""


class ProcessorOption(Noun):
    """The same job on as many processors as do it in the same time."""

    accelerator: str
    accelerator_name: str
    hours: Range | None
    """The run on one of them (training). [h]"""
    tokens_per_s: Range | None
    """Of one of them (serving). [tokens/s]"""
    slower: Range
    """Time on one over the time on the compared hardware, without start-up."""
    count: int
    """Processors of equal throughput."""
    scaling: float | None
    """Share of perfect scaling at that number; None for the compared hardware."""
    apart: bool
    """No cluster trains one run in that time, so each processor works on its own run."""
    purchase_usd: float | None = None
    """With hosts; None if no price is known. [USD]"""
    rated_kw: float | None = None
    draw_kw: float | None = None
    """Power in use, without cooling. [kW]"""
    cooling_kw: float | None = None
    """Power that the site adds. [kW]"""
    energy_kwh: float | None = None
    """Of one run, or one month of serving, as in ``recommend`` and ``estimate``: machines in use,
    cooling included. [kWh]"""
    energy_usd: float | None = None
    """That energy at the tariff. [USD]"""
    cooling_usd: float | None = None
    """The cooling's part of it. [USD]"""
    carbon_kg: float | None = None


class Purchase(Noun):
    """Whole machines of one kind that a budget buys."""

    machine: str
    """Key of ``data/machines.yaml``."""
    machine_name: str
    machines: int
    cards_per_machine: int
    accelerator: str
    accelerator_name: str
    card_usd: float
    """Price of one card, or of the whole machine if only that is known. [USD]"""
    count: int
    """Accelerators of one group, which does one job."""
    groups: int
    """Number of groups; they work in parallel."""
    usd: float
    """All machines, with a network if a group needs several. [USD]"""
    price_of: str
    """Kind and date of the cards' price."""
    at_launch_price: bool = False
    life_years: float | None = None
    """None: as long as machines usually last. [years]"""
    rated_w: float
    hours: float | None
    """A run on one group (training). [h]"""
    tokens_per_s: float | None
    """All groups together (serving). [tokens/s]"""
    runs_per_month: float | None = None
    """Training: what the machines were chosen for; None: as many as their hours in use take."""


class BudgetAnswer(Noun):
    """What a budget buys for the work."""

    sentence: str
    """The best mix in words; empty if there is none."""
    budget_usd: float
    power_limit_w: float | None
    slots: int | None
    best: tuple[Purchase, ...]
    """The mix with the highest throughput; empty if no affordable machine can do the work."""
    best_is_proven: bool
    """False if the search for the mix stopped at its limit: another mix may do more."""
    runs_per_month: float | None
    """Training: runs that the mix finishes in 730 h."""
    tokens_per_s: float | None
    """Serving: all cards together. [tokens/s]"""
    usd: float
    rated_w: float
    alternatives: tuple[Purchase, ...]
    """The best with one kind of machine each, best first."""


class Ownership(Noun):
    """Rent or buy, answered."""

    answer: str
    """Rent or buy, and above how many hours a month buying pays, in words."""
    accelerator: str
    accelerator_name: str
    count: int
    workload: str
    unit: str
    """The unit of the work: ``token``, ``image`` or ``sample``."""
    months: int
    hours_per_month: float
    runs_per_month: float | None = None
    """Training: what all machines do in these hours."""
    place: str
    own: OwningCost
    rents: tuple[RentCost, ...]
    """Cheapest over the horizon first; empty if no offer rents the hardware."""
    against: int | None = None
    """Index in ``rents`` of the offer that verdict, timeline, effects and strips compare with: the
    cheapest on demand, or on spot if that was asked for."""
    saving_usd: Range | None = None
    """Rent of that offer minus owning; positive if owning is cheaper. [USD]"""
    timeline: tuple[Month, ...] = ()
    effects: tuple[Effect, ...] = ()
    """Largest first, against the same offer."""
    strips: tuple[Strip, ...] = ()
    """Break-even against the same offer."""
    processors: tuple[ProcessorOption, ...]
    budget: BudgetAnswer | None
    inputs: tuple[Assumption, ...]
    assumptions: tuple[str, ...]
    attributions: tuple[str, ...]
