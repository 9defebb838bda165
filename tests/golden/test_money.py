"""Owning and renting, with the arithmetic beside each expected figure in the data."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor import api
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.economy import billing_of, load_economy
from advisor.catalog.files.rows import converted
from advisor.foundation.quantities import Range
from advisor.nouns.hardware import Confidence, Offer, Provenance, Quote
from advisor.owning.report import rent_or_buy
from advisor.owning.results import Ownership, RentKind
from advisor.planning.prepared import prepared

HERE = Path(__file__).parent
OWNING: dict[str, Any] = yaml.safe_load((HERE / "owning.yaml").read_text(encoding="utf-8"))
RENTING: dict[str, Any] = yaml.safe_load((HERE / "renting.yaml").read_text(encoding="utf-8"))
WORK: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 5e7},
}
TODAY = date(2026, 11, 21)


def compared(
    case: dict[str, Any], catalog: Catalog | None = None, run_hours: float | None = None
) -> Ownership:
    """Return the comparison, with the time of a run put in where one is given."""
    loaded = api.load_case(case)
    found = api.estimate(loaded)
    assert found.time is not None
    if run_hours is not None:
        time = found.time.model_copy(update={"run_hours": Range.exact(run_hours)})
        found = found.model_copy(update={"time": time})
    asked = prepared(loaded, catalog)
    reliability = asked.calibration.reliability.changed(checkpoint_s=60.0, restart_s=600.0)
    asked = replace(asked, calibration=asked.calibration.changed(reliability=reliability))
    return rent_or_buy(asked, found, load_economy(), today=TODAY)


@pytest.mark.parametrize("case", OWNING["cases"], ids=lambda case: case["name"])
def test_owning(case: dict[str, Any]) -> None:
    found = compared(
        {
            **WORK,
            "hardware": case["hardware"],
            "owning": {**OWNING["common"], **case["owning"]},
            "renting": {"usd_per_hour": case["rent_usd_per_hour"], "rent_change": 0},
        }
    )
    lines = {line.name: line.usd for line in found.own.lines if line.usd}
    assert lines == case["lines"]
    assert found.own.total_usd.expected == case["total"]
    for field in ("energy_kwh", "carbon_kg"):
        if field in case:
            assert getattr(found.own, field).expected == pytest.approx(case[field], rel=1e-9)
    [rent] = found.rents
    assert rent.kind is RentKind.QUOTE
    assert rent.total_usd.expected == case["rent"]
    even = rent.break_even
    hours = even.hours_per_month
    expected = case["break_even_hours"]
    assert (hours is None) == (expected is None)
    if hours is not None:
        # Every input was given: the answer has no width.
        assert (hours.low, hours.expected, hours.high) == pytest.approx([expected] * 3, abs=0.005)
    months = [case.get("break_even_month")] * 3
    assert [even.first_month, even.month, even.last_month] == months


def offer(index: int, given: dict[str, Any]) -> Offer:
    network, rate = given.get("network_gbit"), given.get("eur")
    made = Offer(
        key=f"offer-{index}",
        provider=given["provider"],
        instance_type="test",
        tier="list",
        region="unspecified",
        accelerator="h100-sxm",
        accelerators=given["accelerators"],
        vcpus=None,
        host_memory_bytes=None,
        on_demand_usd_per_hour=given.get("on_demand"),
        spot_usd_per_hour=given.get("spot"),
        price_date="2026-11-01",
        intra_node="NVLink",
        inter_node_bytes_per_s=network * 1e9 / 8 if network else None,
        billing=billing_of(given["provider"]),
        provenance=Provenance(source="test", date="2026-11-01", confidence=Confidence.DATASHEET),
        quote=Quote(
            currency="EUR",
            on_demand_per_hour=given["on_demand"],
            spot_per_hour=None,
            usd=rate,
            rate_date="2026-11-01",
        )
        if rate
        else None,
    )
    return converted(made, usd=rate, rate_date="2026-11-01") if rate else made


@pytest.mark.parametrize("case", RENTING["cases"], ids=lambda case: case["name"])
def test_renting(case: dict[str, Any]) -> None:
    offers = tuple(offer(index, given) for index, given in enumerate(case["offers"]))
    catalog = load_catalog().model_copy(update={"offers": offers})
    if "usd_per_eur" in case:
        catalog = catalog.at_rate("EUR", case["usd_per_eur"])
    found = compared(
        {
            "model": case.get("model", WORK["model"]),
            "workload": case.get(
                "workload", {**WORK["workload"], "tokens": case.get("tokens", 5e7)}
            ),
            "hardware": {"accelerator": "h100-sxm", "count": case["count"]},
            "owning": {
                "discount_rate": 0,
                "months": case["months"],
                "hours_per_month": case["hours_per_month"],
                **case.get("owning", {}),
            },
            "renting": {"rent_change": 0, **case.get("renting", {})},
        },
        catalog,
        case.get("run_hours"),
    )
    assert [rent.title for rent in found.rents] == [rent["title"] for rent in case["rents"]]
    for rent, expected in zip(found.rents, case["rents"], strict=True):
        assert rent.instances == expected["instances"]
        assert rent.usd_per_hour == expected["usd_per_hour"]
        assert rent.total_usd.expected == expected["total"]
        assert rent.price_age_days in (20, None)  # 1 to 21 November
        for field in ("usd_per_run", "usd_per_million"):
            if field in expected:
                assert getattr(rent, field).expected == pytest.approx(expected[field], abs=0.005)
        if "checkpoint_interval_s" in expected:
            assert rent.checkpoint_interval_s == pytest.approx(
                expected["checkpoint_interval_s"], abs=0.01
            )
