"""Reports in a terminal: width, what is shown and what is left out."""

import io
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import signature

import pytest

from advisor import api
from advisor.catalog import load_catalog
from advisor.compare.cards import compare_cards
from advisor.estimate.results import Estimate
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.references import references
from advisor.foundation.units import GIB
from advisor.planning.explain.terms import term_sections
from advisor.planning.results import Recommendation, Rejection, RejectionCode
from advisor.terminal.console import SCREENS, Report, new_console, table
from advisor.terminal.estimate import arrangement, fit_sentence, show_estimate
from advisor.terminal.fits import show_comparison, show_fits
from advisor.terminal.ownership import show_ownership
from advisor.terminal.recommendation import offered, shortlist, show_recommendation, spread
from tests.cases import serve, tune

TRAIN = tune(
    "llama-3.1-8b", method="full", tokens=50e6, limits={"deadline_hours": 24, "budget_usd": 500}
)
SERVE = serve("mixtral-8x7b", concurrency=32, limits={"max_tpot_ms": 50})
FIVE = ["rtx-4090", "rtx-5090", "a100-sxm-80gb", "h100-sxm", "b200-sxm"]
EIGHT = {"hardware": {"accelerator": "h100-sxm", "count": 8}}


@pytest.fixture(scope="module", params=[TRAIN, SERVE], ids=["train", "serve"])
def recommendation(request: pytest.FixtureRequest) -> Recommendation:
    return api.recommend(request.param)


@pytest.fixture(scope="module")
def training() -> Estimate:
    layout = {"data": 4, "tensor": 2, "sharding": "zero3", "micro_batch": 1, "recompute": "full"}
    return api.estimate({**TRAIN, **EIGHT, "layout": layout})


@pytest.fixture(scope="module")
def others() -> list[Callable[[Report], None]]:
    """What other commands answer."""
    fits = [api.fits("rtx-4090"), api.fits("h200-sxm", count=8)]
    owned, compared = api.own({**TRAIN, **EIGHT}), compare_cards(FIVE, load_catalog())
    return [
        *(partial(show_fits, fits=found) for found in fits),
        lambda console: show_ownership(console, owned),
        lambda console: show_comparison(console, compared, everything=False),
    ]


@pytest.fixture(scope="module")
def serving() -> Estimate:
    return api.estimate({**SERVE, **EIGHT, "layout": {"data": 4, "tensor": 2, "expert": 4}})


def printed(show: Callable[[Report], None], width: int = 80) -> str:
    out = io.StringIO()
    show(new_console(out, width=width))
    return out.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("everything", [False, True])
def test_a_recommendation_keeps_within_the_width(
    recommendation: Recommendation, width: int, everything: bool
) -> None:
    text = printed(
        lambda console: show_recommendation(console, recommendation, everything=everything), width
    )

    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "…" not in text


def test_no_text_controls_the_terminal() -> None:
    hostile = "\x1b[2Ja\u202eb\x9b2J"
    text = printed(lambda console: console.print(table(("name",), [(hostile,)]), hostile), width=80)

    assert not {"\x1b", "\u202e", "\x9b"} & set(text)
    assert "\\x1b[2Ja\\u202eb\\x9b2J" in text


def test_a_recommendation_shows_all_its_parts(recommendation: Recommendation) -> None:
    text = words(
        printed(
            lambda console: show_recommendation(console, recommendation, top=2, everything=True),
            10_000,
        )
    )

    assert text.startswith(words(recommendation.answer))
    for ranking in recommendation.rankings:
        for plan in ranking.plans[:2]:
            assert words(plan.title) in text
            assert words(plan.why) in text or "The same as" in text
    for item in [near for near in recommendation.plans[0].estimate.neighbours if near.fits][:3]:
        assert f"x ({item.change})" in text.partition("Other layouts that fit, fastest first: ")[2]
    for candidate in recommendation.frontier:
        assert candidate.label in text
    for rejection in recommendation.rejections:
        assert words(rejection.message) in text
        assert words(rejection.remedy) in text
    for line in (*recommendation.assumptions, *(item.message for item in recommendation.advice)):
        assert words(line) in text
    for key in recommendation.references:
        assert references()[key].locator in text


@pytest.mark.parametrize("width", [80, 120])
def test_the_first_answer_fills_one_screen(
    recommendation: Recommendation,
    training: Estimate,
    serving: Estimate,
    others: list[Callable[[Report], None]],
    width: int,
) -> None:
    shows: list[Callable[[Report], None]] = [
        *others,
        lambda console: show_recommendation(console, recommendation),
        lambda console: show_estimate(console, training),
        lambda console: show_estimate(console, serving),
    ]
    for show in shows:
        lines = printed(show, width).splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= width


