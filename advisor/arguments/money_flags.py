"""Options of the command ``own``: one for each assumption of buying and renting."""

from __future__ import annotations

import math
from typing import Final

from advisor.arguments.flags import Flag, read_count, read_text, read_usd
from advisor.errors import InputError


def _number(text: str, option: str) -> object:
    """Read a plain number; the case checks its bounds."""
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"{option} is not a number",
            value=text,
            allowed="a number such as 0.15, or a share such as 15%",
            remedy="Write it with digits and a point.",
            field=option,
        )
    return number


INTERRUPTIONS: Final = Flag(
    "--interruptions",
    "renting.interruptions_per_hour",
    "X",
    "of one spot instance, per hour (0.1)",
    _number,
)
OWNING: Final = (
    Flag("--months", "owning.months", "N", "how long the machines are kept: 12 to 60", read_count),
    Flag(
        "--hours-per-month",
        "owning.hours_per_month",
        "H",
        "hours in use; 730 serving, 200 training unless told otherwise",
        _number,
    ),
    Flag("--place", "owning.place", "KEY", "usa, deu, us-texas, gcp-us-central1", read_text),
    Flag("--purchase-price", "owning.purchase_usd", "USD", "one accelerator", read_usd),
    Flag("--host-share", "owning.host_share", "X", "rest of the machine / cards", _number),
    Flag("--host-price", "owning.host_usd", "USD", "rest of one machine, at least", _number),
    Flag("--network-share", "owning.network_share", "X", "network / cards", _number),
    Flag("--life-years", "owning.life_years", "N", "years until worth nothing", _number),
    Flag("--resale-share", "owning.resale_share", "X", "worth at the end / price paid", _number),
    Flag(
        "--host-power-share",
        "owning.host_power_share",
        "X",
        "power of the rest of the machine / cards",
        _number,
    ),
    Flag("--load-share", "owning.load_share", "X", "draw in use / rated power", _number),
    Flag("--idle-share", "owning.idle_share", "X", "draw unused / rated power", _number),
    Flag("--pue", "owning.pue", "X", "all energy of the site / machines", _number),
    Flag("--electricity", "owning.electricity_usd_per_kwh", "USD", "per kWh", _number),
    Flag("--carbon", "owning.carbon_g_per_kwh", "G", "g CO2 per kWh", _number),
    Flag("--colocation", "owning.colocation_usd_per_kw_month", "USD", "per kW and month", _number),
    Flag("--staff", "owning.staff_usd_per_machine_month", "USD", "per machine and month", _number),
    Flag("--discount-rate", "owning.discount_rate", "X", "cost of capital per year", _number),
    Flag("--buy-budget", "owning.budget_usd", "USD", "asks which cards it buys", read_usd),
    Flag("--power-limit", "owning.power_limit_w", "W", "rated power of all machines", _number),
    Flag("--slots", "owning.slots", "N", "cards that there is room for", read_count),
)
RENTING: Final = (
    Flag("--rent", "renting.usd_per_hour", "USD", "a quote per hour, all instances", read_usd),
    Flag("--rent-change", "renting.rent_change", "X", "change of rents per year", _number),
    Flag("--storage-gb", "renting.storage_gb", "GB", "kept beside the instances", _number),
    Flag("--storage-price", "renting.storage_usd_per_gb_month", "USD", "per GB, month", _number),
    Flag("--egress-gb", "renting.egress_gb_per_month", "GB", "traffic out per month", _number),
    Flag("--egress-price", "renting.egress_usd_per_gb", "USD", "per GB", _number),
    Flag(
        "--api-price",
        "renting.api_usd_per_million",
        "USD",
        "per million tokens of a hosted model",
        read_usd,
    ),
)
_BY_OPTION: Final = {flag.option: flag for flag in (*OWNING, *RENTING)}
COMPANIONS: Final = {
    _BY_OPTION[option]: _BY_OPTION[other]
    for option, other in {
        "--power-limit": "--buy-budget",
        "--slots": "--buy-budget",
        "--storage-gb": "--storage-price",
        "--storage-price": "--storage-gb",
        "--egress-gb": "--egress-price",
        "--egress-price": "--egress-gb",
    }.items()
}
"""Options that do nothing without another."""
