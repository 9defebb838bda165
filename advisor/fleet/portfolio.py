"""A portfolio: workloads with their demand, owned machines, and the limits of place and purse."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.foundation.parsing import parse_owned
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_as
from advisor.nouns.demand import HOURS_A_DAY, HOURS_A_WEEK
from advisor.nouns.hardware import PriceKind
from advisor.nouns.inputs import Labelled
from advisor.nouns.money import Owning, Share
from advisor.nouns.workload import Serving

MOST_WORKLOADS: Final = 200
MOST_OWNED: Final = 50

Amount = Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]
Limit = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
WorkloadName = Annotated[Name, Field(min_length=1, max_length=60)]
MachineKey = Annotated[Name, Field(min_length=1, max_length=80)]

NOT_HERE: Final = {
    "hardware": "the plan chooses the machines",
    "layout": "the search arranges each machine's cards",
    "limits.owned": "list what you have under owned",
    "limits.budget_usd": "state the budget of the portfolio",
    "limits.price_kind": "set preemptible for work that may be interrupted",
}
"""Fields of a case that a portfolio states elsewhere."""
OWNING_FIELDS: Final = frozenset(
    {
        "months",
        "place",
        "life_years",
        "load_share",
        "idle_share",
        "when_unused",
        "pue",
        "electricity_usd_per_kwh",
        "carbon_g_per_kwh",
        "colocation_usd_per_kw_month",
        "staff_usd_per_machine_month",
        "discount_rate",
    }
)
"""Fields of ``owning`` that a portfolio uses; prices and sizes are those of its machines."""


class Hours(Labelled):
    """When a service or a person needs machines."""

    ALWAYS = "always", "Day and night"
    OFFICE = "office", "Office hours"


class FleetWorkload(Noun):
    """An ordinary case, and how often it is done.

    Training states ``runs_per_month``, or ``people`` who each hold a machine in office hours.
    Serving states its peak by the case's concurrency and when by ``hours`` and ``quiet_share``, or
    both by a curve: ``workload.demand``, or ``week``.
    """

    name: WorkloadName
    case: Case
    runs_per_month: Amount | None = None
    """Training: runs that start in a month."""
    people: Amount | None = None
    """Interactive work: people at the same time who each need enough cards for the case."""
    hours: Hours = Hours.ALWAYS
    """Serving only."""
    quiet_share: Share = 0.25
    """Serving: load outside office hours over the peak."""
    week: Annotated[tuple[Share, ...], Field(max_length=HOURS_A_WEEK)] = ()
    """Serving: load of each hour of a day, or of a week from Monday, over the busiest, in place of
    ``hours`` and ``quiet_share``. ``workload.demand`` sets it."""
    output_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Serving: tokens (pictures, recordings) a second that one request in flight counts as. A rate
    sets it; without it, a replica counts by the requests that it holds within the limits."""
    sites: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Serving: separate places, each with machines of its own and the load of the case."""
    spare_machines: Annotated[int, Field(ge=0, le=8)] = 0
    """Serving: machines that stay free, of each owned kind that it runs on, so that it goes on if
    one fails (n+1). Training may use them until then; providers replace rented ones."""
    growth_per_year: Annotated[float, Field(ge=-0.9, le=9, allow_inf_nan=False)] = 0.0
    priority: Annotated[int, Field(ge=1, le=9)] = 5
    """1 is dropped last if the limits do not allow everything."""
    on_premises: bool = False
    """Must not leave the building: nothing is rented for it."""
    preemptible: bool = False
    """May be interrupted: spot machines are allowed."""

    @model_validator(mode="after")
    def _demand_of_its_kind(self) -> Self:
        serving = isinstance(self.case.workload, Serving)
        if serving and (self.runs_per_month is not None or self.people is not None):
            raise ValueError(
                "serving states its load in case.workload: leave runs_per_month and people out"
            )
        if isinstance(self.case.workload, Serving) and self.case.workload.spare_replicas:
            raise ValueError(
                "leave workload.spare_replicas out: state spare_machines beside the case"
            )
        if not serving and (self.runs_per_month is None) == (self.people is None):
            raise ValueError("training needs either runs_per_month or people")
        served = {"hours", "quiet_share", "week", "sites", "spare_machines"}
        if not serving and served & self.model_fields_set:
            raise ValueError("hours, quiet_share, week, sites and spare_machines apply to serving")
        curved = isinstance(self.case.workload, Serving) and self.case.workload.demand is not None
        if (curved or self.week) and {"hours", "quiet_share"} & self.model_fields_set:
            raise ValueError("a curve of demand says when: leave hours and quiet_share out")
        if (curved or self.week) and self.sites > 1:
            raise ValueError(
                "several sites have the load of the case: leave the curve of demand out"
            )
        if self.week and (len(self.week) not in (HOURS_A_DAY, HOURS_A_WEEK) or max(self.week) <= 0):
            raise ValueError(
                f"week has {HOURS_A_DAY} or {HOURS_A_WEEK} shares, one of them above 0"
            )
        return self

    @model_validator(mode="after")
    def _nothing_stated_twice(self) -> Self:
        limits = self.case.limits
        stated = {
            "hardware": self.case.hardware is not None,
            "layout": self.case.layout is not None,
            "limits.owned": bool(limits.owned),
            "limits.budget_usd": limits.budget_usd is not None,
            "limits.price_kind": limits.price_kind is not PriceKind.ON_DEMAND,
        }
        for field, given in stated.items():
            if given:
                raise ValueError(f"leave case.{field} out: {NOT_HERE[field]}")
        return self


class OwnedMachines(Noun):
    """Machines that are there already, or cards in computers of yours: ``rtx-3060-12gb:2``."""

    machine: MachineKey
    """Key of ``gpu-advisor fleet --machines``, e.g. ``hgx-8/h100-sxm``; or of a card."""
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Machines, or cards."""
    months_left: Annotated[int, Field(ge=1, le=120)] | None = None
    """Until they are scrapped; None: beyond the horizon. [months]"""

    @model_validator(mode="before")
    @classmethod
    def _written(cls, content: Any) -> Any:
        if not isinstance(content, str):
            return content
        return dict(zip(("machine", "count"), parse_owned(content, field="owned"), strict=True))


