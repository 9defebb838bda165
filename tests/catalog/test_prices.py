"""Lowest prices ("from") and launch prices: marked, bounded, and never the winner in silence."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path
from statistics import median

import pytest

import advisor
from advisor.catalog.files.rows import with_upper_ends
from advisor.errors import CatalogError
from advisor.foundation.formatting import hourly_price
from advisor.nouns.hardware import FIRM_TIER, FROM_TIER, Offer
from tests.cases import serve, tune

CATALOG = advisor.load_catalog()
EXAMPLE = next(item for item in CATALOG.offers if item.accelerator == "h100-sxm")


def offer(usd: float, *, cards: int = 1, tier: str = FIRM_TIER) -> Offer:
    return EXAMPLE.model_copy(
        update={"on_demand_usd_per_hour": usd, "accelerators": cards, "tier": tier}
    )


def test_a_lowest_price_reaches_up_to_the_median_of_firm_prices_for_the_card() -> None:
    offers = (offer(2.0), offer(24.0, cards=8), offer(5.0), offer(1.5, tier=FROM_TIER))
    *firm, lowest = with_upper_ends(offers, file="offers.csv")
    assert [item.price_factor for item in firm] == [1.0, 1.0, 1.0]
    assert lowest.price_factor == 2.0  # 3 over 1.5 USD/h for a card


def test_a_lowest_price_above_the_median_is_its_own_upper_end() -> None:
    *_, lowest = with_upper_ends((offer(2.0), offer(3.0, tier=FROM_TIER)), file="offers.csv")
    assert lowest.price_factor == 1.0
    assert lowest.is_from


def test_a_lowest_price_needs_a_firm_one_beside_it() -> None:
    with pytest.raises(CatalogError, match="firm price"):
        with_upper_ends((offer(3.0, tier=FROM_TIER),), file="offers.csv")


def test_the_shipped_lowest_prices_are_marked_as_their_sources_word_them(root: Path) -> None:
    with (root / "data" / "cloud_offers.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    worded = {row["provider"] for row in rows if "lowest price" in row["notes"]}
    assert {item.provider for item in CATALOG.offers if item.is_from} == worded
    each = median(
        float(row["on_demand_per_hour"]) / int(row["accelerators"])
        for row in rows
        if (row["accelerator"], row["tier"]) == ("h100-sxm", FIRM_TIER)
        and row["on_demand_per_hour"]
    )
    [found] = (item for item in CATALOG.offers if item.is_from and item.provider == "Voltage Park")
    assert found.price_factor == pytest.approx(each / 1.99)


def test_a_plan_at_a_lowest_price_says_so_and_costs_up_to_the_others_price() -> None:
    answer = advisor.recommend(serve("llama-3.1-8b", limits={"providers": ["Voltage Park"]}))
    cost = answer.plans[0].estimate.cost
    assert cost.usd_per_hour is not None
    assert cost.rent_usd is not None
    assert hourly_price(cost.usd_per_hour) == "from $15.92/h"
    assert cost.usd_per_hour.high > 1.2 * 15.92
    assert cost.rent_usd.high == pytest.approx(730 * cost.usd_per_hour.high)
    assert "from-price" in {item.code for item in answer.advice}


def test_a_firm_price_within_the_range_of_a_lowest_one_wins() -> None:
    answer = advisor.recommend(
        serve(
            "llama-3.1-8b",
            limits={"providers": ["Voltage Park", "Denvr"], "accelerators": ["h100-sxm"]},
        )
    )
    # Denvr: 19.60 USD/h firm; Voltage Park: from 15.92, up to the median above it.
    assert answer.plans[0].estimate.cost.provider == "Denvr"


@pytest.mark.parametrize(
    ("key", "words", "launch"),
    [
        ("rtx-4080", "launch price of 2022", True),
        ("rtx-5090", "shop price of 2026-10-10", False),
        ("rtx-pro-6000-blackwell", "list price of 2026-08-12", False),
        ("h100-sxm", "estimate of 2026-06", False),
    ],
)
def test_a_price_to_buy_says_its_kind_and_date(key: str, words: str, launch: bool) -> None:
    card = CATALOG.accelerator(key)
    today = date(2026, 11, 21)
    assert (card.price_words(today=today), card.at_launch_price(today=today)) == (words, launch)


def test_owning_at_a_launch_price_spreads_wide_and_says_so() -> None:
    case = tune("llama-3.1-8b", "rtx-4080", method="qlora")
    found = advisor.own(case)
    price = next(item for item in found.inputs if item.field == "purchase_usd")
    assert (price.value.low, price.value.expected, price.value.high) == pytest.approx(
        (0.5 * 1199, 1199, 2.2 * 1199)
    )
    assert any("launch price of 2022" in item for item in found.assumptions)
    given = advisor.own({**case, "owning": {"purchase_usd": 2500}})
    assert not any("launch price" in item for item in given.assumptions)
