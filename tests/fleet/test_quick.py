"""The common questions, from three inputs."""

import pytest

from advisor import InputError, plan_fleet, recommend
from advisor.api import quick_portfolio
from advisor.cli import main

pytestmark = pytest.mark.slow


def test_at_home_two_cards_of_16_gb_or_one_of_24_hold_the_work() -> None:
    """32 billion parameters in 4 bits are 18 GB: more than 16, less than 2 x 16."""
    plan = plan_fleet(quick_portfolio("home", budget_usd=3000), alternatives=False)

    assert plan.feasible
    assert sum(item.usd for item in plan.purchases) <= 3000
    [machine] = plan.fleet
    assert machine.cards == 2 or "3090" in machine.title or "4000" in machine.title


def test_too_little_money_at_home_names_what_is_left_out_and_what_renting_costs() -> None:
    asked = quick_portfolio("home", budget_usd=1200)
    plan = plan_fleet(asked, alternatives=False)

    assert not plan.feasible
    assert "chat with Qwen3 32B" in plan.sentence
    rented = plan_fleet(asked.changed(means=asked.means.changed(rent=True)), alternatives=False)
    assert f"or with rented cards too (${rented.total_usd:,.0f} over 3 years)." in plan.sentence


def test_a_lab_buys_machines_and_learns_how_far_its_budget_goes() -> None:
    plan = plan_fleet(quick_portfolio("lab", budget_usd=250_000, people=12))

    assert plan.feasible
    assert not any(item.rented for item in plan.assignments)
    assert "times 8" in {item.name for item in plan.alternatives if item.feasible}


def test_one_server_or_the_cloud_compares_both() -> None:
    plan = plan_fleet(quick_portfolio("chatbot", people=16))

    ways = {item.name: item for item in plan.alternatives}
    assert ways["rent"].usd is not None
    assert ways["buy"].usd is not None
    assert plan.total_usd <= min(ways["rent"].usd, ways["buy"].usd) + 1
    # A company's chatbot does not run on four developer kits of 8 GB, 996 USD, however cheap.
    assert not any("edge-kit" in item.key for item in plan.purchases)


@pytest.mark.parametrize(
    "line",
    [
        "fleet --ask garage",
        "fleet --ask lab --people 0",
        "fleet --ask home --tune no-such-model",
        "fleet --budget 100",
        "fleet",
        "fleet missing.yaml",
    ],
)
def test_mistakes_end_with_2_and_one_sentence(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err.startswith("gpu-advisor: error: ")


def test_an_unknown_question_is_refused() -> None:
    with pytest.raises(InputError, match="home, lab, chatbot"):
        quick_portfolio("garage")


def test_a_lab_hears_why_its_budget_is_left_and_what_more_would_buy() -> None:
    """Full fine-tunes of hours take half as long on dearer machines, which the budget also holds.

    Those of minutes do not: the ten minutes before the first step stay.
    """
    asked = quick_portfolio("lab", people=40, budget_usd=400_000)
    first, tune, *rest = asked.workloads
    longer = tune.case.changed(workload=tune.case.workload.changed(tokens=1e8))
    asked = asked.changed(workloads=(first, tune.changed(case=longer), *rest))
    plan = plan_fleet(asked)
    bought = sum(item.usd for item in plan.purchases)
    [faster] = [item for item in plan.alternatives if item.name == "faster"]

    assert bought < 0.75 * 400_000
    assert f"${400_000 - bought:,.0f} of the budget are left" in plan.sentence
    assert bought < (faster.purchase_usd or 0) <= 400_000
    assert f"${faster.purchase_usd:,.0f}" in plan.sentence
    # The question buys: renting is not an option that the limits forbid.
    assert "enting everything" not in plan.sentence
    assert {item.name for item in plan.alternatives}.isdisjoint({"rent", "buy"})


def test_the_first_sentence_says_what_is_paid_before_machines_are_sold() -> None:
    """A machine lasts five years, in a straight line: after three it is worth two fifths."""
    asked = quick_portfolio("home", budget_usd=4000)
    asked = asked.changed(owning=asked.owning.changed(months=36, discount_rate=0.0))
    plan = plan_fleet(asked, alternatives=False)

    worth = 0.4 * sum(item.usd for item in plan.purchases)
    first = plan.sentence.split(" It includes ")[0]
    assert first.endswith(
        f"That is ${plan.total_usd + worth:,.0f} paid, less ${worth:,.0f} that the machines are "
        "worth at the end, in today's money."
    )
    assert " for power, place and staff. All of it runs on " in plan.sentence


def test_the_first_sentence_names_the_work_that_rents() -> None:
    plan = plan_fleet(quick_portfolio("chatbot"), alternatives=False)
    rented = {item.workload for item in plan.assignments if "rented" in item.place}
    assert rented == {"weekly fine-tune of Llama 3.1 8B"}
    assert ", rent on demand for weekly fine-tune of Llama 3.1 8B: $" in plan.sentence


def test_a_budget_that_does_not_carry_twice_the_work_says_so_once() -> None:
    """The service takes two cards of 96 GB at 16,000 USD, and four times the chats more of them."""
    asked = quick_portfolio("lab", budget_usd=30_000, people=4, serve="qwen3-32b")
    plan = plan_fleet(asked)
    more = [item for item in plan.alternatives if item.name.startswith("times")]

    assert [item.feasible for item in more][-1:] == [False]
    assert all(item.feasible for item in more[:-1])
    assert more[-1].sentence.endswith("not possible within the limits.")


def test_a_lab_with_much_money_left_sees_what_more_of_it_carries() -> None:
    """Twice the work never costs less, and twice the machines carry it."""
    plan = plan_fleet(quick_portfolio("lab", budget_usd=250_000))
    spent = sum(item.usd for item in plan.purchases)
    steps = {
        item.name: item.purchase_usd for item in plan.alternatives if item.name.startswith("times")
    }
    prices = [steps[f"times {times}"] or 0.0 for times in (2, 4, 8)]

    assert [spent, *prices] == sorted([spent, *prices])
    for price, times in zip(prices, (2, 4, 8), strict=True):
        assert price <= times * spent
    said = f"Twice the people, runs and requests would need machines for ${prices[0]:,.0f}, 4 times"
    assert said in plan.sentence
    assert "each run takes as long as before" in plan.sentence


def test_a_machine_at_home_carries_as_many_chats_as_the_search_finds_for_it() -> None:
    """The plan sizes one chat; two cards of 805 USD answer eight within ten tokens a second.

    They stand in a computer for two at 1,880 USD with a supply for 1.5 times 360 W.
    """
    plan = plan_fleet(quick_portfolio("home", budget_usd=4000))
    more = {item.name: item.purchase_usd for item in plan.alternatives}

    assert more["times 2"] == sum(item.usd for item in plan.purchases)
    assert more["times 8"] == pytest.approx(2 * 805 + 1880 + 0.35 * 540)
    alone = recommend(
        {
            "model": {"preset": "qwen3-32b"},
            "workload": {"kind": "serving", "weight_format": "w4a16", "concurrency": 8},
            "limits": {
                "max_tpot_ms": 100,
                "owned": [{"accelerator": "rtx-5060-ti-16gb", "count": 2}],
            },
        }
    )
    assert alone.plans


def test_a_model_may_be_a_count_of_parameters() -> None:
    """As every other command takes it: --model 13B."""
    portfolio = quick_portfolio("home", tune="13B", serve="llama-3.1-8b")
    models = {item.case.model for item in portfolio.workloads}
    assert {model.parameters for model in models} == {13e9, None}
    assert {model.preset for model in models} == {"llama-3.1-8b", None}
