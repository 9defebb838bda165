"""What a buyer or tenant may state about money; what is left open takes a cited default."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.foundation.units import HOURS_PER_MONTH

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Multiple = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Usd = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Price = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
Purse = Annotated[float, Field(gt=0, le=1e8, allow_inf_nan=False)]
"""More buys so many cards of so many kinds that weighing them takes long. [USD]"""
Rate = Annotated[float, Field(gt=-1, le=1, allow_inf_nan=False)]


class Owning(Noun):
    """Assumptions of a purchase. ``None`` takes the default of ``data/owning_defaults.csv``."""

    months: Annotated[int, Field(ge=12, le=60)] = 36
    """Horizon: how long the machines are kept, one to five years. [months]"""
    hours_per_month: Annotated[float, Field(gt=0, le=HOURS_PER_MONTH)] | None = None
    """Hours in use; None: all 730 when serving, 200 when training. [h]"""
    place: Name = "usa"
    """Key of ``data/energy.csv``: country, US state or cloud region."""
    purchase_usd: Price | None = None
    """One accelerator; None takes the catalog's price. [USD]"""
    host_share: Multiple | None = None
    """Rest of the machine over the accelerators' price."""
    host_usd: Usd | None = None
    """What the rest of one machine costs at least; nothing where ``host_share`` is given. [USD]"""
    network_share: Multiple | None = None
    """Network between several machines over the accelerators' price."""
    life_years: Annotated[float, Field(ge=1, le=20)] | None = None
    """Years after which the machines are worth nothing, in a straight line."""
    resale_share: Share | None = None
    """Worth at the end over all that was bought; replaces ``life_years``."""
    host_power_share: Multiple | None = None
    """Power of the rest of the machine over the accelerators' board power."""
    load_share: Share | None = None
    """Draw over rated power while in use."""
    idle_share: Share | None = None
    """Draw over rated power while unused; 0 where the machines are switched off."""
    pue: Annotated[float, Field(ge=1, le=5)] | None = None
    """All energy of the site over that of the machines."""
    electricity_usd_per_kwh: Annotated[float, Field(ge=0, le=10)] | None = None
    carbon_g_per_kwh: Annotated[float, Field(ge=0, le=2000)] | None = None
    colocation_usd_per_kw_month: Annotated[float, Field(ge=0, le=10_000)] | None = None
    """For each kilowatt of rated power and month. [USD]"""
    staff_usd_per_machine_month: Annotated[float, Field(ge=0, le=1e6)] | None = None
    discount_rate: Share | None = None
    """Per year. [fraction]"""
    budget_usd: Purse | None = None
    """What all machines may cost: asks which cards to buy. [USD]"""
    power_limit_w: Price | None = None
    """Rated power that the site can feed. [W]"""
    slots: Annotated[int, Field(ge=1, le=16384)] | None = None
    """Accelerators that there is room for."""


class Renting(Noun):
    """Assumptions of renting."""

    usd_per_hour: Price | None = None
    """All instances together, e.g. a quote; None takes the catalog's offers. [USD/h]"""
    rent_change: Rate | None = None
    """Change of rents per year. [fraction]"""
    interruptions_per_hour: Annotated[float, Field(gt=0, le=10)] | None = None
    """Of one spot instance. [1/h]"""
    storage_gb: Usd = 0.0
    storage_usd_per_gb_month: Usd = 0.0
    egress_gb_per_month: Usd = 0.0
    egress_usd_per_gb: Usd = 0.0
    api_usd_per_million: Price | None = None
    """Price of a million tokens (images for vision) of a hosted model, as its provider lists it."""
