"""Bills add up to the cent: in the result, in the page's table and in a CSV made of it."""

from __future__ import annotations

import csv
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import advisor
from advisor import api
from advisor.catalog import load_catalog
from advisor.catalog.economy import load_economy
from advisor.foundation.quantities import Range
from advisor.frames.ownership import bill_table
from advisor.nouns.money import Owning
from advisor.owning.assumptions import Bought, Spread, size_of
from advisor.owning.costs import Work, owning_cost
from advisor.owning.results import Ownership, OwningCost
from tests.cases import tune

WORK = Work(Range.exact(7.3), Range.exact(1.7e6), 1.2e7, "token")
CARDS = ("rtx-4090", "h100-sxm", "l4", "dgx-spark-gb10", "xeon-8480plus", "rtx-a6000")
CASE: dict[str, Any] = tune("qwen3-0.6b", "h100-sxm", 8, method="qlora", tokens=1e6)


@pytest.fixture(scope="module")
def found() -> Ownership:
    return advisor.own(CASE)


def exact(usd: float) -> Decimal:
    """Return an amount as it is written; in whole cents."""
    amount = Decimal(repr(usd))
    assert amount == amount.quantize(Decimal("0.01"))
    return amount


def bill(card: str, count: int, hours: float, owning: Owning) -> OwningCost:
    accelerator = load_catalog().accelerator(card)
    size = size_of(accelerator, count)
    case = advisor.load_case(CASE).changed(owning=owning)
    inputs = Bought(case, accelerator, size, load_economy()).inputs(owning.months)
    return owning_cost(Spread(inputs), size, hours=hours, months=owning.months, work=WORK)


price = st.decimals("0.01", "99999.99", places=2).map(float)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(CARDS),
    st.integers(1, 200),
    st.floats(0.5, 730),
    price,
    st.integers(12, 60),
    st.floats(0, 0.3),
    st.floats(0, 2),
)
def test_every_bill_of_owning_adds_up(
    found: Ownership,
    card: str,
    count: int,
    hours: float,
    usd: float,
    months: int,
    rate: float,
    tariff: float,
) -> None:
    owning = Owning(
        purchase_usd=usd, months=months, discount_rate=rate, electricity_usd_per_kwh=tariff
    )
    own = bill(card, count, hours, owning)
    lines = {line.name: exact(line.usd) for line in own.lines}
    assert sum(lines.values()) == exact(own.total_usd.expected)
    sold = -(-count // 8) * 8 if card == "h100-sxm" else count  # modules come by the eight
    assert lines["accelerators"] == Decimal(repr(usd)) * sold
    bought = lines["accelerators"] + lines["hosts"] + lines["network"]
    assert exact(own.purchase_usd) == bought

    table = bill_table(found.model_copy(update={"own": own}))
    for rows in (
        table.itertuples(index=False),
        list(csv.reader(StringIO(table.to_csv(index=False))))[1:],
    ):
        *shown, total = [Decimal(str(row[1]).replace(",", "")) for row in rows]
        assert sum(shown) == total
        # A bill from $1,000 on has no cents.
        assert abs(total - exact(own.total_usd.expected)) <= (
            Decimal("0.5") if abs(total) >= 1000 else 0
        )


def test_rents_are_whole_instances_at_their_list_price(found: Ownership) -> None:
    offers = {
        (item.provider, item.instance_type, item.region): item for item in load_catalog().offers
    }
    rented = [item for item in found.rents if item.kind in {"on_demand", "spot"}]
    assert len(rented) >= 4
    for rent in rented:
        offer = offers[rent.provider or "", rent.instance_type or "", rent.region or ""]
        listed = offer.spot_usd_per_hour if rent.kind == "spot" else offer.on_demand_usd_per_hour
        assert Decimal(repr(rent.usd_per_hour)) == Decimal(repr(listed)) * rent.instances


def test_plans_cost_whole_instances_at_their_list_price() -> None:
    answer = api.recommend({key: CASE[key] for key in ("model", "workload")})
    offers = {item.key: item for item in load_catalog().offers}
    assert answer.plans
    for plan in answer.plans:
        cost = plan.estimate.cost
        assert cost.offer is not None
        assert cost.instances is not None
        assert cost.usd_per_hour is not None
        listed = offers[cost.offer].on_demand_usd_per_hour
        assert Decimal(repr(cost.usd_per_hour.expected)) == Decimal(repr(listed)) * cost.instances


def test_what_a_budget_buys_adds_up() -> None:
    found = advisor.own(
        {**CASE, "hardware": None, "owning": {"budget_usd": 20_000, "slots": 5, "host_usd": 333.33}}
    )
    assert found.budget is not None
    assert sum(exact(item.usd) for item in found.budget.best) == exact(found.budget.usd)
