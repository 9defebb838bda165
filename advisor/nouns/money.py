"""What a buyer or tenant may state about money; what is left open takes a cited default."""

from typing import Annotated

from pydantic import Field

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.inputs import Input, Labelled, Reads

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Multiple = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Usd = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Price = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
Purse = Annotated[float, Field(gt=0, le=1e8, allow_inf_nan=False)]
"""More buys so many kinds of card that weighing them takes long. [USD]"""
Rate = Annotated[float, Field(ge=-0.9, le=1, allow_inf_nan=False)]


def _told(told: str, flag: str, label: str = "", unit: str = "", *, needs: str = "") -> Input:
    """Declare any number: what is below its bounds the case refuses."""
    metavar = unit.partition("/")[0].upper() if unit[:1] in ("U", "g", "G", "W") else ""
    return Input(told, flag, label, unit, reads=Reads.PLAIN, metavar=metavar, needs=needs)


def _price(told: str, flag: str, label: str, unit: str = "USD") -> Input:
    return Input(told, flag, label, unit, reads=Reads.USD)


class Unused(Labelled):
    """What an owned machine does outside its hours in use."""

    ON = "on", "Stays on, idle"
    OFF = "off", "Is switched off"


class Owning(Noun):
    """Assumptions of a purchase. ``None`` takes the default of ``data/owning_defaults.csv``."""

    months: Annotated[
        int, Field(ge=12, le=60), Input("how long the machines are kept", "--months", "Horizon")
    ] = 36
    """Horizon: one to five years. [months]"""
    hours_per_month: Annotated[
        Annotated[float, Field(gt=0, le=HOURS_PER_MONTH)] | None,
        _told(
            "hours in use; 730 serving, 200 training unless told otherwise",
            "--hours-per-month",
            "Hours a month",
        ),
    ] = None
    """None: all 730 when serving, 200 when training. [h]"""
    place: Annotated[
        Name, Input("usa, deu, us-texas, gcp-us-central1", "--place", "Place", metavar="KEY")
    ] = "usa"
    """Key of ``data/energy.csv``: country, US state or cloud region."""
    purchase_usd: Annotated[
        Price | None, _price("one accelerator", "--purchase-price", "Price of one GPU")
    ] = None
    """None takes the catalog's price. [USD]"""
    host_share: Annotated[
        Multiple | None,
        _told(
            "rest of the machine / cards; 0: it is there already",
            "--host-share",
            "Rest of the machine",
            "% of cards",
        ),
    ] = None
    """Rest of the machine over the accelerators' price."""
    host_usd: Annotated[
        Usd | None,
        _told(
            "rest of one machine, at least", "--host-price", "Rest of a machine, at least", "USD"
        ),
    ] = None
    """Nothing where ``host_share`` is given. [USD]"""
    network_share: Annotated[
        Multiple | None, _told("network / cards", "--network-share", "Network", "% of cards")
    ] = None
    """Network between several machines over the accelerators' price."""
    life_years: Annotated[
        Annotated[float, Field(ge=1, le=20)] | None,
        _told("years until worth nothing, in a straight line", "--life-years"),
    ] = None
    resale_share: Annotated[
        Share | None,
        _told("worth at the end / price paid", "--resale-share", "Worth at the end", "%"),
    ] = None
    """Worth at the end over all that was bought; replaces ``life_years``."""
    host_power_share: Annotated[
        Multiple | None,
        _told(
            "power of the rest of the machine / cards",
            "--host-power-share",
            "Power of the rest",
            "% of cards",
        ),
    ] = None
    """Power of the rest of the machine over the accelerators' board power."""
    load_share: Annotated[
        Share | None,
        _told("draw in use / rated power", "--load-share", "Draw in use", "% of rated"),
    ] = None
    idle_share: Annotated[
        Share | None,
        _told("draw when idle / rated power", "--idle-share", "Power when idle", "% of rated"),
    ] = None
    when_unused: Annotated[
        Unused | None,
        Input(
            "what the machines do outside the hours in use; computers at home are switched off, "
            "servers stay on unless told",
            "--when-unused",
        ),
    ] = None
    """``off`` makes ``idle_share`` 0."""
    pue: Annotated[
        Annotated[float, Field(ge=1, le=5)] | None,
        _told("all energy of the site / machines", "--pue", "PUE"),
    ] = None
    electricity_usd_per_kwh: Annotated[
        Annotated[float, Field(ge=0, le=10)] | None,
        _told("per kWh", "--electricity", "Electricity", "USD/kWh"),
    ] = None
    carbon_g_per_kwh: Annotated[
        Annotated[float, Field(ge=0, le=2000)] | None,
        _told("g CO2 per kWh", "--carbon", unit="g/kWh"),
    ] = None
    colocation_usd_per_kw_month: Annotated[
        Annotated[float, Field(ge=0, le=10_000)] | None,
        _told("per kW of rated power and month", "--colocation", "Colocation", "USD/kW a month"),
    ] = None
    staff_usd_per_machine_month: Annotated[
        Annotated[float, Field(ge=0, le=1e6)] | None,
        _told("per machine and month", "--staff", "Staff", "USD/machine a month"),
    ] = None
    discount_rate: Annotated[
        Share | None,
        _told("cost of capital per year", "--discount-rate", "Cost of capital", "% a year"),
    ] = None
    budget_usd: Annotated[
        Purse | None, _price("asks which machines it buys", "--buy-budget", "Purchase budget")
    ] = None
    """What all machines may cost. [USD]"""
    power_limit_w: Annotated[
        Price | None,
        _told(
            "rated power that the site can feed",
            "--power-limit",
            "Power limit",
            "W",
            needs="budget_usd",
        ),
    ] = None
    slots: Annotated[
        Annotated[int, Field(ge=1, le=16384)] | None,
        Input("cards that there is room for", "--slots", "Slots", needs="budget_usd"),
    ] = None


