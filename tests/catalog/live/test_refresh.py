"""Live prices: what is taken over, and that nothing is lost whatever goes wrong."""

import errno
import math
import os
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest

from advisor import cli
from advisor.catalog import load_catalog
from advisor.catalog.live.refresh import prices_age_s, refresh_prices
from advisor.catalog.live.rows import PROVIDERS
from advisor.catalog.loader import load_snapshot
from advisor.errors import RefreshError
from advisor.nouns.hardware import Offer
from tests.catalog.live.conftest import RECORDED, VERSION, Publish

pytest.importorskip("gpuhunt")

SNAPSHOT = load_snapshot()
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def live(key: str) -> Offer:
    return next(offer for offer in load_catalog().offers if offer.key == key)


def recorded(provider: str) -> str:
    return (RECORDED / f"{provider}.csv").read_text(encoding="utf-8")


def test_live_prices_replace_those_of_the_snapshot(publish: Publish, cache: Path) -> None:
    publish()
    report = refresh_prices(now=NOW)

    assert report.path == str(cache)
    assert {item.outcome for item in report.providers} == {"taken"}
    assert report.offers == 22
    catalog = load_catalog()
    assert catalog.prices.fetched_at == "2026-11-21T12:00:00+00:00"
    assert len(catalog.prices.live_providers) == 9
    offer = live("aws/p5-48xlarge/us-east-1/on-demand-list")
    assert (offer.on_demand_usd_per_hour, offer.spot_usd_per_hour) == (55.04, 21.5)
    assert (offer.price_date, offer.provenance.source) == ("2026-11-20", "gpuhunt-live")
    assert catalog.sources["gpuhunt-live"].date == "2026-11-21"


