"""Prices in euro keep their currency; the rate is dated and the user can change it."""

import pytest

from advisor import api
from advisor.catalog import load_catalog
from advisor.errors import InputError
from tests.cases import tune

CATALOG = load_catalog()

# Prices in euro as the providers list them; x 1.1269 USD (ECB, 2026-10-06), by hand.
EURO = {
    ("Gcore", "Virtual GPU 1x H100"): (2.82, 3.1779),
    ("Gcore", "Virtual GPU 8x H100"): (18.91, 21.3097),
    ("Gcore", "Bare metal 8x H100 SXM (bm3-ai...)"): (21.82, 24.5890),
    ("Gcore", "1x A100 80GB (Dec 2024 price)"): (1.67, 1.8819),
    ("Hetzner", "GEX44 (monthly 184 EUR)"): (0.25205, 0.2840),
    ("Hetzner", "AX162-R (monthly 238 EUR)"): (0.32603, 0.3674),
    ("Scaleway", "B300 SXM x8"): (60.0, 67.614),
    ("Scaleway", "H100-1-80G (page)"): (2.8665, 3.2303),
    ("Scaleway", "H100-SXM-8-80G"): (25.3308, 28.5453),
    ("Scaleway", "L4-1-24G"): (0.7875, 0.8874),
    ("Scaleway", "L40S-1-48G"): (1.47, 1.6565),
    ("Scaleway", "RENDER-S"): (1.2426, 1.4003),
    ("Seeweb", "ECS1GPU7"): (0.85, 0.9579),
}


def test_prices_in_euro_keep_their_currency() -> None:
    quoted = {(item.provider, item.instance_type): item for item in CATALOG.offers if item.quote}

    assert set(quoted) == set(EURO)
    for name, (euro, usd) in EURO.items():
        offer = quoted[name]
        assert offer.quote is not None
        assert (offer.quote.currency, offer.quote.on_demand_per_hour) == ("EUR", euro)
        assert (offer.quote.usd, offer.quote.rate_date) == (1.1269, "2026-10-06")
        assert offer.on_demand_usd_per_hour == usd


def test_the_rate_can_be_changed() -> None:
    changed = CATALOG.at_rate("EUR", 1.2)
    offer = next(item for item in changed.offers if item.instance_type == "Virtual GPU 1x H100")

    assert offer.on_demand_usd_per_hour == 3.384  # 2.82 x 1.2
    assert offer.quote is not None
    assert (offer.quote.usd, offer.quote.rate_date) == (1.2, "")
    assert changed.offers_for("h100-sxm") != CATALOG.offers_for("h100-sxm")
    in_usd = [item for item in changed.offers if item.quote is None]
    assert in_usd == [item for item in CATALOG.offers if item.quote is None]


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="exchange rate"):
        CATALOG.at_rate("EUR", rate)


def test_a_currency_without_prices_is_refused() -> None:
    with pytest.raises(InputError, match="allowed: EUR"):
        CATALOG.at_rate("GBP", 1.3)


def test_a_plan_names_the_price_as_it_is_listed() -> None:
    case: dict[str, dict[str, object]] = tune(
        "llama-3.1-8b",
        method="lora",
        tokens=1e6,
        limits={"providers": ["Gcore"], "accelerators": ["h100-sxm"]},
    )
    listed = "Price listed as EUR 2.82 an hour for one machine; 1 EUR = "

    shipped = api.recommend(case).plans[0].estimate
    assert f"{listed}1.1269 USD of 2026-10-06." in shipped.assumptions
    assert shipped.cost.usd_per_hour is not None
    assert shipped.cost.usd_per_hour.expected == 3.1779
    case["limits"]["usd_per_eur"] = 1.5
    own = api.recommend(case).plans[0].estimate
    assert f"{listed}1.5 USD, as given." in own.assumptions
    assert own.cost.usd_per_hour is not None
    assert own.cost.usd_per_hour.expected == 4.23  # 2.82 x 1.5
