"""One definition of a run's energy, in every answer, with its carbon."""

from __future__ import annotations

from typing import Any

import pytest

from advisor import api
from tests.cases import tune

CASE: dict[str, Any] = tune("llama-3.1-8b", "rtx-4090", 1, method="qlora", tokens=2e6)


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


@pytest.mark.parametrize(
    ("card", "provider", "region", "place"),
    [
        ("h100-pcie", "Hyperstack", "europe", "Norway"),  # CANADA-1/US-1/NORWAY-1
        ("h100-pcie", "Hyperstack", "us", "United States"),
        ("l40s", "AWS", "germany", "Germany"),  # eu-central-1 is Frankfurt
        ("h100-sxm", "Gcore", "eu", "European Union"),
        ("a100-sxm-80gb", "Azure", "swedencentral", "Sweden"),
        ("h200-sxm", "Nebius", "france", "France"),  # eu-west1 is Paris
    ],
)
def test_the_region_that_is_asked_for_picks_the_grid(
    card: str, provider: str, region: str, place: str
) -> None:
    limits = {"providers": [provider], "regions": [region]}
    hardware = {"accelerator": card, "count": 1}
    assert api.estimate({**CASE, "hardware": hardware, "limits": limits}).cost.carbon_place == place


def served(card: str, **more: Any) -> Any:
    work = {"kind": "serving", "concurrency": 8}
    return api.estimate(
        {**CASE, "workload": work, "hardware": {"accelerator": card, "count": 8}, **more}
    ).cost


def test_a_month_of_a_dgx_h100() -> None:
    """NVIDIA rates the machine at 10.2 kW; 76 % drawn (arXiv:2506.14551), PUE 1.54, 730 hours."""
    energy = served("h100-sxm").energy_kwh
    assert energy.expected == pytest.approx(10.2 * 0.76 * 1.54 * 730, rel=2e-3)


def test_owned_cards_have_energy_and_no_rent() -> None:
    owned = served("h100-sxm", limits={"owned": [{"accelerator": "h100-sxm", "count": 8}]})
    assert owned.rent_usd is None
    assert owned.energy_kwh == served("h100-sxm").energy_kwh


def test_unknown_power_is_unknown_energy() -> None:
    """AWS publishes no power of an Inferentia2."""
    found = served("inferentia2")
    assert found.energy_kwh is None
    assert found.carbon_kg is None
    assert not {"energy", "carbon"} & {term.name for term in found.terms}


def test_energy_has_the_range_of_the_hours_where_all_else_is_stated() -> None:
    stated = {"host_power_share": 0.5, "load_share": 0.8, "pue": 1.25}
    found = api.estimate({**CASE, "owning": stated})
    assert found.time is not None
    assert found.cost.energy_kwh is not None
    hours, energy = found.time.run_hours, found.cost.energy_kwh
    # 450 W x 1.5 x 0.8 x 1.25
    assert (energy.low, energy.expected, energy.high) == pytest.approx(
        (0.675 * hours.low, 0.675 * hours.expected, 0.675 * hours.high)
    )
    assert energy.low < energy.high


def test_a_rig_of_eight_consumer_cards_is_a_server() -> None:
    """Eight cards of 450 W do not fit a desktop: the rest is 82 % of them, and the room is cooled.

    owning_defaults.csv: the rest 0.82 (server) or 0.5 (desktop), PUE 1.54 or 1.
    """
    kwh = {}
    for count in (4, 8):
        found = api.estimate(tune("llama-3.1-8b", "rtx-4090", count, method="lora", tokens=1e6))
        assert found.time is not None
        assert found.cost.energy_kwh is not None
        kwh[count] = found.cost.energy_kwh.expected / found.time.run_hours.expected / count

    assert kwh[8] / kwh[4] == pytest.approx(1.82 * 1.54 / 1.5)