def test_young_prices_stay_if_the_user_says_so(
    publish: Publish, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prices_age_s(now=NOW) == math.inf
    publish()
    refresh_prices(now=datetime.now(UTC))
    kept = cache.read_bytes()

    assert 0 <= prices_age_s() < 600
    assert cli.main(["prices", "refresh", "--if-older-than", "1d"]) == 0
    assert "so they stay" in capsys.readouterr().out
    assert cache.read_bytes() == kept
    assert cli.main(["prices", "refresh", "--if-older-than", "much"]) == 2


def test_offers_of_providers_and_accelerators_that_are_not_listed_stay(
    publish: Publish, cache: Path
) -> None:
    publish()
    refresh_prices(now=NOW)
    catalog = load_catalog()

    same = [offer for offer in SNAPSHOT.offers if offer.provider == "Gcore"]
    assert [offer for offer in catalog.offers if offer.provider == "Gcore"] == same
    # The recorded AWS list has T4, A100 40 GB and H100 alone.
    assert catalog.offers_for("b200-sxm") == SNAPSHOT.offers_for("b200-sxm")
    keys = [offer.key for offer in catalog.offers]
    assert keys == sorted(set(keys))


def test_links_and_network_come_from_the_snapshot(publish: Publish, cache: Path) -> None:
    publish()
    refresh_prices(now=NOW)

    offer = live("nebius/gpu-h200-sxm-8gpu-128vcpu-1600gb/eu-west1/on-demand-list")
    assert offer.intra_node == "NVLink/NVSwitch"
    assert offer.inter_node_bytes_per_s == 400e9  # 3,200 Gbit/s
    # Known by another name in the snapshot: tpu-v6e x8 chip.
    assert live("gcp/v6e-8/us-east1/on-demand-list").intra_node == "ICI"
    # Unknown there: no link is made up, so one machine only.
    unknown = live("cloudrift/mi350x-8/us-east-nc-nr-1/on-demand-list")
    assert (unknown.intra_node, unknown.inter_node_bytes_per_s) == ("", None)


def test_spot_zones_slices_and_counts(publish: Publish, cache: Path) -> None:
    publish()
    refresh_prices(now=NOW)

    # Two zones of one region: the cheaper spot price counts.
    zoned = live("gcp/a3-highgpu-8g/us-central1/on-demand-list")
    assert (zoned.on_demand_usd_per_hour, zoned.spot_usd_per_hour) == (88.49, 28.4)
    # A slice of eight chips counts as one in gpuhunt.
    assert live("gcp/v6e-8/us-east1/on-demand-list").accelerators == 8
    # One name with one or eight cards.
    one = live("runpod/1x-nvidia-h100-80gb-hbm3/eu-ro-1/on-demand-list")
    eight = live("runpod/8x-nvidia-h100-80gb-hbm3/eu-ro-1/on-demand-list")
    assert (one.accelerators, eight.accelerators) == (1, 8)
    assert (one.on_demand_usd_per_hour, eight.on_demand_usd_per_hour) == (2.99, 23.92)
    card = live("runpod/nvidia-geforce-rtx-4090/ro/community-marketplace")
    assert card.tier == "community marketplace"


def test_unknown_names_and_fractions_are_reported_not_guessed(
    publish: Publish, cache: Path
) -> None:
    publish(oci=recorded("oci").replace(",MI300X,192.0,", ",MI999X,192.0,"))
    reports = {item.name: item for item in refresh_prices(now=NOW).providers}

    assert reports["OCI"].unknown == {"MI999X 192 GB": 1}
    assert reports["Azure"].unknown == {"A10 4 GB": 1}  # a sixth of a card
    assert reports["AWS"].unknown == {"L4 3 GB": 1}  # an eighth
    assert reports["RunPod"].unknown == {"B300 34 GB": 1}  # a slice


def test_progress_rises_to_the_end(publish: Publish, cache: Path) -> None:
    publish()
    told: list[tuple[float, str]] = []
    refresh_prices(now=NOW, progress=lambda share, text: told.append((share, text)))

    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert {text for _, text in told} >= {
        "Reading prices of AWS",
        "Reading prices of Verda (DataCrunch)",
    }


def test_gpuhunt_logs_nothing_to_the_terminal(
    publish: Publish, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    publish(aws="nonsense")
    refresh_prices(now=NOW)

    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("price", ["0", "-2.5", "nan", "inf", "1e308", "5504", "0.0001"])
def test_impossible_prices_are_refused(publish: Publish, cache: Path, price: str) -> None:
    publish(aws=recorded("aws").replace(",55.04,", f",{price},"))
    reports = {item.name: item for item in refresh_prices(now=NOW).providers}

    assert (reports["AWS"].outcome, reports["AWS"].refused) == ("taken", 1)
    assert live("aws/p5-48xlarge/us-east-1/on-demand-list").on_demand_usd_per_hour is None


def test_a_provider_that_answers_nonsense_keeps_its_earlier_prices(
    publish: Publish, cache: Path
) -> None:
    publish()
    refresh_prices(now=NOW)
    earlier = live("oci/bm-gpu4-8/eu-frankfurt-1/on-demand-list")
    head, *rows = recorded("oci").splitlines()
    broken = [row.replace(",24.4,", ",-24.4,").replace(",48.0,", ",zero,") for row in rows]
    publish(version="20261121-43", oci="\n".join([head, *broken]))
    reports = {item.name: item for item in refresh_prices(now=NOW).providers}

    assert (reports["OCI"].outcome, reports["OCI"].date) == ("kept", "2026-11-20")
    assert reports["OCI"].message == "2 of 2 rows are impossible"
    assert live("oci/bm-gpu4-8/eu-frankfurt-1/on-demand-list") == earlier
    assert live("aws/p5-48xlarge/us-east-1/on-demand-list").price_date == "2026-11-21"


def test_a_truncated_download_fails_alone(publish: Publish, cache: Path) -> None:
    base = publish()
    archive = base / "gcp" / VERSION / "catalog.zip"
    archive.write_bytes(archive.read_bytes()[:100])
    reports = {item.name: item for item in refresh_prices(now=NOW).providers}

    assert reports["GCP"].outcome == "failed"
    assert "zip" in reports["GCP"].message
    assert reports["AWS"].outcome == "taken"
    catalog = load_catalog()
    assert "GCP" not in catalog.prices.live_providers
    shipped = [offer for offer in SNAPSHOT.offers if offer.provider == "GCP"]
    assert [offer for offer in catalog.offers if offer.provider == "GCP"] == shipped


def test_when_no_provider_answers_the_cache_stays(publish: Publish, cache: Path) -> None:
    base = publish()
    refresh_prices(now=NOW)
    before = cache.read_bytes()
    for version in base.glob("*/version"):
        version.unlink()

    with pytest.raises(RefreshError, match=r"were usable \(No such file or directory\)"):
        refresh_prices(now=NOW + timedelta(days=1))
    assert cache.read_bytes() == before
    assert [item.name for item in cache.parent.iterdir()] == [cache.name]


def test_when_every_answer_is_nonsense_nothing_is_written(publish: Publish, cache: Path) -> None:
    head = recorded("aws").splitlines()[0]
    publish(**{path.stem: head for path in RECORDED.glob("*.csv")})

    with pytest.raises(RefreshError, match="no accelerator of the catalog"):
        refresh_prices(now=NOW)
    assert not cache.exists()


def test_offline(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", "http://127.0.0.1:9")  # nobody listens there

    with pytest.raises(RefreshError, match="Connection refused"):
        refresh_prices(now=NOW)
    assert not cache.exists()


def test_a_clock_set_back_is_noticed_before_anything_is_fetched(
    publish: Publish, cache: Path
) -> None:
    publish()
    with pytest.raises(RefreshError, match="says 2026-01-01, before the newest shipped price"):
        refresh_prices(now=datetime(2026, 1, 1, tzinfo=UTC))
    assert not cache.exists()


def test_a_cache_from_the_future_is_not_overwritten(publish: Publish, cache: Path) -> None:
    publish()
    refresh_prices(now=NOW + timedelta(days=30))
    before = cache.read_bytes()

    with pytest.raises(RefreshError, match="clock"):
        refresh_prices(now=NOW)
    assert cache.read_bytes() == before


def test_prices_from_the_future_are_refused(publish: Publish, cache: Path) -> None:
    publish(version="20270101-1")

    with pytest.raises(RefreshError, match="its prices are of 2027-01-01, after today"):
        refresh_prices(now=NOW)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("20200115-1", "its prices are of 2020-01-15, "),
        ("20261119-9", "its prices are of 2026-11-19, older than those of 2026-11-20 in use"),
        ("20260231-1", "its list '20260231-1' has no possible date"),
        ("20261332-1", "its list '20261332-1' has no possible date"),
        ("latest", "its list 'latest' has no possible date"),
        ("2026112042", "its list '2026112042' has no possible date"),
        ("99991231-1", "its list '99991231-1' has no possible date"),
    ],
)
def test_an_older_or_impossible_feed_never_replaces_newer_prices(
    publish: Publish, cache: Path, version: str, reason: str
) -> None:
    publish()
    refresh_prices(now=NOW)
    before, offers = cache.read_bytes(), load_catalog().offers
    publish(version=version, aws=recorded("aws").replace(",55.04,", ",0.5,"))

    with pytest.raises(RefreshError) as caught:
        refresh_prices(now=NOW)
    assert reason in str(caught.value)
    assert "The prices in use stay as they are." in str(caught.value)
    assert cache.read_bytes() == before
    assert load_catalog().offers == offers


def test_a_list_of_years_ago_is_refused_where_there_is_no_other(
    publish: Publish, cache: Path
) -> None:
    publish(version="20200115-1")

    with pytest.raises(RefreshError, match=r"2020-01-15, (older|more than a year old)"):
        refresh_prices(now=NOW)
    assert not cache.exists()
    assert load_catalog().offers == SNAPSHOT.offers


def test_a_full_or_locked_folder_is_told(publish: Publish, tmp_path: Path) -> None:
    publish()
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")

    with pytest.raises(RefreshError, match="cannot be written"):
        refresh_prices(now=NOW, path=blocked / "prices.json")


def test_an_older_live_list_does_not_replace_a_newer_snapshot(
    publish: Publish, cache: Path
) -> None:
    # The snapshot has a RunPod price of 2026-11-09 and OCI prices of 2026-10-05.
    publish(version="20261020-1")
    refresh_prices(now=NOW)
    providers = load_catalog().prices.live_providers

    assert "RunPod" not in providers
    assert "OCI" in providers


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_the_recorded_files_are_in_the_format_of_gpuhunt(provider: str, tmp_path: Path) -> None:
    """Read and written by gpuhunt itself, each file is the same."""
    from gpuhunt._internal import storage

    items = list(storage.load(StringIO(recorded(provider)), provider=provider))
    storage.dump(items, str(tmp_path / "again.csv"))

    assert items
    assert (tmp_path / "again.csv").read_text(encoding="utf-8") == recorded(provider)


def test_the_providers_are_those_that_gpuhunt_publishes_lists_of() -> None:
    from gpuhunt._internal.catalog import OFFLINE_PROVIDERS

    assert set(PROVIDERS) == set(OFFLINE_PROVIDERS)


def test_a_disk_that_fills_up_leaves_the_cache_as_it_was(
    publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    refresh_prices(now=NOW)
    before = cache.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RefreshError, match=r"cannot be written .*No space left on device"):
        refresh_prices(now=NOW + timedelta(hours=1))
    assert cache.read_bytes() == before
    assert [item.name for item in cache.parent.iterdir()] == [cache.name]


def test_the_published_lists_need_no_gpuhunt(
    publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    monkeypatch.setitem(sys.modules, "gpuhunt", None)

    assert refresh_prices(now=NOW).offers == 22
