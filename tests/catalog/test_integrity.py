"""What must hold for every accelerator and every offer, whoever adds it."""

import csv
import itertools
from collections import Counter
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.files.rows import CatalogFile
from advisor.foundation.noun import read_record
from advisor.nouns.hardware import Accelerator, Confidence, Segment

CATALOG = load_catalog()

# Cards from which a rule was read; the rule is the smallest share among them.
RULE_CARDS = {
    "amd": ("mi300x", "rx-7900-xtx", "mi355x", "mi250x"),
    "nvidia-blackwell-ultra": ("b300-sxm", "gb300"),
    "nvidia-gddr": ("rtx-4090", "rtx-a6000", "rtx-3090"),
    "nvidia-gddr-ecc": ("a10", "a40", "l4", "l40s"),
    "nvidia-gddr7": ("rtx-5090", "rtx-pro-6000-blackwell"),
    "nvidia-hbm2": ("a100-sxm-40gb", "a100-sxm-80gb", "v100-sxm2-32gb"),
    "nvidia-hbm3": ("h100-sxm", "h200-sxm", "h100-nvl"),
    "tpu": ("tpu-v5e", "tpu-v6e"),
}

# GB/s that the slowest and the fastest card of a memory technology reach, with some room.
BANDWIDTH_GB_PER_S = {
    "GDDR5": (110, 500),
    "GDDR5X": (320, 500),
    "GDDR6": (180, 1000),
    "GDDR6X": (500, 1050),
    "GDDR7": (250, 1800),
    "HBM": (550, 950),
    "HBM2": (700, 1700),
    "HBM2e": (900, 3800),
    "HBM3": (1600, 5400),
    "HBM3 (shared)": (5000, 5400),
    "HBM3e": (4500, 8700),  # eight stacks of a TPU 8i: 8,601 GB/s, as Google states
    "HBM4": (13000, 24000),
    "LPDDR (unified)": (60, 1250),
    "LPDDR5 (shared)": (90, 210),
    "LPDDR5X (shared)": (250, 300),
}


def test_the_catalog_is_broad() -> None:
    assert len(CATALOG.accelerators) >= 170
    assert len(CATALOG.offers) >= 400
    assert len({offer.provider for offer in CATALOG.offers}) >= 30
    assert {item.segment for item in CATALOG.accelerators} == set(Segment)


def test_keys_and_names_are_unique() -> None:
    for values in (
        [item.key for item in CATALOG.accelerators],
        [item.name.casefold() for item in CATALOG.accelerators],
        [item.key for item in CATALOG.offers],
    ):
        twice = [value for value, count in Counter(values).items() if count > 1]
        assert not twice


def test_entries_are_in_order() -> None:
    for keys in (
        [item.key for item in CATALOG.accelerators],
        [item.key for item in CATALOG.offers],
    ):
        wrong = [
            f"move `{after}` before `{before}`"
            for before, after in itertools.pairwise(keys)
            if after < before
        ]
        assert not wrong


def test_every_source_is_cited(root: Path) -> None:
    cited = {item.source for card in CATALOG.accelerators for item in card.provenance.values()}
    cited |= {item.provenance.source for item in CATALOG.offers}
    cited |= {item.source for kit in CATALOG.software.values() for item in kit.provenance.values()}
    content = read_record(root / "data" / "gpu_catalog.yaml", CatalogFile)
    cited |= {rate.source for rate in content.exchange_rates.values()}

    assert cited == set(CATALOG.sources)


def test_sources_survive_loading() -> None:
    for card in CATALOG.accelerators:
        rates = [f"peak_flops_per_s.{name}" for name in card.peak_flops_per_s]
        for field in (*Accelerator.model_fields, *rates):
            found = card.source_of(field)
            source = CATALOG.sources[found.source]
            assert (found.date, found.confidence) == (source.date, source.confidence), card.key
    for offer in CATALOG.offers:
        assert offer.provenance.date == CATALOG.sources[offer.provenance.source].date, offer.key
        assert offer.provenance.confidence in {Confidence.DATASHEET, Confidence.SECONDARY}


def test_formats_came_with_their_generation() -> None:
    """Tensor cores learnt bf16 with compute capability 8.0, fp8 with 8.9, fp4 with 10.0."""
    cards = [item for item in CATALOG.accelerators if item.vendor == "NVIDIA"]
    gpus = [item for item in cards if item.compute_capability is not None]
    assert len(gpus) >= 100

    for card in gpus:
        version, peaks = float(card.compute_capability or 0), card.peak_flops_per_s
        assert ("bf16" in peaks) == (version >= 8.0), card.key
        assert version >= 8.9 or "fp8" not in peaks, card.key
        assert version >= 10.0 or "fp4" not in peaks, card.key
        if "bf16" in peaks:
            assert peaks["bf16"] == peaks["fp16"], card.key


