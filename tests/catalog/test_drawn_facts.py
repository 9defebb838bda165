"""Facts drawn by seed, restated here from the sources that the data files cite."""

from __future__ import annotations

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.economy import load_economy, with_commitments
from advisor.nouns.hardware import Offer
from advisor.nouns.limits import Constraints
from advisor.nouns.software.quality import quality_losses
from advisor.planning.search.systems import allowed_offers

# USD an hour of the whole instance, as the generated price lists state it:
# karpenter-provider-aws@1d92708 (2026-07-20), zz_generated.pricing_aws.go;
# karpenter-provider-azure@352646f (2026-06-18), zz_generated.pricing.go;
# karpenter-provider-gcp@417f047 (2026-08-06), initial-prices.json, spot;
# skypilot-catalog: hyperstack/vms.csv @fdc9d90, ovhcloud @8a258f5, shadeform @002363d.
PRICES = [
    ("AWS", "g4dn.metal", "us-east-1", 7.824),
    ("AWS", "p3dn.24xlarge", "us-east-1", 31.212),
    ("AWS", "p5.4xlarge", "us-east-1", 6.88),
    ("AWS", "g7.2xlarge", "us-east-1", 2.52),
    ("AWS", "g5.12xlarge", "us-east-1", 5.672),
    ("AWS", "g7.24xlarge", "us-east-1", 14.25664),
    ("AWS", "g5.4xlarge", "us-east-1", 1.624),
    ("Azure", "Standard_NC8as_T4_v3", "southcentralus", 0.902),
    ("AWS", "g6e.24xlarge", "us-east-1", 15.06559),
    ("Azure", "Standard_NC64as_T4_v3", "eastus2", 4.352),
    ("Azure", "Standard_NC96ads_A100_v4", "eastus2", 14.692),
    ("Azure", "Standard_NC4as_T4_v3", "germanywestcentral", 0.658),
    ("Azure", "Standard_ND128isr_NDR_GB200_v6", "eastus2", 108.16),
    ("Azure", "Standard_NC40ads_H100_v5", "australiaeast", 10.121),
    ("Azure", "Standard_NC144ds_xl_RTXPRO6000BSE_v6", "westus2", 5.5),
    ("Azure", "Standard_NC288ds_xl_RTXPRO6000BSE_v6", "southeastasia", 15.4),
    ("Azure", "Standard_ND128isr_NDR_GB200_v6", "westus2", 108.16),
    ("Azure", "Standard_NC48ads_A100_v4", "westus2", 7.346),
    ("Azure", "Standard_NC24ads_A100_v4", "germanywestcentral", 4.775),
    ("GCP", "a3-highgpu-2g", "europe-north1", 2.55136915068493),
    ("GCP", "g2-standard-12", "europe-west2", 0.68344),
    ("GCP", "a3-highgpu-4g", "us-east4", 18.1604183013699),
    ("GCP", "a3-highgpu-2g", "europe-west3", 10.7037211506849),
    ("GCP", "g4-standard-384", "europe-west2", 17.28144),
    ("GCP", "a2-highgpu-8g", "us-west4", 14.53468),
    ("GCP", "g4-standard-192", "asia-south1", 9.3588),
    ("GCP", "g4-standard-48", "us-east4", 1.79982),
    ("GCP", "a3-highgpu-1g", "europe-west1", 4.7583),
    ("GCP", "c3d-standard-360", "europe-west4", 8.97984),
    ("Azure", "Standard_ND40rs_v2", "westeurope", 27.526),
    ("Hyperstack", "n3-RTX-A4000x1", "NORWAY-1", 0.15),
    ("Hyperstack", "n3-A100x8-NVLink", "CANADA-1", 11.2),
    ("OVHcloud", "t2-45", "FRA", 2.19),
    ("Massed Compute", "A100-80GB", "us", 1.35),
    # AMD Instinct, 2026-07-31: 8 x 8.60 (part B111758), 8 x 2.95, 8 x 2.25, 2.99 USD an hour.
    ("OCI", "BM.GPU.MI355X.8", "global", 68.8),
    ("TensorWave", "node of 8 MI355X", "global", 23.6),
    ("TensorWave", "node of 8 MI325X", "global", 18.0),
    ("Hot Aisle", "1x AMD Instinct MI300X VM", "us", 2.99),
    # AWS's page of capacity blocks (2026-09-19, 2026-10-08): 2.2351 a Trainium2, 10.582 a GB200.
    ("AWS", "trn2.48xlarge", "us-east-2", 35.7608),
    ("AWS", "u-p6e-gb200x72", "us-east-1-dfw-1", 761.904),
    # Oracle's price list (2026-09-19): 4 x 18; gpu-rental-prices (2026-10-01).
    ("OCI", "BM.GPU.GB300.4", "global", 72.0),
    ("Massed Compute", "L40", "us", 0.86),
    # A T4 at 0.35 beside an n1-standard-4 at 0.19 on demand; spot.
    ("GCP", "n1-standard-4 with T4", "us-west1", 0.3235),
    # 238 EUR a month over 730 hours, at 1.1269 USD.
    ("Hetzner", "AX162-R (monthly 238 EUR)", "", 0.3674),
]
# karpenter-provider-aws@1d92708, instance-types.md: GPUs, vCPUs, memory [GiB], network [Gbit/s].
SHAPES = [
    ("g4dn.2xlarge", 1, 8, 32, 10),
    ("g4dn.metal", 8, 96, 384, 100),
    ("g5.24xlarge", 4, 96, 384, 50),
    ("g5.2xlarge", 1, 8, 32, 5),
    ("g5.8xlarge", 1, 32, 128, 25),
    ("g6.12xlarge", 4, 48, 192, 40),
    ("g6.16xlarge", 1, 64, 256, 25),
    ("g6.24xlarge", 4, 96, 384, 50),
    ("g6.2xlarge", 1, 8, 32, 5),
    ("g6.48xlarge", 8, 192, 768, 100),
    ("g6e.24xlarge", 4, 96, 768, 200),
    ("g6e.8xlarge", 1, 32, 256, 25),
    ("g7.12xlarge", 2, 48, 192, 175),
    ("g7.48xlarge", 8, 192, 768, 700),
    ("g7e.12xlarge", 2, 48, 512, 400),
    ("g7e.24xlarge", 4, 96, 1024, 800),
    ("g7e.48xlarge", 8, 192, 2048, 1600),
    ("p4d.24xlarge", 8, 96, 1152, 400),
    ("p4de.24xlarge", 8, 96, 1152, 400),
    ("p6-b300.48xlarge", 8, 192, 4096, 6400),
]
# gpu-price-index@ab49c80 (2026-10-10), observations of Azure: spot, USD an hour.
SPOT = [
    ("Standard_NC24ads_A100_v4", "westus3", 0.6788),
    ("Standard_NC40ads_H100_v5", "centralindia", 4.9642),
    ("Standard_NC80adis_H100_v5", "westeurope", 6.6938),
    ("Standard_ND96amsr_A100_v4", "uksouth", 12.8866),
    ("Standard_ND96isr_H100_v5", "japaneast", 26.3458),
    ("Standard_ND96isr_MI300X_v5", "francecentral", 12.198),
]
# gpu-price-feed@3c41e77 (2026-10-04, Vast.ai 2026-10-03): lowest price of a provider and card.
LOWEST = [
    ("DigitalOcean", "rtx-4000-ada", 0.76),
    ("Lambda", "gh200-96gb", 2.29),
    ("RunPod", "mi350x", 5.49),
    ("RunPod", "rtx-3080-10gb", 0.17),
    ("RunPod", "rtx-pro-5000-blackwell", 0.82),
    ("Vast.ai", "rtx-3060-12gb", 0.0521),
    ("Vast.ai", "rtx-4090-48gb", 0.3489),
]
# gpu-rental-prices@df80f8f, prices and sizes of providers' pages and APIs of 2026-10-10: USD an
# hour of the instance, vCPUs and memory [GiB] where the page states them.
OCTOBER = [
    ("DigitalOcean", "GPU Droplet B300 x8", 89.52, 224, 3584),
    ("DigitalOcean", "GPU Droplet MI325X x1", 3.8, 20, 164),
    ("DigitalOcean", "GPU Droplet MI350X x8", 49.28, 192, 2048),
    ("JarvisLabs", "RTX PRO 6000", 2.19, None, None),
    ("Koyeb", "serverless RTX PRO 6000", 2.2, None, None),
    ("Lambda", "gpu_1x_a100_sxm4", 1.99, 30, 220),
    ("Lambda", "gpu_1x_h100_sxm5", 4.29, 26, 225),
    ("Lambda", "gpu_8x_v100", 6.32, 88, 448),
    ("Latitude.sh", "g3.h100.small", 3.37, None, 192),
    ("Massed Compute", "RTX PRO 4500 Blackwell", 0.92, None, None),
    ("Massed Compute", "L40Sx8", 8 * 0.97, 142, 768),
    # 4 cores at 0.0000131 USD a second and 64 GiB at 0.00000222 are billed apart: 0.70 an hour.
    ("Modal", "serverless NVIDIA RTX PRO 6000 Blackwell Server", 3.0312 + 0.70, None, None),
    ("RunPod", "1x NVIDIA B200 SXM (HGX) 180GB (Secure)", 7.99, 28, 283),
    ("RunPod", "1x NVIDIA GeForce RTX 4090 (Secure)", 0.89, 6, 41),
    ("RunPod", "1x NVIDIA GeForce RTX 5090 (Secure)", 1.19, 9, 35),
    ("RunPod", "1x NVIDIA GeForce RTX 3090 (Secure)", 0.5, 16, 125),
    ("RunPod", "1x NVIDIA H200 SXM 141GB (Secure)", 5.29, 24, 276),
    ("Together", "GPU Clusters B300", 79.92, None, None),
    ("Verda (DataCrunch)", "1x GB300", 10.74, None, None),
]
# US EIA, Electric Power Annual with data for 2023: cents per kWh, residential and commercial.
TARIFFS = [
    ("us-illinois", 15.71, 11.24),
    ("us-georgia", 13.69, 10.70),
    ("us-oregon", 12.73, 9.92),
    ("us-virginia", 14.26, 8.95),
    ("us-new-york", 22.25, 18.01),
    ("us-washington", 10.98, 9.92),
]
# llama.cpp, tools/perplexity/README.md: Llama 3 8B, perplexity and its rise over 16 bits.
PERPLEXITIES = [
    ("q8_0", 6.234284, 0.002650),
    ("q5_k_s", 6.336598, 0.104964),
    ("q4_k_m", 6.407115, 0.175482),
    ("iq4_xs", 6.459705, 0.228071),
    ("q3_k_s", 7.863786, 1.632152),
    ("iq2_xxs", 14.091782, 7.860148),
]