class Site(Noun):
    """What the place allows for all machines together. ``None`` means no limit."""

    power_kw: Limit | None = None
    """Rated power of all machines. [kW]"""
    cooling_kw: Limit | None = None
    """Heat that the room removes. [kW]"""
    rack_units: Limit | None = None
    machines: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Machines that there is room and staff for."""
    desks: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Computers without a rack that there is room for; 0 where all stands in racks."""
    noise_dba: Limit | None = None
    """Loudest machine allowed, e.g. 45 in an office. [dBA]"""
    ready_in_weeks: Limit | None = None
    """The work starts this many weeks from now: later deliveries help later only."""


class Budget(Noun):
    """What may be spent. ``None`` means no limit."""

    purchase_usd: Limit | None = None
    """For all machines over the whole horizon. [USD]"""
    usd_per_year: Limit | None = None
    """Cash that leaves in each year: machines, rents, power and staff. [USD/year]"""


class Means(Noun):
    """Which ways of getting machines the plan may use."""

    buy: bool = True
    used: bool = False
    """Used machines too: cheaper, with a shorter life and no warranty."""
    rent: bool = True
    spot: bool = True
    """For work that is pre-emptible."""
    api: bool = True
    """Hosted models, paid by the token, for services."""
    serverless: bool = True
    """Rented replicas that stop when nobody asks, for services without a limit on the first token:
    the first answer after a pause is slow."""
    commit: bool = True
    """Rent for one or three years at a discount."""
    mixed_vendors: bool = False
    """Machines and rentals of several software platforms (CUDA, ROCm, ...) in one plan."""
    other_platform_usd: Limit = 3000.0
    """What a platform with fewer tools than CUDA has to save before the plan takes it: about a week
    of an engineer. Assumed. [USD]"""
    machines: Annotated[tuple[MachineKey, ...], Field(max_length=100)] = ()
    """Buy only these; empty allows all."""
    without: Annotated[tuple[MachineKey, ...], Field(max_length=100)] = ()
    """Do not buy these."""


class Portfolio(Noun):
    """What is to be done for years, and within which limits."""

    name: Annotated[Name, Field(max_length=100)] = ""
    workloads: Annotated[tuple[FleetWorkload, ...], Field(min_length=1, max_length=MOST_WORKLOADS)]
    owned: Annotated[tuple[OwnedMachines, ...], Field(max_length=MOST_OWNED)] = ()
    site: Site = Site()
    budget: Budget = Budget()
    means: Means = Means()
    utilisation: Annotated[float, Field(ge=0.05, le=1)] = 0.8
    """Share of a machine's free hours that training may fill; the rest keeps queues short."""
    single: bool = False
    """One question, answered as ``recommend`` and ``own`` do: weights as published where they fit,
    and computers kept in free time. The page *Fleet* asks so for the question of all pages."""
    owning: Owning = Owning()
    """Horizon (``months``), place, power and capital; see ``OWNING_FIELDS``."""

    @property
    def bounded(self) -> bool:
        """Whether the budget says how much is done: rent would carry any work."""
        rents = self.means.rent and not all(item.on_premises for item in self.workloads)
        return self.budget.purchase_usd is not None and not rents

    @model_validator(mode="before")
    @classmethod
    def _owning_that_applies(cls, content: Any) -> Any:
        owning = content.get("owning") if isinstance(content, dict) else None
        if isinstance(owning, dict):
            for name in owning:
                if name in Owning.model_fields and name not in OWNING_FIELDS:
                    raise ValueError(f"owning.{name} does not apply to a portfolio")
        return content

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        seen: set[str] = set()
        for item in self.workloads:
            if item.name in seen:
                raise ValueError(f"two workloads are called {item.name!r}: give each its own name")
            seen.add(item.name)
        return self


def load_portfolio(source: str | Path | Mapping[str, Any]) -> Portfolio:
    """Read a portfolio from a file (YAML or JSON) or a mapping.

    Raises InputError if the file cannot be read, or a field is missing, unknown or out of bounds.
    The message names the field.

    ``source``: path of a file, or the content itself; docs/fleet.md shows one.
    """
    return load_as(Portfolio, source)
