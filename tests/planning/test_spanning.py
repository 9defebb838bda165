"""One plan on several offers of one provider, beside every cover of its replicas by machines."""

from __future__ import annotations

from functools import cache
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

import advisor
from advisor import api
from advisor.catalog import Catalog
from advisor.planning.results import Plan
from advisor.planning.spanning import _Machines

SIZES = {1: 3.5, 2: 6.6, 4: 12.4, 8: 20.0}
"""Cards of a machine, and its price: larger ones give a discount. [USD/h]"""
MOST = {"max_accelerators": 96}
TENSORS = (1, 2, 4, 8)


def provider(sizes: dict[int, float]) -> Catalog:
    """Return a catalog in which one provider rents machines of these sizes."""
    catalog = advisor.load_catalog()
    known = {one.accelerators: one for one in catalog.offers if one.provider == "Lambda"}
    offers = tuple(
        known[8].changed(
            accelerator="h100-sxm",
            accelerators=cards,
            instance_type=f"h100-{cards}",
            key=f"test-{cards}",
            intra_node="NVLink" if cards > 1 else "",
            inter_node_bytes_per_s=None,
            on_demand_usd_per_hour=usd,
            spot_usd_per_hour=None,
        )
        for cards, usd in sizes.items()
    )
    return catalog.changed(offers=offers)


def asked(model: str, load: int | str, **limits: Any) -> dict[str, Any]:
    work = {"concurrency": load} if isinstance(load, int) else {"requests_per_s": load}
    return {
        "model": {"preset": model},
        "workload": {"kind": "serving", "weight_format": "bf16", **work},
        "limits": {"accelerators": ["h100-sxm"], "max_ttft_ms": 5000, **MOST, **limits},
    }


DEMANDS = (
    asked("llama-3.1-8b", 1000, max_tpot_ms=20),
    asked("llama-3.1-8b", 1700, max_tpot_ms=18),
    asked("llama-3.1-8b", 2500, max_tpot_ms=15),
    asked("llama-3.1-8b", "150/s", max_tpot_ms=20),
    asked("llama-3.1-8b", "220/s", max_tpot_ms=18),
    asked("llama-3.1-8b", "100/s", max_ttft_ms=200, at="p95"),
    asked("qwen3-14b", "90/s", max_tpot_ms=25),
    asked("qwen3-32b", 700, max_tpot_ms=35),
    asked("qwen3-32b", "30/s", max_tpot_ms=30),
    asked("llama-3.1-70b", "12/s", max_tpot_ms=40),
    asked("llama-3.1-70b", 300, max_tpot_ms=35),
    asked("qwen3-30b-a3b", "120/s", max_tpot_ms=25),
)


def cheapest(case: dict[str, Any], catalog: Catalog) -> Plan:
    return advisor.recommend(case, catalog=catalog, brief=True).plans[0]


def brute_force(case: dict[str, Any], catalog: Catalog) -> float:
    """Return the least price of machines that hold enough replicas of any layout. [USD/h]"""
    return min(covered(tensor, fewest(case, catalog, tensor)) for tensor in TENSORS)


