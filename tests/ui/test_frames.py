"""Frames: the figures of the stand-in engine (`factory`) must arrive unchanged."""

import math

import pytest

from advisor import api
from advisor.foundation.quantities import Term
from advisor.frames.accuracy import settings_table
from advisor.frames.memory import memory_table, memory_terms
from advisor.frames.points import (
    axes,
    candidate_points,
    charted,
    filtered,
    nearest_misses,
    picked_points,
    picks,
    points_table,
    rejections_frame,
    verdicts,
    within_reach,
)
from advisor.nouns.case import Case
from advisor.nouns.limits import Objective
from advisor.planning.explain.terms import term_cells, term_sections
from advisor.planning.results import Recommendation
from advisor.ui.parts import wording
from tests.cases import serve, tune
from tests.ui import factory


def case(**limits: object) -> Case:
    return Case.model_validate(
        tune("llama-3.1-8b", tokens=10e6, limits={"deadline_hours": 24, **limits})
    )


@pytest.fixture
def recommendation() -> Recommendation:
    return factory.recommend(case())


def test_one_l40s_takes_ten_hours_and_ten_dollars(recommendation: Recommendation) -> None:
    points = candidate_points(recommendation)

    [single] = [item for item in points if item.accelerator == "NVIDIA L40S" and item.cards == 1]

    assert (single.time_low, single.time, single.time_high) == pytest.approx((8, 10, 13))
    assert (single.cost_low, single.cost, single.cost_high) == pytest.approx((8, 10, 13))
    assert single.provider == "Example Cloud"


def test_candidates_are_sorted_by_time(recommendation: Recommendation) -> None:
    times = [item.time for item in candidate_points(recommendation)]

    assert times == sorted(times)
    assert len(times) == 16


def test_on_the_frontier_waiting_longer_costs_less(recommendation: Recommendation) -> None:
    points = candidate_points(recommendation)

    costs = [item.cost for item in points if item.on_frontier]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == len(costs)
    # The slowest point is the cheapest of all sixteen.
    assert costs[-1] == pytest.approx(10)


def test_plans_that_agree_share_a_card(recommendation: Recommendation) -> None:
    titles = [item.title for item in picks(recommendation)]

    assert titles == ["Cheapest", "Fastest and best value"]


def test_the_asked_objective_comes_first() -> None:
    asked = case().model_copy(update={"objective": Objective.FASTEST})

    titles = [item.title for item in picks(factory.recommend(asked))]

    assert titles == ["Fastest and best value", "Cheapest"]


def test_without_a_plan_there_is_no_pick() -> None:
    assert picks(factory.recommend(case(budget_usd=0.5))) == ()


def test_memory_groups_add_up_to_the_total(recommendation: Recommendation) -> None:
    memory = memory_terms(picks(recommendation))

    # 15 weights + 0.1 gradients + 0.3 optimizer + 9 activations + 2 logits
    # + 1 workspace + 0.6 context + 1 fragmentation
    first = {term.group: term for term in memory if term.plan == "Cheapest"}
    assert sum(term.gib for term in first.values()) == pytest.approx(29.0)
    assert first["Gradients and optimizer"].gib == pytest.approx(0.4)
    assert first["Activations and logits"].gib == pytest.approx(11.0)
    assert first["Weights"].total_high_gib == pytest.approx(31.9)
    assert first["Weights"].usable_gib == pytest.approx(45.0)


def test_a_group_without_memory_is_left_out(recommendation: Recommendation) -> None:
    memory = memory_terms(picks(recommendation))

    assert "Key-value cache" not in {term.group for term in memory}


def test_the_memory_table_has_every_component(recommendation: Recommendation) -> None:
    table = memory_table(picks(recommendation)).set_index("On each accelerator")

    column = table["Cheapest: NVIDIA L40S"]
    assert column["Weights"] == "15 GiB"
    assert column["Total"] == "29 GiB (27–32)"
    assert column["Usable"] == "45 GiB"


def test_far_dearer_points_stay_out_of_the_chart(recommendation: Recommendation) -> None:
    points = candidate_points(recommendation)
    chosen = picked_points(picks(recommendation))
    most = max(item.cost for item in chosen)

    assert not charted([points[0]._replace(cost=10.5 * most)], chosen)
    assert len(charted([points[0]._replace(cost=9.5 * most)], chosen)) == 1
    shown = charted(points, chosen)
    assert sum(item.on_frontier for item in shown) == sum(item.on_frontier for item in points)
    beaten = [
        [item.accelerator for item in each if not item.on_frontier] for each in (shown, points)
    ]
    assert sorted(beaten[0]) == sorted(set(beaten[1]))


def test_a_far_limit_is_told_instead_of_drawn() -> None:
    found = factory.recommend(case(budget_usd=1e6))
    points = candidate_points(found)

    shown, told = within_reach(axes(found), points)

    # The deadline of 24 h is near the slowest run of 10 h, the budget far above $15.
    assert (shown.time_limit, shown.cost_limit) == (24, None)
    assert told == "Nothing here is over your budget ($1,000,000)."


def test_owned_hardware_has_no_cost(recommendation: Recommendation) -> None:
    free = recommendation.model_copy(
        update={
            "candidates": tuple(
                item.model_copy(update={"cost_usd": None}) for item in recommendation.candidates
            )
        }
    )

    points = candidate_points(free)

    assert not axes(free).priced
    assert all(math.isnan(item.cost) and not item.priced for item in points)
    assert set(points_table(candidate_points(free), axes(free))["Cost of the run"]) == {"no rent"}


