"""One definition of a run's energy, in every answer, with its carbon."""

from __future__ import annotations

from typing import Any

import pytest

from advisor import api

CASE: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 2e6},
    "hardware": {"accelerator": "rtx-4090", "count": 1},
}


def test_energy_is_what_machine_and_cooling_draw_while_in_use() -> None:
    """450 W, half of it for the rest of the computer, 76 % drawn, no cooling in a room."""
    found = api.estimate(CASE)
    assert found.time is not None
    assert found.cost.energy_kwh is not None
    hours = found.time.run_hours.expected
    assert found.cost.energy_kwh.expected == pytest.approx(0.45 * 1.5 * 0.76 * hours)
    # Ember 2023 through codecarbon: 369.473 g for a kWh in the United States.
    assert found.cost.carbon_kg is not None
    assert found.cost.carbon_kg.expected == pytest.approx(found.cost.energy_kwh.expected * 0.369473)


def test_every_answer_gives_the_same_energy() -> None:
    energy = api.estimate(CASE).cost.energy_kwh
    assert energy is not None
    owned = api.own(CASE)
    assert owned.processors[0].energy_kwh == pytest.approx(energy.expected)
    assert owned.own.energy_kwh_per_run is not None
    assert owned.own.energy_kwh_per_run.expected == pytest.approx(energy.expected)
    limits = {"owned": [{"accelerator": "rtx-4090", "count": 1}]}
    plan = api.recommend({**CASE, "hardware": None, "limits": limits}).plans[0].estimate
    assert plan.time is not None
    assert plan.cost.energy_kwh is not None
    per_hour = plan.cost.energy_kwh.expected / plan.time.run_hours.expected
    assert per_hour == pytest.approx(0.45 * 1.5 * 0.76)


def test_the_place_and_the_region_of_an_offer_decide_the_carbon() -> None:
    stated = api.estimate({**CASE, "owning": {"place": "fra"}}).cost
    assert stated.carbon_place == "France"
    assert stated.carbon_kg is not None
    assert stated.energy_kwh is not None
    # Ember 2023: 56.039 g for a kWh.
    assert stated.carbon_kg.expected == pytest.approx(stated.energy_kwh.expected * 0.056039)
    rented = {
        **CASE,
        "hardware": {"accelerator": "l4", "count": 1},
        "limits": {"providers": ["GCP"], "regions": ["europe-west4"]},
    }
    assert "europe-west4" in api.estimate(rented).cost.carbon_place
