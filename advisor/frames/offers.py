"""Offers of the catalog as a table."""

from __future__ import annotations

import pandas as pd

from advisor.catalog.offer_list import OfferList
from advisor.foundation.units import GIGABIT_PER_S


def offers_frame(found: OfferList) -> pd.DataFrame:
    """Return one row for each offer, in their order.

    Returns
    -------
    DataFrame
        Prices for one card, and for a GiB of its memory, in USD an hour; network in Gbit/s; ages
        in days; ``Earlier prices`` of the whole instance, oldest first, as a list.
    """
    return pd.DataFrame(
        [
            {
                "Cards": line.accelerators,
                "Accelerator": line.accelerator,
                "Provider": line.provider,
                "Instance": line.instance_type,
                "Region": line.region,
                "Tier": line.tier,
                "A card (USD/h)": line.usd_per_card_hour,
                "A GiB (USD/h)": line.usd_per_gib_hour,
                "Spot, a card (USD/h)": None
                if line.spot_usd_per_hour is None
                else line.spot_usd_per_hour / line.accelerators,
                "Network (Gbit/s)": None
                if line.network_bytes_per_s is None
                else line.network_bytes_per_s / GIGABIT_PER_S,
                "Age (days)": line.age_days,
                "First seen": line.first_seen,
                "Last seen": line.price_date,
                "Earlier prices": list(line.past_usd_per_hour),
            }
            for line in found.lines
        ]
    )
