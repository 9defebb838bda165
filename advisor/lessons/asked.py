"""The case that a lesson is about, with its answer and variants of it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from advisor import api
from advisor.catalog import Catalog
from advisor.errors import InputError, refusal
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.results import Estimate
from advisor.nouns.case import Case, Hardware
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.workload import Serving
from advisor.planning.results import Recommendation
from advisor.planning.stated import placed


@dataclass(frozen=True)
class Asked:
    """A case and what was found for it."""

    case: Case
    recommendation: Recommendation
    catalog: Catalog

    @property
    def serves(self) -> bool:
        """Whether the work is serving."""
        return isinstance(self.case.workload, Serving)

    @cached_property
    def plan(self) -> Estimate:
        """The best plan; without limits of time, money and latency where none meets them."""
        plans = self.recommendation.plans or self._unlimited.plans
        if not plans:
            raise refusal("nothing_to_teach", value=self.recommendation.answer)
        return plans[0].estimate

    @cached_property
    def _unlimited(self) -> Recommendation:
        free = ("deadline_hours", "budget_usd", "max_ttft_ms", "max_tpot_ms")
        limits = self.case.limits.changed(**dict.fromkeys(free))
        return api.recommend(self.case.changed(limits=limits), catalog=self.catalog)

    @cached_property
    def placed(self) -> Case:
        """The case on the plan's hardware; the search chooses the layout."""
        return self.on(self.plan.accelerator, self.plan.count)

    def on(self, accelerator: str, count: int, layout: ParallelLayout | None = None) -> Case:
        """Return the case on stated hardware."""
        hardware = Hardware(accelerator=accelerator, count=count)
        return self.case.changed(hardware=hardware, layout=layout)

    def variant(self, *, layout: ParallelLayout | None = None, **changes: Any) -> Estimate | None:
        """Estimate the plan's layout, or another, after changes of the workload.

        The number format stays the plan's. None if the case cannot be computed so.
        """
        layout = layout or self.plan.layout
        layout = ParallelLayout(**layout.model_dump())  # every field stated: nothing is searched
        case = self.on(self.plan.accelerator, layout.accelerators, layout)
        workload = self.case.workload.changed(**(self.plan.numerics | changes))
        if isinstance(workload, Serving) and workload.requests_per_s is not None:
            # A replica has its share of the requests; all of them would flood one.
            share = layout.data / self.plan.layout.data
            workload = workload.changed(requests_per_s=workload.requests_per_s * share)
        try:
            return estimate_configuration(*placed(case.changed(workload=workload), self.catalog))
        except InputError:
            return None