@pytest.mark.parametrize(("provider", "instance", "region", "usd"), PRICES)
def test_the_price_is_that_of_the_list(
    provider: str, instance: str, region: str, usd: float
) -> None:
    [offer] = [
        item
        for item in load_catalog().offers
        if (item.provider, item.instance_type, item.region) == (provider, instance, region)
        and (provider == "GCP" or item.on_demand_usd_per_hour)
    ]
    price = offer.spot_usd_per_hour if provider == "GCP" else offer.on_demand_usd_per_hour
    # The catalog keeps four digits after the point.
    assert price == pytest.approx(usd, abs=5e-5)


@pytest.mark.parametrize(("instance", "cards", "vcpus", "gib", "gbit_per_s"), SHAPES)
def test_the_shape_is_that_of_the_description(
    instance: str, cards: int, vcpus: int, gib: int, gbit_per_s: float
) -> None:
    found = [item for item in load_catalog().offers if item.instance_type == instance]
    assert found
    for offer in found:
        assert (offer.accelerators, offer.vcpus) == (cards, vcpus)
        assert offer.host_memory_bytes == pytest.approx(gib * 2**30)
        assert offer.inter_node_bytes_per_s == pytest.approx(gbit_per_s * 1e9 / 8)


def test_a_mac_that_apple_withdrew_has_no_price() -> None:
    """Apple's shop has had no M3 Ultra of 512 GB since March 2026."""
    assert load_catalog().accelerator("apple-m3-ultra").purchase_usd is None


