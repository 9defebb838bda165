"""The constants that ship: their files are up to date and agree with published figures."""

import csv
from pathlib import Path

import numpy as np
import pytest

from advisor.calibration.__main__ import main
from advisor.calibration.fitting.kernel_tables import FOLDER, kernel_fits, read_kernel_tables
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.equations.roofline import attention_time_s, matmul_time_s
from advisor.errors import CatalogError
from advisor.foundation.resources import data_path
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.kernels import KernelEfficiency


@pytest.fixture(scope="module")
def calibration():
    return load_calibration()


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def constants(calibration: Calibration, catalog: Catalog, key: str) -> KernelEfficiency:
    return calibration.kernels_for(catalog.accelerator(key))[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_reproduces_the_files(capsys):
    assert main(["--check"]) == 0, capsys.readouterr().err


# TFLOP/s of single measured products and prompts, computed by hand from the latency that the
# tables quote: 2 m n k / t, and 2 B H D S^2 / t.
@pytest.mark.parametrize(
    ("key", "m", "n", "k", "tflops"),
    [
        ("h100-sxm", 4096, 10240, 8192, 784.2),
        ("h100-sxm", 8192, 6144, 4096, 769.6),
        ("h100-sxm", 1024, 10240, 8192, 772.3),
        ("a100-sxm-80gb", 4096, 10240, 8192, 269.7),
        ("b200-sxm", 8192, 10240, 8192, 1603.2),
    ],
)
def test_wide_products_reach_the_measured_rate(calibration, catalog, key, m, n, k, tflops):
    seconds = matmul_s(calibration, catalog, key, m, n, k)

    assert 2 * m * n * k / seconds / 1e12 == pytest.approx(tflops, rel=0.12)


@pytest.mark.parametrize(
    ("key", "n", "k", "microseconds"),
    [
        ("h100-sxm", 4096, 12288, 38.71),
        ("h100-sxm", 65536, 5120, 235.9),
        ("h100-sxm", 7168, 8192, 45.77),
    ],
)
def test_a_product_of_one_row_takes_as_long_as_reading_its_weights(
    calibration, catalog, key, n, k, microseconds
):
    assert matmul_s(calibration, catalog, key, 1, n, k) * 1e6 == pytest.approx(
        microseconds, rel=0.12
    )


def matmul_s(calibration: Calibration, catalog: Catalog, key: str, m: int, n: int, k: int) -> float:
    card, curve = catalog.accelerator(key), constants(calibration, catalog, key).matmul["default"]
    seconds = matmul_time_s(
        flops=2.0 * m * n * k,
        moved_bytes=2.0 * (m * k + k * n + m * n),
        output_elements=float(m * n),
        depth=float(k),
        peak_flops_per_s=card.peak_flops_per_s["bf16"],
        bandwidth_bytes_per_s=card.memory_bandwidth_bytes_per_s,
        overhead_s=curve.overhead_s,
        compute=curve.compute,
        bandwidth=curve.bandwidth,
        half_tiles=curve.half_tiles,
        half_depth=curve.half_depth,
    )
    return float(seconds)


def test_attention_over_4096_tokens_on_h100(calibration, catalog):
    # One sequence, 32 heads of 128: measured 264.3 us with 8 key-value heads, 316.7 us with 32.
    shares = constants(calibration, catalog, "h100-sxm").attention
    seconds = attention_time_s(
        flops=2.0 * 32 * 128 * 4096**2,
        peak_flops_per_s=catalog.accelerator("h100-sxm").peak_flops_per_s["bf16"],
        keys=2048.0,
        half_keys=shares.half_keys,
        efficiency=shares.forward,
        overhead_s=shares.overhead_s,
    )

    assert 264.3 * 0.95 < seconds * 1e6 < 316.7 * 1.05


def test_the_backward_pass_keeps_the_published_ratio(calibration):
    # FlashAttention-2 on A100: 63 % against 73 %. FlashAttention-3 on H100, 4k: 542 against 638.
    for kernels in calibration.kernels.values():
        ratio = kernels.attention.backward / kernels.attention.forward
        assert ratio == pytest.approx((63 / 73 + 542 / 638) / 2, abs=0.01)


@pytest.mark.parametrize(
    ("key", "best_tflops"),
    [
        # Bekman 2026, bf16.
        ("mi300x", 668.4),
        ("mi325x", 784.9),
        ("mi355x", 1565.0),
        ("gaudi3", 1243.0),
        # torch.mm, medians of the contributed readings.
        ("rtx-3090", 76.58),
        ("rtx-4090", 164.81),
        ("rtx-a6000", 123.34),
        ("l4", 70.89),
        ("h100-pcie", 495.93),
        ("t4", 41.93),
    ],
)
def test_cards_without_kernel_tables_come_near_their_best_reading(
    calibration, catalog, key, best_tflops
):
    card = catalog.accelerator(key)
    peaks = card.peak_flops_per_s
    peak = peaks.get("bf16", peaks.get("fp16"))
    share = constants(calibration, catalog, key).matmul["default"].compute

    assert share * peak / 1e12 == pytest.approx(best_tflops, rel=0.08)


def test_a_fitted_card_is_not_scaled(calibration, catalog):
    for generation, cards in kernel_fits().generations.items():
        for key in cards:
            found, fitted = constants(calibration, catalog, key), calibration.kernels[generation]
            assert found.attention == fitted.attention
            assert all(found.matmul[name] == curve for name, curve in fitted.matmul.items())


def test_processors_with_tile_units_multiply_at_their_published_share(calibration, catalog):
    """oneDNN on a whole socket of Sapphire Rapids: 0.2 to 0.33 (uxlfoundation/oneDNN 1992)."""
    for key in ("xeon-8480plus", "xeon-6980p"):
        curves = constants(calibration, catalog, key).matmul
        assert {name: curves[name].compute for name in ("bf16", "int8")} == {
            "bf16": 0.33,
            "int8": 0.33,
        }
        assert curves["fp32"].compute == 0.85
    assert "bf16" not in constants(calibration, catalog, "epyc-9654").matmul


def test_fp32_runs_at_the_share_of_vector_units(calibration, catalog):
    """11.9 of 14 TFLOP/s on V100 PCIe (Markidis et al. 2018, arXiv:1803.04014).

    Cards with matrix units for TF32 use them only if asked (docs.pytorch.org, notes/cuda.html).
    """
    for key in ("v100-sxm2-16gb", "rtx-3090"):
        assert constants(calibration, catalog, key).matmul["fp32"].compute == 0.85


@pytest.mark.parametrize(
    ("key", "measured"),
    [
        ("h100-sxm", True),
        ("rtx-4090", True),  # the generation of the L40S
        ("rtx-5090", True),  # the chip family of the RTX PRO 6000, not of the B200
        ("rtx-3090", False),  # inherits from the A100
        ("mi300x", False),
        ("tpu-v5e", False),
        ("epyc-9654", False),
    ],
)
def test_only_measured_generations_count_as_measured(calibration, catalog, key, measured):
    assert calibration.kernels_for(catalog.accelerator(key))[1] is measured


def test_blackwell_cards_of_unlike_chips_have_unlike_constants(calibration, catalog):
    workstation = constants(calibration, catalog, "rtx-pro-6000-blackwell-server")
    datacenter = constants(calibration, catalog, "b200-sxm")

    assert workstation.fitted_on == ("rtx-pro-6000-blackwell-server",)
    assert datacenter.fitted_on == ("b200-sxm", "gb200")


def test_every_accelerator_has_constants(calibration, catalog):
    for card in catalog.accelerators:
        kernels, _ = calibration.kernels_for(card)
        assert set(kernels.matmul) >= {"default"}
        assert kernels.source


def test_names_of_generations_are_those_of_the_catalog(calibration, catalog):
    known = {card.architecture for card in catalog.accelerators} | {"default"}
    capabilities = {
        f"{card.architecture} {card.compute_capability}" for card in catalog.accelerators
    }
    keys = {card.key for card in catalog.accelerators}
    halves = {f"{name} half-rate" for name in known}

    assert set(calibration.kernels) <= known | capabilities
    assert set(calibration.relatives) <= known | capabilities
    assert set(calibration.best_shares) <= keys | known | capabilities | halves


def test_kernel_tables_have_the_rows_that_their_readme_counts():
    folder = data_path(FOLDER)
    readme = (folder.parent / "README.md").read_text(encoding="utf-8")
    for name in ("matmul", "attention_prefill", "attention_decode", "collectives"):
        with (folder / f"{name}.csv").open(encoding="utf-8") as file:
            count = sum(1 for _ in csv.reader(file)) - 1
        assert f"| `{name}.csv` | {count:,} |" in readme


def test_a_broken_measurement_is_named(tmp_path: Path):
    for source in data_path(FOLDER).glob("*.csv"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    table = tmp_path / "attention_prefill.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3].rpartition(",")[0] + ",-1"
    table.write_text("\n".join([*lines, ""]), encoding="utf-8")

    with pytest.raises(CatalogError, match=r"attention_prefill\.csv: entry 'line 4'.*latency_us"):
        read_kernel_tables(tmp_path)


def test_measured_times_are_seconds():
    tables = read_kernel_tables(data_path(FOLDER))

    # The quickest kernel takes microseconds, the slowest less than a second.
    assert np.min(tables.matmuls.measured_s) > 1e-6
    assert np.max(tables.collectives.measured_s) < 1


def test_a_measured_card_replaces_constants_that_were_asked_for_before() -> None:
    """A copy with the user's measurement forgets what its original derived from the generation."""
    card = load_catalog().accelerator("l4")
    calibration = load_calibration()
    derived, _ = calibration.kernels_for(card)
    slower = derived.model_copy(update={"elementwise_bandwidth": 0.123})
    measured = calibration.model_copy(update={"machines": {card.key: slower}})
    assert measured.kernels_for(card) == (slower, True)
    assert calibration.kernels_for(card)[0] == derived
    # An engine changes no kernel.
    assert calibration.under("llama.cpp").kernels_for(card)[0] == derived