def fewest(case: dict[str, Any], catalog: Catalog, tensor: int) -> int | None:
    """Return the fewest replicas that meet the limits, with the number by which they do."""

    def met(number: int) -> bool:
        hardware = {"accelerator": "h100-sxm", "count": number * tensor}
        layout = {"tensor": tensor, "data": number}
        found = advisor.estimate(case | {"hardware": hardware, "layout": layout}, catalog=catalog)
        return found.memory.fits and not found.missed_limits

    low, high = 0, MOST["max_accelerators"] // tensor
    if not met(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


def covered(tensor: int, replicas: int | None) -> float:
    @cache
    def least(left: int) -> float:
        if left <= 0:
            return 0.0
        machines = [(cards // tensor, usd) for cards, usd in SIZES.items() if cards >= tensor]
        return min(usd + least(left - held) for held, usd in machines)

    return inf if replicas is None else least(replicas)


@pytest.mark.parametrize("case", DEMANDS, ids=range(len(DEMANDS)))
def test_no_mix_of_machines_is_cheaper(case: dict[str, Any]) -> None:
    catalog = provider(SIZES)
    cost = cheapest(case, catalog).estimate.cost
    assert cost.usd_per_hour
    assert cost.usd_per_hour.expected <= 1.01 * brute_force(case, catalog)


def test_the_last_replicas_rent_smaller_machines_and_the_answer_says_so() -> None:
    """Ten single cards: one machine of eight and two of one cost $27, two of eight $40."""
    catalog = provider({1: 3.5, 8: 20.0})
    both = [(cheapest(case, catalog), cheapest(case, provider({8: 20.0}))) for case in DEMANDS[:3]]
    mixed = [(plan, whole) for plan, whole in both if "several offers" in plan.sentence]
    assert mixed
    for plan, whole in mixed:
        cost, other = plan.estimate.cost, whole.estimate.cost
        assert cost.usd_per_hour
        assert other.usd_per_hour
        large, small = divmod(plan.estimate.count, 8)
        assert f"({large}x h100-8 and {small}x h100-1)" in plan.sentence
        assert cost.usd_per_hour.expected == pytest.approx(20 * large + 3.5 * small)
        assert cost.usd_per_hour.expected < other.usd_per_hour.expected
        assert cost.instances == large + small


def test_a_spare_is_on_one_of_the_machines() -> None:
    case = DEMANDS[0]
    case = case | {"workload": case["workload"] | {"spare_replicas": 1}}
    plan = cheapest(case, provider({1: 3.5, 8: 20.0}))
    cards = plan.estimate.count + 1
    large, small = divmod(cards, 8)
    cost = plan.estimate.cost.usd_per_hour
    assert cost
    assert cost.expected <= min(20 * large + 3.5 * small, 20.0 * (large + 1))


def test_without_a_discount_one_size_is_enough() -> None:
    plan = cheapest(DEMANDS[0], provider({1: 2.5, 8: 20.0}))
    assert "several offers" not in plan.sentence
    assert plan.estimate.cost.instances == plan.estimate.count


@pytest.fixture(scope="module")
def mixed() -> tuple[dict[str, Any], Catalog, Plan]:
    """Return a case whose plan is on several offers, with its catalog."""
    catalog = provider({1: 3.5, 8: 20.0})
    for case in DEMANDS:
        plan = cheapest(case, catalog)
        if "several offers" in plan.sentence and plan.estimate.layout.replica_cards == 1:
            return case, catalog, plan
    pytest.fail("no plan is on several offers")


def test_every_door_rents_the_same_machines(mixed: tuple[dict[str, Any], Catalog, Plan]) -> None:
    case, catalog, plan = mixed
    cost, count = plan.estimate.cost, plan.estimate.count
    assert cost.usd_per_hour
    hardware = {"hardware": {"accelerator": "h100-sxm", "count": count}}
    stated = advisor.estimate(case | hardware, catalog=catalog).cost
    assert stated.usd_per_hour == cost.usd_per_hour
    assert stated.instance_type == cost.instance_type
    assert stated.offer == cost.offer
    now = api.what_if(case | hardware, catalog=catalog)[0]
    assert now.usd == cost.rent_usd
    cells = api.turning(case, catalog=catalog).cells()
    cell = next(cell for cell in cells if cell.count == count)
    assert cell.usd == pytest.approx(730 * cost.usd_per_hour.expected)


def test_a_machine_with_an_uncertain_price_has_to_win_by_its_high_end(
    mixed: tuple[dict[str, Any], Catalog, Plan],
) -> None:
    """Eight cards "from" $20 may be 1.5 times that: more than eight single ones at $3.5."""
    case, catalog, plan = mixed
    offers = tuple(
        one.changed(price_factor=1.5) if one.accelerators == 8 else one for one in catalog.offers
    )
    other = cheapest(case, catalog.changed(offers=offers))
    assert "several offers" not in other.sentence
    assert "several offers" in plan.sentence


def test_pods_run_on_machines_of_several_sizes_and_a_script_names_what_works(
    mixed: tuple[dict[str, Any], Catalog, Plan],
) -> None:
    case, catalog, plan = mixed
    cost, count = plan.estimate.cost, plan.estimate.count
    pods = advisor.export(case, "kubernetes", catalog=catalog).content
    assert f"replicas: {count}\n" in pods
    assert cost.rent_usd
    assert f"{cost.instance_type}, " in pods
    assert f"${cost.rent_usd.expected:,.0f} a month" in pods
    with pytest.raises(advisor.InputError, match="kubernetes, skypilot, dstack") as refused:
        advisor.export(case, "vllm", catalog=catalog)
    number = int(str(refused.value).rstrip(".").rpartition(" ")[2])
    whole = case | {"hardware": {"accelerator": "h100-sxm", "count": number}}
    assert "vllm serve" in advisor.export(whole, "vllm", catalog=catalog).content


def test_replicas_on_thousands_of_machines_are_covered_in_few_steps() -> None:
    """16,384 cards for a million users took 52 s and 1.3 GB: each number of replicas in turn."""
    some = advisor.load_catalog().offers[0]
    places = {
        place: (usd, usd, some.changed(key=str(place), accelerators=cards))
        for place, (cards, usd) in enumerate([(8, 15.0), (4, 8.0), (1, 2.1)])
    }
    node = SimpleNamespace(node=SimpleNamespace(links=lambda _: None))
    machines = _Machines([node] * 3, dict.fromkeys(range(3), places))  # type: ignore[list-item]

    cover = machines._cheapest(0, 1, 16_383, below=inf)
    assert cover is not None
    high, usd, number = cover

    # 2,047 machines of 8 hold 16,376; seven are left, for 4 + 1 + 1 + 1 (14.30) or 8 (15.00).
    assert {offer.accelerators: count for offer, count in number.items()} == {8: 2047, 4: 1, 1: 3}
    assert [high, usd] == pytest.approx([2047 * 15.0 + 14.3] * 2)
    assert len(machines.covers[0, 1]) < 200
