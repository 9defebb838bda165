"""Owning against renting: break-even hours and month, timeline, effects of inputs."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.equations import Number
from advisor.equations.owning import annuity_months, break_even_inverse
from advisor.equations.pricing import committed_months
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.owning.assumptions import Bought, Factors, Spread
from advisor.owning.costs import present_usd, timeline_usd
from advisor.owning.rents import Tenancy
from advisor.owning.results import Assumption, BreakEven, Effect, Month, Strip

WIDEST: Final = 20.0
"""Values that change the answer are searched up to this many times the expected value."""
LIMITS: Final = {
    "resale_share": (0.0, 1.0),
    "load_share": (0.0, 1.0),
    "idle_share": (0.0, 1.0),
    "pue": (1.0, 5.0),
    "discount_rate": (0.0, 1.0),
    "rent_change": (-0.9, 1.0),
}
HORIZONS: Final = (12, 60)
"""The shortest and the longest. [months]"""
GRID: Final = 257
ROUNDS: Final = 3
"""Each round narrows an interval to one step of the grid: in all to 6e-8 of it."""
POINTS: Final = 41
SPAN: Final = {
    "purchase_usd": (0.25, 2.5),
    "electricity_usd_per_kwh": (0.0, 4.0),
    "usd_per_hour": (0.25, 4.0),
}
"""Ends as multiples of the value in use; the worth at the end goes from 0 to 1."""


@record
class Comparison:
    """One purchase against one way of renting, at given hours and horizon."""

    spread: Spread
    bought: Bought
    tenancy: Tenancy
    hours: float
    months: int

    def rent(self, factors: Factors, *, hours: float, paid: float | None = None) -> Number:
        """Present value of the rent over the horizon; of a commitment, of whole terms. [USD]"""
        months = committed_months(months=self.months, term_months=self.tenancy.term_months)
        hourly, level = self._rent(factors, hours=hours, months=float(months), paid=paid)
        if months > self.months:
            hourly, _ = self._rent(factors, hours=hours, months=float(self.months), paid=paid)
        return hourly + level

    def _rent(
        self, factors: Factors, *, hours: float, months: Number, paid: float | None = None
    ) -> tuple[Number, Number]:
        """Rent that depends on the hours of use, and rent that is fixed by month. [USD]"""
        work = self.tenancy.paid.expected if paid is None else paid
        growing = annuity_months(
            months=months, discount_rate=factors.discount_rate, growth_rate=factors.rent_change
        )
        level = annuity_months(months=months, discount_rate=factors.discount_rate)
        hourly = hours * work * self.tenancy.usd_per_hour
        return hourly * growing, self.tenancy.usd_per_month * level

    def rent_range(self) -> Range:
        """Rent over the horizon, with the spread of interruptions. [USD]"""
        return self._widened(self.spread.of(lambda factors: self.rent(factors, hours=self.hours)))

    def saving_range(self) -> Range:
        """Renting minus owning over the horizon, with the spread of interruptions. [USD]"""
        return self._widened(self.spread.of(self.saving))

    def _widened(self, around: Range) -> Range:
        """Add the spread of the hours paid, in quadrature."""
        paid = self.tenancy.paid
        if paid.low == paid.high:
            return around
        down, up = (
            self.rent(self.spread.base, hours=self.hours, paid=end)
            - self.rent(self.spread.base, hours=self.hours)
            for end in (paid.low, paid.high)
        )
        return Range(
            low=around.expected - float(np.hypot(around.expected - around.low, down)),
            expected=around.expected,
            high=around.expected + float(np.hypot(around.high - around.expected, up)),
            evidence=Evidence.ASSUMED,
        )

    def saving(self, factors: Factors) -> Number:
        """Renting minus owning; one of the factors may be an array. [USD]"""
        own = present_usd(factors, self.bought.size, hours=self.hours, months=self.months)
        return self.rent(factors, hours=self.hours) - own

    def inverse(self, factors: Factors) -> NDArray[np.float64]:
        """730 h over the break-even hours; infinite where owning is cheaper even when unused.

        One of the factors may be an array.
        """
        full, months = HOURS_PER_MONTH, float(self.months)
        unused = present_usd(factors, self.bought.size, hours=0.0, months=months)
        used = present_usd(factors, self.bought.size, hours=full, months=months)
        fixed_rent = self.rent(factors, hours=0.0)
        fixed = np.asarray(unused - fixed_rent)
        share = break_even_inverse(
            fixed_usd=np.where(fixed > 0, fixed, 1.0),
            rent_usd_at_full_use=self.rent(factors, hours=full) - fixed_rent,
            running_usd_at_full_use=used - unused,
        )
        return np.where(fixed > 0, share, np.inf)

    def hours_at(self, factors: Factors) -> float | None:
        """Break-even hours a month; None if owning never pays. [h]"""
        return self.each_hours_at(factors)[0]

    def each_hours_at(self, factors: Factors) -> tuple[float | None, ...]:
        """Break-even hours a month for each value of the factor that is an array. [h]"""
        inverses = np.atleast_1d(self.inverse(factors)).tolist()
        return tuple(HOURS_PER_MONTH / item if item >= 1 else None for item in inverses)

    def break_even(self) -> BreakEven:
        """Return break-even hours and months with their bounds."""
        # A commitment charges every hour, so the hours of use do not matter.
        hours, never, best = (None, False, None) if self.tenancy.committed else self._even_hours()
        first, middle, last = self.break_even_months()
        return BreakEven(
            hours_per_month=hours,
            may_never=never,
            hours_at_best=best,
            first_month=first,
            month=middle,
            last_month=last,
        )

    def _even_hours(self) -> tuple[Range | None, bool, float | None]:
        """Return break-even hours, whether there may be none, and those at best. [h]"""
        inverses = [float(self.inverse(self.spread.base))]
        ends = [end for _, *both in self.spread.moved for end in both]
        inverses += [float(self.inverse(end)) for end in ends]
        if np.isinf(inverses).any():
            bounds = (np.inf, inverses[0], min(inverses))
        else:
            low, base, high = self.spread.bounds(lambda factors: np.asarray(self.inverse(factors)))
            bounds = (float(high), float(base), float(low))
        best, usual, worst = (HOURS_PER_MONTH / item if item >= 1 else None for item in bounds)
        hours = None
        if usual is not None and best is not None:
            hours = Range(
                low=best,
                expected=usual,
                high=HOURS_PER_MONTH if worst is None else worst,
                evidence=Evidence.ASSUMED,
            )
        return hours, worst is None, best

    def own_bounds(self) -> tuple[NDArray[np.float64], ...]:
        """Low, expected and high cumulative cost of owning by month. [USD]"""
        return self.spread.bounds(
            lambda factors: timeline_usd(
                factors, self.bought.size, hours=self.hours, months=self.months
            )
        )

    def rent_bounds(self) -> tuple[NDArray[np.float64], ...]:
        """Low, expected and high cumulative rent by month. [USD]"""
        after = np.arange(self.months + 1, dtype=float)

        def paid(factors: Factors) -> NDArray[np.float64]:
            hourly, level = self._rent(factors, hours=self.hours, months=after)
            total = np.asarray(hourly + level)
            # A running commitment must be paid to its end.
            total[-1] = self.rent(factors, hours=self.hours)
            return total

        return self.spread.bounds(paid)

    def break_even_months(self) -> tuple[int | None, int | None, int | None]:
        """First, expected and last month in which owning overtakes."""
        own, rent = self.own_bounds(), self.rent_bounds()

        def overtakes(owning: NDArray[np.float64], renting: NDArray[np.float64]) -> int | None:
            under = np.flatnonzero(owning[1:] <= renting[1:])
            return int(under[0]) + 1 if under.size else None

        return overtakes(own[0], rent[2]), overtakes(own[1], rent[1]), overtakes(own[2], rent[0])

    def timeline(self) -> tuple[Month, ...]:
        """Cumulative cost of both, month by month."""
        own, rent = self.own_bounds(), self.rent_bounds()
        return tuple(
            Month(month=month, own_usd=_range(own, month), rent_usd=_range(rent, month))
            for month in range(self.months + 1)
        )

    def effects(self) -> tuple[Effect, ...]:
        """Effect of each input on the saving, largest first; without inputs of no effect."""
        each = (
            self._effect(
                item.field,
                item.title,
                item.unit,
                (item.value.low, item.value.high),
                self._flip(item),
            )
            for item in self.spread.inputs
            if item.field != "carbon_g_per_kwh"
        )
        found = [
            item
            for item in each
            if item.saving_at_low_usd != item.saving_at_high_usd or item.flips_at is not None
        ]
        found += [self._rent_effect(), self._hours_effect()]
        found.sort(key=lambda item: -abs(item.saving_at_high_usd - item.saving_at_low_usd))
        return (*found, *self._horizon_effect())

    def _rent_effect(self) -> Effect:
        """Effect of the hourly rent: an exact list price, but often negotiable."""
        price = self.tenancy.usd_per_hour
        base = self.spread.base
        paid = float(self.rent(base, hours=self.hours) - self.rent(base, hours=0.0))
        flips = price * (1 - float(self.saving(base)) / paid) if paid > 0 else None
        exact = flips if flips is not None and flips > 0 else None
        return self._effect("usd_per_hour", "Rent, all instances", "USD/h", (price, price), exact)

    def _hours_effect(self) -> Effect:
        """Effect of the use, which the user states: it flips at the break-even hours."""
        even = None if self.tenancy.committed else self.hours_at(self.spread.base)
        ends = self.hours, self.hours
        return self._effect("hours_per_month", "Hours in use", "h a month", ends, even or None)

    def _saving_after(self, months: int) -> float:
        """Return the saving over another horizon, all inputs expected. [USD]"""
        spread = Spread(self.bought.inputs(months))
        return float(replace(self, spread=spread, months=months).saving(spread.base))

    def _horizon_effect(self) -> tuple[Effect, ...]:
        """Return the effect of the horizon, if a shorter or longer one turns the answer."""
        flips = []
        for end in HORIZONS:
            inside, outside = self.months, end
            before, after = self._saving_after(inside), self._saving_after(outside)
            if (before >= 0) == (after >= 0):
                continue
            while abs(outside - inside) > 1:
                middle = (inside + outside) // 2
                if ((found := self._saving_after(middle)) >= 0) == (before >= 0):
                    inside, before = middle, found
                else:
                    outside, after = middle, found
            flips.append(inside + (outside - inside) * before / (before - after))
        if not flips:
            return ()
        nearest = min(flips, key=lambda months: abs(months - self.months))
        ends = float(self.months), float(self.months)
        return (self._effect("months", "Horizon", "months", ends, nearest),)

    def _effect(
        self, field: str, title: str, unit: str, ends: tuple[float, float], flips_at: float | None
    ) -> Effect:
        """Return the effect of an input at its ends, which are equal if it has no range."""
        low, high = (
            self.spread.base if ends[0] == ends[1] else self.spread.at(field, end) for end in ends
        )
        return Effect(
            field=field,
            title=title,
            unit=unit,
            low=ends[0],
            high=ends[1],
            saving_at_low_usd=float(self.saving(low)),
            saving_at_high_usd=float(self.saving(high)),
            hours_at_low=self.hours_at(low),
            hours_at_high=self.hours_at(high),
            flips_at=flips_at,
        )

    def _flip(self, item: Assumption) -> float | None:
        """Return the input's value at which the saving is 0; None if no plausible value is.

        On a grid that narrows around the change of sign: the saving is monotonic in every input.
        """
        low, high = LIMITS.get(item.field, (0.0, WIDEST * item.value.high))
        for _ in range(ROUNDS):
            values = np.linspace(low, high, GRID)
            savings = np.broadcast_to(self.saving(self.spread.at(item.field, values)), GRID)
            if savings[0] == savings[-1] or savings[0] * savings[-1] > 0:
                return None
            after = int(np.argmax(savings * savings[0] <= 0)) or GRID - 1
            low, high = float(values[after - 1]), float(values[after])
        return (low + high) / 2


def _range(bounds: tuple[NDArray[np.float64], ...], month: int) -> Range:
    low, middle, high = (float(item[month]) for item in bounds)
    return Range(low=low, expected=middle, high=high, evidence=Evidence.ASSUMED)


def break_even_by_input(comparison: Comparison) -> tuple[Strip, ...]:
    """Return break-even hours across price, worth at the end, electricity and rent."""
    spread, tenancy = comparison.spread, comparison.tenancy
    values = {item.field: item.value.expected for item in spread.inputs}
    values = {name: usd for name, usd in values.items() if name in SPAN or name == "resale_share"}
    found = []
    for field, value in (*values.items(), ("usd_per_hour", tenancy.usd_per_hour)):
        low, high = SPAN.get(field, (0.0, 1.0))
        scale = value if field in SPAN else 1.0
        line: Any = np.linspace(low * scale, high * scale, POINTS)
        if field == "usd_per_hour":
            changed = replace(comparison, tenancy=replace(tenancy, usd_per_hour=line))
            hours = changed.each_hours_at(spread.base)
        else:
            hours = comparison.each_hours_at(spread.at(field, line))
        found.append(Strip(field=field, value=value, values=tuple(line.tolist()), hours=hours))
    return tuple(found)
