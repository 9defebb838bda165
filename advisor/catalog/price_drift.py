"""How prices move with time, from ``data/price_drift.csv`` and ``data/price_history.csv``."""

from functools import cache
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.catalog.files.checks import check_order
from advisor.catalog.records import IsoDate, Record, Text
from advisor.foundation.data_records import read_table
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Confidence, Offer, PriceKind

DRIFT_FILE: Final = "price_drift.csv"
HISTORY_FILE: Final = "price_history.csv"
HYPERSCALERS: Final = frozenset({"AWS", "Azure", "GCP", "OCI"})

DriftKind = Literal["hyperscaler", "list", "marketplace", "spot"]


class Drift(Record):
    """A row of ``price_drift.csv``: how far prices of one kind wander."""

    kind: DriftKind
    sigma_per_sqrt_year: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]
    """Spread of the logarithm of a price after a year; it grows with the root of time."""
    longest_days: Annotated[float, Field(gt=0)] | None = None
    """A price that is this much older than the newest of all is no longer an offer. [days]"""
    pairs: Annotated[int, Field(ge=0, le=1_000_000_000)]
    """Pairs of dated prices that it was measured on; 0: assumed."""
    source: Text
    source_date: IsoDate
    confidence: Confidence


class PastPrice(Record):
    """A row of ``price_history.csv``: a price from this day on, until the next row."""

    provider: Text
    instance_type: Text
    region: Text
    kind: Literal["on_demand", "spot"]
    date: IsoDate
    usd_per_hour: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    """Whole instance. [USD/h]"""
    source: Text


@cache
def drifts() -> dict[str, Drift]:
    """Return the rows by kind.

    >>> drifts()["spot"].sigma_per_sqrt_year > drifts()["hyperscaler"].sigma_per_sqrt_year
    True
    """
    rows = read_table(data_path(DRIFT_FILE), Drift, key=("kind",))
    check_order([item.kind for item in rows], file=DRIFT_FILE)
    return {item.kind: item for item in rows}


def drift_of(offer: Offer, kind: PriceKind) -> Drift:
    """Return how the price of an offer moves with time."""
    if kind is PriceKind.SPOT:
        return drifts()["spot"]
    if "market" in offer.tier:
        return drifts()["marketplace"]
    return drifts()["hyperscaler" if offer.provider in HYPERSCALERS else "list"]


@cache
def price_histories() -> dict[tuple[str, str, str, str], tuple[PastPrice, ...]]:
    """Return the rows by provider, instance, region and kind, oldest first."""
    rows = read_table(
        data_path(HISTORY_FILE),
        PastPrice,
        key=("provider", "instance_type", "region", "kind", "date"),
    )
    found: dict[tuple[str, str, str, str], tuple[PastPrice, ...]] = {}
    for item in rows:
        key = (item.provider, item.instance_type, item.region, item.kind)
        found[key] = (*found.get(key, ()), item)
    return found


def history_of(offer: Offer, kind: PriceKind) -> tuple[PastPrice, ...]:
    """Return the known prices of an offer, oldest first; empty where no source has a history."""
    name = "spot" if kind is PriceKind.SPOT else "on_demand"
    return price_histories().get((offer.provider, offer.instance_type, offer.region, name), ())
