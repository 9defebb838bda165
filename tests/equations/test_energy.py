import pytest

from advisor.equations.energy import energy_kwh


def test_a_month_of_eight_cards() -> None:
    # Eight cards of 700 W for 730 h: 5.6 kW x 730 h.
    assert energy_kwh(power_w=700, accelerators=8, hours=730) == pytest.approx(4088)


def test_bloom_training_energy() -> None:
    # Luccioni et al. 2022 (arXiv:2211.02001, section 4.3): BLOOM's 1.08 million GPU hours on
    # A100 at 400 W (their TDP estimate) are 433 MWh.
    energy = energy_kwh(power_w=400, accelerators=384, hours=1_082_990 / 384)
    assert energy == pytest.approx(433_196, rel=1e-4)
