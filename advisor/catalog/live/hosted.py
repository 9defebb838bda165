"""Live prices of hosted models: those of OpenRouter, which needs no key."""

from typing import Final

from pydantic import ValidationError

from advisor.catalog.api_prices import ApiPrice, load_api_prices
from advisor.catalog.live.clouds import addresses
from advisor.catalog.live.download import BROKEN, json_at, reason
from advisor.catalog.live.prices import ProviderReport

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
        return (), ProviderReport(name=NAME, outcome="failed", message=reason(error))
    if not found:
        message = "its list has no model of the table with a price"
        return (), ProviderReport(name=NAME, outcome="failed", refused=refused, message=message)
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
