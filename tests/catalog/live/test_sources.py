"""Clouds' own price files, Vast.ai and OpenRouter, answered by a server of this machine.

The answers are written in the form that gpuhunt 0.1.34, Microsoft's and Google's documentation and
public readers of these files expect; their figures are made up.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.live import clouds, download, fetch
from advisor.catalog.live.prices import ProviderReport, RefreshReport
from advisor.catalog.live.refresh import refresh_prices
from advisor.catalog.live.rows import PROVIDERS
from advisor.catalog.loader import load_hosted
from advisor.nouns.hardware import Offer
from tests.catalog.live.conftest import Publish

ANSWERS = Path(__file__).parent / "answers"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PATHS = {
    "/azure": "azure.json",
    "/azure-2": "azure-2.json",
    "/aws/us-east-1/index.csv": "aws-us-east-1.csv",
    "/spot.js": "spot.js",
    "/advisor": "spot-advisor-data.json",
    "/gcp": "gcp.json",
    "/gcp two": "gcp-2.json",
    "/vastai": "vastai.json",
    "/openrouter": "openrouter.json",
}
ADDRESSES = {
    "azure": "/azure",
    "aws": "/aws",
    "aws-spot": "/spot.js",
    "aws-advisor": "/advisor",
    "gcp": "/gcp",
    "openrouter": "/openrouter",
    "vastai": "/vastai",
}


class Server:
    """What the server answers, by path, and what it was asked."""

    def __init__(self) -> None:
        self.answers = {path: (ANSWERS / name).read_bytes() for path, name in PATHS.items()}
        self.asked: list[str] = []
        self.base = ""


@pytest.fixture
def server(publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    publish()
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            state.asked.append(self.path)
            wanted = query.get("$filter", [""])[0]
            key = parts.path + (" " + query["pageToken"][0] if "pageToken" in query else "")
            body = state.answers.get(key)
            if key == "/azure" and "Standard_NC40ads_H100_v5" not in wanted:
                body = b'{"Items": [], "NextPageLink": null, "Count": 0}'
            if key.startswith("/gcp") and self.headers["X-Goog-Api-Key"] != "a key":
                body = None
            self.send_response(200 if body else 403)
            self.end_headers()
            self.wfile.write((body or b"").replace(b'"NEXT"', f'"{state.base}/azure-2"'.encode()))

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        state.base = f"http://127.0.0.1:{running.server_port}"
        Thread(target=running.serve_forever, daemon=True).start()
        for name, path in ADDRESSES.items():
            monkeypatch.setitem(clouds.addresses(), name, state.base + path)
        # The others would leave this machine.
        monkeypatch.setattr(fetch, "TITLES", PROVIDERS | {"vastai": "Vast.ai"})
        yield state
        running.shutdown()


def refreshed(*regions: str) -> tuple[RefreshReport, dict[str, ProviderReport]]:
    report = refresh_prices(now=NOW, online=True, regions=regions)
    return report, {item.name: item for item in report.providers}


def live(key: str) -> Offer:
    return next(offer for offer in load_catalog().offers if offer.key == key)


def prices(key: str) -> tuple[float | None, float | None]:
    offer = live(key)
    return offer.on_demand_usd_per_hour, offer.spot_usd_per_hour


def test_azure_is_read_page_by_page_for_linux_on_demand_and_spot(server: Server) -> None:
    _, found = refreshed()

    assert found["Azure"].outcome == "taken"
    tail = "on-demand-list"
    assert prices(f"azure/standard-nc40ads-h100-v5/eastus/{tail}") == (7.125, 2.5)
    assert prices(f"azure/standard-nc40ads-h100-v5/westeurope/{tail}") == (8.725, None)
    # What only gpuhunt's list has stays, and its day counts for all.
    assert prices(f"azure/standard-nc24ads-a100-v4/eastus/{tail}")[0] == 3.673
    assert live(f"azure/standard-nc40ads-h100-v5/eastus/{tail}").price_date == "2026-11-20"


def test_aws_spot_prices_lie_over_the_list_and_say_how_often_machines_are_taken_back(
    server: Server,
) -> None:
    refreshed()
    offer = live("aws/p5-48xlarge/us-east-1/on-demand-list")

    assert (offer.on_demand_usd_per_hour, offer.spot_usd_per_hour) == (55.04, 19.75)
    assert "AWS took back >20% of its spot machines last month" in offer.notes
    assert not [path for path in server.asked if path.startswith("/aws/")]


def test_the_list_of_an_aws_region_is_read_if_it_is_named(server: Server) -> None:
    refreshed("us-east-1")

    assert prices("aws/p5-48xlarge/us-east-1/on-demand-list") == (52.5, 19.75)


def test_google_needs_a_key_and_is_put_together_from_its_parts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GCP_API_KEY", raising=False)
    _, found = refreshed()
    assert (found["GCP"].outcome, "GCP_API_KEY" in found["GCP"].message) == ("taken", True)

    monkeypatch.setenv("GCP_API_KEY", "a key")
    _, found = refreshed()
    assert found["GCP"].message == ""
    # 4 cores, 16 GiB and a card: 4 × 0.025 + 16 × 0.003 + 0.56; spot 4 × 0.01 + 16 × 0.001 + 0.22.
    assert prices("gcp/g2-standard-4/us-central1/on-demand-list") == (0.708, 0.276)
    # 12 × 0.031 + 170 × 0.004 + 3.9 + 375 GiB × 0.08 a month / 730
    assert prices("gcp/a2-ultragpu-1g/us-central1/on-demand-list")[0] == 4.993096


def test_the_cheapest_host_of_vastai_counts_for_each_card_and_number(server: Server) -> None:
    _, found = refreshed()

    assert prices("vast-ai/1x-rtx-4090/global/marketplace-lowest") == (0.29, 0.18)
    assert live("vast-ai/8x-a100-sxm4/global/marketplace-lowest").accelerator == "a100-sxm-80gb"
    assert live("vast-ai/2x-rtx-4090/global/marketplace-lowest").accelerator == "rtx-4090-48gb"
    # "Tesla V100" is sold as two cards: the name is not guessed.
    assert found["Vast.ai"].unknown == {"V100 16 GB": 2}


def test_hosted_models_get_the_prices_of_openrouter(server: Server) -> None:
    report, found = refreshed()
    [model] = [item for item in load_hosted() if item.model == "meta-llama/llama-3.1-8b-instruct"
               and item.provider == "OpenRouter"]  # fmt: skip

    assert (model.input_usd, model.cached_input_usd, model.output_usd) == (0.03, 0.015, 0.06)
    assert (model.price_date, model.preset) == ("2026-11-21", "llama-3.1-8b")
    # A model whose price is negative varies by request; an unknown one has no weights here.
    assert (report.hosted, found["OpenRouter"].refused) == (1, 1)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/azure", "Azure"),
        ("/spot.js", "AWS"),
        ("/vastai", "Vast.ai"),
        ("/openrouter", "OpenRouter"),
    ],
)
@pytest.mark.parametrize(
    "answer", [b"", b"{", b"[]", b"[" * 100_000, b'{"data": 3, "Items": [{}]}']
)
def test_a_broken_answer_is_told_and_harms_no_other(
    server: Server, path: str, name: str, answer: bytes
) -> None:
    server.answers[path] = answer
    _, found = refreshed()

    assert found[name].message
    assert "127.0.0.1" not in found[name].message
    assert found["OCI"].outcome == "taken"
    assert prices("aws/p5-48xlarge/us-east-1/on-demand-list")[0] == 55.04


def test_an_answer_beyond_the_bounds_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/azure"] = b'{"Items": [], "NextPageLink": "NEXT"}'
    server.answers["/azure-2"] = server.answers["/azure"]
    assert "more than 60 pages" in refreshed()[1]["Azure"].message

    server.answers["/azure-2"] = b'{"Items": [], "NextPageLink": "http://localhost:1/x"}'
    assert "another address" in refreshed()[1]["Azure"].message

    with (
        pytest.raises(OSError, match="too large"),
        download.opened(f"{server.base}/vastai", most=1000) as stream,
    ):
        stream.read()
    monkeypatch.setattr(download, "LONGEST_S", -1.0)
    with (
        pytest.raises(OSError, match="too long"),
        download.opened(f"{server.base}/vastai") as stream,
    ):
        stream.read()


def test_without_gpuhunts_list_only_a_whole_answer_counts(server: Server) -> None:
    base = Path(os.environ["GPUHUNT_CATALOG_URL"].removeprefix("file://"))
    for version in base.glob("a*/version"):
        version.unlink()
    _, found = refreshed()

    assert (found["Azure"].outcome, found["Azure"].date) == ("taken", "2026-11-21")
    assert found["AWS"].outcome == "failed"


def test_a_refresh_without_online_asks_nobody_else(server: Server) -> None:
    refresh_prices(now=NOW)

    assert server.asked == []