def test_axes_carry_the_limits() -> None:
    shown = axes(factory.recommend(case(budget_usd=60)))

    assert (shown.time_limit, shown.cost_limit, shown.time_unit) == (24, 60, "h")


def test_serving_is_measured_in_milliseconds_and_months() -> None:
    serving = Case.model_validate(serve("llama-3.1-8b", limits={"max_tpot_ms": 50}))
    found = factory.recommend(serving)
    [first, *_] = picked_points(picks(found))

    assert axes(found).time_unit == "ms"
    assert axes(found).time_limit == 50
    # One L40S: 40 ms for each token, 1 USD/h for 730 h.
    assert first.time == pytest.approx(40)
    assert first.cost == pytest.approx(730)


def test_rejections_state_reason_and_remedy(recommendation: Recommendation) -> None:
    table = rejections_frame(recommendation).set_index("Accelerator")

    row = table.loc[factory.RTX_4090]
    assert row["Reason"] == "Too little memory"
    assert row["What happened"] == (
        "NVIDIA GeForce RTX 4090 is 5.0 GiB short: it needs 29 GiB, it has 24 GiB."
    )
    assert row["What would help"] == "QLoRA keeps the base in 4 bits."


def test_filter_by_words_and_reason(recommendation: Recommendation) -> None:
    table = rejections_frame(recommendation)

    by_name = filtered(table, name="geforce 40", reason=None)
    by_reason = filtered(table, name="", reason="Too slow for the deadline")

    assert by_name["Accelerator"].tolist() == [factory.RTX_4090]
    assert by_reason["Accelerator"].tolist() == [factory.T4]
    assert filtered(table, name="(", reason=None).empty
    assert len(filtered(table, name="", reason=None)) == len(table)


def test_what_runs_misses_by_less_than_what_does_not_fit(recommendation: Recommendation) -> None:
    # T4: 31 of 24 h. RTX 4090: 29 of 24 GiB, a smaller ratio, yet nobody knows how fast it were.
    [(first, _), (second, _)] = nearest_misses(recommendation, at_most=3)

    assert first.startswith(factory.T4)
    assert second.startswith(factory.RTX_4090)


def test_a_verdict_for_every_accelerator(recommendation: Recommendation) -> None:
    found = verdicts(recommendation)

    names = {card.name for card in factory.CARDS} | {factory.T4, factory.RTX_4090}
    assert set(found) == names
    assert found[factory.T4].startswith("NVIDIA T4 misses your deadline: 31 h")
    assert "number 1 when sorted by cheapest" in found["NVIDIA L40S"]


def test_terms_show_formula_values_and_source(recommendation: Recommendation) -> None:
    [pick, *_] = picks(recommendation)
    memory, time, cost = term_sections(pick.plan.estimate)

    assert memory.title == "Memory on each accelerator: 29 GiB (27–32)"
    row = next(term_cells(memory.terms))
    assert row["Value"] == "15 GiB"
    assert row["Formula"] == "parameters x bytes per parameter"
    assert row["With your values"] == "8,030,261,248 x 2"
    assert row["Source"].endswith("2020, arXiv:1910.02054, section 5 and figure 1")
    assert "38" in time.note
    assert time.note.endswith("take 10 h (8–13).")
    assert cost.title == "Cost and energy"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (15 * 2**30, "bytes", "15 GiB"),
        (0.0021, "s", "2.1 ms"),
        (96.0, "s", "1.6 min"),
        (1.2, "USD", "$1.20"),
        (6.3e22, "FLOPs", "63,000 EFLOP"),
        (0.6064, "kWh", "0.606 kWh"),
        (64.0, "sequences", "64 sequences"),
    ],
)
def test_term_values_in_the_units_people_read(value: float, unit: str, text: str) -> None:
    term = Term(name="x", title="X", value=value, unit=unit, formula="x")

    [shown] = term_cells((term,))

    assert shown["Value"] == text


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["$0.29/h", "$0.160/kWh"], True),
        (["above 8.2 %", "below $1,250"], True),
        (["$1,900 ($1,300\N{EN DASH}2,200)", "-"], True),
        (["235 (144 to never)", "200 h a month"], True),
        (["8,400 (fp8)", "does not fit"], True),
        (["too small", "$420", "without offer or layout"], True),
        (["320 / 4,400 / 40,000", "- / 66 / 160", "33,000 (host)"], True),
        (["too slow", "too small"], False),
        (["1x NVIDIA L4", "2x NVIDIA L4"], False),
        (["2026-09-20, old"], False),
        (["-", ""], False),
    ],
)
def test_columns_of_numbers_are_known_by_their_cells(cells: list[str], expected: bool) -> None:
    assert wording.numeric(cells) is expected


def test_settings_of_a_measurement_read_as_words() -> None:
    """Row h3110: 62.8 GiB at the peak, no pipeline, a run that ended well."""
    [run] = [item for item in api.published_runs() if item.row.id == "h3110"][:1]
    told: dict[str, str] = dict(settings_table(run).itertuples(index=False))
    assert told["peak memory (GiB)"] == "62.8"
    assert "outcome" not in told
    assert "pipeline parallel" not in told
    assert not any("_" in name for name in told)
