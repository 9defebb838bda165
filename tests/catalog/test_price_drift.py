"""Old prices: what they may be today, and how that ranks offers."""

from __future__ import annotations

from datetime import date
from math import exp, sqrt

import pytest

from advisor import api
from advisor.catalog import load_catalog
from advisor.catalog.offer_list import drift_of, history_of
from advisor.foundation.dates import current_day
from advisor.nouns.hardware import Offer, PriceKind
from advisor.planning.search.options import cheapest_offer
from advisor.planning.search.systems import System, find_systems
from advisor.planning.spot import aged_factor
from tests.cases import serve

TODAY = date(2026, 11, 21)


def offer(provider: str, **change: object) -> Offer:
    found = next(
        item
        for item in load_catalog().offers
        if item.provider == provider and item.on_demand_usd_per_hour
    )
    return found.model_copy(update=change)


def test_a_spot_price_ages_in_days_and_a_list_in_months() -> None:
    month = offer("AWS", price_date="2026-10-22", spot_usd_per_hour=None)
    assert aged_factor(month, PriceKind.ON_DEMAND, TODAY) == pytest.approx(
        exp(1.2816 * 0.08 * sqrt(30 / 365)), rel=1e-3
    )
    spot = aged_factor(month, PriceKind.SPOT, TODAY)
    assert spot == pytest.approx(exp(1.2816 * 0.8 * sqrt(30 / 365)), rel=1e-3)
    # Google Cloud, May to August 2026: a tenth of the spot prices rose by over 21 % in a month,
    # and by over 10 % in two weeks. On demand no price of a GPU machine changed.
    assert 1.21 < spot < 1.5
    fresh = offer("AWS", price_date="2026-11-21")
    assert aged_factor(fresh, PriceKind.ON_DEMAND, TODAY) == 1.0


def test_a_spot_price_stays_below_the_price_on_demand() -> None:
    old = offer("GCP", price_date="2024-12-23", on_demand_usd_per_hour=3.0, spot_usd_per_hour=2.0)
    assert aged_factor(old, PriceKind.SPOT, TODAY) == 1.5


def test_an_older_price_does_not_win_by_a_little() -> None:
    card = load_catalog().accelerator("h100-sxm")
    [system, *_] = [
        item
        for item in find_systems(
            load_catalog(),
            api.load_case(serve("llama-3.1-8b", limits={"accelerators": ["h100-sxm"]})).limits,
            training=False,
        )
        if item.offers
    ]
    new = offer("Lambda", key="a/new", price_date=current_day().isoformat())
    old = new.model_copy(
        update={
            "key": "b/old",
            "price_date": "2024-11-21",
            "on_demand_usd_per_hour": 0.95 * (new.on_demand_usd_per_hour or 0),
        }
    )
    both = System(card, system.node, (old, new), system.counts)
    chosen, *_ = cheapest_offer(both, PriceKind.ON_DEMAND)
    assert chosen.key == "a/new"


def test_the_sentence_tells_the_age_of_its_own_price() -> None:
    found = api.recommend({"model": {"preset": "llama-3.1-8b"}, "workload": {"kind": "serving"}})
    cost = found.plans[0].estimate.cost
    assert cost.price_age_days is not None
    assert f"{cost.price_age_days:,} day" in found.answer


def test_histories_of_the_sources() -> None:
    """AWS cut its prices of P5 from 98.32 to 55.04 USD an hour in June 2025."""
    key = "aws/p5-48xlarge/us-east-1/on-demand-list"
    [p5] = [item for item in load_catalog().offers if item.key == key]
    past = history_of(p5, PriceKind.ON_DEMAND)
    assert [item.usd_per_hour for item in past] == [98.32, 55.04]
    assert past[0].date == "2023-10-09"
    assert past[1].date[:7] == "2025-06"
    assert drift_of(p5, PriceKind.SPOT).kind == "spot"
    lines = api.list_offers(load_catalog(), ["h100-sxm"], providers=["AWS"]).lines
    assert {line.first_seen for line in lines if line.key == key} == {"2023-10-09"}


def test_the_last_price_of_a_history_is_that_of_the_offer() -> None:
    checked = 0
    for item in load_catalog().offers:
        for kind, price in (
            (PriceKind.ON_DEMAND, item.on_demand_usd_per_hour),
            (PriceKind.SPOT, item.spot_usd_per_hour),
        ):
            past = history_of(item, kind)
            if past and price:
                # A change under 2 % of a spot price is no row of its own.
                assert past[-1].usd_per_hour == pytest.approx(price, rel=0.021), item.key
                checked += 1
    assert checked > 250
