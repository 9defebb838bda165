import pytest

from advisor.equations.energy import energy_kwh, kwh_per_month, rated_kw


def test_a_month_of_eight_cards() -> None:
    # Eight cards of 700 W for 730 h: 5.6 kW x 730 h.
    cards = rated_kw(accelerators=8, board_power_w=700, host_power_share=0.0)
    assert energy_kwh(rated_kw=cards, load_share=1, pue=1, hours=730) == pytest.approx(4088)


def test_bloom_training_energy() -> None:
    # Luccioni et al. 2022 (arXiv:2211.02001, section 4.3): BLOOM's 1.08 million GPU hours on
    # A100 at 400 W (their TDP estimate) are 433 MWh.
    cards = rated_kw(accelerators=384, board_power_w=400, host_power_share=0.0)
    energy = energy_kwh(rated_kw=cards, load_share=1, pue=1, hours=1_082_990 / 384)
    assert energy == pytest.approx(433_196, rel=1e-4)


def test_a_month_is_its_hours_in_use_and_its_idle_hours() -> None:
    month = kwh_per_month(hours_per_month=200, rated_kw=2, load_share=0.8, idle_share=0.1, pue=1.5)
    used = energy_kwh(rated_kw=2, load_share=0.8, pue=1.5, hours=200)
    idle = energy_kwh(rated_kw=2, load_share=0.1, pue=1.5, hours=530)
    assert month == pytest.approx(used + idle)