def test_8_bit_floats_run_once_or_twice_as_fast() -> None:
    """Four times the 16-bit rate is what a sparse figure shows."""
    explained = {"rubin-r200", "tenstorrent-p150", "trainium3"}
    cards = [item for item in CATALOG.accelerators if "fp8" in item.peak_flops_per_s]
    assert len(cards) >= 60

    for card in cards:
        peaks = card.peak_flops_per_s
        ratio = peaks["fp8"] / max(peaks.get("bf16", 0.0), peaks.get("fp16", 0.0))
        allowed = ratio == pytest.approx(1, rel=0.01) or ratio == pytest.approx(2, rel=0.03)
        assert allowed != (card.key in explained), card.key


# 16-bit rate with fp32 sums over fp32 rate, by capability: GeForce cards, all others.
MATRIX_SPEED = {
    "7.0": (None, 8),
    "7.5": (4, 8),
    "8.0": (None, 16),
    "8.6": (2, 4),
    "8.7": (None, 8),
    "8.9": (2, 4),
    "12.0": (2, 4),
    "12.1": (None, 4),
}
# Cut by NVIDIA (A10G, L20, L40), or without tensor cores.
CUT = {
    "a10g": 20 / 9,
    "l20": 2,
    "l40": 2,
    "gtx-1650": 1,
    "gtx-1660": 1,
    "gtx-1660-super": 1,
    "gtx-1660-ti": 1,
}


def test_a_generation_has_one_ratio_between_its_formats() -> None:
    """Whitepapers of Volta to Blackwell; a sparse or a mistyped rate breaks the ratio."""
    cards = [item for item in CATALOG.accelerators if item.compute_capability in MATRIX_SPEED]
    assert len(cards) >= 90

    for card in cards:
        peaks, geforce = card.peak_flops_per_s, "GeForce" in card.name
        speed = MATRIX_SPEED[card.compute_capability or ""][0 if geforce else 1]
        assert speed is not None, card.key
        ratio = peaks["fp16"] / peaks["fp32"]
        assert ratio == pytest.approx(CUT.get(card.key, speed), rel=0.02), card.key
        for name, times in {"tf32": 0.5, "int8": 4 if geforce else 2}.items():
            if name in peaks and card.key not in CUT:
                assert peaks[name] / peaks["fp16"] == pytest.approx(times, rel=0.02), card.key


def test_exceptions_to_the_rate_check_are_few(root: Path) -> None:
    content = read_record(root / "data" / "gpu_catalog.yaml", CatalogFile)

    assert {key for key, item in content.accelerators.items() if item.unusual_rates} == {
        "b300-sxm",
        "gb300",
        "rubin-r200",
        "tenstorrent-p150",
        "trainium3",
    }


def test_wider_formats_are_never_faster() -> None:
    for card in CATALOG.accelerators:
        peaks = card.peak_flops_per_s
        for wide, narrow in (
            ("fp32", "bf16"),
            ("fp32", "fp16"),
            ("tf32", "bf16"),
            ("bf16", "fp8"),
            ("fp8", "fp4"),
        ):
            if wide in peaks and narrow in peaks:
                assert peaks[wide] <= peaks[narrow] * 1.01, (card.key, wide, narrow)


def test_fp16_accumulation_doubles_the_rate() -> None:
    cards = [item for item in CATALOG.accelerators if item.peak_flops_per_s_fp16_accumulate]
    assert len(cards) >= 35  # the GeForce cards from Turing on

    for card in cards:
        for name, rate in card.peak_flops_per_s_fp16_accumulate.items():
            assert rate / card.peak_flops_per_s[name] == pytest.approx(2, rel=0.01), card.key


def test_reported_memory_is_near_the_marketed_one() -> None:
    """From GB as 1e9 bytes less ECC to GB as GiB; Apple's is the default limit for the GPU."""
    beyond = {"tpu-v5p"}  # 95.74 GiB of its 95 GB
    for card in CATALOG.accelerators:
        share = card.memory_reported_bytes / card.memory_marketed_bytes
        if card.memory_type == "LPDDR (unified)":
            limit = 2 / 3 if card.memory_marketed_bytes <= 32e9 else 0.75
            assert share == pytest.approx(limit * 1.0737, rel=1e-3), card.key
        else:
            assert (0.88 <= share <= 1.08) != (card.key in beyond), (card.key, share)


