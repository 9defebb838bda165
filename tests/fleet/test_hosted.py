"""Hosted models as a way to serve: what they cost, and when they are no way."""

from math import ceil
from typing import Any

import pytest

from advisor import InputError, estimate, load_catalog, own, plan_fleet, recommend
from advisor.fleet.modes import by_concurrency, hosted_mode
from advisor.fleet.portfolio import FleetWorkload
from advisor.foundation.dates import current_day
from advisor.nouns.workload import Serving
from tests.cases import serve

pytestmark = pytest.mark.slow


def service(**workload: Any) -> dict[str, Any]:
    return {
        "name": "chat",
        "case": {
            "model": {"preset": "gpt-oss-120b"},
            "workload": {
                "kind": "serving",
                "concurrency": 1,
                "input_tokens": 1000,
                "output_tokens": 200,
                **workload,
            },
            "limits": {"max_tpot_ms": 50},
        },
        "hours": "office",
    }


TUNE = {
    "name": "tune",
    "case": {
        "model": {"preset": "gpt-oss-120b"},
        "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 1e6},
    },
    "runs_per_month": 1,
}


def plan(*workloads: dict[str, Any], **means: bool) -> Any:
    content = {
        "workloads": list(workloads),
        "owning": {"months": 12, "discount_rate": 0.0},
        "means": means,
    }
    return plan_fleet(content, alternatives=False)


def hosted(answer: Any) -> bool:
    return any(item.hosted for item in answer.assignments)


def test_an_hour_of_one_request_at_a_time_costs_its_tokens() -> None:
    answer = plan(service())

    # 10 s an answer: 360 an hour, ten hours on each weekday. The cheapest list price of the weights
    # in data/api_prices.csv, read there: 0.05 USD and 0.25 USD a million tokens.
    hours = 10 * 365.25 * 5 / 7
    usd = hours * 360 * (1000 * 0.05 + 200 * 0.25) / 1e6
    assert hosted(answer)
    assert answer.sentence.startswith("Call the Novita API: ")
    assert answer.total_usd == pytest.approx(usd, rel=1e-3)


@pytest.mark.parametrize(
    ("workload", "means"),
    [({"on_premises": True}, {}), ({}, {"api": False}), ({}, {"rent": False})],
)
def test_what_may_not_leave_the_house_or_is_not_wanted_is_not_hosted(
    workload: dict[str, Any], means: dict[str, bool]
) -> None:
    assert not hosted(plan({**service(), **workload}, **means))


def curved(**demand: Any) -> dict[str, Any]:
    stated = service(demand=demand)
    del stated["case"]["workload"]["concurrency"], stated["hours"]
    return stated


def test_a_curve_of_demand_is_sized_by_its_busiest_hour_and_rented_by_its_hours() -> None:
    """Two of 24 hours at the peak of 4 requests/s; all others need a quarter of it."""
    hours = [1.0] * 24
    hours[12] = hours[13] = 4.0
    rent = {"buy": False, "api": False, "commit": False, "serverless": False}
    follows, fixed = (plan(curved(hourly=one), **rent) for one in (hours, [4.0] * 24))

    assert fixed.total_usd / 4 < follows.total_usd < fixed.total_usd
    counted = "the requests of the busiest hour count as"
    assert any(counted in note and note in fixed.notes for note in follows.notes)


def test_a_curve_of_demand_says_when() -> None:
    with pytest.raises(InputError, match="leave hours and quiet_share out"):
        plan({**curved(day_shape="office", peak_requests_per_s=2), "quiet_share": 0.5})


def test_a_rate_counts_as_the_requests_that_it_keeps_in_flight() -> None:
    stated = service(requests_per_s=4.0)
    del stated["case"]["workload"]["concurrency"]
    serving = recommend(stated["case"]).plans[0].estimate.serving
    assert serving is not None
    assert serving.arrivals is not None
    held = ceil(serving.arrivals.in_flight)

    assert any(f"4 requests/s count as {held} in flight" in note for note in plan(stated).notes)


def test_slow_cards_need_more_replicas_for_a_rate() -> None:
    """An RTX 4060 Ti draws 0.044 pictures a second (SDXL, 50 steps): 0.5 need a dozen of them."""
    work = {"kind": "serving", "requests_per_s": 0.5}
    case = {"model": {"preset": "sdxl-unet"}, "workload": work}
    limits = {"accelerators": ["rtx-5060-ti-16gb", "rtx-5090"]}
    found = plan_fleet(
        {
            "means": {"rent": False},
            "workloads": [
                {"name": "pictures", "hours": "office", "case": {**case, "limits": limits}}
            ],
        },
        alternatives=False,
    )

    done = 0.0
    for item in found.purchases:
        one = {"accelerator": item.key.partition("/")[2], "count": 1}
        serving = estimate({**case, "hardware": one}).serving
        assert serving is not None
        assert serving.arrivals is not None
        cards = 2 if item.key.startswith("desktop-2") else 1
        done += item.count * cards * serving.arrivals.most_requests_per_s.expected
    assert done >= 0.45


def test_a_rate_that_nothing_carries_is_refused() -> None:
    stated = service(requests_per_s=4.0)
    del stated["case"]["workload"]["concurrency"]
    stated["case"]["limits"] = {"max_ttft_ms": 1}

    with pytest.raises(InputError, match=r"nothing carries 4 requests/s"):
        plan(stated)


