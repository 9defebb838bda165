"""Machines: what is stated, what is assumed."""

import pytest

from advisor.catalog import load_catalog, node_for
from advisor.nouns.hardware import Node

CATALOG = load_catalog()


def offered(key: str) -> Node:
    [offer] = [item for item in CATALOG.offers if item.key == key]
    return node_for(CATALOG.accelerator(offer.accelerator), offer)


def standard(key: str) -> Node:
    return node_for(CATALOG.accelerator(key))


def test_an_hgx_instance() -> None:
    node = offered("aws/p5-48xlarge/us-east-1/on-demand-list")

    assert node.accelerators == node.intra_domain == 8
    assert node.intra_bytes_per_s == 450e9
    assert node.inter_bytes_per_s == 50e9  # 3200 Gbit/s over eight
    assert node.pcie_bytes_per_s == 63e9
    assert node.assumptions == ()


def test_half_of_a_switched_node() -> None:
    node = offered("gcp/a2-highgpu-4g/us-central1/on-demand-list")

    assert (node.accelerators, node.intra_domain) == (4, 4)
    assert node.intra_bytes_per_s == 300e9
    assert node.inter_bytes_per_s == pytest.approx(50e9 / 8 / 4)


def test_sixteen_on_one_switch() -> None:
    node = offered("gcp/a2-megagpu-16g/us-central1/on-demand-list")

    assert (node.accelerators, node.intra_domain) == (16, 16)


def test_cards_without_links_meet_over_pcie() -> None:
    node = offered("aws/g6-48xlarge/us-east-1/on-demand-list")

    assert (node.accelerators, node.intra_domain) == (8, 1)
    assert node.intra_bytes_per_s == node.pcie_bytes_per_s == 31.5e9


def test_bridges_join_two() -> None:
    node = offered("azure/standard-nc96ads-a100-v4/eastus/on-demand-list")

    assert (node.accelerators, node.intra_domain) == (4, 2)
    assert node.intra_bytes_per_s == 300e9
    assert node.inter_bytes_per_s is None
    assert "no network" in " ".join(node.assumptions)


def test_cards_with_bridges_sold_without_them() -> None:
    node = offered("hyperstack/n3-a100x8/canada-1/on-demand-list")

    assert node.intra_domain == 1
    assert node.intra_bytes_per_s == 31.5e9


def test_a_single_accelerator_has_no_domain() -> None:
    node = offered("gcp/a3-highgpu-1g/us-central1/on-demand-list")

    assert (node.accelerators, node.intra_domain) == (1, 1)


def test_a_rack_reaches_beyond_its_trays() -> None:
    node = offered("coreweave/gb200-nvl72-4-gpu-node/north-america/on-demand-list")

    assert (node.accelerators, node.intra_domain) == (4, 72)
    assert node.intra_bytes_per_s == 900e9
    assert node.inter_bytes_per_s == 50e9
    assert "72 accelerators across machines" in node.assumptions[0]


def test_a_tpu_slice_reaches_beyond_its_host() -> None:
    node = offered("gcp/tpu-v6e-x8-chip/us-east1/on-demand-list")

    assert (node.accelerators, node.intra_domain) == (8, 256)
    assert node.intra_bytes_per_s == 400e9
    assert node.inter_bytes_per_s is None


def test_a_mesh_says_what_a_pair_gets() -> None:
    node = offered("azure/standard-nd96isr-mi300x-v5/eastus2/on-demand-list")

    assert node.intra_bytes_per_s == 448e9
    assert "a group of two gets 1/7" in node.assumptions[0]


def test_small_networks_stay_small() -> None:
    node = offered("hetzner/gex44-monthly-184-eur/fsn1/on-demand-list")

    assert node.inter_bytes_per_s == 1e9 / 8


def test_an_offer_of_another_accelerator_is_refused() -> None:
    offer = CATALOG.offers_for("a10")[0]

    with pytest.raises(ValueError, match="is for a10, not for t4"):
        node_for(CATALOG.accelerator("t4"), offer)


@pytest.mark.parametrize(
    ("key", "accelerators", "domain", "intra_gb_per_s", "network_gbit_per_s", "pcie_gb_per_s"),
    [
        # DGX A100: 8 x 200 Gbit/s; DGX H100 and B200: 8 x 400 Gbit/s.
        ("a100-sxm-80gb", 8, 8, 300, 200, 31.5),
        ("h100-sxm", 8, 8, 450, 400, 63),
        ("b200-sxm", 8, 8, 900, 400, 63),
        ("mi300x", 8, 8, 448, 400, 63),
        ("gb200", 4, 72, 900, 400, 63),
        ("gh200-96gb", 1, 1, 63, 400, 63),
        ("v100-sxm2-32gb", 8, 8, 150, 100, 15.75),
        ("h100-nvl", 4, 2, 300, 100, 63),
        ("l40s", 4, 1, 31.5, 100, 31.5),
        ("rtx-6000-ada", 4, 1, 31.5, None, 31.5),
        ("rtx-a6000", 4, 2, 56.25, None, 31.5),
        # A desktop's NVLink bridge is bought apart: two cards talk over PCIe 4.0 x16.
        ("rtx-3090", 2, 1, 31.5, None, 31.5),
        ("rtx-5090", 2, 1, 63, None, 63),
        ("arc-b580", 2, 1, 15.75, None, 15.75),
        ("dgx-spark-gb10", 1, 2, 25, None, 273),
        ("apple-m2-ultra", 1, 1, 800, None, 800),
        ("epyc-9654", 1, 1, 460.8, 100, 460.8),
        ("core-i9-14900k", 1, 1, 89.6, None, 89.6),
        ("tpu-v5p", 4, 8960, 600, None, 15.75),
        ("trainium2", 16, 16, 640, 400, 63),
        ("mi250x", 8, 8, 175, 200, 31.5),
    ],
)
def test_standard_machines(
    key: str,
    accelerators: int,
    domain: int,
    intra_gb_per_s: float,
    network_gbit_per_s: float | None,
    pcie_gb_per_s: float,
) -> None:
    node = standard(key)

    assert (node.accelerators, node.intra_domain) == (accelerators, domain)
    assert node.intra_bytes_per_s == pytest.approx(intra_gb_per_s * 1e9)
    network = network_gbit_per_s and pytest.approx(network_gbit_per_s * 1e9 / 8)
    assert node.inter_bytes_per_s == network
    assert node.pcie_bytes_per_s == pytest.approx(pcie_gb_per_s * 1e9)
    assert any(line.startswith("Machine: ") for line in node.assumptions)


def test_every_offer_and_accelerator_has_a_machine() -> None:
    for accelerator in CATALOG.accelerators:
        assert standard(accelerator.key).accelerators in {1, 2, 4, 8, 12, 16}
    for offer in CATALOG.offers:
        node = node_for(CATALOG.accelerator(offer.accelerator), offer)
        assert node.accelerators == offer.accelerators
        assert (node.inter_bytes_per_s is None) == (offer.inter_node_bytes_per_s is None)
