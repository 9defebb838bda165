"""The page *Catalog*: what is listed, what differs, and that a failed refresh changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import advisor.ui.pages
from advisor.catalog import Catalog
from advisor.catalog.loader import load_snapshot
from advisor.charts.catalog import spread_alt, spread_chart
from advisor.charts.theme import DARK, LIGHT
from advisor.compare.cards import compare_cards
from advisor.compare.spread import METRICS, spreads, verdicts
from advisor.foundation.dates import current_day
from advisor.frames.catalog import (
    commitments_table,
    fact_sources_table,
    spread_frame,
    verdict_sentences,
)
from advisor.nouns.hardware import Offer
from tests.catalog.live.conftest import Publish, cache, publish
from tests.ui.seen import seen

__all__ = ["cache", "publish"]  # fixtures

PAGE = Path(advisor.ui.pages.__file__).parent / "catalog.py"
CATALOG = load_snapshot()
BY_TITLE = {metric.title: metric for metric in METRICS}


@pytest.fixture
def page() -> AppTest:
    shown = AppTest.from_file(str(PAGE), default_timeout=60).run()
    assert not shown.exception
    assert not shown.error
    return shown


def text(page: AppTest) -> str:
    return seen("\n".join(item.value for item in page.markdown))


def test_it_says_how_many_and_how_old(page: AppTest, catalog_counts: tuple[int, int, int]) -> None:
    counted = "{:,} accelerators and {:,} offers of {:,} providers.".format(*catalog_counts)
    assert counted in text(page)
    assert "Prices come from the snapshot that ships with the program." in text(page)
    assert "over 60 days old" in text(page)


def test_the_list_has_eight_columns_at_most_and_every_accelerator(
    page: AppTest, catalog_counts: tuple[int, int, int]
) -> None:
    listed = next(item.value for item in page.dataframe if "Power (W)" in item.value)

    assert listed.shape == (catalog_counts[0], 8)
    assert {"Rent of one (USD/h)", "Prices of"} <= set(listed.columns)


def test_offers_are_listed_cheapest_first_with_their_history(page: AppTest) -> None:
    """The same offers as `gpu-advisor prices list h100-sxm`."""
    page.selectbox(key="catalog_offers_card").set_value("h100-sxm").run()
    assert not page.exception
    listed = next(item.value for item in page.dataframe if "Earlier prices" in item.value)
    assert len(listed) == len(CATALOG.offers_for("h100-sxm"))
    prices = list(listed["A card (USD/h)"])
    offers = CATALOG.offers_for("h100-sxm")
    firm = sum(offer.on_demand_usd_per_hour is not None for offer in offers)
    assert 0 < firm < len(offers)  # what is sold as spot alone comes last
    assert prices == sorted(prices[:firm]) + sorted(prices[firm:])
    virginia = listed[listed["Region"].eq("us-east-1") & listed["Last seen"].eq("2026-10-10")]
    p5 = virginia[virginia["Instance"].eq("p5.48xlarge")].iloc[0]
    assert list(p5["Earlier prices"]) == [98.32, 55.04]
    assert p5["First seen"] == "2023-10-09"
    page.toggle(key="catalog_offers_spot").set_value(True).run()
    spot = next(item.value for item in page.dataframe if "Earlier prices" in item.value)
    assert len(spot) == sum(
        offer.spot_usd_per_hour is not None for offer in CATALOG.offers_for("h100-sxm")
    )


def test_filters_narrow_the_list(page: AppTest) -> None:
    page.selectbox(key="catalog_vendor").set_value("AMD")
    page.selectbox(key="catalog_memory").set_value(192)
    page.toggle(key="catalog_rentable").set_value(True).run()
    listed = next(item.value for item in page.dataframe if "Power (W)" in item.value)

    # AMD parts with 192 GB and more that someone in the snapshot rents.
    keys = ("epyc-7763", "epyc-9454p", "epyc-9654", "mi300x", "mi325x", "mi350x", "mi355x")
    assert sorted(listed["Accelerator"].str.removesuffix(" (?)")) == sorted(
        card.name for card in map(CATALOG.accelerator, keys) if CATALOG.offers_for(card.key)
    )


def test_a_filter_that_nothing_passes_says_so(page: AppTest) -> None:
    page.text_input(key="catalog_name").set_value("voodoo").run()

    assert "No accelerator has all of these" in page.info[0].value


def test_differences_only_hides_equal_rows(page: AppTest) -> None:
    page.selectbox(key="catalog_card_1").set_value("h100-sxm")
    page.selectbox(key="catalog_card_2").set_value("h200-sxm")
    page.selectbox(key="catalog_card_3").set_value("").run()
    assert "Architecture" in set(page.table[0].value["Fact"])  # both Hopper
    page.toggle(key="catalog_differences").set_value(True).run()
    facts = set(page.table[0].value["Fact"])

    assert "Architecture" not in facts
    assert {"Memory, reported", "Bandwidth"} <= facts


def test_a_link_names_its_accelerators_and_what_is_wrong_with_them() -> None:
    shown = AppTest.from_file(str(PAGE), default_timeout=60)
    shown.query_params["catalog_card_1"] = "NVIDIA GeForce GTX 1650"
    shown.query_params["catalog_card_2"] = "Voodoo 2"
    shown.run()

    assert not shown.exception
    assert shown.selectbox(key="catalog_card_1").value == "gtx-1650"
    assert "Accelerator 2 must be one that the page offers, not 'Voodoo 2'. Now: NVIDIA H100" in (
        seen(shown.warning[0].value)
    )


def test_the_rate_of_the_euro_changes_prices(page: AppTest) -> None:
    page.number_input(key="catalog_rate").set_value(2.0).run()

    assert not page.error
    offers = next(item.value for item in page.dataframe if "Instance" in item.value)
    gcore = offers[offers["Instance"] == "Virtual GPU 1x H100"]
    assert gcore["One card (USD/h)"].item() == 5.64  # EUR 2.82 at 2.00
    assert gcore["Price of"].item() == "2026-10-06, EUR at 2"


def test_a_refresh_that_fails_says_so_and_changes_nothing(
    page: AppTest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    catalog_counts: tuple[int, int, int],
) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", (tmp_path / "nothing").as_uri())
    page.button(key="catalog_refresh").click().run()

    assert "The prices in use stay as they are." in seen(page.error[0].value)
    assert "{1:,} offers of {2:,} providers".format(*catalog_counts) in text(page)


def test_a_refresh_that_works_says_what_it_brought(
    page: AppTest, publish: Publish, cache: Path
) -> None:
    pytest.importorskip("gpuhunt")
    publish(version=f"{current_day():%Y%m%d}-1")
    page.button(key="catalog_refresh").click().run()

    assert not page.error
    said = seen(page.success[0].value)
    assert "Live prices of AWS, Azure, CloudRift, GCP, Lambda, Nebius, OCI, RunPod" in said
    assert "22 offers." in said
    assert "fetched on" in text(page)


def test_a_damaged_cache_is_told(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("torn", encoding="utf-8")
    shown = AppTest.from_file(str(PAGE), default_timeout=60).run()

    assert "The cached live prices are not used: it is damaged" in shown.warning[0].value.replace(
        "\\", ""
    )


def test_terms_cost_their_share_of_the_price_on_demand() -> None:
    table = commitments_table(compare_cards(["h100-sxm"], CATALOG), CATALOG)
    row = table[(table["Provider"] == "DigitalOcean") & (table["Months"] == 12)]

    # 3.26 a month paid ahead against 4.41 on demand in the source: 0.739.
    demand = min(
        item.on_demand_usd_per_hour / item.accelerators
        for item in CATALOG.offers_for("h100-sxm")
        if item.provider == "DigitalOcean" and item.on_demand_usd_per_hour
    )
    assert row["One card (USD/h)"].item() == pytest.approx(demand * 0.739, abs=1e-4)
    assert commitments_table(compare_cards(["gtx-1650"], CATALOG), CATALOG).empty


def test_every_value_opens_to_its_source() -> None:
    found = compare_cards(["h100-sxm", "xeon-8268"], CATALOG)
    card = fact_sources_table(found, CATALOG, card=0).set_index("Fact")
    processor = fact_sources_table(found, CATALOG, card=1).set_index("Fact")

    shown = card.loc["Cheapest rent"]
    # Neither a lower price "from", nor a marketplace's: that one moves in days.
    assert shown["Source"].startswith("Vendor price pages")
    assert shown["Date"] == "2026-10-06"
    assert card.loc["Driver, at least"]["Where"].startswith("https://docs.nvidia.com/cuda/")
    assert processor.loc["Bandwidth"]["How sure"] == "recalled, not checked"
    assert processor.loc["Bandwidth"]["Value"] == "140.8 GB/s (?)"
    assert "fp8 rate" not in processor.index  # it has none


def offer(accelerator: str, provider: str, usd: float) -> Offer:
    real = CATALOG.offers_for(accelerator)[0]
    return real.model_copy(
        update={
            "key": f"{provider}/{accelerator}/x/y",
            "provider": provider,
            "accelerators": 1,
            "on_demand_usd_per_hour": usd,
        }
    )


def priced(*offers: Offer) -> Catalog:
    return CATALOG.model_copy(update={"offers": offers})


RENT = BY_TITLE["Rent of one card"]
PAIR = ("a100-sxm-80gb", "h100-sxm")


def test_a_difference_at_every_common_provider_is_real() -> None:
    # The ranges overlap (1.0 to 3.0 and 2.0 to 4.0), the differences are 1.0 at both.
    catalog = priced(
        offer(PAIR[0], "p", 1.0),
        offer(PAIR[0], "q", 3.0),
        offer(PAIR[1], "p", 2.0),
        offer(PAIR[1], "q", 4.0),
    )
    [verdict] = verdicts(RENT, PAIR, catalog)

    assert (verdict.close, verdict.common) == (False, 2)
    assert [(item.low, item.middle, item.high) for item in spreads(RENT, PAIR, catalog)] == [
        (1.0, 2.0, 3.0),
        (2.0, 3.0, 4.0),
    ]


@pytest.mark.parametrize(
    ("usd", "why"),
    [
        ((1.0, 3.0, 2.0, 2.5), "providers that rent both disagree (2 of them)"),
        ((1.0, 3.0, 1.0, 4.0), "providers that rent both disagree (2 of them)"),  # one is equal
    ],
)
def test_providers_that_disagree_are_too_close_to_call(
    usd: tuple[float, float, float, float], why: str
) -> None:
    catalog = priced(
        offer(PAIR[0], "p", usd[0]),
        offer(PAIR[0], "q", usd[1]),
        offer(PAIR[1], "p", usd[2]),
        offer(PAIR[1], "q", usd[3]),
    )
    found = verdicts(RENT, PAIR, catalog)

    assert found[0].close
    [sentence] = verdict_sentences(RENT, found)
    assert "too close to call" in sentence
    assert why in sentence


def test_without_common_providers_the_ranges_decide() -> None:
    meeting = priced(offer(PAIR[0], "p", 1.0), offer(PAIR[0], "q", 3.0), offer(PAIR[1], "r", 2.5))
    apart = priced(offer(PAIR[0], "p", 1.0), offer(PAIR[1], "r", 2.5))

    assert [item.close for item in verdicts(RENT, PAIR, meeting)] == [True]
    assert [item.close for item in verdicts(RENT, PAIR, apart)] == [False]


def test_specifications_are_points() -> None:
    keys = ("h100-sxm", "h200-sxm", "gtx-1650")
    memory = spreads(BY_TITLE["Memory"], keys, CATALOG)

    # 81,559 and 143,771 MiB as the driver shows.
    assert memory[0].middle == pytest.approx(81559 / 1024)
    assert memory[1].middle == pytest.approx(143771 / 1024)
    assert all(item.low == item.high and item.providers == 0 for item in memory)
    rate = verdicts(BY_TITLE["Dense 16-bit rate"], keys[:2], CATALOG)
    assert [item.close for item in rate] == [True]  # the same chip
    # A card without bf16 is compared by fp16, with fp32 sums: on TU117 the rate of fp32.
    slow = spreads(BY_TITLE["Dense 16-bit rate"], ["gtx-1650"], CATALOG)
    assert slow[0].middle == 3.0


def test_figures_are_written_as_people_read_them() -> None:
    rents = priced(offer(PAIR[0], "p", 1.0), offer(PAIR[0], "q", 12.3), offer(PAIR[1], "p", 0.29))

    assert list(spread_frame(RENT, PAIR, rents)["label"]) == ["6.65 (1.00 to 12.30)", "0.29"]
    power = spread_frame(BY_TITLE["Bandwidth"], ["h100-sxm", "gtx-1650"], CATALOG)
    assert list(power["label"]) == ["3,350", "128.1"]


def test_what_nobody_rents_has_no_rent() -> None:
    assert spreads(RENT, ["gtx-1650"], CATALOG) == ()
    assert spread_frame(RENT, ["gtx-1650"], CATALOG).empty


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.title)
def test_every_chart_starts_at_zero_and_speaks(metric, theme) -> None:
    frame = spread_frame(metric, PAIR, CATALOG)
    if frame.empty:
        pytest.skip("not known of these")
    chart = spread_chart(frame, title=metric.title, unit=metric.unit, theme=theme)

    assert chart.layout.xaxis.range[0] == 0
    assert chart.layout.xaxis.range[1] > frame["high"].max()
    words = spread_alt(frame, title=metric.title, unit=metric.unit)
    assert "NVIDIA H100 SXM5 80GB" in words
    assert "linear from 0" in words