def test_weights_that_the_portfolio_tunes_are_not_hosted_by_others() -> None:
    assert hosted(plan(service()))
    assert not hosted(plan(service(), TUNE))


def test_an_older_rent_does_not_win_by_a_little() -> None:
    """List prices move by 16 % a year, so 5 % less of two years ago is no lower price today."""
    catalog = load_catalog()
    [new, *_] = [item for item in catalog.offers_for("l40s") if item.provider == "RunPod"]
    older = {"key": "older", "instance_type": "older", "price_date": "2024-11-21"}
    offers = (
        new.changed(on_demand_usd_per_hour=1.0, price_date=current_day().isoformat()),
        new.changed(accelerator="rtx-a6000", on_demand_usd_per_hour=0.95, **older),
    )
    chat = service()
    chat["case"]["model"] = {"preset": "llama-3.1-8b"}
    content = {"workloads": [chat], "owning": {"months": 12}, "means": {"buy": False, "api": False}}
    answer = plan_fleet(
        content, catalog=catalog.model_copy(update={"offers": offers}), alternatives=False
    )
    assert {item.where for item in answer.assignments} == {f"RunPod {new.instance_type}"}


def test_a_rare_request_costs_its_tokens_only() -> None:
    """0.01 a second, 0.0005 at night: 36 an hour in 217.4 office hours, 1.8 in the other 512.6.

    8,749 a month of 1,300 tokens at 0.72 USD a million (OpenRouter, 2026-11-03) are 8.19 USD; a
    year at 8 % is worth 11.51 months of it.
    """
    work = {"kind": "serving", "requests_per_s": 0.01, "input_tokens": 1000, "output_tokens": 300}
    case = {"model": {"preset": "llama-3.1-70b"}, "workload": work}
    found = plan_fleet(
        {
            "owning": {"months": 12, "discount_rate": 0.08},
            "workloads": [{"name": "rare", "quiet_share": 0.05, "case": case}],
        },
        alternatives=False,
    )

    assert all(item.hosted for item in found.assignments)
    assert found.total_usd == pytest.approx(8.19 * 11.51, rel=5e-3)


def test_an_api_answers_a_rate_whole() -> None:
    """6 a second, of 300 tokens at a service's 20 a second each, take 15 s: 90 at a time."""
    work = {"kind": "serving", "requests_per_s": 6.0, "input_tokens": 1000, "output_tokens": 300}
    case = {"model": {"preset": "llama-3.1-70b"}, "workload": work}
    row = FleetWorkload.model_validate({"name": "chat", "case": case})

    held = by_concurrency(row, load_catalog())
    api = hosted_mode(held)

    assert api is not None
    assert isinstance(held.case.workload, Serving)
    assert held.case.workload.concurrency / api.serves == pytest.approx(90.0)


def test_a_service_keeps_its_weights_by_night() -> None:
    """70 billion parameters in 8 bits fill a card of 96 GB: no half of it holds them in 4 bits."""
    only = ["desktop-1/rtx-pro-6000-blackwell"]
    found = plan_fleet(
        {
            "means": {"rent": False, "machines": only},
            "owning": {"months": 12},
            "workloads": [
                {
                    "name": name,
                    "case": serve(model, concurrency=12, limits={"max_tpot_ms": 80}),
                    "on_premises": True,
                }
                for name, model in (("reports", "llama-3.1-70b"), ("search", "llama-3.1-8b"))
            ],
        },
        alternatives=False,
    )

    formats = {item.detail for item in found.assignments if item.workload == "reports"}
    assert formats == {"fp8"}


@pytest.mark.parametrize("preset", ["llama-3.1-8b", "llama-3.3-70b"])
def test_every_answer_has_one_bill_for_the_requests_of_the_plan(preset: str) -> None:
    """The list price of a request, times the requests that `recommend`'s plan answers."""
    case = {
        "model": {"preset": preset},
        "workload": {"kind": "serving", "concurrency": 8},
        "owning": {"months": 12, "discount_rate": 0.0},
    }
    best = recommend(case).plans[0].estimate
    assert best.api is not None
    asked = best.api.options[0]
    workload = {"name": "chat", "quiet_share": 1, "case": {**case, "owning": {}}}
    fleet = plan_fleet({"single": True, "owning": case["owning"], "workloads": [workload]})
    bought = own(case)

    prompts, answers = (asked.input_usd_per_million, asked.output_usd_per_million)
    month = asked.usd_per_request * best.api.requests_per_day * 730 / 24
    api = next(rent for rent in bought.rents if rent.title == f"{asked.provider} API")
    rented = next(item.usd for item in fleet.alternatives if item.name == "rent")
    assert prompts < answers
    assert asked.usd_per_month == pytest.approx(month)
    assert api.total_usd.expected == pytest.approx(12 * month, rel=1e-3)
    assert rented == pytest.approx(12 * month, rel=1e-3)
    machines = bought.rents[bought.against or 0]
    assert machines.usd_per_million_output is not None
    assert best.cost.usd_per_million_output_tokens is not None
    told = best.cost.usd_per_million_output_tokens.expected
    assert machines.usd_per_million_output.expected == pytest.approx(told, rel=1e-6)
