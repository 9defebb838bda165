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


def test_site_and_load_scale_the_energy() -> None:
    energy = energy_kwh(power_w=1000, accelerators=1, hours=1, utilisation=0.5, pue=1.2)
    assert energy == pytest.approx(0.6)


def test_an_impossible_pue_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pue must be at least 1, got 0\.9"):
        energy_kwh(power_w=1, accelerators=1, hours=1, pue=0.9)
