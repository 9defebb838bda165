"""Rows of a fleet's program for the limits of the place and the purse."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from advisor.fleet.solving.columns import AWAY_USD_PER_MONTH, Buy, Column, Stand, Use, use_usd
from advisor.fleet.solving.problem import Problem

THOUSAND: Final = 1e3
"""The program counts thousands of dollars, so that its numbers are of one size."""

Row = tuple[dict[int, float], float]
"""Coefficients by column, and the most that they may sum to."""
There = Mapping[tuple[int, int], Mapping[int, float]]
"""Columns that bring machines of a supply into a period."""
Uses = Sequence[tuple[tuple[Use, int], ...]]
"""Replicas or runs of each column, with their number."""


def limit_rows(
    problem: Problem, there: There, places: Mapping[Column, int], uses: Uses
) -> Iterator[Row]:
    """Yield the rows of a problem's limits; ``places`` holds the place of each column."""
    limits = problem.limits
    sizes = (
        (limits.power_kw, [item.power_kw for item in problem.supplies]),
        (limits.rack_units, [item.rack_units for item in problem.supplies]),
        (limits.machines, [1.0] * len(problem.supplies)),
        (limits.desks, [float(not item.rack_units) for item in problem.supplies]),
    )
    for period in range(len(problem.months)):
        for limit, each in sizes:
            if limit is not None:
                yield from _place_rows(problem, there, period, limit, each)
    if limits.purchase_usd is not None:
        capital = {
            place: problem.supplies[key.supply].capital_usd / THOUSAND
            for key, place in places.items()
            if isinstance(key, Buy) and problem.supplies[key.supply].capital_usd
        }
        yield capital, limits.purchase_usd / THOUSAND
    if limits.usd_per_year is not None:
        yield from _cash_rows(problem, there, places, uses, limits.usd_per_year)


def _place_rows(
    problem: Problem, there: There, period: int, limit: float, sizes: Sequence[float]
) -> Iterator[Row]:
    terms: dict[int, float] = {}
    held = 0.0
    for supply, size in enumerate(sizes):
        item = problem.supplies[supply]
        if not item.on_site or not size:
            continue
        held += size * (item.owned[period] if item.owned else 0)
        terms.update({at: size * one for at, one in there.get((supply, period), {}).items()})
    if terms:
        yield terms, max(0.0, limit - held)


def _cash_rows(
    problem: Problem, there: There, places: Mapping[Column, int], uses: Uses, most: float
) -> Iterator[Row]:
    """Bound the cash of each year."""
    for year in range(math.ceil(problem.horizon / 12)):
        periods = {period for period, start in enumerate(problem.starts) if start // 12 == year}
        terms: dict[int, float] = {}
        paid = 0.0
        for place, item in enumerate(problem.supplies):
            for period in periods:
                months = problem.months[period]
                if item.owned:
                    paid += item.owned[period] * item.month_usd * months
                for at in there.get((place, period), {}):
                    terms[at] = terms.get(at, 0.0) + item.month_usd * months
                if Buy(place, period) in places:
                    at = places[Buy(place, period)]
                    terms[at] = terms.get(at, 0.0) + item.capital_usd
        for at, parts in enumerate(uses):
            for use, number in parts:
                if use.period in periods:
                    paid_for = use_usd(problem, use, number) * problem.months[use.period]
                    terms[at] = terms.get(at, 0.0) + paid_for
        for key, at in places.items():
            if isinstance(key, Stand) and key.supply is None and key.period in periods:
                terms[at] = AWAY_USD_PER_MONTH * problem.months[key.period]
        yield {at: usd / THOUSAND for at, usd in terms.items()}, max(0.0, most - paid) / THOUSAND
