"""Cards of different kinds in one computer."""

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.nodes import node_for
from advisor.errors import InputError
from advisor.foundation.units import GIB
from advisor.nouns.hardware import UnlikeCards


def test_the_fastest_card_comes_first_and_a_kind_may_be_there_twice() -> None:
    card = load_catalog().accelerator("RTX-3060-12GB+rtx-3090+rtx-3060-12gb")
    assert isinstance(card, UnlikeCards)
    assert card.key == "rtx-3090+rtx-3060-12gb+rtx-3060-12gb"
    assert [part.key for part in card.parts] == ["rtx-3090", "rtx-3060-12gb", "rtx-3060-12gb"]
    # 24 + 12 + 12 GiB as the driver shows them, less half a GiB for each further card.
    assert card.memory_reported_bytes == pytest.approx(47 * GIB)
    # 350, 170 and 170 W on the data sheets.
    assert card.board_power_w == 690
    # Full cards in turn: 24 GiB at 936.2 GB/s, then 24 GiB at 360 GB/s.
    assert card.memory_bandwidth_bytes_per_s == pytest.approx(520.0e9, rel=1e-3)


def test_unlike_cards_share_the_formats_of_the_oldest() -> None:
    card = load_catalog().accelerator("rtx-4090+p40")
    assert card.architecture == "Pascal"
    assert "fp8" not in card.peak_flops_per_s


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("rtx-3090+rtx-3090", "--count 2"),
        ("rtx-3090+rx-7900-xtx", "several vendors"),
        ("rtx-3090+jetson-agx-orin-64gb", "no other card beside it"),
        # No computer takes a module for a server's board or a laptop's chip beside a card.
        ("rtx-4090+h100-sxm", "no other card beside it"),
        ("rtx-4090+rtx-4060-laptop", "no other card beside it"),
        ("a100-sxm-40gb-mig-1g-5gb+rtx-3090", "no other card beside it"),
        ("+".join(["rtx-3090"] * 8 + ["rtx-4090"]), "too many cards"),
        ("rtx-3090+rtx-9999", "unknown accelerator"),
        ("rtx-3090++rtx-4090", r"missing beside \+: got 'rtx-3090\+\+rtx-4090'"),
        ("+", "missing beside"),
    ],
)
def test_what_cannot_work_together_is_refused(key: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        load_catalog().accelerator(key)


def test_a_laptop_is_one_computer_with_one_card() -> None:
    card = load_catalog().accelerator("rtx-4090-laptop")
    assert node_for(card).accelerators == 1
    assert node_for(card).host_memory_bytes == 32e9
    # 576 GB/s; TGP 80 to 150 W, and 120 W with 1,695 MHz in TechPowerUp's entry.
    assert (card.memory_bandwidth_bytes_per_s, card.board_power_w) == (576e9, 120)
    assert "80 to 150 W" in card.notes
