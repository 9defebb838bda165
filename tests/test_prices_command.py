"""``gpu-advisor prices``: what there is, how old, and fetching live prices."""

import csv
import io
import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from advisor import cli
from advisor.catalog import load_catalog
from advisor.catalog.live.prices import ProviderReport, RefreshReport
from advisor.catalog.loader import load_snapshot
from advisor.catalog.offer_list import price_overview
from advisor.catalog.places import places_of
from advisor.terminal.console import new_console
from advisor.terminal.prices import show_prices, show_refresh

TODAY = date(2026, 11, 21)


def shown(show: object, value: object) -> str:
    file = io.StringIO()
    show(new_console(file, width=100), value)  # type: ignore[operator]
    return file.getvalue()


def test_each_provider_has_its_count_and_age(catalog_counts: tuple[int, int, int]) -> None:
    rows = {item.provider: item for item in price_overview(load_snapshot(), today=TODAY).providers}

    _, offers, providers = catalog_counts
    assert len(rows) == providers
    assert sum(item.offers for item in rows.values()) == offers
    # 52 of 2026-10-10, 42 days ago; 158 of 2026-08-10, 103 ago; 46 of November 2025, 385 ago.
    aws = rows["AWS"]
    assert (aws.offers, aws.newest, aws.age_days, aws.stale) == (312, "2026-10-10", 42, 259)
    assert (aws.median_age_days, aws.regions) == (103, 19)
    gcore = rows["Gcore"]
    assert (gcore.offers, gcore.currencies, gcore.oldest) == (4, ("EUR",), "2024-12")
    assert (gcore.age_days, gcore.stale) == (46, 1)  # of October 6; one of December 2024
    assert not any(item.live for item in rows.values())


def test_the_table_says_source_age_and_rate(catalog_counts: tuple[int, int, int]) -> None:
    text = shown(show_prices, price_overview(load_snapshot(), today=TODAY))

    assert "{1:,} offers of {2} providers".format(*catalog_counts) in text
    assert "Prices come from the snapshot that ships with the program." in text
    assert "103 d" in text  # the median of AWS
    assert "1 EUR = 1.1269 USD, of 2026-10-06." in text


def test_show_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prices", "show", "--json", "--usd-per-eur", "1.2"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["exchange_rates"]["EUR"] == {"usd": 1.2, "date": ""}
    assert found["state"]["live_providers"] == []


@pytest.mark.parametrize("rate", ["0", "-1", "much", "1e-300", "0.001", "101", "1e30", "1e308"])
def test_an_impossible_rate_is_a_callers_mistake(
    rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["prices", "show", f"--usd-per-eur={rate}"]) == 2
    assert re.search("--usd-per-eur|the exchange rate", capsys.readouterr().err)


def test_an_action_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prices"]) == 2
    assert "ACTION" in capsys.readouterr().err


def test_a_refresh_that_fails_says_that_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", (tmp_path / "nothing").as_uri())

    assert cli.main(["prices", "refresh"]) == 1
    error = capsys.readouterr().err
    assert "The prices in use stay as they are." in error
    assert "Traceback" not in error
    assert load_catalog().offers == load_snapshot().offers
    assert load_catalog().prices.live_providers == ()


def test_the_outcome_of_each_provider_is_told() -> None:
    def provider(name: str, **facts: object) -> ProviderReport:
        empty: dict[str, object] = {"date": "", "offers": 0, "refused": 0, "unknown": {}}
        return ProviderReport.model_validate({"name": name, "message": "", **empty, **facts})

    report = RefreshReport(
        fetched_at=datetime(2026, 11, 21, tzinfo=UTC),
        path="cache/prices.json",
        providers=(
            provider("AWS", outcome="taken", date="2026-11-20", offers=4, unknown={"L4 3 GB": 2}),
            provider("GCP", outcome="kept", date="2026-11-01", offers=7, message="timed out"),
            provider("OCI", outcome="failed", message="timed out"),
        ),
    )
    text = shown(show_refresh, report)

    assert "Live prices of 1 of 3 providers, 11 offers" in text
    assert "GCP: timed out; prices of 2026-11-01 stay." in text
    assert "OCI: timed out; the shipped prices stay." in text
    assert "AWS: L4 3 GB (2)" in text
    assert "Kept in cache/prices.json." in text


