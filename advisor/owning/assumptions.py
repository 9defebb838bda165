"""The inputs of the comparison: the user's value, or the cited default with its spread."""

from __future__ import annotations

from dataclasses import dataclass, fields

from advisor.catalog.economy import CARBON_SOURCES, Default, Economy, Place
from advisor.catalog.nodes import SERVER_MEMORY_BYTES
from advisor.equations.owning import residual_share
from advisor.errors import InputError
from advisor.foundation.quantities import Evidence, Range
from advisor.nouns.hardware import Accelerator, Confidence, Segment
from advisor.nouns.money import Owning, Renting
from advisor.owning.results import Assumption

DESKTOP_SLOTS = 2
WORKSTATION_SLOTS = 4
"""Most cards in one machine of the kind; more of them need a server."""

WHOLE_COMPUTERS = frozenset({"APU", "SoC", "desktop"})
"""Form factors whose price includes a complete computer."""

TITLES = {
    "purchase_usd": ("Price of one accelerator", "USD"),
    "host_share": ("Rest of the machine", "of the accelerators' price"),
    "host_usd": ("Rest of one machine, at least", "USD"),
    "network_share": ("Network between machines", "of the accelerators' price"),
    "resale_share": ("Worth at the end", "of all that was bought"),
    "host_power_share": ("Power of the rest of the machine", "of the accelerators'"),
    "load_share": ("Power draw in use", "of rated power"),
    "idle_share": ("Power draw when idle", "of rated power"),
    "pue": ("Power usage effectiveness", ""),
    "electricity_usd_per_kwh": ("Electricity", "USD/kWh"),
    "carbon_g_per_kwh": ("Carbon intensity", "g/kWh"),
    "colocation_usd_per_kw_month": ("Colocation", "USD per kW and month"),
    "staff_usd_per_machine_month": ("Staff", "USD per machine and month"),
    "discount_rate": ("Cost of capital", "per year"),
    "rent_change": ("Change of rents", "per year"),
}


@dataclass(frozen=True, slots=True)
class Factors:
    """One value for each input: all expected, or one of them at its low or high end."""

    purchase_usd: float
    host_share: float
    host_usd: float
    network_share: float
    resale_share: float
    host_power_share: float
    load_share: float
    idle_share: float
    pue: float
    electricity_usd_per_kwh: float
    carbon_g_per_kwh: float
    colocation_usd_per_kw_month: float
    staff_usd_per_machine_month: float
    discount_rate: float
    rent_change: float


