import pytest

from advisor.equations.pricing import instances_needed, rent_usd, spot_hours


@pytest.mark.parametrize(
    ("accelerators", "per_instance", "instances"),
    [(1, 8, 1), (8, 8, 1), (9, 8, 2), (12, 8, 2), (64, 8, 8), (3, 1, 3)],
)
def test_instances_are_whole(accelerators: int, per_instance: int, instances: int) -> None:
    assert instances_needed(accelerators=accelerators, per_instance=per_instance) == instances


def test_rent_of_a_published_list_price() -> None:
    # AWS p5.48xlarge at launch: 98.32 USD/h; two of them for a day.
    assert rent_usd(hours=24, instances=2, usd_per_hour=98.32) == pytest.approx(4719.36)


@pytest.mark.parametrize(
    ("hours", "step", "usd"), [(1.01, 1.0, 20.0), (1.0, 1.0, 10.0), (0.5, 1 / 60, 5.0)]
)
def test_rent_is_billed_in_steps(hours: float, step: float, usd: float) -> None:
    rent = rent_usd(hours=hours, instances=1, usd_per_hour=10.0, billing_step_hours=step)
    assert rent == pytest.approx(usd)


def test_a_negative_billing_step_is_refused() -> None:
    with pytest.raises(ValueError, match="billing_step_hours must be 0 or more, got -1"):
        rent_usd(hours=1, instances=1, usd_per_hour=1, billing_step_hours=-1.0)


def test_spot_run_by_hand() -> None:
    # One interruption in 2 h, 9 s to save, 10 min to restart. Young's interval is
    # sqrt(2 x 9 x 7200) = 360 s: 2.5 % for saving, (180 + 600) / 7200 = 10.83 % lost.
    hours = spot_hours(hours=10, interruptions_per_hour=0.5, checkpoint_s=9, restart_s=600)
    assert hours == pytest.approx(10 * (1 + 0.025 + 0.10833), rel=1e-4)


def test_spot_without_interruptions_to_speak_of_takes_no_longer() -> None:
    hours = spot_hours(hours=10, interruptions_per_hour=1e-12, checkpoint_s=9, restart_s=600)
    assert hours == pytest.approx(10, rel=1e-5)
