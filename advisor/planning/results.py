"""The result of a recommendation: plans, frontier, and why other accelerators lost."""

from __future__ import annotations

import math

from advisor.estimate.results import Estimate, Parameters
from advisor.foundation.formatting import duration, milliseconds, money
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.inputs import Labelled
from advisor.nouns.limits import Objective


class RejectionCode(Labelled):
    """Why an accelerator lost, what a person can change first."""

    MEMORY = "memory", "too little memory"
    DEADLINE = "deadline", "too slow for the deadline"
    BUDGET = "budget", "over the budget"
    LATENCY = "latency", "misses a latency target"
    FORMAT = "format", "lacks the number format"
    """No supported number format that the workload asks for."""
    SOFTWARE = "software", "no software for the work"
    """No allowed software does the work on it."""
    INFERENCE_ONLY = "inference_only", "only serves models"
    """No software trains on it."""
    DOMINATED = "dominated", "works, but another is better"
    """Feasible, but another accelerator is both cheaper and faster."""
    NOT_OFFERED = "not_offered", "no offer to rent"
    """Nothing in the catalog rents it under the given providers and price kind."""
    EXCLUDED = "excluded", "not on your list"
    """Not on the user's list of accelerators."""
    UNKNOWN = "unknown", "facts missing"
    """The catalog lacks a fact that the estimate needs."""


class Rejection(Noun):
    """One accelerator that is not recommended, with its nearest miss and a remedy."""

    accelerator: str
    accelerator_name: str
    code: RejectionCode
    actual: float | None
    limit: float | None
    unit: str
    message: str
    """One sentence: what, actual value, limit."""
    remedy: str
    """What would make it work, or where it would win."""

    @property
    def miss(self) -> tuple[bool, float]:
        """Sort key: what runs but misses a limit, then what does not fit; smallest miss first."""
        asked = self.actual / self.limit if self.actual is not None and self.limit else math.inf
        return self.code is RejectionCode.MEMORY or math.isinf(asked), asked

    @classmethod
    def of(
        cls,
        accelerator: Accelerator,
        code: RejectionCode,
        message: str,
        remedy: str,
        *,
        actual: float | None = None,
        limit: float | None = None,
        unit: str = "",
    ) -> Rejection:
        """Return the rejection of an accelerator."""
        return cls(
            accelerator=accelerator.key,
            accelerator_name=accelerator.name,
            code=code,
            actual=actual,
            limit=limit,
            unit=unit,
            message=message,
            remedy=remedy,
        )


class Candidate(Noun):
    """One feasible configuration, as a point of the cost-time chart."""

    accelerator: str
    accelerator_name: str
    count: int
    provider: str | None
    instance_type: str | None
    hours: Range | None
    """Run time (training). [h]"""
    tpot_ms: Range | None
    """Time per output token, or of a batch (serving). [ms]"""
    cost_usd: Range | None
    """Run (training) or month (serving); None for hardware without a price. [USD]"""
    on_frontier: bool
    label: str
    """Short label, e.g. ``8x H100 SXM (Lambda)``."""

    @property
    def cells(self) -> dict[str, str]:
        """Hardware, time and cost with their ranges, by column."""
        time = "unknown"
        if self.hours is not None:
            time = duration(self.hours.scaled(HOUR_S), with_range=True)
        elif self.tpot_ms is not None:
            time = milliseconds(self.tpot_ms.scaled(MILLISECOND), with_range=True)
        cost = "no rent" if self.cost_usd is None else money(self.cost_usd, with_range=True)
        return {"Hardware": self.label, "Time": time, "Cost": cost}


class Plan(Noun):
    """A configuration worth choosing, in full."""

    rank: int
    title: str
    """E.g. ``Rent 8x NVIDIA H100 SXM5 80GB at Lambda``."""
    sentence: str
    """The answer in one line with numbers and ranges."""
    why: str
    """What limits the plan, and what the runner-up would cost or take."""
    replicas: int = 1
    """Independent copies of the layout of a served model; they need no network between them."""
    estimate: Estimate


class Ranking(Noun):
    """Best plans for one objective, best first: three for the asked one, one for each other."""

    objective: Objective
    plans: tuple[Plan, ...]


class Advice(Noun):
    """A remark on the answer, with a stable code."""

    code: str
    severity: str
    """``info`` | ``warning``."""
    message: str


class Pools(Noun):
    """Disaggregated serving: a prefill and a decode pool on one kind of machine."""

    sentence: str
    prefill_replicas: int
    prefill: Estimate
    """Of one replica and a step of prompts; ``decode`` is of all replicas."""
    decode_replicas: int
    decode: Estimate
    instances: int
    """Rented machines; 0 for owned hardware."""
    transfer_ms: float
    """A prompt's cache between the pools, with its wait for a link. [ms]"""
    ttft_ms: Range
    """Both queues, the prompt, the transfer and the first step, where the limits judge. [ms]"""
    tpot_ms: Range
    usd_per_month: float


class Recommendation(Noun):
    """The answer to a case."""

    case: Case
    answer: str
    """The best plan of the asked objective in one sentence, or why nothing works."""
    parameters: Parameters
    batches: bool = False
    """The answers are batches of images or sequences, and times are those of a batch."""
    rankings: tuple[Ranking, ...]
    """One for each objective, the asked one first; without plans if nothing is feasible."""
    frontier: tuple[Candidate, ...]
    """Not dominated in cost and time, ordered by time."""
    candidates: tuple[Candidate, ...]
    """Best configurations per accelerator and offer, for the chart (bounded number)."""
    fewest: tuple[Candidate, ...] = ()
    """With a deadline: the smallest number of each accelerator that meets it and the budget: one
    machine fewer does not. Fewest first."""
    rejections: tuple[Rejection, ...]
    """One for every accelerator of the catalog that is in no plan."""
    pools: Pools | Rejection | None = None
    """With ``disaggregated``: the cheapest pair of pools, or why there is none; the plans are
    ordinary ones."""
    nearest: Estimate | None = None
    """Without plans: the card that lacks the least memory, with what would make it fit."""
    advice: tuple[Advice, ...]
    assumptions: tuple[str, ...]
    references: tuple[str, ...]
    searched: int
    """Configurations evaluated."""
    feasible: int
    able: int
    """Accelerators that do the work within the limits."""
    catalog_date: str
    """Date of the newest price used."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Plans of the asked objective, best first."""
        return self.rankings[0].plans if self.rankings else ()

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions without those of other plans than the first."""
        plans = [plan for ranking in self.rankings for plan in ranking.plans]
        others = {text for plan in plans for text in plan.estimate.assumptions}
        if self.plans:
            others -= {*self.plans[0].estimate.assumptions}
        return tuple(text for text in self.assumptions if text not in others)