@pytest.mark.parametrize(("instance", "region", "usd"), SPOT)
def test_the_spot_price_of_azure_is_that_of_the_day(instance: str, region: str, usd: float) -> None:
    [offer] = [
        item
        for item in load_catalog().offers
        if (item.provider, item.instance_type, item.region) == ("Azure", instance, region)
    ]
    assert offer.spot_usd_per_hour == pytest.approx(usd)
    assert offer.price_date == "2026-10-10"


@pytest.mark.parametrize(("provider", "card", "usd"), LOWEST)
def test_the_lowest_price_is_that_of_the_feed(provider: str, card: str, usd: float) -> None:
    offers = [item for item in load_catalog().offers_for(card) if item.provider == provider]
    offer = offers[0]
    # A pod of several cards costs as many times the price of one.
    assert all(
        item.on_demand_usd_per_hour == pytest.approx(usd * item.accelerators) for item in offers
    )
    assert offer.accelerators == 1
    assert offer.on_demand_usd_per_hour == pytest.approx(usd)


@pytest.mark.parametrize(("provider", "instance", "usd", "vcpus", "memory_gib"), OCTOBER)
def test_a_price_of_october_is_that_of_the_page(
    provider: str, instance: str, usd: float, vcpus: int | None, memory_gib: int | None
) -> None:
    [offer] = [
        item
        for item in load_catalog().offers
        if (item.provider, item.instance_type) == (provider, instance)
    ]
    assert offer.on_demand_usd_per_hour == pytest.approx(usd)
    assert offer.price_date == "2026-10-10"
    assert offer.vcpus == vcpus
    assert offer.host_memory_bytes == (memory_gib and memory_gib * 2**30)


