"""Portfolios through the facade: what may be said, and what a plan holds."""

import re
from typing import Any

import pytest

from advisor import InputError, estimate, load_portfolio, plan_fleet, recommend
from advisor.api import fleet_report
from advisor.catalog import load_catalog
from advisor.fleet.modes import by_concurrency
from advisor.nouns.workload import Serving
from tests.cases import serve, tune

CHATBOT: dict[str, Any] = {
    "name": "chatbot",
    "case": serve("llama-3.1-8b", concurrency=8, limits={"max_tpot_ms": 50}),
}
TUNE: dict[str, Any] = {
    "name": "weekly tune",
    "case": tune("llama-3.1-8b", method="qlora", tokens=5e6, limits={"deadline_hours": 24}),
    "runs_per_month": 4,
}


def test_a_plan_tells_how_far_it_is() -> None:
    told: list[tuple[float, str]] = []
    plan_fleet(portfolio(TUNE), tell=lambda share, text: told.append((share, text)))

    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    assert [text for _, text in told] == [
        "Sizing weekly tune",
        "Choosing machines and rentals",
        "Comparing other ways",
    ]


def portfolio(*workloads: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"workloads": list(workloads), "owning": {"months": 12}, **more}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (portfolio(), "at least 1"),
        (portfolio({**TUNE, "people": 2}), "either runs_per_month or people"),
        (portfolio({**CHATBOT, "runs_per_month": 2}), "leave runs_per_month"),
        (portfolio({**TUNE, "hours": "office"}), "apply to serving"),
        (portfolio(TUNE, TUNE), "two workloads"),
        (portfolio(TUNE, colour="red"), "colour"),
        (portfolio(TUNE, owned=[{"machine": "abacus"}]), "unknown accelerator"),
        (portfolio(TUNE, owned=[{"machine": "abacus/h100-sxm"}]), "unknown machine"),
        (portfolio(TUNE, means={"without": ["abacus"]}), "unknown machine"),
        (portfolio(TUNE, owning={"slots": 3}), "slots does not apply"),
        (portfolio({**TUNE, "name": "=cmd()"}), "formula"),
        (portfolio({**TUNE, "growth_per_year": True}), "no number"),
        (
            portfolio({**TUNE, "case": {**TUNE["case"], "hardware": {"accelerator": "l4"}}}),
            "the plan chooses the machines",
        ),
        (portfolio(TUNE, means={"buy": False, "rent": False}), "nothing can do"),
    ],
)
def test_a_mistake_is_one_sentence(content: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan_fleet(load_portfolio(content))


def test_a_plan_takes_the_hours_of_the_estimate() -> None:
    """A run on the machine takes what ``estimate`` says of the same cards."""
    only = "desktop-1/rtx-pro-6000-blackwell"
    plan = plan_fleet(
        portfolio({**TUNE, "on_premises": True}, means={"machines": [only]}), alternatives=False
    )
    [run] = [item for item in plan.assignments if item.month == 0]
    alone = estimate(
        {
            **TUNE["case"],
            "hardware": {"accelerator": "rtx-pro-6000-blackwell", "count": int(run.cards)},
        }
    )

    assert [item.key for item in plan.purchases] == [only]
    assert alone.time is not None
    assert run.hours == pytest.approx(alone.time.run_hours.expected, rel=0.02)


def test_private_work_is_never_rented_and_the_rest_may_be() -> None:
    plan = plan_fleet(portfolio({**CHATBOT, "on_premises": True}, TUNE), alternatives=False)

    assert not any(item.rented for item in plan.assignments if item.workload == "chatbot")
    assert plan.feasible


def test_machines_that_are_there_cost_only_their_power_and_upkeep() -> None:
    owned = [{"machine": "desktop-2/rtx-5090"}]
    plan = plan_fleet(portfolio(TUNE, owned=owned), alternatives=False)

    assert plan.purchases == ()
    titles = {item.where for item in plan.assignments}
    assert titles == {"Desktop computer with 2 x GeForce RTX 5090"}
    assert {line.name for line in plan.lines} == {"owned", "power"}


def test_what_is_paid_beside_the_price_is_power_place_and_staff_of_old_machines_too() -> None:
    """All that is paid, less the price of machines: the year has no rents. The keeping of a machine
    that is there was left out of the sentence."""
    busy = {**CHATBOT, "case": serve("llama-3.1-8b", concurrency=64, limits={"max_tpot_ms": 50})}
    means = dict.fromkeys(("rent", "spot", "commit", "serverless", "api"), False)
    owned = [{"machine": "desktop-1/rtx-5060-ti-16gb"}]
    work = portfolio(TUNE, busy, owned=owned, means=means)
    text = plan_fleet(work, alternatives=False).sentence
    found = re.search(r"for (\$[\d,]+):.* is (\$[\d,]+) paid.* includes (\$[\d,]+) for power", text)
    assert found is not None
    price, paid, kept = (float(each.strip("$").replace(",", "")) for each in found.groups())
    assert kept == pytest.approx(paid - price, abs=2)


def test_an_office_gets_no_loud_machine_and_a_budget_is_kept() -> None:
    plan = plan_fleet(
        portfolio(
            {**CHATBOT, "on_premises": True},
            TUNE,
            site={"noise_dba": 45, "power_kw": 1.0},
            budget={"purchase_usd": 4000},
        )
    )

    assert plan.feasible
    assert sum(item.usd for item in plan.purchases) <= 4000
    assert plan.peak_kw <= 1.0
    assert {price.limit for price in plan.limit_prices} == {"power", "purchase", "noise", "used"}
    assert all(price.saves_usd >= 0 for price in plan.limit_prices)


def test_what_the_limits_do_not_allow_is_named() -> None:
    plan = plan_fleet(
        portfolio(
            {**CHATBOT, "on_premises": True, "priority": 1},
            {**TUNE, "on_premises": True, "priority": 9, "runs_per_month": 400},
            budget={"purchase_usd": 3500},
        )
    )

    assert not plan.feasible
    left = {charge.workload: charge.left_out for charge in plan.charges}
    assert left["chatbot"] == 0
    assert left["weekly tune"] > 0
    assert "weekly tune" in plan.sentence


def test_other_ways_never_cost_less_and_the_bills_add_up() -> None:
    plan = plan_fleet(portfolio(CHATBOT, TUNE))

    usd = {item.name: item.usd for item in plan.alternatives if item.usd is not None}
    assert usd.keys() == {"rent", "buy", "mixed"}
    assert min(usd["rent"], usd["buy"]) >= plan.total_usd * (1 - 1e-3)
    assert usd["mixed"] <= plan.total_usd * (1 + 1e-3)
    assert sum(charge.usd for charge in plan.charges) == pytest.approx(plan.total_usd, abs=0.05)
    assert sum(line.usd for line in plan.lines) == pytest.approx(plan.total_usd, abs=0.05)


def test_a_week_holds_what_the_machines_are_used_for() -> None:
    plan = plan_fleet(portfolio(CHATBOT, TUNE), alternatives=False)
    [machine] = plan.fleet
    office = 10 * 365.25 / 12 * 5 / 7 / 730

    assert len(machine.utilisation) >= 2
    for month, use in zip((0, 3), machine.utilisation, strict=False):
        shares = {"office": 0.0, "quiet": 0.0}
        for item in plan.weeks:
            if item.month == month and item.machine == machine.title:
                shares[item.slot] += item.share
        assert max(shares.values()) <= 1 + 1e-9
        mean = office * shares["office"] + (1 - office) * shares["quiet"]
        assert mean == pytest.approx(use, rel=1e-6)


@pytest.mark.parametrize(
    ("to", "mark"), [("html", "<h2>Cash by quarter</h2>"), ("markdown", "## Cash")]
)
def test_the_report_says_what_the_plan_says(to: str, mark: str) -> None:
    plan = plan_fleet(portfolio(CHATBOT, TUNE))
    content = fleet_report(plan, to).content

    assert mark in content
    for item in plan.purchases:
        assert item.price_date in content
    assert plan.charges[0].workload in content


def test_a_report_in_another_format_is_refused() -> None:
    with pytest.raises(InputError, match="unknown report"):
        fleet_report(plan_fleet(portfolio(CHATBOT), alternatives=False), "vllm")


def test_a_run_on_a_card_without_published_runs_says_what_the_advisor_says() -> None:
    """A fleet counts the slow end of the range; the answer of ``recommend`` stands beside it."""
    plan = plan_fleet(
        portfolio(TUNE, means={"buy": False, "spot": False, "commit": False}), alternatives=False
    )
    [run] = [item for item in plan.assignments if item.month == 0]
    best = recommend(TUNE["case"]).plans[0]
    rent = best.estimate.cost.rent_usd
    assert rent is not None
    expected = rent.expected

    assert run.run_usd / run.slow == pytest.approx(expected, rel=1e-3)
    told = "the slow end: no run on this card is published" in run.place
    assert told == (run.slow > 1.01)
    assert f"for ${expected:.2f}" in run.place


def test_people_and_hours_of_a_place_are_told_as_such() -> None:
    people = {"name": "people", "case": TUNE["case"], "people": 3}
    alike = {**CHATBOT, "quiet_share": 1, "on_premises": True}
    plan = plan_fleet(portfolio(people, alike, means={"rent": False}), alternatives=False)

    assert "people in office hours" in plan.places()["people"]
    assert plan.places()["chatbot"].endswith("day and night")


def test_a_kit_for_the_edge_serves_many_sites_and_no_office() -> None:
    """Nobody runs a service of one place on a developer kit, unless the portfolio names it."""
    small = serve("llama-3.2-1b", concurrency=2, weight_format="w4a16")
    work = {"name": "till", "case": small, "on_premises": True}
    kit = "edge-kit/jetson-orin-nano-super"

    def bought(**more: Any) -> set[str]:
        asked = portfolio({**work, **more.pop("work", {})}, **more)
        return {item.key for item in plan_fleet(asked, alternatives=False).purchases}

    assert bought(work={"sites": 20}) == {kit}
    assert kit not in bought()
    assert bought(means={"machines": [kit]}) == {kit}


def test_who_keeps_many_kits_is_paid() -> None:
    """Three minutes a month for each of 30, at 66 USD an hour; a discount of 4 % a year."""
    small = serve("llama-3.2-1b", concurrency=1, weight_format="w4a16")
    shops = {"name": "till", "case": small, "on_premises": True, "sites": 30}

    def total(**owning: float) -> float:
        asked = portfolio(shops) | {"owning": {"months": 12, **owning}}
        return plan_fleet(asked, alternatives=False).total_usd

    assert 0.95 < (total() - total(staff_usd_per_machine_month=0)) / (30 * 12 * 3) < 1


def test_sound_of_a_day_comes_in_the_hours_of_the_service() -> None:
    """100 hours of sound in ten office hours are as many at a time as 240 in a whole day."""

    def in_flight(sound: float, **when: object) -> int:
        case = serve("whisper-large-v3-turbo", audio_hours=sound)
        [item] = load_portfolio({"workloads": [{"name": "calls", "case": case, **when}]}).workloads
        serving = by_concurrency(item, load_catalog()).case.workload
        assert isinstance(serving, Serving)
        return serving.concurrency

    assert in_flight(50_000, hours="office") == in_flight(120_000, quiet_share=1)
    assert in_flight(50_000, quiet_share=0.25) > in_flight(50_000, quiet_share=1)


def test_a_service_that_must_not_stop_keeps_a_machine_free() -> None:
    one = {**CHATBOT, "on_premises": True}
    plan = plan_fleet(portfolio({**one, "spare_machines": 1}), alternatives=False)
    without = plan_fleet(portfolio(one), alternatives=False)

    assert "Should a machine fail, others stay free: 1 of each kind for chatbot" in plan.sentence
    assert sum(item.count for item in plan.purchases) > sum(
        item.count for item in without.purchases
    )
    assert plan.total_usd > without.total_usd


def test_who_may_not_buy_is_told_of_no_purchase() -> None:
    plan = plan_fleet(portfolio(TUNE, means={"buy": False}))

    assert not any(item.name == "buy" for item in plan.alternatives)
    assert "Buying everything" not in plan.sentence


@pytest.mark.parametrize("limits", [{}, {"max_ttft_ms": 1.2e6}])
def test_pictures_that_take_minutes_are_told_where_no_limit_is(limits: dict[str, Any]) -> None:
    """A batch of six pictures of 50 steps takes minutes on a card of 200 W."""
    case = {
        "model": {"preset": "flux.1-dev"},
        "workload": {"kind": "serving", "concurrency": 6},
        "limits": limits,
    }
    plan = plan_fleet(
        portfolio(
            {"name": "stills", "hours": "office", "case": case},
            means={"rent": False, "machines": ["desktop-1/rtx-pro-4500-blackwell"]},
        ),
        alternatives=False,
    )

    told = "An answer of stills takes" in plan.sentence
    assert told is not bool(limits), plan.sentence


def test_an_api_promises_no_latency() -> None:
    work = {"kind": "serving", "concurrency": 2, "input_tokens": 2000, "output_tokens": 60}
    case = {"model": {"preset": "gpt-oss-120b"}, "workload": work, "limits": {"max_ttft_ms": 400}}
    plan = plan_fleet(
        portfolio({"name": "code", "hours": "office", "case": case}), alternatives=False
    )

    assert any(item.hosted for item in plan.assignments)
    assert "No API promises the latency that code asks for: measure it." in plan.sentence


def test_another_platform_alone_is_no_mix() -> None:
    """A used 3090 runs 36 tools; an Arc Pro B60 of 24 GB for 1,990 USD does both, with 17."""
    tuning = {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7}
    chat = {"kind": "serving", "concurrency": 1, "weight_format": "w4a16"}
    plan = plan_fleet(
        portfolio(
            {
                "name": "thesis",
                "runs_per_month": 6,
                "case": {"model": {"preset": "qwen3-14b"}, "workload": tuning},
            },
            {
                "name": "helper",
                "hours": "office",
                "case": {
                    "model": {"preset": "qwen3-30b-a3b"},
                    "workload": chat,
                    "limits": {"max_tpot_ms": 30},
                },
            },
            means={"rent": False, "used": True},
            budget={
                "purchase_usd": 2700
            },  # a used 3090 for 1,275, the rest and a supply for 1,418.75
        )
    )

    assert [item.key for item in plan.purchases] == ["desktop-1-used/rtx-3090"]
    assert "On oneAPI, 1 x Desktop computer with Arc Pro B60 24GB would save" in plan.sentence
    assert "Mixing platforms" not in plan.sentence
    # The price of the used card has its own day.
    assert plan.purchases[0].price_date == "2026-10-02"


def test_people_do_not_wait_weeks_for_a_processor() -> None:
    """A full fine-tune of 8B does 6 x 8e9 x 1e7 FLOPs: 133 h at one TFLOP/s of a processor."""
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "full", "tokens": 1e7},
    }
    plan = plan_fleet(
        portfolio({"name": "research", "people": 4, "case": case}, means={"buy": False}),
        alternatives=False,
    )

    assert not any("AX162" in item.where for item in plan.assignments), plan.sentence


