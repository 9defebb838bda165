"""Fetches live prices into the cache. If anything fails, the prices in use stay."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from advisor.catalog.api_prices import ApiPrice, load_api_prices
from advisor.catalog.catalog import Catalog
from advisor.catalog.live import cache_file, prices
from advisor.catalog.live.clouds import addresses
from advisor.catalog.live.download import BROKEN, json_at, reason
from advisor.catalog.live.fetch import Progress, fetch
from advisor.catalog.live.prices import (
    LivePrices,
    LiveProvider,
    ProviderReport,
    RefreshReport,
    newest_dates,
)
from advisor.catalog.live.rows import TITLES, Fetched, check_names, convert
from advisor.catalog.loader import load_snapshot
from advisor.errors import RefreshError
from advisor.nouns.hardware import Offer

NAME: Final = "OpenRouter"
MILLION: Final = 1e6


def hosted_prices(day: str) -> tuple[tuple[ApiPrice, ...], ProviderReport]:
    """Return today's prices of the models that the shipped table has, and what became of them."""
    shipped = {item.model.casefold(): item for item in load_api_prices() if item.provider == NAME}
    found, refused = {}, 0
    try:
        for model in json_at(addresses()["openrouter"])["data"]:
            known = shipped.get(model["id"].casefold())
            if known is None or known.price_date > day:
                continue
            try:
                found[known.name] = _priced(known, model["pricing"], day)
            except (ValidationError, ValueError, TypeError, LookupError):
                refused += 1
    except BROKEN as error:
        return (), _failed(NAME, reason(error))
    if not found:
        return (), _failed(NAME, "its list has no model of the table with a price", refused)
    report = ProviderReport(
        name=NAME, outcome="taken", date=day, offers=len(found), refused=refused
    )
    return tuple(found.values()), report


def _priced(known: ApiPrice, pricing: dict[str, str], day: str) -> ApiPrice:
    """Return a model with the prices of a token in OpenRouter's list."""
    cached = pricing.get("input_cache_read")
    return ApiPrice.model_validate(
        known.model_dump()
        | {
            "input_usd": round(float(pricing["prompt"]) * MILLION, 6),
            "cached_input_usd": round(float(cached) * MILLION, 6) or None if cached else None,
            "output_usd": round(float(pricing["completion"]) * MILLION, 6),
            "price_date": day,
            "source": "OpenRouter's list, fetched by the user",
        }
    )


MOST_REFUSED: Final = 0.5
"""A provider's answer with a larger share of impossible rows is refused as a whole."""
OLDEST: Final = timedelta(days=365)
"""An older list is refused, even if the catalog has no other prices of the provider."""


def refresh_prices(
    *,
    progress: Progress | None = None,
    now: datetime | None = None,
    path: Path | None = None,
    online: bool = False,
    regions: Sequence[str] = (),
) -> RefreshReport:
    """Fetch live prices into the user's cache: the lists that gpuhunt publishes, or more.

    Raises RefreshError if no provider sent usable prices, the clock is wrong, or the cache cannot
    be written. The cache then stays unchanged.

    ``progress``: receives the completed share, 0 to 1, and a description of the current step.
    ``now``: time with time zone. Default: the current time. ``path``: the cache file. Default: in
    the user's cache folder. ``online``: also ask clouds, marketplaces, OpenRouter, and accounts
    with keys in the environment. ``regions``: regions of which the clouds' own price files are
    read. AWS's list has a file for each and is read for these alone; of the others, all regions are
    read if none is named.
    """
    now, path, snapshot = now or datetime.now(UTC), path or cache_file(), load_snapshot()
    check_names({card.key for card in snapshot.accelerators})
    old = _current(path, now, snapshot)
    newest = dict(newest_dates(snapshot.offers))
    for item in old.providers if old else ():
        newest[item.name] = max(newest.get(item.name, ""), item.date)
    machines: dict[str, dict[str, Offer]] = defaultdict(dict)
    for offer in snapshot.offers:
        machines[offer.provider][offer.instance_type] = offer
    answers = fetch(
        progress=progress or (lambda share, text: None),
        online=online,
        regions=regions,
        machines=machines,
        euro_usd=snapshot.exchange_rates["EUR"].usd,
    )
    before = {item.name: item for item in old.providers} if old else {}
    lists: dict[str, LiveProvider] = {}
    reports = []
    for name, answer in answers.items():
        found, report = _provider(name, answer, snapshot=snapshot, newest=newest, now=now)
        if found is not None:
            lists[found.name] = found
        elif kept := before.get(report.name):
            report = report.changed(outcome="kept", date=kept.date, offers=len(kept.offers))
        reports.append(report)
    if not lists:
        reasons = sorted({item.message for item in reports})
        raise RefreshError(
            f"no provider's prices were usable ({'; '.join(reasons)})", remedy="Try again later."
        )
    models: tuple[ApiPrice, ...] = ()
    if online:
        models, report = hosted_prices(now.date().isoformat())
        reports.append(report)
    providers = tuple(item for _, item in sorted((before | lists).items()))
    hosted = models or (old.hosted if old else ())
    prices.write_cache(path, LivePrices(fetched_at=now, providers=providers, hosted=hosted))
    return RefreshReport(
        fetched_at=now, path=str(path), providers=tuple(reports), hosted=len(models)
    )


