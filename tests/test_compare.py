"""Cards side by side: the cheapest believable offer and what a dollar buys."""

import pytest

from advisor.catalog import Catalog, load_catalog
from advisor.compare.cards import MAX_CARDS, compare_cards, comparison_rows
from advisor.errors import InputError
from advisor.nouns.hardware import Offer


def offer(provider: str, accelerators: int, usd_per_hour: float | None) -> Offer:
    real = load_catalog().offers_for("h100-sxm")[0]
    return real.model_copy(
        update={
            "key": f"{provider}/x/y/z",
            "provider": provider,
            "accelerators": accelerators,
            "on_demand_usd_per_hour": usd_per_hour,
            "spot_usd_per_hour": 0.5,
        }
    )


def catalog(*offers: Offer) -> Catalog:
    full = load_catalog()
    return Catalog(
        accelerators=(full.accelerator("a10"), full.accelerator("h100-sxm")),
        offers=(full.offers_for("a10")[0], *offers),
        sources={},
        excluded={},
    )


def test_the_cheapest_per_card_on_demand_wins() -> None:
    # The whole instance of b costs more, one of its cards less; c is only sold as spot.
    offers = (offer("a", 1, 3.0), offer("b", 8, 20.0), offer("c", 1, None))

    [card] = compare_cards(["h100-sxm"], catalog(*offers)).cards

    assert card.offer == offers[1]
    assert card.usd_per_hour == 2.5
    # 3.35 TB/s and 989.4 TFLOPS (datasheet) for 2.50 USD/h
    assert card.bytes_per_s_per_usd_per_hour == pytest.approx(1.34e12)
    assert card.flops_per_s_per_usd_per_hour == pytest.approx(395.76e12)


def test_an_offer_too_cheap_to_be_believed_is_named_not_used() -> None:
    offers = (offer("a", 1, 3.0), offer("b", 1, 3.2), offer("c", 1, 3.4), offer("d", 1, 0.1))

    comparison = compare_cards(["h100-sxm"], catalog(*offers))

    assert comparison.cards[0].usd_per_hour == 3.0
    assert comparison.doubtful_offers == ("d/x/y/z",)


def test_a_card_that_nobody_rents_has_no_rent() -> None:
    [card] = compare_cards(["H100-SXM"], catalog()).cards

    assert card.offer is None
    assert card.usd_per_hour is None
    assert card.bytes_per_s_per_usd_per_hour is None


def test_a_card_stands_once() -> None:
    with pytest.raises(InputError, match="got 'h100-sxm twice'"):
        compare_cards(["h100-sxm", "NVIDIA H100 SXM5 80GB"], load_catalog())


def test_too_many_cards_are_refused() -> None:
    keys = [item.key for item in load_catalog().accelerators[: MAX_CARDS + 1]]

    with pytest.raises(InputError, match="got '13 cards'; allowed: 1 to 12 different cards"):
        compare_cards(keys, load_catalog())


def test_rates_with_fp16_sums_stand_apart() -> None:
    rows = comparison_rows(compare_cards(["rtx-4090", "h100-sxm"], load_catalog()))
    values = {row.title: row.values for row in rows}

    # Ada whitepaper: 165.2 dense with fp32 accumulation, 330.3 with fp16. H100 has one rate.
    assert values["fp16 rate"] == ("165.2 TFLOPS", "989.4 TFLOPS")
    assert values["fp16 rate, fp16 accumulation"] == ("330.3 TFLOPS", "989.4 TFLOPS")
    alone = comparison_rows(compare_cards(["h100-sxm"], load_catalog()))
    assert not any("sums" in row.title for row in alone)


def test_recalled_values_are_marked_and_others_are_not() -> None:
    [row] = [
        row
        for row in comparison_rows(compare_cards(["xeon-8268", "gtx-1650"], load_catalog()))
        if row.title == "Bandwidth"
    ]

    assert row.values == ("140.8 GB/s (?)", "128.1 GB/s")