def listed(*options: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert cli.main(["prices", "list", *options, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["lines"]
    return found


def test_a_family_of_cards_lists_each_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {line["accelerator"] for line in listed("H100", capsys=capsys)}

    assert kinds >= {"h100-sxm", "h100-pcie", "h100-nvl"}
    assert all(kind.startswith("h100-") for kind in kinds)
    assert {line["accelerator"] for line in listed("l40", capsys=capsys)} == {"l40"}
    # Hetzner's AX162-R has an EPYC 9454P.
    assert "epyc-9454p" in {line["accelerator"] for line in listed("cpu", capsys=capsys)}


# Regions as AWS, Azure, Google Cloud, Nebius and Hyperstack place them on their lists of regions.
@pytest.mark.parametrize(
    ("region", "inside", "outside"),
    [
        ("eu-central-1", {"germany", "eu", "europe"}, {"france", "us"}),  # Frankfurt
        ("eu-west-2", {"uk", "europe"}, {"eu"}),  # London
        ("europe-north1", {"finland", "eu"}, {"sweden"}),  # Hamina
        ("europe-west4", {"netherlands", "eu"}, {"germany"}),  # Eemshaven
        ("southcentralus", {"us", "north-america"}, {"canada"}),  # Texas
        ("australiaeast", {"australia"}, {"us"}),  # New South Wales
        ("ap-northeast-1", {"japan", "asia"}, {"singapore"}),  # Tokyo
        ("canada-1/us-1/norway-1", {"canada", "us", "europe"}, {"eu"}),
        ("global", set(), {"europe", "us"}),
        ("", set(), {"europe", "us"}),
    ],
)
def test_a_region_lies_where_its_provider_says(
    region: str, inside: set[str], outside: set[str]
) -> None:
    found = places_of(region)
    assert inside <= found
    assert not outside & found


def test_each_region_of_the_catalog_lies_in_a_place() -> None:
    regions = {offer.region.casefold() for offer in load_snapshot().offers}
    assert {name for name in regions if not places_of(name)} == {"", "global", "all regions"}


def test_a_place_names_the_regions_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    regions = {line["region"] for line in listed("h100", "--region", "EU", capsys=capsys)}
    assert {"westeurope", "europe-west4", "eu"} <= regions
    assert not {"us-east-1", "uksouth", "global", ""} & regions

    assert cli.main(["prices", "list", "h100", "--region", "narnia"]) == 2
    assert "Name a place of these" in capsys.readouterr().err


def test_a_card_that_nobody_rents_is_named_with_what_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["prices", "list", "gaudi-3"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Nobody in the catalog rents out Intel Gaudi 3" in told
    # Intel's list price of a kit with eight, 125,000 USD (The Next Platform, June 2024).
    assert "IBM rents it" in told
    assert "$15,625" in told


@pytest.mark.parametrize("name", ["h100-80gb", "H100 SXM 80"])
def test_a_wrong_name_suggests_the_same_card_first(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["prices", "list", name]) == 2
    assert "nearest: h100-" in capsys.readouterr().err


def test_show_takes_one_provider(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prices", "show", "--provider", "aws", "--json"]) == 0
    [aws] = json.loads(capsys.readouterr().out)["providers"]
    assert aws["provider"] == "AWS"


def test_a_list_answers_what_a_card_costs_where(capsys: pytest.CaptureFixture[str]) -> None:
    lines = listed("h100-sxm", "--count", "8", capsys=capsys)
    assert sold_first(lines, "usd_per_card_hour")
    assert {line["accelerators"] for line in lines} == {8}
    [aws] = [
        line
        for line in lines
        if (line["instance_type"], line["region"]) == ("p5.48xlarge", "us-east-1")
        and line["on_demand_usd_per_hour"]
    ]
    assert aws["usd_per_card_hour"] == pytest.approx(55.04 / 8)  # list price of 2026-07-20
    assert aws["usd_per_gib_hour"] == pytest.approx(55.04 / 8 / (81559 / 1024))  # nvidia-smi
    assert aws["network_bytes_per_s"] == 400e9  # 3,200 Gbit/s


def sold_first(lines: list[dict[str, Any]], column: str) -> bool:
    """Return whether offers on demand come first, then those for spot alone, each by price."""
    keys = [(line["on_demand_usd_per_hour"] is None, line[column]) for line in lines]
    return keys == sorted(keys)


def test_what_is_sold_as_spot_alone_comes_last(capsys: pytest.CaptureFixture[str]) -> None:
    """Once Azure's spot price of 1.45 USD led the answer to what an H100 costs."""
    lines = listed("h100", capsys=capsys)
    alone = [line["on_demand_usd_per_hour"] is None for line in lines]

    assert {alone[0], alone[-1]} == {False, True}
    assert sold_first(lines, "usd_per_card_hour")
    spot = [line["usd_per_card_hour"] for line in listed("h100", "--spot", capsys=capsys)]
    assert spot == sorted(spot)


def test_conditions_of_a_list_hold(capsys: pytest.CaptureFixture[str]) -> None:
    lines = listed("--provider", "gcp", "--region", "us-central1", "--spot", capsys=capsys)

    assert lines
    assert {(line["provider"], line["region"]) for line in lines} == {("GCP", "us-central1")}
    assert all(line["spot_usd_per_hour"] is not None for line in lines)


@pytest.mark.parametrize(
    ("order", "column", "down"),
    [
        ("memory", "memory_bytes", True),
        ("per-gb", "usd_per_gib_hour", False),
        ("age", "age_days", False),
    ],
)
def test_a_list_is_sorted(
    order: str, column: str, down: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = listed("--sort", order, capsys=capsys)
    values = [line[column] for line in lines]

    assert values == sorted(values, reverse=down) or (
        order == "per-gb" and sold_first(lines, column)
    )
    assert len(values) == len(load_snapshot().offers)


def test_a_list_is_written_as_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "offers.csv"

    assert cli.main(["prices", "list", "l40s", "--csv", str(file)]) == 0
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert {row["accelerator"] for row in rows} == {"l40s"}
    assert "offers" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [["--sort", "colour"], ["--provider", "nobody"], ["--count", "0"], ["no-card"]]
)
def test_an_impossible_list_is_a_callers_mistake(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["prices", "list", *options]) == 2
    assert "error" in capsys.readouterr().err


def test_a_list_takes_the_price_of_a_commitment(capsys: pytest.CaptureFixture[str]) -> None:
    # DigitalOcean's price list: an H100 costs 4.41 USD on demand, 3.26 for 12 months.
    shown = ("h100-sxm", "--provider", "DigitalOcean", "--count", "1")
    [demand] = listed(*shown, capsys=capsys)
    [term] = listed(*shown, "--commit", "12", capsys=capsys)

    assert (demand["usd_per_card_hour"], demand["commitment"]) == (4.41, "")
    assert term["usd_per_card_hour"] == pytest.approx(3.26, rel=1e-3)
    assert term["commitment"].startswith("12 months: ")
    assert cli.main(["prices", "list", *shown, "--commit", "12"]) == 0
    assert "3.26c" in (told := capsys.readouterr().out)
    assert "DigitalOcean, 12 months" in told


def test_a_list_says_where_no_commitment_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prices", "list", "--provider", "Koyeb", "--commit", "36"]) == 0
    assert "No commitment of these offers has a known price" in capsys.readouterr().out