class Renting(Noun):
    """Assumptions of renting."""

    usd_per_hour: Annotated[
        Price | None, _price("a quote per hour, all instances", "--rent", "Rent of all", "USD/h")
    ] = None
    """None takes the catalog's offers. [USD/h]"""
    rent_change: Annotated[
        Rate | None,
        _told("change of rents per year", "--rent-change", "Change of rents", "% a year"),
    ] = None
    interruptions_per_hour: Annotated[
        Annotated[float, Field(gt=0, le=10)] | None,
        _told(
            "how often one spot instance is taken back, per hour (0.1)",
            "--interruptions",
            "Spot interruptions an hour",
        ),
    ] = None
    """Of one spot instance. [1/h]"""
    storage_gb: Annotated[
        Usd,
        _told(
            "kept beside the instances", "--storage-gb", unit="GB", needs="storage_usd_per_gb_month"
        ),
    ] = 0.0
    storage_usd_per_gb_month: Annotated[
        Usd, _told("per GB and month", "--storage-price", unit="USD", needs="storage_gb")
    ] = 0.0
    egress_gb_per_month: Annotated[
        Usd, _told("traffic out per month", "--egress-gb", unit="GB", needs="egress_usd_per_gb")
    ] = 0.0
    egress_usd_per_gb: Annotated[
        Usd, _told("per GB", "--egress-price", unit="USD", needs="egress_gb_per_month")
    ] = 0.0
    api: Annotated[
        Name | None,
        Input(
            "a hosted model of data/api_prices.csv to compare with: Groq/openai/gpt-oss-120b",
            "--api",
            metavar="PROVIDER/MODEL",
        ),
    ] = None
    """None compares with those of the same weights."""
    api_usd_per_million: Annotated[
        Price | None,
        _price(
            "a million tokens of answer (images for vision) of a hosted model, as its provider "
            "lists it",
            "--api-price",
            "Hosted model, answers",
            "USD per million",
        ),
    ] = None
    api_input_usd_per_million: Annotated[
        Usd | None,
        Input(
            "a million tokens of prompt of that model",
            "--api-input-price",
            "Hosted model, prompts",
            "USD per million",
            reads=Reads.USD,
            needs="api_usd_per_million",
        ),
    ] = None
    """Required beside ``api_usd_per_million`` for a model that reads prompts."""
    api_cached_usd_per_million: Annotated[
        Usd | None,
        Input(
            "a million tokens of prompt found in its cache; like any other unless told",
            "--api-cached-price",
            "Hosted model, cached prompts",
            "USD per million",
            reads=Reads.USD,
            needs="api_usd_per_million",
        ),
    ] = None
    api_cached_share: Annotated[
        Share,
        _told(
            "share of the prompt tokens that hosted models find in their cache",
            "--api-cached-share",
            "Prompts cached by the API",
            "%",
        ),
    ] = 0.0
