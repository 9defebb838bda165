"""What a buyer or tenant may state about money; what is left open takes a cited default."""

from typing import Annotated, Any, Final

from pydantic import Field

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.inputs import NAMED, Labelled, Reads, asked

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Multiple = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Usd = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Price = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
Purse = Annotated[float, Field(gt=0, le=1e8, allow_inf_nan=False)]
"""More buys so many kinds of card that weighing them takes long. [USD]"""
TRAINING_HOURS_PER_MONTH: Final = 200.0
"""Assumed training where the user states none: a third of the hours of working days. [h]"""
Rate = Annotated[float, Field(ge=-0.9, le=1, allow_inf_nan=False)]


def _told(told: str, flag: str = NAMED, *, unit: str = "", **settings: Any) -> Any:
    """Declare any number: what is below its bounds the case refuses."""
    metavar = unit.partition("/")[0].upper() if unit[:1] in ("U", "g", "G", "W") else ""
    return asked(told, flag, unit=unit, reads=Reads.PLAIN, metavar=metavar, **settings)


def _price(told: str, flag: str = NAMED, *, unit: str = "USD", **settings: Any) -> Any:
    return asked(told, flag, unit=unit, reads=Reads.USD, **settings)


class Unused(Labelled):
    """What an owned machine does outside its hours in use."""

    ON = "on", "Stays on, idle"
    OFF = "off", "Is switched off"


class Owning(Noun):
    """Assumptions of a purchase. ``None`` takes the default of ``data/owning_defaults.csv``."""

    months: Annotated[int, Field(ge=12, le=60)] = asked(
        "how long the machines are kept", label="Horizon", default=36
    )
    """Horizon: one to five years. [months]"""
    hours_per_month: Annotated[float, Field(gt=0, le=HOURS_PER_MONTH)] | None = _told(
        f"hours in use; {HOURS_PER_MONTH:g} serving, {TRAINING_HOURS_PER_MONTH:g} training on "
        "stated cards, unless told otherwise",
        label="Hours a month",
    )
    """None: all when serving; training, ``TRAINING_HOURS_PER_MONTH`` of stated cards, or of the
    machine whose runs cost least, whose runs what is bought then does. [h]"""
    place: Name = asked(
        "usa, deu, us-texas, gcp-us-central1", label="Place", metavar="KEY", default="usa"
    )
    """Key of ``data/energy.csv``: country, US state or cloud region."""
    purchase_usd: Price | None = _price(
        "one accelerator", "--purchase-price", label="Price of one GPU"
    )
    """None takes the catalog's price. [USD]"""
    host_share: Multiple | None = _told(
        "rest of the machine / cards; 0: it is there already",
        label="Rest of the machine",
        unit="% of cards",
    )
    host_usd: Usd | None = _told(
        "rest of one machine, at least",
        "--host-price",
        label="Rest of a machine, at least",
        unit="USD",
    )
    """Nothing where ``host_share`` is given. [USD]"""
    network_share: Multiple | None = _told("network / cards", label="Network", unit="% of cards")
    life_years: Annotated[float, Field(ge=1, le=20)] | None = _told(
        "years until worth nothing, in a straight line"
    )
    resale_share: Share | None = _told(
        "worth at the end / price paid", label="Worth at the end", unit="%"
    )
    """Worth at the end over all that was bought; replaces ``life_years``."""
    host_power_share: Multiple | None = _told(
        "power of the rest of the machine / cards", label="Power of the rest", unit="% of cards"
    )
    load_share: Share | None = _told(
        "draw in use / rated power", label="Draw in use", unit="% of rated"
    )
    idle_share: Share | None = _told(
        "draw when idle / rated power", label="Power when idle", unit="% of rated"
    )
    when_unused: Unused | None = asked(
        "what the machines do outside the hours in use; computers at home are switched off, "
        "servers stay on unless told"
    )
    """``off`` makes ``idle_share`` 0."""
    pue: Annotated[float, Field(ge=1, le=5)] | None = _told(
        "all energy of the site / machines", label="PUE"
    )
    electricity_usd_per_kwh: Annotated[float, Field(ge=0, le=10)] | None = _told(
        "per kWh", "--electricity", label="Electricity", unit="USD/kWh"
    )
    carbon_g_per_kwh: Annotated[float, Field(ge=0, le=2000)] | None = _told(
        "g CO2 per kWh", "--carbon", unit="g/kWh"
    )
    colocation_usd_per_kw_month: Annotated[float, Field(ge=0, le=10_000)] | None = _told(
        "per kW of rated power and month", "--colocation", label="Colocation", unit="USD/kW a month"
    )
    staff_usd_per_machine_month: Annotated[float, Field(ge=0, le=1e6)] | None = _told(
        "per machine and month", "--staff", label="Staff", unit="USD/machine a month"
    )
    discount_rate: Share | None = _told(
        "cost of capital per year", label="Cost of capital", unit="% a year"
    )
    budget_usd: Purse | None = _price(
        "asks which machines it buys", "--buy-budget", label="Purchase budget"
    )
    """What all machines may cost. [USD]"""
    power_limit_w: Price | None = _told(
        "rated power that the site can feed",
        "--power-limit",
        label="Power limit",
        unit="W",
        needs="budget_usd",
    )
    slots: Annotated[int, Field(ge=1, le=16384)] | None = asked(
        "cards that there is room for", label="Slots", needs="budget_usd"
    )


