"""Driver, CUDA and PyTorch by compute capability."""

import pytest

from advisor.catalog import load_catalog
from advisor.nouns.hardware import Confidence

CATALOG = load_catalog()


def test_every_nvidia_card_has_its_software() -> None:
    cards = [item for item in CATALOG.accelerators if item.vendor == "NVIDIA"]
    cards = [item for item in cards if item.compute_capability]
    assert len(cards) >= 100

    missing = {item.compute_capability for item in cards if CATALOG.software_for(item) is None}
    assert missing == {"10.7"} & missing


# CUDA 13.2 release notes, table 3: driver of the toolkit on Linux x86_64.
@pytest.mark.parametrize(
    ("key", "cuda", "driver", "pytorch"),
    [
        ("gtx-1650", "10.0", "410.48", "1.0"),
        ("v100-sxm2-16gb", "9.0", "384.81", "1.0"),
        ("a100-sxm-80gb", "11.0", "450.51.05", "1.7"),
        ("rtx-3060-12gb", "11.1", "455.23", "1.8"),
        ("rtx-4090", "11.8", "520.61.05", "2.0"),
        ("h100-sxm", "11.8", "520.61.05", "2.0"),
        ("b200-sxm", "12.8", "570.26", "2.7"),
        ("rtx-5090", "12.8", "570.26", "2.7"),
    ],
)
def test_known_minimums(key: str, cuda: str, driver: str, pytorch: str) -> None:
    found = CATALOG.software_for(CATALOG.accelerator(key))

    assert found is not None
    assert (found.cuda, found.driver, found.pytorch) == (cuda, driver, pytorch)


def test_generations_that_cuda_13_left_out() -> None:
    """Maxwell, Pascal and Volta ended with 12.x (CUDA 13.0 release notes), Kepler with 11.x."""
    last = {name: item.last_cuda for name, item in CATALOG.software.items() if item.last_cuda}

    assert last == {"3.7": "11.8", "5.2": "12.9", "6.0": "12.9", "6.1": "12.9", "7.0": "12.9"}


def test_recalled_values_are_marked() -> None:
    found = CATALOG.software["8.7"]

    assert found.source_of("driver").confidence is Confidence.MEMORY
    assert CATALOG.software["12.0"].source_of("driver").confidence is Confidence.SECONDARY


def test_other_vendors_have_none() -> None:
    assert CATALOG.software_for(CATALOG.accelerator("mi300x")) is None
    assert CATALOG.software_for(CATALOG.accelerator("xeon-8268")) is None


def test_cards_that_the_questions_name() -> None:
    """GPU against CPU, and classic picks: what people ask about is in the catalog."""
    for key in (
        "a100-sxm-40gb",
        "core-i5-9400",
        "gtx-1650",
        "rtx-3060-12gb",
        "rtx-4060-ti-16gb",
        "t4",
        "v100-sxm2-16gb",
        "xeon-8268",
    ):
        assert CATALOG.accelerator(key).key == key
    # 24-core Xeon: six channels of DDR4-2933 carry 6 x 8 B x 2.933 GT/s.
    assert CATALOG.accelerator("xeon-8268").memory_bandwidth_bytes_per_s == 140.8e9
    assert CATALOG.accelerator("xeon-8268").architecture == "Cascade Lake-SP"
