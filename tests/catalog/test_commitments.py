"""Commitments as a way to rent, in the catalog and in recommend."""

from __future__ import annotations

from typing import Any

import pytest

from advisor import api
from advisor.catalog import load_catalog
from advisor.catalog.economy import load_economy, with_commitments
from advisor.errors import InputError
from advisor.nouns.hardware import Offer
from advisor.planning.results import Plan
from tests.cases import serve

SERVED: dict[str, Any] = serve(
    "llama-3.1-8b", concurrency=16, limits={"accelerators": ["h100-sxm"], "providers": ["AWS"]}
)


def committed(months: int) -> dict[str, Offer]:
    found = with_commitments(load_catalog(), load_economy(), months)
    return {offer.key: offer for offer in found.offers}


def test_prices_fall_by_what_providers_advertise() -> None:
    """EC2 Instance Savings Plans: up to 40 % off for a year, 60 % for three; P5 is 55.04."""
    key = "aws/p5-48xlarge/us-east-1/on-demand-list"
    [p5] = [item for item in load_catalog().offers if item.key == key]
    assert committed(12)[p5.key].on_demand_usd_per_hour == pytest.approx(0.6 * 55.04)
    assert committed(35)[p5.key].on_demand_usd_per_hour == pytest.approx(0.6 * 55.04)
    assert committed(36)[p5.key].on_demand_usd_per_hour == pytest.approx(0.4 * 55.04)
    assert committed(11)[p5.key] == p5
    assert "as advertised" in committed(12)[p5.key].commitment


def test_an_offer_without_a_plan_keeps_its_price() -> None:
    known = {item.key: item for item in load_catalog().offers}
    plans = {plan.provider for plan in load_economy().commitments}
    for key, offer in committed(36).items():
        if offer.provider not in plans or known[key].commitment:
            assert offer == known[key]
        elif offer.commitment:
            assert (offer.on_demand_usd_per_hour or 0) < (known[key].on_demand_usd_per_hour or 0)


def test_recommend_rents_with_a_commitment_and_says_so() -> None:
    free = api.recommend(SERVED).plans[0].estimate.cost
    case = {**SERVED, "limits": {**SERVED["limits"], "commitment_months": 12}}
    plan = api.recommend(case).plans[0]
    cost = plan.estimate.cost
    assert cost.rent_usd is not None
    assert free.rent_usd is not None
    assert cost.rent_usd.expected == pytest.approx(0.6 * free.rent_usd.expected)
    assert cost.commitment.startswith("12 months")
    assert "for 12 months" in plan.title
    # The frontier and the other plans are priced alike.
    again = api.estimate(
        {**case, "hardware": {"accelerator": "h100-sxm", "count": plan.estimate.count}}
    )
    assert again.cost.rent_usd == cost.rent_usd


def test_rent_or_buy_compares_all_commitments_itself() -> None:
    case = {**SERVED, "limits": {"commitment_months": 12}, "hardware": {"accelerator": "l4"}}
    with pytest.raises(InputError, match="compares all commitments"):
        api.own(case)


def trained(tokens: str, **limits: object) -> Plan:
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "pretraining", "tokens": tokens},
        "limits": {
            "accelerators": ["h100-sxm"],
            "providers": ["AWS"],
            "max_accelerators": 64,
            "commitment_months": 12,
            **limits,
        },
    }
    return api.recommend(case).plans[0]


def test_a_run_pays_the_whole_term_and_rents_on_demand_where_that_is_cheaper() -> None:
    short, long = trained("20e9").estimate.cost, trained("4e12").estimate.cost
    assert (short.commitment, long.commitment[:9]) == ("", "12 months")
    # 64 cards finish in a quarter of a year; the term would cost 4 times 0.6 of that.
    assert trained("4e12", deadline_hours=90 * 24).estimate.cost.commitment == ""

    # 16 cards work most of a year: two machines at 0.6 of 55.04 an hour, for 12 × 730 hours.
    most = trained("4e12", deadline_hours=290 * 24).estimate
    assert most.count == 16
    assert most.cost.rent_usd is not None
    assert most.cost.rent_usd.expected == pytest.approx(2 * 0.6 * 55.04 * 12 * 730, rel=1e-3)


def test_a_token_under_a_commitment_costs_its_share_of_the_whole_term() -> None:
    """Once 0.21 USD for a million tokens of a run whose term costs 2.3 million."""
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "pretraining", "tokens": "20e9"},
        "hardware": {"accelerator": "h100-sxm", "count": 64},
        "limits": {"providers": ["AWS"], "commitment_months": 12},
    }
    cost = api.estimate(case).cost
    assert cost.rent_usd is not None
    assert cost.usd_per_million_tokens is not None
    assert cost.usd_per_million_tokens.expected == pytest.approx(cost.rent_usd.expected / 20e3)
    assert cost.rent_usd.expected == pytest.approx(8 * 0.6 * 55.04 * 12 * 730, rel=1e-3)
