"""Public list prices of hosted models, from ``data/api_prices.csv``."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.catalog.files.checks import check_order
from advisor.catalog.records import IsoDate, Text
from advisor.errors import refusal
from advisor.foundation import names
from advisor.foundation.noun import Noun, read_table
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Confidence

API_PRICES_FILE: Final = "api_prices.csv"
API_SOURCE: Final = (
    "List prices of hosted models: pydantic/genai-prices 0.2.3 of November 2026 (MIT), "
    "each with the day on which it was last checked."
)

Usd = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class ApiPrice(Noun):
    """A row of ``api_prices.csv``: what one provider asks for the tokens of one model."""

    provider: Text
    model: Text
    preset: names.Name = ""
    weights: Literal["same", "other"]
    input_usd: Usd
    cached_input_usd: Usd | None = None
    output_usd: Usd
    price_date: IsoDate
    source: Text
    confidence: Confidence
    notes: names.Text = ""

    @property
    def name(self) -> str:
        """Provider and model, e.g. ``Groq/openai/gpt-oss-120b``."""
        return f"{self.provider}/{self.model}"


@cache
def load_api_prices() -> tuple[ApiPrice, ...]:
    """Read and check the table.

    >>> min(item.output_usd for item in load_api_prices() if item.preset == "gpt-oss-120b")
    0.25
    """
    records = read_table(data_path(API_PRICES_FILE), ApiPrice, key=("provider", "model"))
    check_order([item.name.casefold() for item in records], file=API_PRICES_FILE)
    return tuple(records)


def api_named(name: str, known: Sequence[ApiPrice]) -> ApiPrice:
    """Find a price by ``provider/model``, or by the model alone if one provider has it."""
    wanted = name.casefold().strip()
    exact = [item for item in known if item.name.casefold() == wanted]
    found = exact or [item for item in known if item.model.casefold() == wanted]
    if len(found) == 1:
        return found[0]
    titles = {item.name.casefold(): item.name for item in found or known}
    near = list(titles) if found else get_close_matches(wanted, titles, n=3, cutoff=0.4)
    nearest = f"; nearest: {', '.join(titles[item] for item in near)}" if near else ""
    fault = "several providers offer this model" if found else "no such hosted model in the table"
    raise refusal("no_hosted_model", value=name, fault=fault, nearest=nearest)
