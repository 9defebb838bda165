"""Finding things in the catalog, and loading it."""

import os
import shutil
from pathlib import Path

import pytest

from advisor.catalog import Catalog, load_catalog
from advisor.catalog.loader import load_snapshot
from advisor.errors import InputError
from docs.writers.prices_page import prices_page

CATALOG = load_catalog()


@pytest.mark.parametrize("name", ["h100-sxm", "H100-SXM", " h100-sxm ", "nvidia h100 sxm5 80gb"])
def test_keys_and_whole_names_are_found(name: str) -> None:
    assert CATALOG.accelerator(name).key == "h100-sxm"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("rx 7900xtx", "rx-7900-xtx"),
        ("Gaudi 3", "gaudi3"),
        ("nvidia geforce rtx-3060 12 GB", "rtx-3060-12gb"),
    ],
)
def test_blanks_and_hyphens_do_not_count(name: str, key: str) -> None:
    assert CATALOG.accelerator(name).key == key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("4090", "rtx-4090"),
        ("4090 48 GB", "rtx-4090-48gb"),
        ("RTX 3060", "rtx-3060-12gb"),
        ("3060 Ti", "rtx-3060-ti"),
        ("RTX 3060 Laptop", "rtx-3060-laptop"),
        ("m4 max", "apple-m4-max"),
        ("M4", "apple-m4"),
        ("Mac mini M4 16 GB", "apple-m4-16gb"),
        ("MacBook Pro M4 Pro 24GB", "apple-m4-pro-24gb"),
        ("M4 32GB", "apple-m4"),
        ("RTX 4090 24GB", "rtx-4090"),
        ("7900 XTX", "rx-7900-xtx"),
        ("B580", "arc-b580"),
        ("v5e", "tpu-v5e"),
        ("A100 40GB PCIe", "a100-pcie-40gb"),
        ("h100-sxm-80gb", "h100-sxm"),
        ("strix halo", "ryzen-ai-max-395"),
        ("Orin Nano", "jetson-orin-nano-super"),
    ],
)
def test_a_part_of_a_name_is_enough_where_it_means_one_card(name: str, key: str) -> None:
    assert CATALOG.accelerator(name).key == key


def test_no_two_cards_differ_in_blanks_alone() -> None:
    keys = [item.key.replace("-", "") for item in CATALOG.accelerators]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("h100", {"h100-nvl", "h100-pcie", "h100-sxm"}),
        ("mi300", {"mi300a", "mi300x"}),
        ("a100 80gb", {"a100-pcie-80gb", "a100-sxm-80gb"}),
        ("4060 ti", {"rtx-4060-ti-8gb", "rtx-4060-ti-16gb"}),
        ("48gb", {"rtx-4090-48gb"}),
        ("5", set[str]()),
    ],
)
def test_a_part_of_several_names_is_not_replaced_but_helped(name: str, nearest: set[str]) -> None:
    with pytest.raises(InputError) as caught:
        CATALOG.accelerator(name)

    assert caught.value.value == name
    assert caught.value.field == "hardware.accelerator"
    assert nearest <= set(caught.value.allowed.partition("nearest: ")[2].split(", "))


def test_nothing_near_is_offered_for_nonsense() -> None:
    with pytest.raises(InputError, match="unknown accelerator") as caught:
        CATALOG.accelerator("zzzzzzzz")

    assert "nearest" not in caught.value.allowed


def test_excluded_accelerators_say_why() -> None:
    with pytest.raises(InputError, match="left out: no dense rate"):
        CATALOG.accelerator("cerebras-wse3")


def test_offers_of_one_accelerator() -> None:
    offers = CATALOG.offers_for("gb200")

    assert {offer.provider for offer in offers} == {"AWS", "Azure", "CoreWeave", "OCI"}
    assert {offer.accelerator for offer in offers} == {"gb200"}
    assert CATALOG.offers_for("k80") == ()
    with pytest.raises(InputError):
        CATALOG.offers_for("gb2000")


def test_json_holds_everything() -> None:
    assert Catalog.model_validate_json(CATALOG.to_json()) == CATALOG


def test_unchanged_files_are_read_once(tmp_path: Path, root: Path) -> None:
    for name in ("gpu_catalog.yaml", "cloud_offers.csv"):
        shutil.copy(root / "data" / name, tmp_path / name)
    first = load_catalog(tmp_path)

    assert load_catalog(tmp_path) is first
    offers = tmp_path / "cloud_offers.csv"
    lines = offers.read_text(encoding="utf-8").splitlines(keepends=True)
    offers.write_text("".join(lines[:-1]), encoding="utf-8")
    stamp = offers.stat().st_mtime_ns + 1_000_000
    os.utime(offers, ns=(stamp, stamp))
    assert len(load_catalog(tmp_path).offers) == len(first.offers) - 1


def test_a_directory_is_read_like_the_shipped_data(root: Path) -> None:
    assert load_catalog(root / "data") == CATALOG


def test_a_changed_copy_forgets_what_the_whole_catalog_looked_up() -> None:
    whole = load_catalog()
    assert whole.offers_for("h100-sxm")
    copied = whole.model_copy(update={"offers": whole.offers[:1]})
    assert sum(len(copied.offers_for(item.key)) for item in copied.accelerators) == 1


def test_the_page_of_prices_counts_offers_and_spot_prices() -> None:
    assert "| AWS | 312 | 193 |" in prices_page(load_snapshot())
