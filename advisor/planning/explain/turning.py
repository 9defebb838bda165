"""Values of the inputs at which another accelerator becomes the answer, and the grid of all."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

from advisor.errors import InputError
from advisor.foundation.noun import Noun
from advisor.nouns.case import Case
from advisor.nouns.limits import Objective
from advisor.nouns.workload import Serving
from advisor.planning.prepared import PricedCase
from advisor.planning.results import RejectionCode
from advisor.planning.search.options import Option, in_time, within_limits
from advisor.planning.search.ranking import RANKED_BY, best_option
from advisor.planning.searched import Searched

FACTORS: Final = (1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Amounts of work, as multiples of the asked one, that are searched until the answer turns."""
NARROWINGS: Final = 4
"""Each halves the interval in which it turns."""
ANY: Final = {"deadline_hours": None, "budget_usd": None}
AMOUNTS: Final = ("tokens", "samples", "concurrency", "requests_per_s")
"""Fields of a workload that say how much work there is; a case has one of them."""
PROMPT: Final = "input_tokens"
"""The length of prompts is an amount, too, if a model writes text."""


class Turn(Noun):
    """One input with the value beyond which another accelerator is the answer."""

    field: str
    """``deadline_hours``, ``budget_usd``, ``usd_per_hour``, `PROMPT` or one of `AMOUNTS`."""
    of: str = ""
    """The plan whose price it is."""
    now: float | None
    """None for a limit that is not set. In the unit of the case, prices of all machines a plan
    rents. [USD/h]"""
    at: float
    above: bool
    """Whether the answer turns above the value, not below."""
    then: str
    """The new answer, such as ``1x NVIDIA L4``; empty if nothing works."""


class Cell(Noun):
    """One accelerator in one number."""

    accelerator: str
    accelerator_name: str
    count: int
    time: float | None
    """Hours of the run (training), seconds per token or batch (serving)."""
    usd: float | None
    """Of the run, or of a month of serving; 0 for owned hardware. [USD]"""
    hourly: bool
    """Whether the time is in hours."""
    why: RejectionCode | None
    """Why it does not work; None if it does. Without any layout it is ``memory``."""