def prices_age_s(*, now: datetime | None = None) -> float:
    """Return the age of the live prices in use; infinite if there are none. [s]"""
    now = now or datetime.now(UTC)
    try:
        live = prices.read_cache(cache_file(), now=now)
    except prices.CacheRefusedError:
        return math.inf
    return (now - live.fetched_at).total_seconds() if live else math.inf


def day_of(catalog_version: str) -> str | None:
    """Return the day at the start of a catalog's version, or None if it is not a valid date.

    >>> day_of("20261120-1432"), day_of("20260231-1")
    ('2026-11-20', None)
    """
    match = re.match(r"(20[0-9]{2})([0-9]{2})([0-9]{2})(?![0-9])", catalog_version)
    try:
        return date(*map(int, match.groups())).isoformat() if match else None
    except ValueError:
        return None


def _current(path: Path, now: datetime, snapshot: Catalog) -> LivePrices | None:
    """Return the earlier live prices if they can be read. A wrong clock raises ``RefreshError``."""
    newest = snapshot.newest_price_date
    if now.date().isoformat() < newest:
        raise RefreshError(
            f"the clock of this machine says {now.date()}, before the newest shipped price "
            f"({newest})",
            remedy="Set the clock, then try again.",
        )
    try:
        return prices.read_cache(path, now=now)
    except prices.ClockError as wrong:
        raise RefreshError(
            f"the cache of live prices cannot be replaced: {wrong}",
            remedy=f"Set the clock, or delete {path}, then try again.",
        ) from None
    except prices.CacheRefusedError:
        return None


def _provider(
    name: str, answer: Fetched, *, snapshot: Catalog, newest: Mapping[str, str], now: datetime
) -> tuple[LiveProvider | None, ProviderReport]:
    title = TITLES[name]
    if answer.error and not answer.rows:
        return None, _failed(title, answer.error)
    today = now.date().isoformat()
    version = today if answer.version is None else answer.version
    day = today if answer.version is None else day_of(version)
    wrong = _wrong_day(day, version, newest.get(title, ""), now)
    if day is None or wrong:
        return None, _failed(title, wrong)
    found = convert(answer.rows, provider=name, date=day, snapshot=snapshot.offers)
    refused = found.refused + answer.malformed
    read = len(answer.rows) + answer.malformed
    if read and refused / read > MOST_REFUSED:
        return None, _failed(title, f"{refused:,} of {read:,} rows are impossible", refused)
    if not found.offers:
        return None, _failed(title, "its list has no accelerator of the catalog", refused)
    report = ProviderReport(
        name=title,
        outcome="taken",
        date=day,
        offers=len(found.offers),
        refused=refused,
        unknown=dict(found.unknown),
        message=answer.error,
    )
    return LiveProvider(name=title, version=version, date=day, offers=found.offers), report


def _wrong_day(day: str | None, version: str, newest: str, now: datetime) -> str:
    """Return why a list of this day is refused; empty if it is accepted."""
    if day is None:
        return f"its list {version[:40]!r} has no possible date"
    if day > (now + prices.CLOCK_TOLERANCE).date().isoformat():
        return f"its prices are of {day}, after today"
    if day < newest:
        return f"its prices are of {day}, older than those of {newest} in use"
    if day < (now - OLDEST).date().isoformat():
        return f"its prices are of {day}, more than a year old"
    return ""


def _failed(title: str, message: str, refused: int = 0) -> ProviderReport:
    return ProviderReport(name=title, outcome="failed", refused=refused, message=message)