def test_the_first_answer_names_work_plan_and_the_way_to_the_rest(
    recommendation: Recommendation,
) -> None:
    text = words(printed(lambda console: show_recommendation(console, recommendation), 10_000))

    plan = recommendation.plans[0]
    assert text.startswith(words(recommendation.answer))
    assert f"{plan.estimate.model}: {plan.estimate.workload}" in text
    assert words(plan.why) in text
    assert recommendation.assumed  # those of the first plan and of the whole search
    for line in recommendation.assumed:
        assert words(line).removesuffix(".") in text
    assert "--explain shows" in text


def test_an_estimate_keeps_within_the_width(training: Estimate, serving: Estimate) -> None:
    for estimate in (training, serving):
        for explain in (False, True):
            text = printed(partial(show_estimate, estimate=estimate, everything=explain))
            assert max(map(len, text.splitlines())) <= 80


def test_explain_opens_every_term(training: Estimate) -> None:
    text = words(printed(lambda console: show_estimate(console, training, everything=True), 10_000))

    terms = [term for section in term_sections(training) for term in section.terms]
    assert len(terms) > 15
    for term in terms:
        assert term.title in text
        assert words(term.formula) in text
        assert words(term.substituted) in text
        if term.reference:
            assert references()[term.reference].title in text


def test_the_arrangement_in_words(training: Estimate, serving: Estimate) -> None:
    assert arrangement(training) == (
        f"Layout: {training.precision}, data 4 x tensor 2, zero3, micro-batch 1, full recompute; "
        "you stated data, micro batch, recompute, sharding, tensor, the search chose the rest"
    )
    assert arrangement(serving) == (
        "Layout: bf16, data 4 x tensor 2, experts over 8; "
        "you stated data, expert, tensor, the search chose the rest"
    )


def with_memory(estimate: Estimate, low: float, expected: float, high: float) -> Estimate:
    total = Range(
        low=low * GIB, expected=expected * GIB, high=high * GIB, evidence=Evidence.CALIBRATED
    )
    memory = estimate.memory.model_copy(
        update={
            "total_bytes": total,
            "usual_bytes": None,
            "usable_bytes": 44.4 * GIB,
            "fits": high <= 44.4,
        }
    )
    return estimate.model_copy(update={"memory": memory})


@pytest.mark.parametrize(
    ("needed", "text"),
    [
        ((24, 29, 36), "Fits: needs 29 GiB (24–36) of 44 GiB usable on each accelerator."),
        (
            (24, 29, 44.1),
            "Fits: needs 29.0 GiB (24.0–44.1) of 44.4 GiB usable on each accelerator.",
        ),
        ((35, 40, 49), "May not fit: needs 40 GiB (35–49), 44 GiB usable on each accelerator."),
        (
            (45, 50, 57),
            (
                "Does not fit: needs 50 GiB (45–57), 44 GiB usable on each accelerator; up to 13 "
                "GiB short."
            ),
        ),
    ],
)
def test_whether_it_fits(training: Estimate, needed: tuple[float, float, float], text: str) -> None:
    assert fit_sentence(with_memory(training, *needed)) == text


def test_an_unpriced_plan_says_so(training: Estimate) -> None:
    energy = {"energy_kwh": Range.exact(5.0), "carbon_kg": Range.exact(1.9)}
    unpriced = training.cost.model_copy(update={"usd_per_hour": None, **energy})
    unpowered = unpriced.model_copy(update={"energy_kwh": None, "carbon_kg": None})

    assert offered(training.model_copy(update={"cost": unpowered})) == (
        "Your own hardware: no rent. Energy and carbon are not known: this card states no power."
    )
    assert offered(training.model_copy(update={"cost": unpriced})) == (
        "Your own hardware: no rent. Takes 5.0 kWh of electricity, cooling included: 1.9 kg of CO2 "
        "(United States)."
    )


def test_a_rented_plan_names_offer_date_and_source(training: Estimate) -> None:
    cost = training.cost.model_copy(
        update={
            "provider": "Lambda",
            "instances": 2,
            "instance_type": "gpu_8x_h100",
            "region": "us-east-1",
            "usd_per_hour": Range.exact(47.84),
            "price_date": "2026-10-01",
            "price_source": "lambda-pricing",
            "energy_kwh": None,
        }
    )

    assert offered(training.model_copy(update={"cost": cost})) == (
        "$47.84/h at Lambda, us-east-1 (2 machines: gpu_8x_h100), price of 2026-10-01 "
        "(lambda-pricing). Energy and carbon are not known: this card states no power."
    )


def rejection(name: str, code: RejectionCode, actual: float | None = None) -> Rejection:
    return Rejection(
        accelerator=name,
        accelerator_name=name,
        code=code,
        actual=actual,
        limit=None if actual is None else 10.0,
        unit="",
        message="",
        remedy="",
    )