@pytest.mark.parametrize(
    ("key", "mib"),
    [  # recommendedMaxWorkingSetSize in logs of llama.cpp: issues 1870 and 3213, pull request 2011,
        # abetlen/llama-cpp-python issue 687, ollama issue 434
        ("m1 16gb", 10922.67),
        ("apple-m2-max-32gb", 21845.34),
        ("apple-m1-max", 49152.00),
        ("apple-m2-max", 73728.00),
    ],
)
def test_a_mac_gives_its_gpu_what_metal_says(key: str, mib: float) -> None:
    card = CATALOG.accelerator(key)

    assert card.memory_reported_bytes / 2**20 == pytest.approx(mib, rel=1e-4)


@pytest.mark.parametrize("rule", sorted(RULE_CARDS))
def test_memory_rules_follow_from_cards(rule: str, root: Path) -> None:
    content = read_record(root / "data" / "gpu_catalog.yaml", CatalogFile)
    shares = []
    for key in RULE_CARDS[rule]:
        reported = content.accelerators[key].memory_reported_mib
        assert reported is not None
        shares.append(reported / (content.accelerators[key].memory_gb * 1024))

    assert content.reported_memory_rules[rule].share_of_gib == pytest.approx(min(shares), abs=0.009)


def test_derived_memory_says_so() -> None:
    for card in CATALOG.accelerators:
        source = card.source_of("memory_reported_bytes").source
        assert card.memory_reported_derived == (source == "reported-memory-rule"), card.key


# 96 bits x 14 Gbit/s; three stacks of HBM2; 384 bits x 11.4 Gbit/s.
NARROW = {"rtx-3050-6gb": 168, "rtx-3050-laptop-6gb": 168, "titan-v": 651.3, "titan-xp": 547.6}


def test_bandwidth_suits_the_memory() -> None:
    for card in CATALOG.accelerators:
        if card.segment is Segment.CPU or card.is_instance:
            continue
        if card.key in NARROW:
            assert card.memory_bandwidth_bytes_per_s == NARROW[card.key] * 1e9
            continue
        low, high = BANDWIDTH_GB_PER_S[card.memory_type]
        assert low <= card.memory_bandwidth_bytes_per_s / 1e9 <= high, card.key


def test_links_are_slower_than_memory() -> None:
    linked = [item for item in CATALOG.accelerators if item.interconnect]
    assert len(linked) >= 60

    for card in linked:
        assert card.interconnect is not None
        assert card.interconnect.domain_size >= 2, card.key
        assert card.interconnect.bytes_per_s >= 25e9, card.key
        assert card.interconnect.bytes_per_s <= card.memory_bandwidth_bytes_per_s, card.key


def test_announced_parts_say_so() -> None:
    for key in ("rubin-r200", "mi455x"):
        assert CATALOG.accelerator(key).notes.startswith("Announced")


def test_prices_to_buy_are_plausible_and_dated() -> None:
    priced = [item for item in CATALOG.accelerators if item.purchase_usd is not None]
    assert len(priced) >= 145

    for card in priced:
        assert card.purchase_kind in {"msrp", "street", "estimate"}, card.key
        assert card.purchase_date is not None
        assert 2014 <= int(card.purchase_date[:4]) <= 2026, card.key
        assert 130 <= (card.purchase_usd or 0) <= 55_000, card.key  # a B300: 53,000


def test_what_has_no_price_says_why() -> None:
    for card in CATALOG.accelerators:
        assert (card.purchase_usd is None) == bool(card.no_purchase), card.key
    rented = {offer.accelerator for offer in CATALOG.offers}
    unsold = {card.key for card in CATALOG.accelerators if card.no_purchase}
    # Made for one cloud, whose maker sells none; or sold without a list price.
    assert {key for key in rented & unsold if not key.startswith("tpu-")} == {
        "a10g",
        "inferentia2",
        "radeon-pro-v710",
        "rtx-4090-48gb",
        "rtx-a4500",
        "rtx-pro-4500-blackwell-server",
        "trainium1",
        "trainium2",
        "v100s-pcie-32gb",
    }


def test_prices_to_rent_are_plausible() -> None:
    """One accelerator costs from 0.15 USD/h (RTX A4000) to 39.21 (GB200 in Australia).

    A GeForce of 8 to 12 GB costs less, down to 0.13 USD/h (RTX 3070 at RunPod); the lowest ask of a
    marketplace is 0.05 (RTX 3060, GTX 1080 Ti).
    """
    for offer in CATALOG.offers:
        least = 0.14
        if CATALOG.accelerator(offer.accelerator).segment is Segment.CONSUMER:
            least = 0.12
        if offer.tier == "marketplace, lowest":
            least = 0.05
        for price in (offer.on_demand_usd_per_hour, offer.spot_usd_per_hour):
            if price is not None:
                assert least <= price / offer.accelerators <= 40, offer.key


