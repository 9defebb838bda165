"""Providers that gpuhunt asks itself: taken where they answer, left alone where they do not."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests

from advisor.catalog import load_catalog
from advisor.catalog.live import clouds, fetch
from advisor.catalog.live.refresh import refresh_prices
from advisor.catalog.live.rows import ONLINE, PROVIDERS
from tests.catalog.live.conftest import Publish

gpuhunt = pytest.importorskip("gpuhunt")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ITEM = gpuhunt.CatalogItem(
    provider="vultr",
    instance_name="vbm-112c-2048gb-8-h100-gpu",
    location="ewr",
    price=19.2,
    cpu=112,
    memory=2048.0,
    gpu_vendor=gpuhunt.AcceleratorVendor.NVIDIA,
    gpu_count=8,
    gpu_name="H100",
    gpu_memory=80.0,
    spot=False,
    disk_size=None,
)


@pytest.fixture
def answers(publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What Vultr answers, or the error that it raises."""
    from gpuhunt.providers.vultr import VultrProvider

    publish()
    found: list[object] = []

    def get(provider: VultrProvider, **filters: object) -> list[object]:
        if isinstance(found[0], Exception):
            raise found[0]
        return found

    monkeypatch.setattr(VultrProvider, "get", get)
    # The others would leave this machine.
    asked = {"vultr": "Vultr", "jarvislabs": "JarvisLabs"}
    monkeypatch.setattr(fetch, "TITLES", PROVIDERS | asked)
    monkeypatch.setattr(fetch, "CLOUDS", {})
    monkeypatch.setitem(clouds.addresses(), "openrouter", "http://127.0.0.1:9")
    return found


def outcomes() -> dict[str, tuple[str, str]]:
    report = refresh_prices(now=NOW, online=True)
    return {item.name: (item.outcome, item.message) for item in report.providers}


def test_an_online_provider_is_taken_with_the_day_of_the_answer(answers: list[object]) -> None:
    answers.append(ITEM)

    assert outcomes()["Vultr"] == ("taken", "")
    offer = next(
        item
        for item in load_catalog().offers_for("h100-sxm")
        if item.key == "vultr/vbm-112c-2048gb-8-h100-gpu/ewr/on-demand-list"
    )
    assert (offer.on_demand_usd_per_hour, offer.price_date) == (19.2, "2026-11-21")
    assert offer.intra_node.startswith("NVLink")  # as in the shipped offer of that name


@pytest.mark.parametrize(
    "error", [OSError("timed out"), KeyError("plans"), TypeError("NoneType"), ValueError("{")]
)
def test_an_online_provider_that_fails_stops_nobody(
    answers: list[object], error: Exception
) -> None:
    answers.append(error)
    found = outcomes()

    assert found["Vultr"][0] == "failed"
    assert "the answer is unusable" in found["Vultr"][1]
    assert found["AWS"] == ("taken", "")


def test_providers_without_a_key_are_passed_over(answers: list[object]) -> None:
    answers.append(ITEM)

    assert outcomes()["JarvisLabs"] == ("failed", "no key for it is in the environment")


def test_only_published_lists_are_asked_by_default(publish: Publish, cache: Path) -> None:
    publish()
    report = refresh_prices(now=NOW)

    assert "Vultr" not in {item.name for item in report.providers}
    assert len(report.providers) == 9


def test_every_provider_of_gpuhunt_is_asked_but_one() -> None:
    from gpuhunt._internal.catalog import OFFLINE_PROVIDERS, ONLINE_PROVIDERS

    # Crusoe's prices in gpuhunt are typed by hand and have no day.
    assert set(OFFLINE_PROVIDERS + ONLINE_PROVIDERS) - {"crusoe"} == {*PROVIDERS, *ONLINE}


def test_without_gpuhunt_accounts_say_how_to_get_it(
    answers: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gpuhunt", None)

    assert "pip install 'gpu-advisor[prices]'" in outcomes()["Vultr"][1]


def test_seeweb_quotes_euro(answers: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """gpuhunt gives them as dollars; the catalog's rate is 1.1269 USD for one."""
    from gpuhunt.providers.seeweb import SeewebProvider

    fields = {"provider": "seeweb", "instance_name": "ECS1GPU7", "location": "it", "price": 0.85}
    item = replace(ITEM, **fields, gpu_count=1, gpu_name="L40S", gpu_memory=48.0)
    answers.append(ITEM)
    monkeypatch.setenv("SEEWEB_API_TOKEN", "a token")
    monkeypatch.setattr(SeewebProvider, "get", lambda provider, **filters: [item])
    monkeypatch.setattr(fetch, "TITLES", PROVIDERS | {"seeweb": "Seeweb"})

    assert outcomes()["Seeweb"] == ("taken", "")
    offer = next(item for item in load_catalog().offers if item.provider == "Seeweb")
    assert offer.on_demand_usd_per_hour == pytest.approx(0.85 * 1.1269)


def test_a_failed_connection_is_told_without_addresses(answers: list[object]) -> None:
    answers.append(requests.ConnectionError("HTTPSConnectionPool(host='api.vultr.com', port=443)"))

    assert outcomes()["Vultr"][1].endswith("the answer is unusable (ConnectionError)")
