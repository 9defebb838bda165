"""The inputs of the comparison: the user's value, or the cited default with its spread."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.economy import CARBON_SOURCES, TARIFF_SOURCES, Default, Economy, Place
from advisor.catalog.nodes import groups_of, host_default, owned_node, sold_together
from advisor.equations.owning import residual_share
from advisor.equations.pricing import instances_needed
from advisor.errors import refusal
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, Confidence
from advisor.nouns.money import Owning, Unused
from advisor.owning.results import Assumption

OFF: Final = "switched off when unused (--when-unused on: it stays on)"


@record
class Size:
    """What is bought."""

    accelerators: int
    machines: int
    per_machine: int
    """Accelerators in each."""
    board_power_w: float
    joined: bool = False
    """Whether cards of several machines work on the same job."""
    idle: int = 0
    """Accelerators that no job takes: spares, and the rest of a machine that holds more."""

    @property
    def cards_in_one(self) -> int:
        """Accelerators bought for each machine: fewer than it holds in a part of a set."""
        return min(self.accelerators, self.per_machine)

    def busy_hours(self, hours: float) -> float:
        """Return the hours of an average accelerator at work while jobs run so long. [h]"""
        return hours * (1 - self.idle / self.accelerators)


def size_of(
    accelerator: Accelerator, count: int, groups: int = 1, spares: int = 0, stated: int = 0
) -> Size:
    """Return machines and power of groups of accelerators; small groups share a machine.

    ``spares``: groups of these that wait. ``stated``: accelerators to buy, if these are more than
    the groups take. Modules are bought by the baseboard or rack. What no group takes stays idle.
    Raises InputError if the catalog has no board power.
    """
    if accelerator.board_power_w is None:
        reason = f" ({accelerator.no_purchase})" if accelerator.no_purchase else ""
        raise refusal("power_unknown", accelerator=accelerator, reason=reason)
    per_machine = owned_node(accelerator, count).accelerators
    alone = int(instances_needed(accelerators=count, per_instance=per_machine))
    pack, working = sold_together(accelerator), count * groups
    bought = -(-max(working, stated) // pack) * pack
    return Size(
        accelerators=bought,
        machines=max(alone * -(-groups // max(1, per_machine // count)), -(-bought // per_machine)),
        per_machine=per_machine,
        board_power_w=accelerator.board_power_w,
        joined=alone > 1,
        idle=bought - working + spares * count,
    )


def _named(title: str, unit: str) -> Any:
    """Declare an input with its title and unit."""
    return field(metadata={"title": title, "unit": unit})


@record
class Factors:
    """One value for each input: all expected, or one of them at its low or high end."""

    purchase_usd: float = _named("Price of one accelerator", "USD")
    host_share: float = _named("Rest of the machine", "of the accelerators' price")
    host_usd: float = _named("Rest of one machine, at least", "USD")
    network_share: float = _named("Network between machines", "of the accelerators' price")
    resale_share: float = _named("Worth at the end", "of all that was bought")
    host_power_share: float = _named("Power of the rest of the machine", "of the accelerators'")
    load_share: float = _named("Power draw in use", "of rated power")
    idle_share: float = _named("Power draw when idle", "of rated power")
    pue: float = _named("Power usage effectiveness", "")
    electricity_usd_per_kwh: float = _named("Electricity", "USD/kWh")
    carbon_g_per_kwh: float = _named("Carbon intensity", "g/kWh")
    colocation_usd_per_kw_month: float = _named("Colocation", "USD per kW and month")
    staff_usd_per_machine_month: float = _named("Staff", "USD per machine and month")
    discount_rate: float = _named("Cost of capital per year", "per year")
    rent_change: float = _named("Change of rents per year", "per year")


INPUTS: Final = {item.name: item.metadata for item in fields(Factors)}
"""Title and unit of each input."""


def upkeep(
    field: str, groups: tuple[str, ...], owning: Owning, economy: Economy
) -> tuple[Range, str]:
    """Return what a fleet and ``own`` take for an input of keeping a machine, and its source.

    The given value, or the cited default of the machine's groups. Raises InputError if the place
    has no tariff.
    """
    given = getattr(owning, field, None)
    place = economy.place(owning.place)
    if given is not None:
        return Range.exact(given), "given"
    if field == "electricity_usd_per_kwh":
        return _tariff(place, groups, economy)
    if field == "carbon_g_per_kwh":
        year = f", {place.carbon_year}" if place.carbon_year else ""
        source = f"{place.name}: {CARBON_SOURCES[place.carbon_source]}{year}"
        return Range.exact(place.carbon_g_per_kwh), source
    # Unless stated, computers at home are off outside the hours in use, and servers are not.
    usual = Unused.OFF if groups[-1] == "desktop" else None
    if field == "idle_share" and (owning.when_unused or usual) is Unused.OFF:
        return Range.exact(0.0), OFF
    return _spread(economy.default(field, *groups))


@record
class Bought:
    """What is bought for a case, with the cited money around it."""

    case: Case
    accelerator: Accelerator
    size: Size
    economy: Economy
    host_bytes: float = 0.0
    """What the work keeps in the memory of one machine's host. [bytes]"""

    def inputs(self, months: int) -> tuple[Assumption, ...]:
        """Return every input with its spread, kept for so many months, in the order of ``Factors``.

        One machine needs no network; the rest of a machine has its own price. Raises InputError if
        the accelerator has no price or the place no tariff, and the user gave none.
        """
        return tuple(
            Assumption(field=name, value=value, given=known, source=source, **INPUTS[name])
            for name, value, known, source in self._spreads(months)
        )

    def expected(self, months: int) -> Factors:
        """Return the expected value of every input, as ``inputs`` gives them."""
        return Factors(**{name: value.expected for name, value, *_ in self._spreads(months)})

    def _spreads(self, months: int) -> Iterator[tuple[str, Range, bool, str]]:
        """Yield the name of every input, its spread, whether the user gave it, and its source."""
        owning, size, economy = self.case.owning.changed(months=months), self.size, self.economy
        groups = groups_of(self.accelerator, size.per_machine)
        for name in INPUTS:
            given = getattr(self.case.renting if name == "rent_change" else owning, name)
            if given is not None:
                value, source = Range.exact(given), "given"
            elif name == "purchase_usd":
                value, source = purchase_price(self.accelerator, economy)
            elif name == "resale_share":
                value, source = _resale(owning, economy)
            elif name == "host_usd" and owning.host_share is not None:
                value, source = Range.exact(0.0), "not used: the share was given"
            elif name == "host_usd":
                cards, held = size.cards_in_one, self.host_bytes
                value, source = _spread(host_default(economy, self.accelerator, cards, held))
            elif name == "network_share" and not size.joined:
                value, source = Range.exact(0.0), "no job takes several machines"
            else:
                value, source = upkeep(name, groups, owning, economy)
            yield name, value, given is not None, source


