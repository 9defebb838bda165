"""Tariffs, carbon, commitments, billing and owning defaults: integrity, and errors that help."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.economy import billing_of, load_balancers, load_economy
from advisor.errors import CatalogError, InputError

FILES = ("energy.csv", "commitments.csv", "owning_defaults.csv")
ECONOMY = load_economy()


def test_every_country_state_and_region_of_the_sources_is_there() -> None:
    kinds = [place.kind for place in ECONOMY.places]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "country": 214,  # and the European Union
        "us_state": 51,
        "cloud_region": 42,
    }
    # Turkmenistan, the highest of the source, burns gas in old plants.
    assert max(place.carbon_g_per_kwh for place in ECONOMY.places) == 1306.025


def test_facts_of_the_sources() -> None:
    assert ECONOMY.place("Germany").carbon_g_per_kwh == 380.95
    assert ECONOMY.place("us-texas").carbon_g_per_kwh == 349.8
    assert ECONOMY.place("gcp-us-central1").carbon_g_per_kwh == 412.72  # Google Cloud, 2024
    # GoogleCloudPlatform/region-carbon-info, data/yearly/2024.csv (2025-12-03).
    google = {"gcp-us-east1": 575.77, "gcp-me-central1": 366, "gcp-europe-west9": 16.3}
    google |= {"gcp-europe-north2": 2.73, "gcp-asia-east2": 505.02}
    assert {key: ECONOMY.place(key).carbon_g_per_kwh for key in google} == google
    # EIA, Electric Power Annual with data for 2023: cents per kWh, residential and commercial.
    california = ECONOMY.place("us-california")
    assert (california.household_usd_per_kwh, california.business_usd_per_kwh) == (0.2951, 0.2391)
    texas = ECONOMY.place("us-texas")
    assert (texas.household_usd_per_kwh, texas.business_usd_per_kwh) == (0.1446, 0.0882)
    dakota = ECONOMY.place("us-north-dakota")
    assert (dakota.household_usd_per_kwh, dakota.business_usd_per_kwh) == (0.1101, 0.0738)
    hawaii = ECONOMY.place("us-hawaii")
    assert (hawaii.household_usd_per_kwh, hawaii.business_usd_per_kwh) == (0.4239, 0.3903)
    assert ECONOMY.place("deu").household_usd_per_kwh == 0.41


def test_tariffs_have_a_source_and_belong_to_a_place() -> None:
    for place in ECONOMY.places:
        assert (place.business_usd_per_kwh is not None) == (place.tariff_source is not None)
        assert (place.tariff_source == "eia-2023") == (
            place.kind == "us_state" and place.key != "us-wyoming"  # its row was not read
        )
        assert ECONOMY.place(place.country).kind == "country", place.key


def test_commitments_and_billing_name_known_providers_and_cards() -> None:
    catalog = load_catalog()
    providers = {offer.provider for offer in catalog.offers}
    keys = {card.key for card in catalog.accelerators}
    for plan in ECONOMY.commitments:
        assert plan.provider in providers
        assert set(plan.accelerators.split()) <= keys, plan.plan
    assert set(load_balancers()) <= providers
    steps = {1.0, 60.0, 3600.0, 86400.0, 7 * 86400.0}
    assert {offer.billing.step_s for offer in catalog.offers} == steps
    assert all(offer.billing == billing_of(offer.provider, offer.tier) for offer in catalog.offers)


def test_a_longer_commitment_never_costs_more() -> None:
    plans = sorted(ECONOMY.commitments, key=lambda plan: plan.term_months)
    for first in plans:
        for second in plans:
            same = (first.provider, first.plan.split(",")[0]) == (second.provider, second.plan)
            if same and first.term_months < second.term_months:
                assert second.price_ratio <= first.price_ratio


@pytest.fixture
def folder(tmp_path: Path, root: Path) -> Path:
    for name in FILES:
        shutil.copy(root / "data" / name, tmp_path / name)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("energy.csv", "380.95", "-1", "carbon_g_per_kwh"),
        ("energy.csv", "deu,country,Germany,deu", "zzz,country,Germany,deu", "Move"),
        ("energy.csv", "key,kind", "id,kind", "header must be"),
        ("commitments.csv", ",12,0.6,", ",12,1.6,", "price_ratio"),
        (
            "owning_defaults.csv",
            "pue,server,1.1,1.54,1.8",
            "pue,server,1.9,1.54,1.8",
            "low <= expected <= high",
        ),
        ("owning_defaults.csv", "pue,server,1.1", "pue,server,cold", "low"),
    ],
)
def test_a_broken_table_is_told(folder: Path, name: str, old: str, new: str, words: str) -> None:
    change(folder / name, old, new)
    with pytest.raises(CatalogError, match=words) as caught:
        load_economy(folder)
    assert name in str(caught.value)


def test_an_unknown_place_names_the_nearest() -> None:
    with pytest.raises(InputError, match="nearest: germany"):
        ECONOMY.place("germony")