@pytest.mark.parametrize(
    ("card", "vcpus", "memory_gib"),
    [("a100-sxm-80gb", 16, 125), ("h100-nvl", 16, 94), ("h100-pcie", 16, 188)],
)
def test_pods_have_the_size_of_runpods_page(card: str, vcpus: int, memory_gib: int) -> None:
    """The page of 2026-10-10 states it beside the price: "80 GB VRAM 188 GB RAM 16 vCPUs"."""
    pods = [
        item
        for item in load_catalog().offers_for(card)
        if (item.provider, item.tier) == ("RunPod", "secure")
    ]
    assert [pod.accelerators for pod in pods] == [1, 2, 4, 8]
    for pod in pods:
        assert pod.vcpus == vcpus * pod.accelerators
        assert pod.host_memory_bytes == memory_gib * pod.accelerators * 2**30


def test_latitude_asks_its_price_of_a_month_for_a_month() -> None:
    """Latitude.sh lists its H100 at 3.37 USD an hour, 1,230 a month and 10,332 a year."""
    catalog = load_catalog()
    for months, bill, hours in ((1, 1230, 730), (12, 10332, 8760)):
        committed = with_commitments(catalog, load_economy(), months)
        [offer] = [item for item in committed.offers if item.instance_type == "g3.h100.small"]
        assert offer.on_demand_usd_per_hour == pytest.approx(bill / hours, rel=0.005)


@pytest.mark.parametrize(("place", "household", "commercial"), TARIFFS)
def test_the_tariff_is_that_of_the_table(place: str, household: float, commercial: float) -> None:
    found = load_economy().place(place)
    assert found.household_usd_per_kwh == pytest.approx(household / 100)
    assert found.business_usd_per_kwh == pytest.approx(commercial / 100)


