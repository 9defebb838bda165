"""Spare replicas and a load balancer: what a plan with them rents, costs and writes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import advisor
from advisor.errors import InputError
from advisor.fleet.portfolio import FleetWorkload
from advisor.planning.results import Plan


def asked(limits: dict[str, Any] | None = None, **workload: Any) -> dict[str, Any]:
    work = {"kind": "serving", "requests_per_s": "40/s", "input_tokens": 1000, **workload}
    return {
        "model": {"preset": "llama-3.1-8b"},
        "workload": work,
        "limits": {"max_ttft_ms": 800, "max_tpot_ms": 60, **(limits or {})},
    }


def first(case: dict[str, Any]) -> Plan:
    return advisor.recommend(case).plans[0]


def rent(plan: Plan) -> float:
    assert plan.estimate.cost.rent_usd is not None
    return plan.estimate.cost.rent_usd.expected


def test_a_spare_is_rented_and_named_and_carries_no_load() -> None:
    limits = {"accelerators": ["l40s"], "providers": ["AWS"]}
    plain, spared = first(asked(limits)), first(asked(limits, spare_replicas=1))
    assert spared.replicas == plain.replicas == spared.estimate.count
    assert spared.estimate.cost.instances == plain.replicas + 1
    assert rent(spared) == pytest.approx(rent(plain) * (plain.replicas + 1) / plain.replicas)
    assert spared.estimate.serving is not None
    assert plain.estimate.serving is not None
    assert spared.estimate.serving.tpot_ms == plain.estimate.serving.tpot_ms
    assert f"{plain.replicas} replicas of 1x NVIDIA L40S and one spare at AWS" in spared.sentence


@pytest.mark.parametrize("spares", [1, 2])
def test_the_search_finds_no_dearer_plan_than_every_card_alone(spares: int) -> None:
    """A spare of a large card costs more: the cheapest plan with it may be on another card."""
    cards = ["l40s", "a10", "h100-sxm", "l4", "rtx-4090", "a100-sxm-80gb"]
    together = first(asked({"accelerators": cards}, spare_replicas=spares))
    alone = [first(asked({"accelerators": [card]}, spare_replicas=spares)) for card in cards]
    assert rent(together) <= 1.01 * min(rent(plan) for plan in alone)


def test_machines_of_eight_hold_the_spare_beside_the_others() -> None:
    """CoreWeave rents H100 by eight: seven replicas and a spare fill one machine."""
    limits = {"accelerators": ["h100-sxm"], "providers": ["CoreWeave"]}
    plan = first(asked(limits, spare_replicas=1))
    estimate = plan.estimate
    assert estimate.cost.instances == 1
    assert estimate.cards == estimate.layout.replica_cards * (plan.replicas + 1) <= 8


def test_copies_that_share_experts_have_a_whole_copy_to_spare() -> None:
    case = asked({"accelerators": ["h200-sxm"]}, spare_replicas=1, requests_per_s="4/s")
    estimate = first({**case, "model": {"preset": "deepseek-v3"}, "limits": {}}).estimate
    assert estimate.serving is not None
    assert estimate.cards == estimate.count * (estimate.layout.replicas + 1) // (
        estimate.layout.replicas
    )


def test_owned_cards_keep_one_for_the_spare() -> None:
    plan = first(
        {
            **asked(spare_replicas=1, requests_per_s="20/s"),
            "limits": {"owned": [{"accelerator": "h100-sxm", "count": 3}]},
        }
    )
    assert plan.estimate.cards <= 3
    assert "and one spare" in plan.title


@pytest.mark.parametrize("load", [{"requests_per_s": "2/s"}, {"requests_per_s": None}])
def test_one_card_alone_is_refused_for_the_spare_that_it_lacks(load: dict[str, Any]) -> None:
    limits = {"owned": [{"accelerator": "h100-sxm", "count": 1}]}
    found = advisor.recommend({**asked(spare_replicas=1, **load), "limits": limits})
    assert not found.plans
    [lost] = [item for item in found.rejections if item.accelerator == "h100-sxm"]
    assert "1 spare" in lost.message
    assert "--spare-replicas" in lost.remedy


def test_an_estimate_counts_the_spare_among_its_cards() -> None:
    case = {**asked(spare_replicas=1), "hardware": {"accelerator": "h100-sxm"}}
    estimate = advisor.estimate({**case, "layout": {"data": 3}})
    assert (estimate.count, estimate.cards) == (3, 4)
    assert estimate.cost.purchase_usd is not None
    one = advisor.estimate({**case, "workload": {**case["workload"], "spare_replicas": 0}})
    assert one.cost.purchase_usd is not None
    assert estimate.cost.purchase_usd.expected == 4 * one.cost.purchase_usd.expected
    full = {**case, "layout": {"data": 3}, "hardware": {"accelerator": "h100-sxm", "count": 3}}
    with pytest.raises(InputError, match="no spare replica") as refusal:
        advisor.estimate(full)
    assert refusal.value.field == "hardware.count"


@pytest.mark.parametrize(
    ("to", "where"), [("kubernetes", ("spec", "replicas")), ("dstack", ("replicas",))]
)
def test_files_start_the_spare_too(to: str, where: tuple[str, ...]) -> None:
    case = asked({"accelerators": ["l40s"], "providers": ["AWS"]}, spare_replicas=2)
    found: Any = next(iter(yaml.safe_load_all(advisor.export(case, to).content)))
    for name in where:
        found = found[name]
    assert found == first(case).replicas + 2


def test_the_bill_of_the_day_has_the_spare() -> None:
    day = {"day_shape": "office", "peak_requests_per_s": "40/s"}
    work = {"demand": day, "requests_per_s": None}
    limits = {"accelerators": ["l40s"], "providers": ["AWS"]}
    plain, spared = first(asked(limits, **work)), first(asked(limits, **work, spare_replicas=1))
    assert plain.estimate.day is not None
    assert spared.estimate.day is not None
    each = rent(plain) / plain.replicas
    for before, after in zip(plain.estimate.day.ways[:2], spared.estimate.day.ways, strict=False):
        assert after.usd_per_month == pytest.approx(before.usd_per_month + each, rel=0.02)


def test_a_load_balancer_costs_what_its_provider_publishes() -> None:
    """AWS: 0.0225 USD an hour and 0.008 USD for a unit of 1 GB (pricing page, 2026-09-20)."""
    case = asked({"providers": ["AWS"]}, output_tokens=250)
    plain, behind = (
        first(case),
        first({**case, "workload": {**case["workload"], "load_balancer": True}}),
    )
    gigabytes = 40 * (1000 * 4 + 250 * 250) * 3600 / 1e9
    assert rent(behind) - rent(plain) == pytest.approx(730 * (0.0225 + 0.008 * gigabytes), rel=1e-3)
    assert any("Application Load Balancer" in note for note in behind.estimate.assumptions)


def test_a_provider_without_a_load_balancer_is_said_to_have_none() -> None:
    plan = first(asked({"providers": ["Vast.ai"]}, load_balancer=True))
    assert any(
        "no published price of a load balancer" in item for item in plan.estimate.assumptions
    )
    assert rent(plan) == rent(first(asked({"providers": ["Vast.ai"]})))


def test_a_fleet_refuses_spares() -> None:
    with pytest.raises(ValueError, match=r"leave workload\.spare_replicas out"):
        FleetWorkload.model_validate({"name": "chat", "case": asked(spare_replicas=1)})


def test_what_changes_the_answer_names_cards_with_their_spares() -> None:
    """The prices beside them include the spares."""
    found = advisor.turning(asked({"accelerators": ["l40s", "h100-sxm"]}, spare_replicas=1))
    # Prompts of another length need another number of cards.
    others = {turn.then for turn in found.turns() if turn.then and turn.field != "input_tokens"}
    other = first(asked({"accelerators": ["l40s"]}, spare_replicas=1))
    assert f"{other.estimate.count} replicas of 1x NVIDIA L40S and one spare" in other.title
    assert others == {f"{other.estimate.count + 1}x NVIDIA L40S"}


def test_few_replicas_are_not_a_machine_full_of_them() -> None:
    """CoreWeave rents H100 by eight; of a small load only one replica and its spare run."""
    limits = {"accelerators": ["h100-sxm"], "providers": ["CoreWeave"]}
    small = asked(limits, spare_replicas=1, requests_per_s="1/s") | {"layout": {"data": 1}}
    notes = " ".join(first(small).estimate.assumptions)
    assert "holds 2 replicas" in notes