def test_spot_is_cheaper() -> None:
    both = [item for item in CATALOG.offers if item.on_demand_usd_per_hour]
    both = [item for item in both if item.spot_usd_per_hour]
    assert len(both) >= 80

    wrong = [
        item.key
        for item in both
        if (item.spot_usd_per_hour or 0) >= (item.on_demand_usd_per_hour or 0)
    ]
    assert not wrong


def test_price_dates_are_past_and_not_ancient() -> None:
    for offer in CATALOG.offers:
        assert "2024" <= offer.price_date <= "2026-11-21", offer.key


def test_instances_have_plausible_sizes() -> None:
    for offer in CATALOG.offers:
        # AWS sells an UltraServer of 36 or 72 GB200 as a whole.
        assert offer.accelerators in {1, 2, 4, 6, 8, 12, 16, 36, 72}, offer.key
        if offer.host_memory_bytes is not None:
            each = offer.host_memory_bytes / 2**30 / offer.accelerators
            socket = CATALOG.accelerator(offer.accelerator).segment is Segment.CPU
            # Google Cloud: c3d-standard-360 has 1,440 GB of memory, on two sockets; Azure: NC144ds
            # has 516 for one card.
            assert 4 <= each <= (720 if socket else 516), offer.key
        if offer.inter_node_bytes_per_s is not None:
            assert 1 <= offer.inter_node_bytes_per_s * 8 / 1e9 <= 6400, offer.key


def test_partial_prices_are_marked() -> None:
    notes = {(item.provider, item.instance_type): item.notes for item in CATALOG.offers}

    assert "excludes CPU and RAM" in notes["Northflank", "H100 80GB"]
    assert all(
        "excludes CPU and RAM" in item.notes for item in CATALOG.offers if item.provider == "Modal"
    )


def test_small_a3_instances_are_not_sold_on_demand() -> None:
    small = [
        item
        for item in CATALOG.offers
        if item.instance_type in {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"}
    ]

    assert {item.instance_type for item in small} == {
        "a3-highgpu-1g",
        "a3-highgpu-2g",
        "a3-highgpu-4g",
    }
    assert all(item.on_demand_usd_per_hour is None for item in small)


def test_measured_matmul_rates_stay_below_the_peak(root: Path) -> None:
    with (root / "data" / "matmul_achievable.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    assert len(rows) == 20
    for row in rows:
        peak = CATALOG.accelerator(row["accelerator"]).peak_flops_per_s[row["format"]]
        assert 0.5 < float(row["achieved_tflops"]) * 1e12 / peak < 1
        assert row["licence"] == "CC-BY-SA-4.0"
        assert "Stas Bekman" in row["attribution"]


def test_the_first_line_names_the_schema(root: Path) -> None:
    with (root / "data" / "gpu_catalog.yaml").open(encoding="utf-8") as file:
        assert file.readline() == "# yaml-language-server: $schema=gpu_catalog.schema.json\n"


def test_the_readme_describes_every_column(root: Path) -> None:
    text = (root / "data" / "README.md").read_text(encoding="utf-8")
    schema = read_record(root / "data" / "gpu_catalog.yaml", CatalogFile)
    with (root / "data" / "cloud_offers.csv").open(encoding="utf-8") as file:
        columns = next(csv.reader(file))
    fields = [*type(next(iter(schema.accelerators.values()))).model_fields, *columns]

    assert [name for name in fields if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("whole", "profile", "gib", "memory_eighths", "multiprocessors", "of"),
    [
        # nvidia-smi mig -lgip: memory and multiprocessors; NVIDIA's MIG guide: shares of memory.
        ("h100-sxm", "1g-10gb", 9.75, 1, 16, 132),
        ("h100-sxm", "3g-40gb", 39.5, 4, 60, 132),
        ("h200-sxm", "1g-35gb", 32.25, 2, 26, 132),
        ("a100-sxm-40gb", "3g-20gb", 19.62, 4, 42, 108),
        ("b200-sxm", "2g-45gb", 44.25, 2, 36, 148),
    ],
)
def test_an_instance_is_its_share_of_the_card(
    whole: str, profile: str, gib: float, memory_eighths: int, multiprocessors: int, of: int
) -> None:
    card, part = CATALOG.accelerator(whole), CATALOG.accelerator(f"{whole}-mig-{profile}")

    assert part.memory_reported_bytes / 2**30 == pytest.approx(gib, abs=0.01)
    assert part.memory_bandwidth_bytes_per_s == pytest.approx(
        card.memory_bandwidth_bytes_per_s * memory_eighths / 8, rel=1e-3
    )
    for name, rate in card.peak_flops_per_s.items():
        assert part.peak_flops_per_s[name] == pytest.approx(rate * multiprocessors / of, rel=1e-3)
    assert part.interconnect is None
    assert part.purchase_usd is None