@pytest.mark.parametrize(("name", "perplexity", "rise"), PERPLEXITIES)
def test_the_loss_of_quality_is_that_of_the_scoreboard(
    name: str, perplexity: float, rise: float
) -> None:
    found = quality_losses()[name]
    assert found.value == perplexity
    assert found.value - found.full_value == pytest.approx(rise, abs=1.5e-6)


def test_spot_prices_of_aws_keep_the_day_of_their_list() -> None:
    """AWS's spot prices of three American regions are of August 2026, others of November 2025."""
    spot = [
        item for item in load_catalog().offers if item.provider == "AWS" and item.spot_usd_per_hour
    ]
    recent = {item.region for item in spot if item.price_date == "2026-08-10"}
    assert recent == {"us-east-1", "us-east-2", "us-west-2"}
    # The last: p4d.24xlarge in us-east-1.
    assert {item.price_date for item in spot} == {"2025-11", "2026-08-10", "2026-10-10"}


@pytest.mark.parametrize(
    ("instance", "region", "usd"),
    [
        ("p5.48xlarge", "us-west-2", 19.9678),
        ("p4de.24xlarge", "us-east-1", 21.8259),
        ("p6-b200.48xlarge", "us-east-2", 42.045),
        ("g7e.2xlarge", "us-west-2", 1.6683),
        ("g5.xlarge", "us-east-2", 0.3651),
    ],
)
def test_the_spot_price_is_that_of_the_file(instance: str, region: str, usd: float) -> None:
    """spotinfo@69bcec6, internal/spot/data/spot-price-data.json, fetched on 2026-08-10."""
    [offer] = [
        item
        for item in load_catalog().offers
        if (item.instance_type, item.region, item.tier) == (instance, region, "spot")
    ]
    assert offer.spot_usd_per_hour == usd


def test_a_spot_price_of_last_year_is_no_offer() -> None:
    """AWS's spot prices of November 2025 count only for who names AWS or the card."""

    def asked(**limits: object) -> list[Offer]:
        wanted = Constraints.model_validate({"price_kind": "spot", **limits})
        return list(allowed_offers(load_catalog(), wanted))

    def spot_of(**limits: object) -> set[str]:
        return {item.provider for item in asked(**limits)}

    assert {item.price_date for item in asked() if item.provider == "AWS"} == {"2026-08-10"}
    assert {"Azure", "GCP"} <= spot_of()
    assert spot_of(providers=["AWS"]) == {"AWS"}
    assert "AWS" in spot_of(accelerators=["h100-sxm"])


def test_google_sells_its_newest_tpu_on_demand_and_b200_otherwise() -> None:
    """Google's pages of September 2026: 12 USD a chip; 8.055 flexible, 4.9542 spot for a card."""
    found = {
        (item.instance_type, item.region, item.tier): item
        for item in load_catalog().offers
        if item.provider == "GCP"
    }
    tpu = found["tpu7x-standard-4t", "us-central1", "on-demand list"]
    assert tpu.on_demand_usd_per_hour == 4 * 12
    flexible = found["a4-highgpu-8g", "us-central1", "flexible start"]
    assert flexible.on_demand_usd_per_hour == pytest.approx(8 * 8.055)
    spot = found["a4-highgpu-8g", "us-central1", "spot"]
    assert (spot.on_demand_usd_per_hour, spot.spot_usd_per_hour) == (None, 39.6336)


def test_the_rates_of_rtx_pro_4500_are_those_of_its_ai_tops() -> None:
    """NVIDIA states 1,687 AI TOPS: FP4 with sparsity, 8 times dense BF16."""
    card = load_catalog().accelerator("rtx-pro-4500-blackwell")
    assert card.peak_flops_per_s["bf16"] == pytest.approx(1687e12 / 8, rel=1e-3)


def test_both_sizes_of_rtx_pro_5000_have_the_rates_of_the_datasheet() -> None:
    # NVIDIA: 2,064 sparse fp4 TOPS for 48 and for 72 GB.
    for key in ("rtx-pro-5000-blackwell", "rtx-pro-5000-72gb-blackwell"):
        assert load_catalog().accelerator(key).peak_flops_per_s["fp4"] == 2064e12 / 2