@cache
def _spread(default: Default, scale: float = 1.0) -> tuple[Range, str]:
    recalled = default.confidence is Confidence.MEMORY
    sure = Evidence.ASSUMED if recalled else Evidence.DERIVED
    low, middle, high = (end * scale for end in (default.low, default.expected, default.high))
    value = Range(low=low, expected=middle, high=high, evidence=sure)
    note = " (recalled or assumed, check it)" if recalled else ""
    return value, f"{default.source}, {default.source_date}{note}"


def purchase_price(accelerator: Accelerator, economy: Economy) -> tuple[Range, str]:
    """Return the price of a card with its source; raises InputError if the catalog has none."""
    price, kind = accelerator.purchase_usd, accelerator.purchase_kind
    if price is None or kind is None:
        reason = f" ({accelerator.no_purchase})" if accelerator.no_purchase else ""
        raise refusal("price_unknown", accelerator=accelerator, reason=reason)
    group = "launch" if accelerator.at_launch_price() else kind
    value, _ = _spread(economy.default("price_factor", group), price)
    return value, f"{accelerator.price_words()} ({accelerator.source_of('purchase_usd').source})"


def _tariff(place: Place, groups: tuple[str, ...], economy: Economy) -> tuple[Range, str]:
    priced = economy.priced(place)
    business = "server" in groups
    price = priced.business_usd_per_kwh if business else priced.household_usd_per_kwh
    told = priced.tariff_source
    if price is None or told is None:
        raise refusal("tariff_unknown", value=place.key, place=place)
    value, _ = _spread(economy.default("tariff_factor", told), price)
    kind = "commercial" if business else "household"
    return value, f"{kind} tariff of {priced.name}, {TARIFF_SOURCES[told]}"


def _resale(owning: Owning, economy: Economy) -> tuple[Range, str]:
    months = float(owning.months)

    def share(years: float) -> float:
        return float(residual_share(months=months, life_years=years))

    if owning.life_years is not None:
        return Range.exact(share(owning.life_years)), f"given life of {owning.life_years:g} years"
    life = economy.default("life_years")
    low, middle, high = map(share, (life.low, life.expected, life.high))
    value = Range(low=low, expected=middle, high=high, evidence=Evidence.ASSUMED)
    return value, f"worth nothing after {life.expected:g} years; {life.source}, {life.source_date}"


@dataclass(frozen=True)
class Spread:
    """The inputs with their bounds, which are taken as 80 % intervals."""

    inputs: tuple[Assumption, ...]

    @cached_property
    def base(self) -> Factors:
        """All inputs at their expected values."""
        return Factors(**{item.field: item.value.expected for item in self.inputs})

    def at(self, field: str, value: Any) -> Factors:
        """All inputs at their expected values but one, which may be an array."""
        return replace(self.base, **{field: value})

    @cached_property
    def moved(self) -> tuple[tuple[Assumption, Factors, Factors], ...]:
        """Each uncertain input with the factors at its low and its high end."""
        return tuple(
            (item, self.at(item.field, item.value.low), self.at(item.field, item.value.high))
            for item in self.inputs
            if item.value.low < item.value.high
        )

    def bounds(
        self, result: Callable[[Factors], NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return low, expected and high values of an array that depends on the factors.

        The deviations caused by each input alone add in quadrature, separately for the two
        directions. The inputs are taken as independent (JCGM 100:2008, 5.1.2).
        """
        middle = np.asarray(result(self.base), dtype=float)
        below, above = np.zeros_like(middle), np.zeros_like(middle)
        for _, low, high in self.moved:
            ends = np.stack([result(low) - middle, result(high) - middle, np.zeros_like(middle)])
            below = below + np.min(ends, axis=0) ** 2
            above = above + np.max(ends, axis=0) ** 2
        return middle - np.sqrt(below), middle, middle + np.sqrt(above)

    def of(self, result: Callable[[Factors], float | NDArray[np.float64]]) -> Range:
        """Return the range of one number that depends on the factors."""
        low, middle, high = self.bounds(lambda factors: np.asarray(result(factors)))
        evidence = Evidence.DERIVED.weakest(*(item.value.evidence for item, _, _ in self.moved))
        return Range(low=float(low), expected=float(middle), high=float(high), evidence=evidence)
