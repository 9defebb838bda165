"""A searched case: its options, and the full estimates of those that an answer shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from advisor.errors import refusal
from advisor.estimate.results import Estimate
from advisor.estimate.together import side_by_side
from advisor.estimate.tools.software import ToolRules
from advisor.estimate.training.defaults import longest_run_s
from advisor.estimate.training.loading import decodes_images
from advisor.foundation.formatting import duration
from advisor.foundation.units import HOUR_S, HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.limits import Objective
from advisor.nouns.workload import Serving
from advisor.planning.chart_points import as_candidates, chart_points, fewest, fewest_first
from advisor.planning.explain.rejections import Outcome, reject
from advisor.planning.explain.sentences import label, sentence, title, why
from advisor.planning.explain.tuning import improvements, served_improvements
from advisor.planning.explain.why_not import Contest
from advisor.planning.placed import estimate_placed, placement
from advisor.planning.prepared import PricedCase
from advisor.planning.results import Candidate, Plan, Ranking, Rejection
from advisor.planning.search.found import SearchResult
from advisor.planning.search.neighbours import neighbours
from advisor.planning.search.options import Option, within_limits
from advisor.planning.search.ranking import RankColumns, best_option, best_per_accelerator
from advisor.planning.search.replicas import fewest_machines
from advisor.planning.search.software import search_and_host
from advisor.planning.search.systems import System, check_names, check_owned, find_systems
from advisor.planning.spanning import spanning
from advisor.planning.usual_limits import (
    LATENCIES,
    latency_words,
    pace_words,
    slower_limits,
    usual_limits,
)

PLANS_ASKED, PLANS_BRIEF, PLANS_BESIDE = 3, 2, 1
"""Number of plans for the asked objective, in a brief answer too, and for each other one."""


@dataclass(frozen=True)
class Searched:
    """A searched case, with full estimates of the few options that the answer shows."""

    asked: PricedCase
    systems: Sequence[System]
    result: SearchResult
    rules: ToolRules
    """They choose the tool of each card."""
    estimates: dict[Option, Estimate] = field(default_factory=dict)
    pace: str = ""
    """The assumption about latency or deadline; empty if none is made."""
    late: str = ""
    """The usual latency that no plan within the limits has; empty if it is met or not assumed."""

    @classmethod
    def of(cls, asked: PricedCase, *, advising: bool = True) -> Searched:
        """Search the catalog for a case; its deadline and budget only choose afterwards.

        Answers come at the usual pace if a case states no latency limit and some plan can.
        ``advising`` also searches what only advice names.
        """
        if isinstance(asked.case.workload, Serving) and asked.case.workload.disaggregated:
            raise refusal("two_pools", why="this answer compares plans of one")
        case, writes = asked.case, asked.architecture.generates
        usual = usual_limits(case, asked.architecture)
        paced = asked if usual == case.limits else asked.of(case.changed(limits=usual))
        found = cls._of(paced, advising=advising)
        if found.feasible or usual == case.limits:
            return replace(found, pace=pace_words(usual, case.limits, writes=writes))._in_time()
        for limits in slower_limits(case, asked.architecture):
            found = cls._of(asked.of(case.changed(limits=limits)), advising=advising)
            if found.feasible:
                pace = pace_words(limits, case.limits, writes=writes)
                late, flags = latency_words(usual, limits, writes=writes)
                late = f"nothing within the limits answers {late}"
                pace = "; ".join(filter(None, [late, pace]))
                late += f" at the high end of its range ({flags}; --risk 50% takes the expected)"
                return replace(found, pace=pace, late=late)
        return found

    @classmethod
    def _of(cls, asked: PricedCase, *, advising: bool) -> Searched:
        case, limits = asked.case, asked.case.limits
        check_names(limits, asked.catalog)
        check_owned(limits)
        training = not isinstance(case.workload, Serving)
        decoding = decodes_images(case.workload, asked.architecture)
        offered = find_systems(asked.catalog, limits, training=training, decoding=decoding)
        rules = ToolRules.of(case, asked.architecture)
        systems, result = search_and_host(asked, offered, advising=advising, rules=rules)
        options = tuple(spanning(asked, systems, result.options, fewer=True))
        return cls(asked, systems, replace(result, options=options), rules)

    @property
    def case(self) -> Case:
        """The case with the limits that were searched."""
        return self.asked.case

    def within(self, case: Case) -> Searched:
        """Return the same search for a case that differs in deadline, budget or objective."""
        latency = self.case.limits.model_dump(include={*LATENCIES})
        limits = case.limits.changed(**latency)
        asked = self.asked.of(case.changed(limits=limits))
        return replace(self, asked=asked, estimates={})._in_time()

    def _in_time(self) -> Searched:
        """Return the search with the usual deadline if none is stated and the best run misses it.

        Unless all runs do.
        """
        case = self.case
        if isinstance(case.workload, Serving) or case.limits.deadline_hours is not None:
            return self
        # Who commits for a term waits as long.
        term_s = (case.limits.commitment_months or 0) * HOURS_PER_MONTH * HOUR_S
        longest_s = max(longest_run_s(), term_s)
        best = best_option(self.feasible, case.objective)
        if best is None or best.time * HOUR_S <= longest_s:
            return self
        limits = case.limits.changed(deadline_hours=longest_s / HOUR_S)
        within = f"the run ends within {duration(longest_s)}"
        pace = f"{within}, since no deadline is stated (--deadline)"
        timed = replace(self, asked=self.asked.of(case.changed(limits=limits)), pace=pace)
        return timed if timed.feasible else self

    @cached_property
    def feasible(self) -> list[Option]:
        """Options that meet every limit, on one offer or several."""
        return within_limits(self.result.options, self.case.limits)

    @cached_property
    def _axes(self) -> RankColumns:
        """What ranks the options that meet every limit, or all if none does."""
        return RankColumns.of(self.feasible or self.result.options)

    @property
    def able(self) -> int:
        """Number of accelerators with an option that meets every limit."""
        return len({self.systems[option.system].accelerator.key for option in self.feasible})

    @property
    def batches(self) -> bool:
        """Whether the case serves a network that processes whole batches."""
        return isinstance(self.case.workload, Serving) and not self.asked.architecture.generates

    def estimate(self, option: Option) -> Estimate:
        """Return the full estimate of an option, term by term."""
        if option not in self.estimates:
            self.estimates[option] = self._explained(option)
        return self.estimates[option]

    def _explained(self, option: Option, *, around: bool = False, better: bool = False) -> Estimate:
        """Return an estimate, with the layouts around it and what would improve it if asked."""
        place = placement(option, self.systems[option.system])
        found = self.estimates.get(option) or estimate_placed(self.asked, place, run=option.run)
        if around and not found.neighbours:
            found = found.changed(neighbours=neighbours(self.asked, place, run=option.run))
        if better:
            serves = isinstance(self.case.workload, Serving)
            improve = served_improvements if serves else improvements
            found = found.changed(improvements=improve(self.asked, place, found))
        return found

    def rankings(self, *, brief: bool = False, beside: bool = True) -> tuple[Ranking, ...]:
        """Return the best plans for the asked objective, and the best plan for each other one.

        ``brief``: with fewer of the asked objective, and without the layouts near the best.
        ``beside``: with the layouts near the best for the other objectives.
        """
        most = PLANS_BRIEF if brief else PLANS_ASKED
        asked = self.case.objective
        objectives = (asked, *(item for item in Objective if item is not asked))
        ranked = best_per_accelerator(self.feasible, self._axes, self.systems)
        ordered = {one: ranked[one] for one in objectives}
        first = list(dict.fromkeys(best[0] for best in ordered.values() if best))
        plans = list(dict.fromkeys([*first, *ordered[asked][:most]]))
        near = [] if brief else first[: None if beside else 1]
        tasks = [
            partial(self._explained, one, around=one in near, better=one is first[0])
            for one in plans
        ]
        self.estimates.update(zip(plans, side_by_side(tasks), strict=True))
        return tuple(
            Ranking(
                objective=one,
                plans=self._plans(one, best, most if one is asked else PLANS_BESIDE),
            )
            for one, best in ordered.items()
        )

    def _plans(
        self, objective: Objective, ordered: Sequence[Option], most: int
    ) -> tuple[Plan, ...]:
        alone = len(self.case.limits.accelerators) == 1
        plans = []
        for rank, option in enumerate(ordered[:most]):
            system, estimate = self.systems[option.system], self.estimate(option)
            following = ordered[rank + 1] if rank + 1 < len(ordered) else None
            runner_up = None if following is None else (following, self.systems[following.system])
            plans.append(
                Plan(
                    rank=rank + 1,
                    title=title(option, system),
                    sentence=sentence(option, system, estimate),
                    why=why(option, estimate, objective, runner_up, alone=alone),
                    replicas=1 if estimate.serving is None else estimate.serving.replicas,
                    estimate=estimate,
                )
            )
        return tuple(plans)

    def candidates(self) -> tuple[Candidate, ...]:
        """Return the points of the chart of cost against time."""
        return chart_points(
            self.feasible or self.result.options,
            self._axes,
            self.systems,
            self.result.spreads,
            serving=isinstance(self.case.workload, Serving),
        )

    def fewest(self) -> tuple[Candidate, ...]:
        """Return the fewest of each accelerator that meet a stated deadline, the smallest first."""
        if self.case.limits.deadline_hours is None or self.pace:
            return ()
        found = fewest_machines(
            fewest(self.feasible, self.systems),
            self.systems,
            self.result.prices,
            self.result.spreads,
            self.asked,
        )
        ordered = sorted(found, key=fewest_first)
        spreads = self.result.spreads
        return as_candidates(ordered, self.systems, spreads, serving=False, on_frontier=set())

    def rejections(
        self, rankings: Sequence[Ranking], best: Option | None, bought: Mapping[str, Option]
    ) -> tuple[Rejection, ...]:
        """Return why each accelerator that is in no plan lost."""
        case, result = self.case, self.result
        options: dict[str, list[Option]] = {}
        for option in result.options:
            options.setdefault(self.systems[option.system].accelerator.key, []).append(option)
        smaller: dict[str, Option] = {}
        for option in sorted(result.smaller, key=lambda option: option.time, reverse=True):
            smaller[self.systems[option.system].accelerator.key] = option
        answer = "batch" if self.batches else "token"
        contest = Contest.of(
            case,
            self.feasible,
            best,
            "" if best is None else label(best, self.systems[best.system]),
            answer=answer if isinstance(case.workload, Serving) else "",
            startup_s=self.asked.calibration.reliability.startup_s,
        )
        outcome = Outcome(
            options=options,
            misses=result.misses,
            carried=result.carried,
            smaller=smaller,
            bought=bought,
            searched=result.with_format,
            rentable=frozenset(system.accelerator.key for system in self.systems),
            formats=result.formats,
            contest=contest,
            lack=self.rules.lack,
        )
        chosen = {plan.estimate.accelerator for item in rankings for plan in item.plans}
        return reject(self.asked.catalog, case, outcome, chosen)

    def assumptions(self) -> tuple[str, ...]:
        """Return every assumption once."""
        stated = [*filter(None, [self.pace]), *self.asked.architecture.assumptions]
        for run in self.result.runs if not self.estimates else ():
            stated.extend(run.assumptions)
        for estimate in self.estimates.values():
            stated.extend(estimate.assumptions)
        return tuple(dict.fromkeys(stated))

    def references(self) -> tuple[str, ...]:
        """Return the key of every source once."""
        return tuple(
            dict.fromkeys(key for item in self.estimates.values() for key in item.references)
        )