def groups_of(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the groups of defaults that apply to an accelerator, most specific first."""
    segment = accelerator.segment
    if segment is Segment.CPU:
        server = accelerator.memory_marketed_bytes > SERVER_MEMORY_BYTES
        return ("cpu", "server" if server else "desktop")
    if segment is Segment.EDGE:
        return ("edge", "desktop")
    if accelerator.form_factor in WHOLE_COMPUTERS:
        return ("computer", "desktop")
    if segment is Segment.WORKSTATION:
        return ("workstation", "desktop")
    return ("desktop",) if segment is Segment.CONSUMER else ("server",)


def host_groups(accelerator: Accelerator, per_machine: int) -> tuple[str, ...]:
    """Return the groups of ``host_usd``: more cards need a workstation, then a server."""
    groups = groups_of(accelerator)
    if groups[-1] != "desktop" or per_machine <= DESKTOP_SLOTS:
        return groups
    return ("workstation",) if per_machine <= WORKSTATION_SLOTS else ("server",)


def resolve(
    accelerator: Accelerator,
    *,
    owning: Owning,
    renting: Renting,
    machines: int,
    per_machine: int,
    economy: Economy,
) -> tuple[Assumption, ...]:
    """Return every input with its spread.

    Parameters
    ----------
    accelerator : Accelerator
        What is bought.
    owning : Owning
        What the user states about owning.
    renting : Renting
        What the user states about renting.
    machines : int
        One machine needs no network.
    per_machine : int
        Accelerators in each machine.
    economy : Economy
        Cited defaults, tariffs and carbon intensities.

    Returns
    -------
    tuple of Assumption
        In the order of ``Factors``.

    Raises
    ------
    InputError
        If the accelerator has no price or the place no tariff, and the user gave none.
    """
    groups = groups_of(accelerator)
    place = economy.place(owning.place)
    found: list[Assumption] = []

    def add(field: str, value: Range, source: str, *, given: bool = False) -> None:
        title, unit = TITLES[field]
        found.append(
            Assumption(field=field, title=title, unit=unit, value=value, given=given, source=source)
        )

    for item in fields(Factors):
        field = item.name
        given = getattr(renting if field == "rent_change" else owning, field)
        if given is not None:
            add(field, Range.exact(given), "given", given=True)
        elif field == "purchase_usd":
            add(field, *_price(accelerator, economy))
        elif field == "electricity_usd_per_kwh":
            add(field, *_tariff(place, groups, economy))
        elif field == "carbon_g_per_kwh":
            year = f", {place.carbon_year}" if place.carbon_year else ""
            source = f"{place.name}: {CARBON_SOURCES[place.carbon_source]}{year}"
            add(field, Range.exact(place.carbon_g_per_kwh), source)
        elif field == "resale_share":
            add(field, *_resale(owning, economy))
        elif field == "host_usd" and owning.host_share is not None:
            add(field, Range.exact(0.0), "not used: the share was given")
        elif field == "host_usd":
            add(field, *_spread(economy.default(field, *host_groups(accelerator, per_machine))))
        elif field == "network_share" and machines == 1:
            add(field, Range.exact(0.0), "one machine needs no network")
        else:
            add(field, *_spread(economy.default(field, *groups)))
    return tuple(found)


def expected(inputs: tuple[Assumption, ...]) -> Factors:
    """Return the expected value of every input."""
    return Factors(**{item.field: item.value.expected for item in inputs})


def _spread(default: Default, scale: float = 1.0) -> tuple[Range, str]:
    recalled = default.confidence is Confidence.MEMORY
    value = Range(
        low=default.low * scale,
        expected=default.expected * scale,
        high=default.high * scale,
        evidence=Evidence.ASSUMED if recalled else Evidence.DERIVED,
    )
    note = " (recalled or assumed, check it)" if recalled else ""
    return value, f"{default.source}, {default.source_date}{note}"


def _price(accelerator: Accelerator, economy: Economy) -> tuple[Range, str]:
    price, kind = accelerator.purchase_usd, accelerator.purchase_kind
    if price is None or kind is None:
        reason = f" ({accelerator.no_purchase})" if accelerator.no_purchase else ""
        raise InputError(
            f"{accelerator.name} has no purchase price in the catalog{reason}",
            value=None,
            allowed="a price in USD for one accelerator",
            remedy="Enter its price (--purchase-price 25000).",
            field="owning.purchase_usd",
        )
    group = "launch" if accelerator.at_launch_price() else kind
    value, _ = _spread(economy.default("price_factor", group), price)
    return value, f"{accelerator.price_words()} ({accelerator.source_of('purchase_usd').source})"


def _tariff(place: Place, groups: tuple[str, ...], economy: Economy) -> tuple[Range, str]:
    country = economy.place(place.country)
    business = "server" in groups
    price = country.business_usd_per_kwh if business else country.household_usd_per_kwh
    if price is None:
        raise InputError(
            f"no tariff is known for {place.name}",
            value=place.key,
            allowed="a price of electricity in USD per kWh",
            remedy="Enter the price of electricity (--electricity 0.15).",
            field="owning.electricity_usd_per_kwh",
        )
    value, _ = _spread(economy.default("tariff_factor"), price)
    kind = "business" if business else "household"
    return value, f"{kind} tariff of {country.name}, recalled, 2024-25, +-25 %: check your bill"


def _resale(owning: Owning, economy: Economy) -> tuple[Range, str]:
    months = float(owning.months)

    def share(years: float) -> float:
        return float(residual_share(months=months, life_years=years))

    if owning.life_years is not None:
        return Range.exact(share(owning.life_years)), f"given life of {owning.life_years:g} years"
    life = economy.default("life_years")
    value = Range(
        low=share(life.low),
        expected=share(life.expected),
        high=share(life.high),
        evidence=Evidence.ASSUMED,
    )
    return value, f"worth nothing after {life.expected:g} years; {life.source}, {life.source_date}"
