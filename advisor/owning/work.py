"""The paid work: the hours of a run and the output of an hour."""

from __future__ import annotations

from dataclasses import replace

from advisor.estimate.cost import Prompts
from advisor.estimate.results import Estimate
from advisor.foundation.quantities import Range
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, MILLION
from advisor.nouns.case import Case
from advisor.nouns.workload import Serving


@record
class Work:
    """Time and rate of the configuration, from the estimate."""

    run_hours: Range | None
    """One run (training); None when serving. [h]"""
    units_per_hour: Range
    """Tokens (or images) that an hour trains or generates. [1/h]"""
    units_per_run: float | None
    """Tokens (or images) of one run (training)."""
    unit: str
    """``token``, ``image`` or ``sample``."""
    requests_per_hour: float | None = None
    """Answered requests (serving). [1/h]"""
    prompts: Prompts | None = None
    """What splits the cost between prompts and answers; None unless text is served."""

    groups: int = 1
    """Groups of cards that work side by side, each on a run of its own."""
    replicas: int = 1
    """Copies of a served model in one group, which need no network between them."""

    def run(self, usd_per_hour: Range) -> Range | None:
        """Return the cost of one run; None when serving. [USD]"""
        if self.run_hours is None:
            return None
        return self.run_hours.times(usd_per_hour).scaled(1 / self.groups)

    def times(self, groups: int) -> Work:
        """Return the work of several such groups."""
        requests = self.requests_per_hour
        return replace(
            self,
            units_per_hour=self.units_per_hour.scaled(groups),
            requests_per_hour=None if requests is None else requests * groups,
            groups=groups,
        )

    def million(self, usd_per_hour: Range) -> Range:
        """Return the cost of a million tokens. [USD]"""
        return self.units_per_hour.reciprocal(MILLION).times(usd_per_hour)

    def apart(self, usd_per_hour: Range) -> tuple[Range | None, Range | None]:
        """Return the cost of a million prompt tokens and of a million generated ones. [USD]"""
        if self.prompts is None:
            return None, None
        return self.prompts.apart(self.million(usd_per_hour))


def work_of(case: Case, estimate: Estimate) -> Work:
    """Return the work of a case and its estimate; ``ValueError`` if it has neither run nor rate."""
    if estimate.serving is not None:
        serving = estimate.serving
        per_hour = serving.output_tokens_per_s.scaled(HOUR_S)
        split = Prompts.of(serving, case.workload) if isinstance(case.workload, Serving) else None
        requests = serving.requests_per_s.expected * HOUR_S
        return Work(
            None, per_hour, None, serving.unit.value, requests, split, replicas=serving.replicas
        )
    if estimate.time is None:
        raise ValueError("the estimate has neither time nor serving")
    hours = estimate.time.run_hours
    units = estimate.time.steps * estimate.time.tokens_per_step
    return Work(hours, hours.reciprocal(units), units, estimate.time.unit.value)