def test_the_shortlist_has_cards_that_people_rent_and_near_misses_first() -> None:
    """Twenty-nine providers rent the H100, four the T4; the others are in no catalog.

    A card that runs the work too late misses by less than one on which it does not fit.
    """
    memory, late = RejectionCode.MEMORY, RejectionCode.DEADLINE
    everyone = [
        rejection("unsold", RejectionCode.NOT_OFFERED),
        rejection("far", memory, 40.0),
        rejection("t4", RejectionCode.SOFTWARE),
        rejection("near", memory, 11.0),
        rejection("late", late, 12.0),
        rejection("h100-sxm", memory, 80.0),
        rejection("l4", RejectionCode.EXCLUDED),
    ]

    assert [item.accelerator for item in shortlist(everyone, 5)] == [
        "h100-sxm",
        "t4",
        "late",
        "near",
        "far",
    ]
    assert len(shortlist(everyone, 12)) == 6


def test_a_thinned_list_keeps_both_ends() -> None:
    assert spread(range(27), 10) == [0, 3, 6, 9, 12, 14, 17, 20, 23, 26]
    assert spread("abc", 10) == ["a", "b", "c"]


def test_many_cards_are_shown_in_parts() -> None:
    keys = ["h100-sxm", "h200-sxm", "a100-sxm-80gb", "rtx-4090", "l40s"]
    comparison = compare_cards(keys, api.load_catalog())

    text = printed(lambda console: show_comparison(console, comparison))

    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall(r"^ +Bandwidth  ", text, flags=re.MULTILINE)) == 2
    for key in keys:
        assert re.search(rf"\b{key}\b", text)


def test_recalled_values_are_marked() -> None:
    catalog = api.load_catalog()
    card = catalog.accelerator("gtx-1660-ti")
    assert card.source_of("purchase_usd").confidence == "memory"

    text = printed(
        lambda console: show_comparison(console, compare_cards(["gtx-1660-ti"], catalog)), 120
    )

    assert re.search(r"Purchase price +\$279 \(launch price of 2019-02\) \(\?\)", text)
    assert "(?) recalled by a person and not checked." in text


def test_figures_too_wide_for_one_line_wrap_and_keep_every_digit() -> None:
    """Rich cuts columns that may not wrap: thousands of processors lost the end of their price."""
    words = ["Intel Xeon 8380", "290,000 days", "11,494x apart", "$186,179,814", "3,300,000 kWh"]
    out = io.StringIO()
    new_console(out, width=60).print(
        table(["Hardware", "A", "B", "C", "D"], [words], right=[1, 2, 3, 4])
    )
    shown = out.getvalue().split()
    assert [word for word in " ".join(words[1:]).split() if word not in shown] == []


def test_a_short_row_leaves_its_last_columns_empty() -> None:
    """Models that take no adapters have a figure for full fine-tuning alone."""
    out = io.StringIO()
    new_console(out, width=60).print(
        table(["model", "full", "LoRA"], [["one", "8,200"]], right=[1, 2])
    )
    assert out.getvalue().split()[-2:] == ["one", "8,200"]


@pytest.mark.parametrize(("tokens", "told"), [(1e6, False), (1e12, True)])
def test_only_runs_that_outlast_it_are_told_when_to_save(tokens: float, told: bool) -> None:
    case = {**TRAIN, "workload": {"kind": "pretraining", "tokens": tokens}, **EIGHT}
    out = io.StringIO()
    show_estimate(new_console(out, width=100), api.estimate(case))
    assert ("Save a checkpoint every" in out.getvalue()) is told


@pytest.mark.parametrize("answer", SCREENS)
def test_every_screen_shows_its_type_of_answer(answer: str) -> None:
    module, _, name = SCREENS[answer].partition(".")
    screen = getattr(import_module(f"advisor.terminal.{module}"), name)

    shown = [*signature(screen).parameters.values()][1]
    assert getattr(shown.annotation, "__name__", shown.annotation) == answer


def test_an_abbreviation_keeps_its_capitals_inside_a_sentence() -> None:
    found = api.estimate(serve("whisper-large-v3", "h100-pcie", 1))
    text = words(printed(lambda console: show_estimate(console, found)))
    assert "; CUDA graphs" in text
    assert "cUDA" not in text


def test_a_summary_of_fits_tells_what_a_raised_limit_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.planning.fits.request.short_list", lambda: ["qwen3-235b-a22b"])

    def summary(card: str) -> str:
        found = api.fits(card, count=1)
        return words(printed(lambda console: show_fits(console, found)))

    limit = "servers may fill 120 GiB where the system's limit is raised"
    assert f"Each card has 96 GiB; {limit}" in summary("apple-m4-max")
    assert limit not in summary("rtx-4090")


def test_a_first_answer_keeps_the_numbers_of_a_rate() -> None:
    case = serve("gemma-3-27b", "h100-sxm", 2)
    case["workload"].pop("concurrency", None)
    case["workload"] |= {"requests_per_s": "2/s", "images_per_request": 1}
    text = printed(lambda console: show_estimate(console, api.estimate(case)))
    assert "Time to first token" in text
    # Benchmarks state the rate without the prompt, which `Output` counts.
    assert re.search(r"Time per token .* ms \(.*\), [\d,.]+ tokens/s", text)
    assert "P99 of the time per token" in text
