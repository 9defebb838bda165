"""The driver's answers, from a recorded card; and what is said where it has none."""

from typing import Any, cast

import pytest

from advisor.errors import ProbeError
from advisor.probe.devices.nvml import Nvml
from advisor.probe.measuring.run import warnings_of
from tests.probe.fakes import DriverNotLoadedError, FakeNvml, LibraryNotFoundError, NVMLError, h200


def driver(**told: Any) -> Nvml:
    return Nvml.of(cast(Any, FakeNvml(**told)))


def test_a_card_is_described() -> None:
    [card] = driver().devices()

    assert card.name == "NVIDIA H200"
    assert card.driver == "570.133.20"
    assert card.memory_bytes == 143_771 * 2**20
    assert card.compute_capability == "9.0"
    assert card.power_limit_w == 700
    assert (card.pcie_generation, card.pcie_lanes) == (5, 16)
    assert card.mig_slices == ()
    assert card.condition.temperature_c == 31
    assert card.condition.clock_hz == 1.98e9
    assert card.condition.power_w == 76.5
    assert card.condition.throttling == ()  # idle holds nothing down


def test_links_lead_to_cards_and_through_a_switch_to_the_card_itself() -> None:
    first, second = driver(count=2).devices()

    assert first.nvlink_peers == (0, 1)
    assert second.nvlink_peers == (0, 1)


def test_slices_are_named() -> None:
    names = ("NVIDIA H200 MIG 3g.71gb", "NVIDIA H200 MIG 4g.71gb")
    [card] = driver(slices=names).devices()

    assert card.mig_slices == names
    assert "divided into 2 MIG slices" in " ".join(warnings_of(card))


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"fails": LibraryNotFoundError()}, "no NVIDIA driver was found"),
        ({"fails": DriverNotLoadedError()}, "installed but not loaded"),
        ({"fails": NVMLError("Unknown Error")}, "does not answer: Unknown Error"),
        ({"count": 0}, "runs but has no device"),
    ],
)
def test_a_missing_driver_or_device_is_a_sentence(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProbeError, match=sentence):
        driver(**told)


def test_a_hot_card_and_a_busy_card_are_told() -> None:
    [hot] = driver(celsius=91, reasons=0x40).devices()
    [busy] = driver(load=97).devices()

    assert hot.condition.throttling == ("hardware thermal slowdown",)
    assert any("hot (91 °C)" in text for text in warnings_of(hot))
    assert any("busy: 97 %" in text for text in warnings_of(busy))
    assert warnings_of(h200()) == []
