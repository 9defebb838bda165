"""Input pipeline of networks that take images."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.catalog import load_catalog
from advisor.catalog.nodes import node_for
from advisor.errors import InputError
from advisor.nouns.limits import Constraints
from advisor.planning.search.systems import find_systems

# Pillow: 551 images decoded and 2,961 / 8 cropped a second by one core, 221 in all.
PILLOW = 1 / (1 / 551 + 8 / 2961)
CARDS = {"accelerator": "h100-sxm", "count": 8}


def estimate(card: dict[str, Any] = CARDS, **work: Any) -> advisor.Estimate:
    workload = {
        "kind": "pretraining",
        "samples": 1e7,
        "global_batch": 2048,
        "precision": "bf16_amp",
    }
    case = {
        "model": {"preset": "resnet-50"},
        "workload": workload | work,
        "hardware": card,
        "layout": {"data": card["count"], "micro_batch": 2048 // card["count"]},
    }
    return advisor.estimate(advisor.load_case(case))


def images_per_s(found: advisor.Estimate) -> float:
    assert found.time is not None
    return 2048 / found.time.step_s.expected


def test_the_step_takes_no_less_than_the_host_takes_to_decode_its_images() -> None:
    found = estimate(loader_workers=8)
    assert found.time is not None

    # Eight workers for each of eight cards.
    assert images_per_s(found) == pytest.approx(64 * PILLOW)
    assert found.time.bound_by == "input"
    total = sum(item.value for item in found.time.terms)
    assert total == pytest.approx(found.time.step_s.expected)
    assert any("221 a second" in text for text in found.assumptions)


def test_cores_are_half_of_the_threads_that_the_median_offer_has() -> None:
    # 16 vCPUs for each accelerator: 8 cores.
    assert images_per_s(estimate()) == pytest.approx(images_per_s(estimate(loader_workers=8)))
    assert any("8 host cores for each accelerator, assumed" in t for t in estimate().assumptions)


@pytest.mark.parametrize(
    ("work", "rate"),
    [
        ({"worker_images_per_s": 50, "loader_workers": 4}, 8 * 4 * 50),
        # 1 GB/s of storage: 115,440 bytes an image (147.9 GB of 1,281,167 images), one machine.
        ({"storage_bytes_per_s": 1e9}, 1e9 / (147_897_477_120 / 1_281_167)),
        # Crops of 852 pixels come from images four times as large as ImageNet's mean.
        (
            {"image_size": 852, "loader_workers": 1, "data_loading": "turbo"},
            8 / ((1 / 690 + 8 / 5056) * 852**2 / (469 * 387)),
        ),
    ],
)
def test_workers_their_rate_and_storage_are_what_the_user_says(
    work: dict[str, Any], rate: float
) -> None:
    assert images_per_s(estimate(**work)) == pytest.approx(rate)


def test_decoded_images_wait_for_nothing_and_a_slow_card_hides_the_decoding() -> None:
    slow = {"accelerator": "t4", "count": 1}
    cached = estimate(data_loading="cached")
    hidden = estimate(slow, precision="fp16_amp")
    assert cached.time is not None
    assert hidden.time is not None

    assert "input" not in {term.name for term in (*cached.time.terms, *hidden.time.terms)}
    assert images_per_s(hidden) == images_per_s(
        estimate(slow, precision="fp16_amp", data_loading="cached")
    )


def test_an_offer_brings_its_own_threads() -> None:
    catalog = load_catalog()
    offer = next(item for item in catalog.offers if item.instance_type == "g4dn.8xlarge")

    assert node_for(catalog.accelerator(offer.accelerator), offer).host_cores == 16  # 32 vCPUs


def test_only_searches_that_decode_part_machines_by_their_threads() -> None:
    catalog, limits = load_catalog(), Constraints(accelerators=("l40s",))
    whole = find_systems(catalog, limits, training=True)
    parted = find_systems(catalog, limits, training=True, decoding=True)

    assert all(item.node.host_vcpus is None for item in whole)
    assert {offer.vcpus for item in parted for offer in item.offers} == {
        item.node.host_vcpus for item in parted
    }


@pytest.mark.parametrize("preset", ["llama-3.1-8b", "sd-1.5-unet"])
def test_what_decodes_no_images_refuses_a_loader(preset: str) -> None:
    work = {"kind": "pretraining", "samples": 1e6, "loader_workers": 8}
    with pytest.raises(InputError, match="decodes no images"):
        advisor.estimate(
            advisor.load_case({"model": {"preset": preset}, "workload": work, "hardware": CARDS})
        )