class Renting(Noun):
    """Assumptions of renting."""

    usd_per_hour: Price | None = _price(
        "a quote per hour, all instances", "--rent", label="Rent of all machines", unit="USD/h"
    )
    """None takes the catalog's offers. [USD/h]"""
    rent_change: Rate | None = _told(
        "change of rents per year", label="Change of rents", unit="% a year"
    )
    interruptions_per_hour: Annotated[float, Field(gt=0, le=10)] | None = _told(
        "how often one spot instance is taken back, per hour (0.1)",
        "--interruptions",
        label="Spot interruptions an hour",
        blank="0.1",
    )
    storage_gb: Usd = _told(
        "kept beside the instances", unit="GB", needs="storage_usd_per_gb_month", default=0.0
    )
    storage_usd_per_gb_month: Usd = _told(
        "per GB and month", "--storage-price", unit="USD", needs="storage_gb", default=0.0
    )
    egress_gb_per_month: Usd = _told(
        "traffic out per month", "--egress-gb", unit="GB", needs="egress_usd_per_gb", default=0.0
    )
    egress_usd_per_gb: Usd = _told(
        "per GB", "--egress-price", unit="USD", needs="egress_gb_per_month", default=0.0
    )
    api: Name | None = asked(
        "a hosted model of data/api_prices.csv to compare with: Groq/openai/gpt-oss-120b",
        metavar="PROVIDER/MODEL",
    )
    """None compares with those of the same weights."""
    api_usd_per_million: Price | None = _price(
        "a million tokens of answer (images for vision) of a hosted model, as its provider lists "
        "it",
        "--api-price",
        label="Hosted model, answers",
        unit="USD per million",
        blank="As listed",
    )
    api_input_usd_per_million: Usd | None = asked(
        "a million tokens of prompt of that model",
        "--api-input-price",
        label="Hosted model, prompts",
        unit="USD per million",
        blank="As listed",
        reads=Reads.USD,
        needs="api_usd_per_million",
    )
    """Required beside ``api_usd_per_million`` for a model that reads prompts."""
    api_cached_usd_per_million: Usd | None = asked(
        "a million tokens of prompt found in its cache; like any other unless told",
        "--api-cached-price",
        label="Hosted model, cached prompts",
        unit="USD per million",
        blank="As listed",
        reads=Reads.USD,
        needs="api_usd_per_million",
    )
    api_cached_share: Share = _told(
        "share of the prompt tokens that hosted models find in their cache",
        label="Prompts cached by the API",
        unit="%",
        default=0.0,
    )