def test_the_links_of_a_mi455x_carry_as_much_as_amd_says() -> None:
    # AMD's product page: scale-up bandwidth of 3.6 TB/s per GPU (ml-engineering@744d01e).
    link = load_catalog().accelerator("mi455x").interconnect
    assert link is not None
    assert link.bytes_per_s == 3.6e12 / 2


@pytest.mark.parametrize("key", ["apple-m5", "apple-m5-pro", "apple-m5-max"])
def test_the_vector_units_of_an_m5_run_16_bits_twice_as_fast(key: str) -> None:
    # T. Zakharko: M5 Max, estimated: 18 TFLOPS in fp32, 30 in vector fp16, 70 in the matrix units.
    rates = load_catalog().accelerator(key).peak_flops_per_s
    assert rates["fp16"] == rates["bf16"] == 2 * rates["fp32"]


@pytest.mark.parametrize(
    ("card", "link"),
    [
        # NVIDIA, Inside Blackwell Ultra: PCIe Gen 6 x16, 256 GB/s both ways.
        ("b300-sxm", (6, 16)),
        ("gb300", (6, 16)),
        # GB206 has eight lanes, as on the RTX 5060 Ti and the RTX PRO 2000.
        ("rtx-5070-laptop", (5, 8)),
        # Raspberry Pi 5: one lane of PCIe 2.0.
        ("raspberry-pi-5", (2, 1)),
    ],
)
def test_the_host_link_is_that_of_the_maker(card: str, link: tuple[int, int]) -> None:
    found = load_catalog().accelerator(card)
    assert (found.pcie_generation, found.pcie_lanes) == link


@pytest.mark.parametrize(
    ("card", "usd"),
    [
        # Apple's shop in those years: base machine, and its steps of memory and processor.
        ("apple-m1", 699 + 200),
        ("apple-m1-pro", 1999 + 300 + 400),
        ("apple-m2", 599 + 400),
        ("apple-m2-pro", 1299 + 300 + 400),
        ("apple-m3", None),
        # GPUPrix, lowest new price in the USA on 2026-09-05; 949 at its launch.
        ("arc-pro-b70", 1300),
        # NVIDIA's US marketplace: 16,000 since August 2026 (Tom's Hardware), 6,950 on 2 October.
        ("rtx-pro-6000-blackwell", 16_000),
        ("dgx-spark-gb10", 6950),
        # NVIDIA's prices of Jetson kits since July 2026 (CNX Software).
        ("jetson-orin-nano-super", 399),
        ("jetson-agx-orin-64gb", 3499),
        ("jetson-thor-t5000", 5499),
    ],
)
def test_the_price_is_that_of_the_memory_in_the_catalog(card: str, usd: int | None) -> None:
    assert load_catalog().accelerator(card).purchase_usd == usd


def test_a_machine_of_sixteen_trainium2_has_3200_gbit_per_s() -> None:
    """karpenter-provider-aws@1d92708, instance-types.md."""
    found = [item for item in load_catalog().offers if item.instance_type == "trn2.48xlarge"]
    assert {item.inter_node_bytes_per_s for item in found} == {3200e9 / 8}


def test_a_machine_of_one_trillium_has_176_gib() -> None:
    """Google's table of accelerator-optimized machines; its VM shows 172 GB and 44 processors."""
    found = [item for item in load_catalog().offers if item.instance_type == "tpu-v6e x1 chip"]
    assert {(item.vcpus, item.host_memory_bytes) for item in found} == {(44, 176 * 2**30)}


@pytest.mark.parametrize(
    ("card", "watts"), [("tpu-v5e", 225), ("tpu-v5p", 540), ("tpu-v6e", 380), ("tpu-v7x", 960)]
)
def test_the_power_of_a_tpu_is_epochs_estimate(card: str, watts: int) -> None:
    assert load_catalog().accelerator(card).board_power_w == watts
