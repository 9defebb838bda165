import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.equations.energy import carbon_kg, kwh_per_month, rated_kw
from advisor.equations.owning import (
    annuity_months,
    break_even_inverse,
    capital_usd,
    discounted,
    residual_share,
)
from advisor.equations.pricing import committed_months, rent_usd

RATES = st.floats(-0.5, 1.0)


def test_a_level_annuity_is_the_textbook_one() -> None:
    # 1 % a month is 12.6825 % a year; 12 payments of 1 are worth 11.2551 (any table of annuities).
    assert annuity_months(months=12, discount_rate=1.01**12 - 1) == pytest.approx(11.2551, abs=5e-5)


@given(st.integers(1, 60), RATES, RATES)
def test_the_annuity_is_the_sum_of_its_payments(months: int, rate: float, growth: float) -> None:
    summed = sum(((1 + growth) / (1 + rate)) ** (month / 12) for month in range(1, months + 1))
    found = annuity_months(months=months, discount_rate=rate, growth_rate=growth)
    assert found == pytest.approx(summed, rel=1e-6)


def test_arrays_and_scalars_agree() -> None:
    months = np.array([0.0, 12.0, 36.0])
    many = annuity_months(months=months, discount_rate=0.08, growth_rate=-0.1)
    for index, each in enumerate(months):
        one = annuity_months(months=float(each), discount_rate=0.08, growth_rate=-0.1)
        assert np.asarray(many)[index] == pytest.approx(one, rel=1e-12)
    assert np.asarray(many)[0] == 0
    shares = residual_share(months=months, life_years=2.0)
    assert np.asarray(shares).tolist() == [0.5, 0.5, 0.0]  # the first sale costs a year


def test_money_of_the_future_is_worth_less() -> None:
    assert discounted(usd=1331.0, months=36, discount_rate=0.1) == pytest.approx(1000.0)


def test_what_is_bought() -> None:
    # 8 x 25,000 = 200,000; 38 % of it for hosts and 12 % for the network.
    assert capital_usd(
        accelerators=8, purchase_usd=25000.0, host_share=0.38, network_share=0.12
    ) == pytest.approx(300_000)


def test_power_and_energy_of_a_machine() -> None:
    # 8 x 700 W and 82 % more: 10.192 kW; half the month at 80 %, the rest at 20 %, and cooling.
    power = rated_kw(accelerators=8, board_power_w=700.0, host_power_share=0.82)
    assert power == pytest.approx(10.192)
    energy = kwh_per_month(
        hours_per_month=365.0, rated_kw=power, load_share=0.8, idle_share=0.2, pue=1.5
    )
    assert energy == pytest.approx(10.192 * 1.5 * 365)
    assert carbon_kg(energy_kwh=energy, g_per_kwh=400.0) == pytest.approx(2232.048)


def test_break_even_is_where_both_lines_cross() -> None:
    inverse = break_even_inverse(
        fixed_usd=8000.0, rent_usd_at_full_use=20_000.0, running_usd_at_full_use=4000.0
    )
    share = 1 / float(inverse)
    assert 8000 + share * 4000 == pytest.approx(share * 20_000)


@pytest.mark.parametrize(
    ("hours", "step", "minimum", "billed"),
    [
        (1.505, 1.0, 0.0, 2.0),
        (1.505, 1 / 60, 0.0, 91 / 60),
        (1.505, 1 / 3600, 0.0, 1.505),
        (0.005, 1 / 3600, 1 / 60, 1 / 60),
        (0.25, 1 / 60, 0.0, 0.25),
        (3.0, 1.0, 1.0, 3.0),
    ],
)
def test_time_is_billed_in_whole_steps(
    hours: float, step: float, minimum: float, billed: float
) -> None:
    found = rent_usd(
        hours=hours, instances=1.0, usd_per_hour=1.0, billing_step_hours=step, minimum_hours=minimum
    )
    assert found == pytest.approx(billed)


def test_terms_are_paid_whole() -> None:
    paid = committed_months(months=np.array([1.0, 12.0, 13.0]), term_months=12)
    assert np.asarray(paid).tolist() == [12.0, 12.0, 24.0]
