"""Routed experts: curves of grouped kernels against the measured tables."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.calibration.fitting.kernel_tables import FOLDER, Experts, read_kernel_tables
from advisor.calibration.fitting.kernels import fit_experts
from advisor.catalog.constants import load_calibration
from advisor.catalog.loader import load_catalog
from advisor.foundation.resources import data_path
from advisor.nouns.precision import WEIGHT_FORMATS


def test_a_curve_finds_the_rates_that_times_were_made_of() -> None:
    card = load_catalog().accelerator("h100-sxm")
    rows = np.array([8.0, 64.0, 1024.0, 65536.0] * 2)
    held = np.minimum(rows, 64.0)
    hidden, intermediate = np.repeat([4096.0, 2048.0], 4), np.repeat([1536.0, 1024.0], 4)
    moved = flops = np.zeros_like(rows)
    times = np.zeros_like(rows)
    for depth, width in ((hidden, 2 * intermediate), (intermediate, hidden)):
        flops = 2 * rows * depth * width
        moved = 2 * held * depth * width + 2 * rows * (depth + width)
        compute = flops / (0.5 * card.peak_flops_per_s["bf16"]) * (1 + 30 / (rows * width / 128**2))
        reading = moved / (0.8 * card.memory_bandwidth_bytes_per_s)
        times += 5e-6 + np.hypot(compute, reading)
    table = Experts(
        accelerator=np.full(8, "h100-sxm"),
        kernel=np.full(8, "bf16"),
        rows=rows,
        held=held,
        hidden=hidden,
        intermediate=intermediate,
        measured_s=times,
    )

    found = fit_experts(table, {"h100-sxm": card}, ["h100-sxm"])

    assert set(found) == {"default"}
    assert found["default"].bandwidth == pytest.approx(0.8, rel=0.02)
    assert found["default"].compute == pytest.approx(0.5, rel=0.1)


def test_one_rank_of_a_group_holds_its_share() -> None:
    tables = read_kernel_tables(data_path(FOLDER)).experts

    # DeepSeek-V3 on eight ranks: 64 tokens x 8 of 256 experts, 32 on each; then one token.
    assert {256.0 / 8} <= set(tables.held.tolist())
    assert tables.held.min() >= 1.0
    assert (tables.held <= tables.rows).all()


def test_experts_are_served_at_the_rate_of_their_format() -> None:
    catalog, calibration = load_catalog(), load_calibration()
    kernels, measured = calibration.served_kernels(
        catalog.accelerator("b200-sxm"), WEIGHT_FORMATS["nvfp4"]
    )
    assert measured
    assert kernels.expert_format in kernels.experts


def test_four_bit_integers_keep_the_rate_of_a_multiprocessor() -> None:
    # Marlin has none for the tensor units of B200. Data sheets, TFLOP/s: vectors 66.9 of H200, 80
    # of B200, bf16 989 and 2,250; memory 4.8 and 8 TB/s.
    catalog, calibration = load_catalog(), load_calibration()
    before, now = (
        calibration.served_kernels(catalog.accelerator(card), WEIGHT_FORMATS["w4a16"])[0]
        for card in ("h200-sxm", "b200-sxm")
    )
    old, new = (kernels.experts["default"] for kernels in (before, now))
    per_vector = 80 / 66.9
    assert 8 * new.bandwidth == pytest.approx(4.8 * old.bandwidth * per_vector, rel=0.1)
    assert 2250 * new.compute == pytest.approx(989 * old.compute * per_vector, rel=0.1)
    plain = calibration.kernels_for(catalog.accelerator("b200-sxm"))[0]
    assert now.matmul["default"] == plain.matmul["default"]


def test_a_card_with_few_multiprocessors_does_not_fill_its_memory() -> None:
    # Data sheets: H200 4.8 TB/s for 66.9 TFLOP/s of vectors, H20 44 TFLOP/s of vectors on 4 TB/s.
    catalog, calibration = load_catalog(), load_calibration()
    few = calibration.kernels_for(catalog.accelerator("h20"))[0]
    many = calibration.kernels_for(catalog.accelerator("h200-sxm"))[0]
    share = 4.8 / 66.9 * 44 / 4
    assert few.elementwise_bandwidth / many.elementwise_bandwidth == pytest.approx(share, rel=0.01)
    # What H100 and H200 leave open (tiles of 16-bit products) comes from all cards.
    pool = calibration.kernels["default"].matmul["default"]
    assert few.matmul["default"].half_tiles == pool.half_tiles


@pytest.mark.parametrize(("card", "measured"), [("h100-sxm", True), ("h20", False)])
def test_kernels_speak_for_cards_of_like_balance(card: str, measured: bool) -> None:
    # H20: 148 TFLOP/s on 4 TB/s, 37 operations for each byte; H200 206, H100 295 (data sheets).
    found = load_calibration().kernels_for(load_catalog().accelerator(card))
    assert found[1] is measured
