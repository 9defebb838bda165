"""How far cards differ: specifications are points, prices are ranges over providers."""

from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import median
from typing import Final

from advisor.catalog import Catalog
from advisor.foundation.noun import Noun
from advisor.foundation.record import record
from advisor.foundation.units import GB, GIB, TFLOP
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.planning.search.systems import implausible_offers, price_usd_per_hour

HALF_FORMATS: Final = ("bf16", "fp16")
"""Formats for the 16-bit rate of a card: bf16 if it has one."""


@record
class Metric:
    """One quantity for comparing cards."""

    title: str
    unit: str
    specification: Callable[[Accelerator], float | None] | None
    """Value of the card alone; None for the rent itself."""
    per_rent: bool = False
    """Whether the value is divided by the rent of each provider."""

    @property
    def priced(self) -> bool:
        """Whether the quantity depends on the provider."""
        return self.per_rent or self.specification is None

    def value(self, card: Accelerator, rent: float | None) -> float | None:
        """Return the quantity at a rent, or None if a figure is unknown."""
        if self.specification is None:
            return rent
        fact = self.specification(card)
        if not self.per_rent:
            return fact
        return None if fact is None or rent is None else fact / rent


class Spread(Noun):
    """One quantity of one card."""

    accelerator: str
    name: str
    low: float
    middle: float
    """The value itself, or the median over providers."""
    high: float
    providers: int
    """Number of prices behind it; 0 for a specification."""


class Verdict(Noun):
    """Whether two cards differ in a quantity."""

    first: str
    """Name of the card with the lower middle."""
    second: str
    close: bool
    """Whether the difference is too small to be real."""
    common: int
    """Providers that rent both; 0 for a specification."""


def half_rate(card: Accelerator) -> float | None:
    """Return the dense 16-bit rate. [FLOPs/s]"""
    rates = (card.peak_flops_per_s.get(name) for name in HALF_FORMATS)
    return next((rate for rate in rates if rate is not None), None)


def scaled(value: float | None, unit: float) -> float | None:
    """Return a value in another unit; None stays None."""
    return None if value is None else value / unit


def _bandwidth(card: Accelerator) -> float | None:
    return card.memory_bandwidth_bytes_per_s / GB


def _half(card: Accelerator) -> float | None:
    return scaled(half_rate(card), TFLOP)


METRICS: Final = (
    Metric("Rent of one card", "USD/h", None),
    Metric("Memory", "GiB", lambda card: card.memory_reported_bytes / GIB),
    Metric("Bandwidth", "GB/s", _bandwidth),
    Metric("Dense 16-bit rate", "TFLOPS", _half),
    Metric("Bandwidth per dollar", "GB/s per USD/h", _bandwidth, per_rent=True),
    Metric("Dense 16-bit rate per dollar", "TFLOPS per USD/h", _half, per_rent=True),
    Metric("Board power", "W", lambda card: card.board_power_w),
    Metric("Purchase price", "USD", lambda card: card.purchase_usd),
)


def spreads(metric: Metric, keys: Sequence[str], catalog: Catalog) -> tuple[Spread, ...]:
    """Return a quantity of cards: its value, or its range over the providers.

    Cards with an unknown value are left out.
    """
    by_card = rents(catalog, keys) if metric.priced else {}
    found = []
    for key in keys:
        card = catalog.accelerator(key)
        prices = list(by_card.get(card.key, {}).values()) if metric.priced else [None]
        values = [value for price in prices if (value := metric.value(card, price)) is not None]
        if values:
            found.append(
                Spread(
                    accelerator=card.key,
                    name=card.name,
                    low=min(values),
                    middle=median(values),
                    high=max(values),
                    providers=len(values) if metric.priced else 0,
                )
            )
    return tuple(found)


def verdicts(metric: Metric, keys: Sequence[str], catalog: Catalog) -> tuple[Verdict, ...]:
    """Return for each pair of cards with a known quantity whether their difference is real.

    Prices are compared provider by provider. A difference is real if at least two providers rent
    both cards and all of them show the same sign, or if the ranges over all providers do not
    overlap. Specifications differ unless they are equal.
    """
    by_card = rents(catalog, keys) if metric.priced else {}
    found = []
    for one, other in combinations(spreads(metric, keys, catalog), 2):
        low, high = sorted((one, other), key=lambda spread: spread.middle)
        common: list[float] = []
        if metric.priced:
            cheap, dear = by_card[low.accelerator], by_card[high.accelerator]
            for provider in cheap.keys() & dear.keys():
                first = metric.value(catalog.accelerator(low.accelerator), cheap[provider])
                second = metric.value(catalog.accelerator(high.accelerator), dear[provider])
                if first is not None and second is not None:
                    common.append(second - first)
        paired = len(common) >= ENOUGH_PAIRS and min(common) > 0
        found.append(
            Verdict(
                first=low.name,
                second=high.name,
                close=not (paired or low.high < high.low),
                common=len(common),
            )
        )
    return tuple(found)


ENOUGH_PAIRS: Final = 2
"""Providers needed for a verdict: a single provider's prices may be an exception."""


def rents(catalog: Catalog, keys: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the cheapest firm on-demand price of one card, by card and provider. [USD/h]"""
    doubtful = implausible_offers(catalog, PriceKind.ON_DEMAND)
    found: dict[str, dict[str, float]] = {}
    for key in keys:
        cheapest = found.setdefault(catalog.accelerator(key).key, {})
        for offer in catalog.offers_for(key):
            price = price_usd_per_hour(offer, PriceKind.ON_DEMAND)
            if price is not None and offer.key not in doubtful and not offer.is_from:
                each = price / offer.accelerators
                cheapest[offer.provider] = min(each, cheapest.get(offer.provider, each))
    return found
