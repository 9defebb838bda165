"""A day of requests: what a file or a shape becomes, and what each way of renting costs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.catalog.traces import read_demand
from advisor.charts.curves import day_alt, day_chart
from advisor.charts.theme import LIGHT
from advisor.errors import InputError
from advisor.frames.turning import day_frame, day_table
from tests.cases import serve

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:06.9799600,110,27
"""
BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,Conversation log
205,GPT-4,1360,350,1710,API log
"""
"""In the formats of the published traces; the numbers are made up."""


def asked(**demand: Any) -> dict[str, Any]:
    return serve(
        "llama-3.1-8b",
        demand=demand,
        limits={
            "max_ttft_ms": 500,
            "max_tpot_ms": 200,
            "at": "p95",
            "accelerators": ["h100-sxm", "l40s"],
        },
    )


def test_a_day_has_bills_of_which_scaling_is_the_cheapest_but_not_free_of_waits() -> None:
    plan = advisor.recommend(asked(day_shape="office", peak_requests_per_s="60/s")).plans[0]
    day, rent = plan.estimate.day, plan.estimate.cost.rent_usd
    assert day is not None
    assert rent is not None
    ways = {way.name: way for way in day.ways}
    assert ways["fixed"].usd_per_month == pytest.approx(rent.expected)
    assert ways["fixed"].most_replicas == plan.replicas
    assert ways["autoscaled"].usd_per_month < 0.6 * ways["fixed"].usd_per_month
    assert 0 < ways["autoscaled"].late_share < 0.05
    assert len(day.hours) == 24
    assert max(hour.needed for hour in day.hours) <= plan.replicas


def test_a_budget_that_only_a_scaled_fleet_meets_is_said() -> None:
    case = asked(day_shape="office", peak_requests_per_s=60)
    plan = advisor.recommend(case).plans[0].estimate
    assert plan.day is not None
    fixed, scaled = plan.day.ways[0].usd_per_month, plan.day.cheapest.usd_per_month
    between, below = (fixed + scaled) / 2, 0.9 * scaled
    answers = [
        advisor.recommend({**case, "limits": {**case["limits"], "budget_usd": budget}}).answer
        for budget in (between, below)
    ]
    for answer in answers:
        assert answer.startswith("Nothing works under")
    assert f"but ${scaled:,.0f} {plan.day.cheapest.title.lower()}" in answers[0]
    assert plan.day.cheapest.title.lower() not in answers[1]


def test_cards_that_carry_too_little_are_not_nearest_to_a_budget() -> None:
    # Eight T4 rent for more than the budget, and carry less than the rate.
    limits = {"accelerators": ["t4", "h100-sxm"], "max_accelerators": 8, "budget_usd": 500}
    case = serve("llama-3.1-8b", requests_per_s=20, limits=limits)
    found = advisor.recommend(case)
    assert {item.unit for item in found.rejections if item.accelerator == "t4"} == {"requests/s"}
    assert "H100" in found.answer
    assert "T4" not in found.answer


def test_kubernetes_scales_between_the_bounds_of_the_day() -> None:
    case = asked(day_shape="office", peak_requests_per_s="60/s")
    day = advisor.recommend(case).plans[0].estimate.day
    assert day is not None
    scaled = day.ways[1]
    [scaler] = [
        item
        for item in yaml.safe_load_all(advisor.export(case, "kubernetes").content)
        if item and item["kind"] == "ScaledObject"
    ]
    assert scaler["apiVersion"] == "keda.sh/v1alpha1"
    assert scaler["spec"]["maxReplicaCount"] == scaled.most_replicas
    assert scaler["spec"]["minReplicaCount"] == scaled.least_replicas


def scaled_object(case: dict[str, Any]) -> Any:
    """Return the scaled object of a file, checked against the fields of KEDA 2.19.

    Its pages "ScaledObject specification" and "Prometheus": keda-docs, content/docs/2.19.
    """
    found = list(yaml.safe_load_all(advisor.export(case, "kubernetes").content))
    [item] = [item for item in found if item["kind"] == "ScaledObject"]
    assert set(item["spec"]) <= {
        *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "initialCooldownPeriod"),
        *("idleReplicaCount", "minReplicaCount", "maxReplicaCount", "fallback", "advanced"),
        "triggers",
    }
    assert set(item["spec"]["advanced"]) == {"horizontalPodAutoscalerConfig"}
    for trigger in item["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"
        assert {"serverAddress", "query", "threshold"} == set(trigger["metadata"])
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
    [deployment] = [one for one in found if one["kind"] == "Deployment"]
    assert item["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    return item


@pytest.mark.parametrize("spares", [0, 1])
def test_keda_asks_for_the_plans_servers_at_its_peak(spares: int) -> None:
    """KEDA asks for ceil(value / threshold) servers, as an HPA on an average value does."""
    case = asked(day_shape="office", peak_requests_per_s="60/s")
    case["workload"]["spare_replicas"] = spares
    plan = advisor.recommend(case).plans[0]
    flight, queue = scaled_object(case)["spec"]["triggers"]
    assert plan.estimate.serving is not None
    under = plan.estimate.serving.arrivals
    assert under is not None
    query, threshold = flight["metadata"]["query"], float(flight["metadata"]["threshold"])
    assert "vllm:num_requests_running" in query
    assert "vllm:num_requests_waiting" in query
    assert "vllm:num_requests_waiting" in queue["metadata"]["query"]
    constant = float(query.rpartition(" + ")[2]) if spares else 0.0
    servers = math.ceil((under.in_flight + constant) / threshold)
    assert servers in {plan.replicas + spares - 1, plan.replicas + spares}


def test_a_file_that_cannot_stop_the_last_server_says_so() -> None:
    case = asked(day_shape="office", peak_requests_per_s="3/s", min_replicas=0)
    assert scaled_object(case)["spec"]["minReplicaCount"] == 1
    assert "One server stays" in advisor.export(case, "kubernetes").content


def test_growth_scales_the_peak() -> None:
    plan = advisor.recommend(asked(day_shape="flat", peak_requests_per_s=10, growth=3)).plans[0]
    assert plan.estimate.serving is not None
    assert plan.estimate.serving.arrivals is not None
    assert plan.estimate.serving.arrivals.asked_requests_per_s == pytest.approx(30)


def test_estimate_and_plan_have_the_same_day() -> None:
    case = asked(day_shape="consumer", peak_requests_per_s=20)
    plan = advisor.recommend(case).plans[0].estimate
    hardware = {"accelerator": plan.accelerator, "count": plan.count}
    layout = {"data": plan.layout.data, "tensor": plan.layout.tensor}
    assert advisor.estimate({**case, "hardware": hardware, "layout": layout}).day == plan.day


@pytest.mark.parametrize(
    ("name", "text", "prompt", "answer", "rate"),
    [
        ("azure.csv", AZURE, 2699, 15, 1.0),
        ("burst.csv", BURST, 973, 199, 3 / 200),
        (
            "mooncake.jsonl",
            "\n".join(
                json.dumps({"timestamp": at, "input_length": 6000, "output_length": 40})
                for at in (0, 2000, 4000)
            ),
            6000,
            40,
            0.75,
        ),
    ],
)
def test_published_formats_are_read(
    tmp_path: Path, name: str, text: str, prompt: int, answer: int, rate: float
) -> None:
    file = tmp_path / name
    file.write_text(text)
    seen = read_demand(file)
    assert seen.input_tokens is not None
    assert seen.output_tokens is not None
    assert (seen.input_tokens[0], seen.output_tokens[0]) == (prompt, answer)
    assert seen.hourly[0] == pytest.approx(rate)


def test_hours_of_a_file_are_the_day(tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    rows = [f"{hour},{2 + (8 <= hour < 18) * 20}" for hour in range(24)]
    file.write_text("\n".join(["hour,requests_per_s", *rows]))
    day = advisor.recommend(asked(file=str(file))).plans[0].estimate.day
    assert day is not None
    assert day.peak_requests_per_s == pytest.approx(22)


TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows"),
        ("a,b\n1,2\n", "the columns a, b"),
        ("hour,requests_per_s\n0,nan\n", "no number"),
        ("hour,requests_per_s\n" + "0,1\n" * 25, "25 rates"),
        ("hour,requests_per_s\n" + "0,1\n" * 1000, "more than 168 rates"),
        ("hour,requests_per_s\n" + "0,1e9\n" * 24, "no number"),
        ("{\n", "no number"),
        ('{"requests_per_s": 1}\n{"other": 2}\n', "missing"),
        ('{"a": ' + "[" * 100_000, "no number"),
        ('{"timestamp": 1, "input_length": 1, "output_length": 1}\n{"timestamp": 2}', "missing"),
        (TRACE + "0,1e400,3\n9,3,3\n", "no number"),
        (TRACE + "0,-5,3\n9,3,3\n", "no number"),
        (TRACE + "0,5,3\n1e18,5,3\n", "more than 10 years"),
        (TRACE + "nan,5,3\n1,5,3\n", "2 answered requests"),
        (TRACE + "0,5,3\n", "1 answered requests"),
        ("," * 3_000_000, "a line of more than 1,000,000 characters"),
        (TRACE + '"a\n","b\n",' * 300_000, "a line of more than 1,000,000 characters"),
    ],
)
def test_other_files_are_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "day.csv"
    file.write_text(text)
    with pytest.raises(InputError, match="the demand is not a table") as caught:
        read_demand(file)
    assert said in str(caught.value)


def test_the_chart_shows_demand_capacity_and_the_fixed_fleet() -> None:
    plan = advisor.recommend(asked(day_shape="office", peak_requests_per_s="60/s")).plans[0]
    assert plan.estimate.day is not None
    frame = day_frame(plan.estimate.day)
    figure = day_chart(frame, plan.replicas, theme=LIGHT)
    lines = {line.name: line for line in figure.data}
    assert set(lines) == {"Fixed for the peak", "Needed by the requests", "Autoscaled fleet"}
    assert list(lines["Needed by the requests"].y) == [
        hour.needed for hour in plan.estimate.day.hours
    ]
    assert str(plan.replicas) in day_alt(frame, plan.replicas)
    assert len(day_table(plan.estimate.day)) == len(plan.estimate.day.ways)