def test_where_all_stands_in_racks_no_desktop_is_bought() -> None:
    site = {"rack_units": 12, "desks": 0}
    row = {**CHATBOT, "on_premises": True}
    desk, rack = (
        plan_fleet(portfolio(row, site=where), alternatives=False) for where in ({}, site)
    )

    assert [item.key.partition("-")[0] for item in desk.purchases] == ["desktop"]
    assert [item.key.partition("-")[0] for item in rack.purchases] == ["server"]
    assert rack.total_usd > desk.total_usd


def test_the_answer_says_what_waiting_would_save() -> None:
    """In four weeks desktops are there (two and three), no workstation (five), no server (six)."""
    work = {"kind": "serving", "concurrency": 40, "weight_format": "fp8", "input_tokens": 2000}
    limits = {"max_tpot_ms": 50}
    case = {"model": {"preset": "llama-3.1-70b"}, "workload": work, "limits": limits}
    row = {"name": "assistant", "on_premises": True, "case": case}
    three = {"months": 36}
    plan = plan_fleet(portfolio(row, site={"ready_in_weeks": 4}, owning=three))

    assert {item.key.partition("/")[0] for item in plan.purchases if item.month == 0} <= {
        "desktop-1",
        "desktop-2",
    }
    [ready] = [item for item in plan.limit_prices if item.limit == "ready"]
    free = plan_fleet(portfolio(row, owning=three), alternatives=False)
    assert ready.saves_usd == pytest.approx(plan.total_usd - free.total_usd, rel=1e-3)
    assert ready.saves_usd > 0
    assert ready.sentence.startswith("Waiting for machines that come later would save $")