@dataclass(frozen=True)
class Turning:
    """A case with one search that serves every deadline and budget."""

    asked: PricedCase

    @property
    def case(self) -> Case:
        """The asked case."""
        return self.asked.case

    @cached_property
    def searched(self) -> Searched:
        """What is found without deadline and budget."""
        return self._search(self.case)

    def _search(self, case: Case) -> Searched:
        wide = case.changed(limits=case.limits.changed(**ANY))
        return Searched.of(self.asked.of(wide), advising=False)

    def _best(self, searched: Searched) -> Option | None:
        return best_option(searched.within(self.case).feasible, self.case.objective)

    def _card(self, option: Option) -> str:
        return self.searched.systems[option.system].accelerator.key

    def _named(self, option: Option | None) -> str:
        if option is None:
            return ""
        spares = getattr(self.case.workload, "spare_replicas", 0) * option.layout.replica_cards
        card = self.searched.systems[option.system].accelerator
        return f"{option.count + spares:,}x {card.name}"

    def turns(self) -> tuple[Turn, ...]:
        """Return every input's nearest values that make another accelerator the answer."""
        best = self._best(self.searched)
        if best is None:
            return ()
        workload = self.case.workload
        amounts = [name for name in AMOUNTS if getattr(workload, name, None)][:1]
        if isinstance(workload, Serving) and self.asked.architecture.generates:
            amounts.append(PROMPT)
        found = [turn for name in amounts for turn in self._amount(best, name)]
        if best.first_token_s is None:
            found += self._limit(best, "deadline_hours", lambda option: option.time)
        if best.cost_usd > 0:
            found += self._limit(best, "budget_usd", lambda option: option.cost_usd)
            found += self._prices(best)
        return tuple(found)

    def _limit(self, best: Option, field: str, size: Callable[[Option], float]) -> Iterator[Turn]:
        """Yield below and above which value of a limit another accelerator is the answer.

        Both are exact: a limit only chooses among the options of the one search.
        """
        limits, objective = self.case.limits, self.case.objective
        now, card = getattr(limits, field), self._card(best)
        free = limits.model_copy(update={field: None})
        able = within_limits(self.searched.result.options, free)
        own = {size(item) for item in able if self._card(item) == card and size(item) <= size(best)}
        for at in sorted(own, reverse=True):
            then = best_option([item for item in able if size(item) < at], objective)
            if then is None or self._card(then) != card:
                yield Turn(field=field, now=now, at=at, above=False, then=self._named(then))
                break
        if now is None or objective is Objective.FASTEST:
            return
        key = RANKED_BY[objective]
        better = [item for item in able if size(item) > now and key(item) < key(best)]
        better = [item for item in better if self._card(item) != card]
        if better:
            then = min(better, key=size)
            yield Turn(field=field, now=now, at=size(then), above=True, then=self._named(then))

    def _prices(self, best: Option) -> Iterator[Turn]:
        """Yield at which price of the plan, and of its runner-up, the runner-up is the answer."""
        objective = self.case.objective
        feasible = self.searched.within(self.case).feasible
        others = [item for item in feasible if self._card(item) != self._card(best)]
        if objective is Objective.FASTEST or not others:
            return
        key = RANKED_BY[objective]
        second = min(others, key=key)
        gap = key(second)[0] / key(best)[0]
        for item, at, above in ((best, gap, True), (second, 1 / gap, False)):
            if item.usd_per_hour > 0:
                yield Turn(
                    field="usd_per_hour",
                    of=self._named(item),
                    now=item.usd_per_hour,
                    at=item.usd_per_hour * at,
                    above=above,
                    then=self._named(second),
                )

    def _amount(self, best: Option, field: str) -> Iterator[Turn]:
        """Yield below and above which amount of work another accelerator is the answer.

        Each amount is a search of its own, of all accelerators at once.
        """
        workload = self.case.workload
        whole_steps = field in ("concurrency", PROMPT)
        now, card = float(getattr(workload, field)), self._card(best)

        @cache
        def answer(amount: float) -> Option | None:
            whole = amount if field == "requests_per_s" else round(amount)
            asked = workload.model_copy(update={field: whole})
            try:
                return self._best(self._search(self.case.changed(workload=asked)))
            except InputError:
                return None

        for above in (True, False):
            inside = now
            for factor in FACTORS:
                outside = now * factor if above else now / factor
                if whole_steps:
                    outside = max(1, math.ceil(outside) if above else math.floor(outside))
                then = answer(outside)
                if then is None or self._card(then) != card:
                    break
                inside = outside
            else:
                continue
            if then is not None and self._card(then) == card:
                continue
            for _ in range(NARROWINGS):
                middle = (inside + outside) / 2
                if whole_steps:
                    middle = round(middle)
                    if middle in (inside, outside):
                        break
                tried = answer(middle)
                if tried is not None and self._card(tried) == card:
                    inside = middle
                else:
                    outside, then = middle, tried
            yield Turn(field=field, now=now, at=outside, above=above, then=self._named(then))

    def cells(self) -> tuple[Cell, ...]:
        """Return each accelerator in each number in which it is offered, the best of each.

        Numbers above the smallest that holds the work are left out if no layout divides it so.
        """
        limits, key = self.case.limits, RANKED_BY[self.case.objective]
        grouped: dict[tuple[str, int], list[Option]] = {
            (system.accelerator.key, count): []
            for system in self.searched.systems
            for count in system.counts
        }
        for option in self.searched.result.options:
            grouped.setdefault((self._card(option), option.count), []).append(option)
        names = {item.accelerator.key: item.accelerator.name for item in self.searched.systems}
        found = []
        least: dict[str, int] = {}
        for (card, count), options in grouped.items():
            if options:
                least[card] = min(count, least.get(card, count))
        for (card, count), options in grouped.items():
            if not options and count > least.get(card, count):
                continue
            timely, able = in_time(options, limits), within_limits(options, limits)
            first = min(able or timely or options, key=key, default=None)
            late = RejectionCode.DEADLINE if limits.deadline_hours else RejectionCode.LATENCY
            why = (
                None
                if able
                else RejectionCode.BUDGET
                if timely
                else late
                if options
                else RejectionCode.MEMORY
            )
            found.append(
                Cell(
                    accelerator=card,
                    accelerator_name=names[card],
                    count=count,
                    time=None if first is None else first.time,
                    usd=None if first is None else first.cost_usd,
                    hourly=not isinstance(self.case.workload, Serving),
                    why=why,
                )
            )
        return tuple(found)
