"""Offers and cards of one's own, uploaded for a session: honoured by all pages, by nobody else."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.seen import seen
from tests.ui.test_one_case import ROOT, opened, text

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_models")]

OFFERS = (
    b"provider,instance_type,accelerator,accelerators,on_demand_per_hour\n"
    b"Acme Metal,one-4090,rtx-4090,1,0.25\n"
)
CARD = b"""\
accelerators:
  our-card:
    name: Our Card 96 GB
    vendor: NVIDIA
    memory_gb: 96
    memory_bandwidth_gb_per_s: 4000
    dense_tflops: {bf16: 500, fp16: 500}
"""


def with_files(name: str, *files: tuple[str, bytes]) -> AppTest:
    path = ROOT / "advisor" / "ui" / "pages" / f"{name}.py"
    page = AppTest.from_file(str(path), default_timeout=120)
    page.session_state["own_catalog"] = files
    page.run()
    assert not page.exception
    assert not page.error
    return page


def test_an_uploaded_offer_is_read_back_and_wins() -> None:
    page = opened("catalog", {})
    page.file_uploader[0].upload("quotes.csv", OFFERS).run()

    assert not page.error
    assert "Yours, in this session: quotes.csv: 1 offer of Acme Metal." in text(page)
    assert "Acme Metal" in text(with_files("advisor", ("quotes.csv", OFFERS)))
    assert "With your own offers and cards: quotes.csv" in text(
        with_files("fits", ("quotes.csv", OFFERS))
    )
    assert "Acme Metal" not in text(opened("advisor", {}))


def test_a_card_of_ones_own_can_be_chosen_until_it_is_removed() -> None:
    page = with_files("catalog", ("cards.yaml", CARD))
    box = page.selectbox(key="catalog_card_1")
    assert any("Our Card" in title for title in box.options)
    page.button(key="catalog_forget").click().run()

    assert not page.exception
    assert not any("Our Card" in title for title in page.selectbox(key="catalog_card_1").options)
    assert not any(
        "Our Card 96 GB" in title
        for title in opened("catalog", {}).selectbox(key="catalog_card_1").options
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("quotes.csv", OFFERS.replace(b"rtx-4090", b"rtx-9999"), "rtx-9999"),
        ("quotes.csv", OFFERS.replace(b"0.25", b"-1"), "line 2, on_demand_per_hour"),
        ("cards.yaml", CARD.replace(b"our-card", b"rtx-4090"), "exists already"),
        ("cards.yaml", b"x" * 1_000_001, "too large"),
    ],
)
def test_a_wrong_file_is_refused_and_changes_nothing(name: str, content: bytes, said: str) -> None:
    page = opened("catalog", {})
    page.file_uploader[0].upload(name, content).run()

    assert not page.exception
    assert said in seen(page.error[0].value)
    assert "own_catalog" not in page.session_state or not page.session_state["own_catalog"]


def test_no_more_than_three_files_are_held() -> None:
    held = [(f"{place}.csv", OFFERS.replace(b"one", b"n%d" % place)) for place in range(3)]
    page = with_files("catalog", *held)
    page.file_uploader[0].upload("3.csv", OFFERS).run()

    assert "up to 3" in page.error[0].value
