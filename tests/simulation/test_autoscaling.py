"""The day's bill beside a simulated autoscaler, request by request."""

from __future__ import annotations

import math
from statistics import fmean

import pytest

from advisor.nouns.demand import DayShape, Demand
from advisor.planning.day import Load, bills
from tests.simulation.autoscaler import replica_seconds

PER_REPLICA, USD_PER_HOUR = 2.0, 3.0
HOURS_PER_MONTH = 730


@pytest.mark.parametrize("shape", [DayShape.OFFICE, DayShape.CONSUMER, DayShape.GLOBAL])
@pytest.mark.parametrize("start_s", [120.0, 600.0])
def test_the_bill_of_an_autoscaled_day_is_that_of_the_simulation(
    shape: DayShape, start_s: float
) -> None:
    demand = Demand(day_shape=shape, peak_requests_per_s=60.0)
    day = bills(Load(demand, PER_REPLICA, 1, USD_PER_HOUR), start_s, 30)
    days = [
        replica_seconds(
            demand.rates(),
            lambda rate: max(1, math.ceil(rate / PER_REPLICA - 1e-9)),
            start_s=start_s,
            hold_s=demand.hold_s,
            least=1,
            seed=seed,
        )
        for seed in (7, 8, 9)
    ]
    [scaled] = [way for way in day.ways if way.name == "autoscaled"]
    for billed, _ in days:
        usd = billed / (24 * 3600) * USD_PER_HOUR * HOURS_PER_MONTH
        assert scaled.usd_per_month == pytest.approx(usd, rel=0.03)
    # Between 0.1 and 1.5 % of the requests: by chance a day differs by a third from another.
    late = fmean(share for _, share in days)
    assert scaled.late_share == pytest.approx(late, rel=0.5)


def test_a_fixed_fleet_is_billed_for_its_peak_all_month() -> None:
    demand = Demand(day_shape=DayShape.OFFICE, peak_requests_per_s=60.0)
    fixed = bills(Load(demand, PER_REPLICA, 1, USD_PER_HOUR), 120.0, 30).ways[0]
    assert fixed.usd_per_month == 30 * USD_PER_HOUR * HOURS_PER_MONTH
    assert fixed.late_share == 0
    # The mean of the day over its peak is what is used.
    used = sum(demand.rates()) / 24 / 60
    assert fixed.idle_share == pytest.approx(1 - used, abs=0.01)


def test_a_sleeping_service_costs_almost_nothing_and_wakes_late() -> None:
    """Six requests an hour, five minutes of patience: awake for 1 - exp(-1/2) of the time."""
    demand = Demand(day_shape=DayShape.FLAT, peak_requests_per_s=6 / 3600, min_replicas=0)
    scaled = bills(Load(demand, PER_REPLICA, 1, USD_PER_HOUR), 120.0, 1).ways[1]
    awake = 1 - math.exp(-0.5)
    assert scaled.usd_per_month == pytest.approx(awake * USD_PER_HOUR * HOURS_PER_MONTH)
    assert scaled.late_share == pytest.approx(math.exp(-0.5))
