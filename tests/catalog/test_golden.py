"""Figures that everyone can check in a datasheet or a price list."""

import pytest

from advisor.catalog import load_catalog
from advisor.nouns.hardware import Confidence

CATALOG = load_catalog()

# key: (fp32, tf32, 16-bit dense, fp8 dense [TFLOPS], memory GB/s, link GB/s both ways, W)
DATASHEETS = {
    # NVIDIA H100 datasheet (1,979 TFLOPS bf16 with sparsity), table of the SXM part.
    "h100-sxm": (67, 494.7, 989.4, 1978.9, 3350, 900, 700),
    # NVIDIA H200 datasheet.
    "h200-sxm": (67, 494.7, 989.4, 1978.9, 4800, 900, 700),
    # NVIDIA A100 datasheet, 80GB SXM.
    "a100-sxm-80gb": (19.5, 156, 312, None, 2039, 600, 400),
    # NVIDIA HGX B200 datasheet, per GPU, halved where it prints sparse rates.
    "b200-sxm": (75, 1125, 2250, 4500, 7700, 1800, 1000),
    # Ada whitepaper, appendix A: tensor rates with fp32 accumulation.
    "rtx-4090": (82.6, 82.6, 165.2, 330.3, 1008, None, 450),
    # NVIDIA L40S datasheet (91.6, 183 / 366 sparse, 362 / 733, 733 / 1,466).
    "l40s": (91.6, 183, 362, 733, 864, None, 350),
    # AMD Instinct MI300X datasheet.
    "mi300x": (163.4, 653.7, 1307.4, 2614.9, 5300, 896, 750),
    # Google Cloud documentation, TPU v5e: 197 TFLOPS bf16, 819 GB/s.
    # Google states no power: 225 W is the estimate of Epoch AI.
    "tpu-v5e": (None, None, 197, None, 819, 400, 225),
    # NVIDIA T4 datasheet: 8.1 fp32, 65 mixed, 70 W.
    "t4": (8.1, None, 65, None, 320, None, 70),
    # NVIDIA V100 datasheet, SXM2: 15.7 fp32, 125 tensor, 900 GB/s, 300 GB/s NVLink.
    "v100-sxm2-32gb": (15.7, None, 125, None, 900, 300, 300),
}

# MiB that nvidia-smi or rocm-smi prints.
REPORTED_MIB = {
    "a100-sxm-80gb": 81920,
    "b200-sxm": 183359,
    "b300-sxm": 275040,
    "h100-sxm": 81559,
    "h200-sxm": 143771,
    "l4": 23034,
    "mi300x": 196592,
    "rtx-3090": 24576,
    "rtx-4090": 24564,
    "rtx-5090": 32607,
    "t4": 15360,
}


@pytest.mark.parametrize("key", sorted(DATASHEETS))
def test_rates_are_those_of_the_datasheet(key: str) -> None:
    fp32, tf32, half, fp8, memory, link, power = DATASHEETS[key]
    accelerator = CATALOG.accelerator(key)
    peaks = accelerator.peak_flops_per_s
    found = [peaks.get("fp32"), peaks.get("tf32"), peaks.get("bf16", peaks.get("fp16"))]

    assert found == [rate and pytest.approx(rate * 1e12) for rate in (fp32, tf32, half)]
    assert peaks.get("fp8") == (fp8 and pytest.approx(fp8 * 1e12))
    assert accelerator.memory_bandwidth_bytes_per_s == pytest.approx(memory * 1e9)
    assert accelerator.board_power_w == power
    one_way = accelerator.interconnect and accelerator.interconnect.bytes_per_s
    assert one_way == (link and pytest.approx(link * 1e9 / 2))


@pytest.mark.parametrize("key", sorted(REPORTED_MIB))
def test_reported_memory_is_what_the_driver_prints(key: str) -> None:
    accelerator = CATALOG.accelerator(key)

    assert accelerator.memory_reported_bytes == REPORTED_MIB[key] * 2**20
    assert not accelerator.memory_reported_derived


def test_an_80_gb_card_has_79_6_gib() -> None:
    card = CATALOG.accelerator("h100-sxm")

    assert card.memory_marketed_bytes == 80e9
    assert card.memory_reported_bytes / 2**30 == pytest.approx(79.65, abs=0.01)


def test_geforce_halves_fp32_accumulation() -> None:
    card = CATALOG.accelerator("rtx-4090")

    assert card.peak_flops_per_s_fp16_accumulate == {
        "fp16": pytest.approx(330.3e12),
        "fp8": pytest.approx(660.6e12),
    }


@pytest.mark.parametrize(
    ("key", "memory_gb", "bandwidth_gb_per_s", "power_w"),
    [
        ("k80", 12, 240, 150),  # board: 24 GB, 480 GB/s, 300 W
        ("m60", 8, 160, 150),  # board: 16 GB, 320 GB/s, 300 W
        ("mi250x", 64, 1638.5, 280),  # module: 128 GB, 3,277 GB/s, 560 W
        ("a16", 16, 200, 62.5),  # board: 4 x 16 GB, 250 W
    ],
)
def test_boards_of_several_devices_are_split(
    key: str, memory_gb: float, bandwidth_gb_per_s: float, power_w: float
) -> None:
    card = CATALOG.accelerator(key)

    assert card.memory_marketed_bytes == memory_gb * 1e9
    assert card.memory_bandwidth_bytes_per_s == bandwidth_gb_per_s * 1e9
    assert card.board_power_w == power_w


def test_recalled_figures_stay_visible() -> None:
    """A10G rates were recalled; its memory and bandwidth stand in TechPowerUp's table."""
    card = CATALOG.accelerator("a10g")

    assert card.source_of("peak_flops_per_s").confidence is Confidence.MEMORY
    assert card.source_of("memory_bandwidth_bytes_per_s").source == "techpowerup"


def test_rates_of_one_card_can_have_different_sources() -> None:
    card = CATALOG.accelerator("a10g")

    assert card.source_of("peak_flops_per_s.fp32").confidence is Confidence.SECONDARY
    assert card.source_of("peak_flops_per_s.bf16").confidence is Confidence.MEMORY


@pytest.mark.parametrize(
    ("key", "usd_per_hour", "accelerators", "gbit_per_s", "date"),
    [
        ("aws/p5-48xlarge/us-east-1/on-demand-list", 55.04, 8, 3200, "2026-10-10"),
        ("aws/p4d-24xlarge/us-east-1/on-demand-list", 21.957642, 8, 400, "2026-10-10"),
        ("azure/standard-nd96isr-h100-v5/eastus/on-demand-list", 98.32, 8, 3200, "2026-10-10"),
        ("gcp/a3-highgpu-8g/us-central1/on-demand-list", 88.49, 8, 1000, "2026-10-10"),
        ("lambda/1cc-8x-h100/us/1-click-cluster", 8 * 6.16, 8, 3200, "2026-09-13"),
        ("together/gpu-clusters-h100/us/on-demand-list", 31.92, 8, 3200, "2026-10-10"),
    ],
)
def test_prices_are_those_of_the_lists(
    key: str, usd_per_hour: float, accelerators: int, gbit_per_s: float, date: str
) -> None:
    [offer] = [item for item in CATALOG.offers if item.key == key]

    assert offer.on_demand_usd_per_hour == pytest.approx(usd_per_hour)
    assert offer.accelerators == accelerators
    assert offer.inter_node_bytes_per_s == pytest.approx(gbit_per_s * 1e9 / 8)
    assert offer.price_date == date


def test_the_newest_price_is_of_november_2026() -> None:
    assert CATALOG.newest_price_date == "2026-11-09"
