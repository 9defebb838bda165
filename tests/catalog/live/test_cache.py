"""The cache is believed only as it was written; else the shipped prices stay in use."""

import json
import os
import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.live.prices import (
    CacheRefusedError,
    LivePrices,
    LiveProvider,
    read_cache,
    write_cache,
)
from advisor.catalog.loader import load_snapshot
from advisor.errors import RefreshError

SNAPSHOT = load_snapshot()
OFFER = SNAPSHOT.offers_for("h100-sxm")[0].model_copy(update={"price_date": "2026-11-20"})
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIVE = LivePrices(
    fetched_at=NOW,
    providers=(
        LiveProvider(
            name=OFFER.provider,
            version="20261120-42",
            date="2026-11-20",
            offers=(OFFER.model_copy(update={"on_demand_usd_per_hour": 1.23}),),
        ),
    ),
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_ADVISOR_CACHE_DIR", str(tmp_path))
    path = tmp_path / "prices.json"
    write_cache(path, LIVE)
    return path


def price() -> float | None:
    found = next(item for item in load_catalog().offers if item.key == OFFER.key)
    return found.on_demand_usd_per_hour


def test_what_was_written_is_read(cache: Path) -> None:
    assert read_cache(cache, now=NOW) == LIVE
    assert price() == 1.23
    assert load_catalog().prices.problem == ""


def test_no_cache_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_ADVISOR_CACHE_DIR", str(tmp_path / "nothing"))

    assert load_catalog() is load_snapshot()
    assert load_catalog().prices.sentence == (
        "Prices come from the snapshot that ships with the program."
    )


def rewritten(content: bytes, *, schema: int = 2, form: str = "gpu-advisor live prices") -> bytes:
    head = {"format": form, "schema": schema, "sha256": sha256(content).hexdigest()}
    return json.dumps(head).encode() + b"\n" + content


BODY = LIVE.model_dump_json().encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "first line is not that of this program"),
        (b"\x00\xff\xfe", "first line is not that of this program"),
        (b"[]\n", "first line is not that of this program"),
        (rewritten(BODY)[:-40], "checksum does not match"),
        (rewritten(BODY).replace(b"1.23", b"1.24"), "checksum does not match"),
        (rewritten(BODY, schema=1), "version 1, but this program reads version 2"),
        (rewritten(BODY, form="another"), "first line is not that of this program"),
        (rewritten(BODY.replace(b"1.23", b"-1.23")), "on_demand_usd_per_hour is broken"),
        (rewritten(BODY.replace(b"1.23", b"0.0")), "on_demand_usd_per_hour is broken"),
        (rewritten(b"{}"), "fetched_at is broken"),
        (b"[" * 100_000, "first line is not that of this program"),
        (rewritten(BODY.replace(b"1.23", b"1e308")), "providers.0 is broken"),
        (
            rewritten(re.sub(rb'"accelerators":\d+', b'"accelerators":1' + 400 * b"0", BODY)),
            "accelerators is broken",
        ),
        (rewritten(BODY.replace(b"1.23", b"NaN")), "is broken"),
        (rewritten(BODY.replace(b'"2026-11-20"', b'"2026-02-31"')), "date is broken"),
        (rewritten(BODY.replace(b'"date":"2026-11-20"', b'"date":"2026-11-19"')), "is broken"),
        (
            rewritten(BODY.replace(b'"2026-11-21T12:00:00Z"', b'"2099-01-01T12:00:00Z"')),
            "clock of this machine seems to be wrong",
        ),
    ],
)
def test_a_damaged_cache_leaves_the_snapshot_in_use(
    cache: Path, content: bytes, reason: str
) -> None:
    cache.write_bytes(content)
    catalog = load_catalog()

    assert catalog.offers == SNAPSHOT.offers
    assert reason in catalog.prices.problem
    assert "The shipped prices are." in catalog.prices.problem
    assert catalog.prices.live_providers == ()
    assert cache.read_bytes() == content


def test_a_folder_in_its_place_is_told(cache: Path) -> None:
    cache.unlink()
    cache.mkdir()

    assert "cannot be read" in load_catalog().prices.problem


def test_a_pipe_in_its_place_is_not_waited_for(cache: Path) -> None:
    cache.unlink()
    os.mkfifo(cache)

    assert "it is not a regular file" in load_catalog().prices.problem


def test_accelerators_that_left_the_catalog_are_passed_over(cache: Path) -> None:
    gone = OFFER.model_copy(update={"accelerator": "gone", "key": "a/b/c/d"})
    provider = LIVE.providers[0].model_copy(update={"offers": (gone,)})
    write_cache(cache, LIVE.model_copy(update={"providers": (provider,)}))

    assert load_catalog().offers == SNAPSHOT.offers


def test_a_refreshed_cache_is_noticed_by_a_running_program(cache: Path) -> None:
    assert price() == 1.23
    cheaper = OFFER.model_copy(update={"on_demand_usd_per_hour": 1.125})
    provider = LIVE.providers[0].model_copy(update={"offers": (cheaper,)})
    write_cache(cache, LIVE.model_copy(update={"providers": (provider,)}))

    assert price() == 1.125


def test_one_instance_has_one_price_whatever_card_the_lists_name(cache: Path) -> None:
    """The live list may know better which card an instance has."""
    renamed = OFFER.model_copy(update={"accelerator": "h100-pcie", "on_demand_usd_per_hour": 1.5})
    provider = LIVE.providers[0].model_copy(update={"offers": (renamed,)})
    write_cache(cache, LIVE.model_copy(update={"providers": (provider,)}))
    keys = [offer.key for offer in load_catalog().offers]

    assert len(keys) == len(set(keys))
    assert price() == 1.5


def test_prices_too_large_to_read_are_neither_kept_nor_read(cache: Path) -> None:
    before = cache.read_bytes()
    [provider] = LIVE.providers
    many = provider.model_copy(update={"offers": provider.offers * 30_000})
    with pytest.raises(RefreshError, match="too large"):
        write_cache(cache, LIVE.model_copy(update={"providers": (many,)}))
    assert cache.read_bytes() == before

    cache.write_bytes(before + b" " * 10_000_000)
    with pytest.raises(CacheRefusedError, match="too large"):
        read_cache(cache, now=NOW)
