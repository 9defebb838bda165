"""Rent or buy on a terminal."""

from __future__ import annotations

import re
from io import StringIO

import advisor
from advisor.terminal.console import new_console
from advisor.terminal.ownership import show_ownership
from tests.cases import tune


def shown(*, everything: bool) -> str:
    found = advisor.own(
        tune(
            "llama-3.1-8b",
            "rtx-4090",
            1,
            method="qlora",
            owning={"purchase_usd": 1600, "budget_usd": 6000},
            renting={"usd_per_hour": 0.5},
        )
    )
    text = StringIO()
    show_ownership(new_console(text, width=80), found, everything=everything)
    assert " ".join(text.getvalue().split()).startswith(found.answer)
    assert found.budget is not None
    assert found.budget.sentence in " ".join(text.getvalue().split())
    return text.getvalue()


def test_it_fits_eighty_columns_and_names_its_data() -> None:
    text = shown(everything=False)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "1,600.00" in text
    assert "CC-BY-4.0" in text
    # A unit stands beside the name, not beside each figure.
    text = shown(everything=True)
    effects = text.partition("What matters most")[2]
    assert re.search(r"Rest of one machine, at least, USD +\d{3}: \+\$", effects)


def test_explained_it_shows_every_input_with_its_source() -> None:
    text = " ".join(shown(everything=True).split())
    assert "arXiv:2506.14551" in text
    assert "Price of one accelerator: $1,600 source given" in text
    assert "accelerators x price" in text


def test_the_bill_says_of_when_the_price_of_the_cards_is() -> None:
    assert "Accelerators, given" in shown(everything=False)
    text = StringIO()
    found = advisor.own(tune("llama-3.1-8b", "rtx-4080", 1, method="qlora"))
    show_ownership(new_console(text, width=80), found, everything=False)
    assert "Accelerators, launch price of 2022" in text.getvalue()
