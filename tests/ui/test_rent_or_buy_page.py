"""The page *Rent or buy*: the engine's numbers, and what its charts draw."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import advisor
import advisor.ui.pages
from advisor.charts import ownership as charts
from advisor.charts.theme import LIGHT
from advisor.frames import ownership as tables
from advisor.owning.results import Ownership
from tests.cases import serve, tune
from tests.ui.seen import seen
from tests.ui.test_one_case import unfolded

pytestmark = pytest.mark.slow

PAGE = Path(advisor.ui.pages.__file__).parent / "rent_or_buy.py"
WORK = tune("qwen3-0.6b", method="qlora", tokens=10e6, limits={"deadline_hours": 24})
QUERY = {"model": "qwen3-0.6b", "task": "qlora", "card": "h100-sxm", "count": "8"}


@cache
def engine(card: str, count: int, **owning: float) -> Ownership:
    return advisor.own(
        {
            **WORK,
            "hardware": {"accelerator": card, "count": count},
            "owning": {"hours_per_month": 200, "months": 36, **owning},
        }
    )


def opened() -> AppTest:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params.update(QUERY)
    return page.run()


def said(page: AppTest) -> str:
    return seen(page.get("html")[0].proto.body)


def test_the_page_says_what_the_engine_says() -> None:
    page = opened()
    assert not page.exception
    assert not page.error
    found = engine("h100-sxm", 8)
    assert found.answer in said(page)
    [owning, *_] = page.metric
    assert owning.label == "Owning for 3 years"
    bill = next(table.value for table in page.table if "USD" in table.value)
    total = seen(bill.iloc[-1, 1])
    assert total == f"{found.own.total_usd.expected:,.0f}"


def test_an_empty_box_shows_the_value_that_the_answer_takes() -> None:
    page = opened()
    page.session_state["own_further"] = True
    page.run()
    shown = {item.key: item.placeholder for item in page.number_input}
    taken = {item.field: item.value.expected for item in engine("h100-sxm", 8).inputs}
    assert shown["own_purchase_usd"] == f"{taken['purchase_usd']:,.0f} USD"
    assert shown["own_resale_share"] == f"{100 * taken['resale_share']:.4g} %"
    assert shown["own_pue"] == f"{taken['pue']:g}"
    assert shown["own_usd_per_hour"].endswith(" USD/h")
    assert shown["own_api_usd_per_million"] == "As listed"
    assert "default" not in shown.values()


def test_hours_and_price_change_the_answer() -> None:
    page = opened()
    page.number_input(key="own_hours").set_value(500)
    page.number_input(key="own_purchase_usd").set_value(20000.0).run()
    assert not page.exception
    found = engine("h100-sxm", 8, hours_per_month=500, purchase_usd=20000)
    assert found.answer in said(page)


def test_a_service_runs_all_day_as_on_the_command_line() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params.update({"task": "serve", "users": "8", "speed": "", "card": "l40s"})
    page.run()
    assert page.number_input(key="own_hours").value is None
    found = advisor.own(
        serve("llama-3.1-8b", "l40s", 1, concurrency=8) | {"owning": {"months": 36}}
    )
    assert "at 730 hours a month" in found.answer
    assert found.answer in said(page)


def test_a_card_without_a_price_asks_for_it() -> None:
    page = opened()
    page.selectbox(key="in_own_accelerator").set_value("gh200-144gb").run()
    assert "no purchase price in the catalog" in page.error[0].value
    page.number_input(key="own_purchase_usd").set_value(8000.0).run()
    assert not page.error
    assert "GH200" in said(page)


def test_prices_in_euro_convert_at_the_rate_that_is_entered() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params.update(QUERY | {"usd_per_eur": "0.6"})
    page.run()
    # Gcore's cheapest machine with eight H100: EUR 18.91.
    assert "Gcore on demand at $11.35/h" in said(page)


def test_a_link_sets_the_boxes_below_the_answer_too() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params.update(
        QUERY
        | {
            "own_usd_per_eur": "0.5",
            "own_pue": "1.0",
            "own_budget_usd": "20000",
            "own_work": "serve",
        }
    )
    page.session_state["own_bought"] = True
    page.run()
    assert not page.error
    asked = serve(
        "qwen3-0.6b",
        "h100-sxm",
        8,
        concurrency=8,
        owning={"months": 36, "pue": 1.0, "budget_usd": 20_000},
        limits={"usd_per_eur": 0.5, "max_tpot_ms": 50},
    )
    found = advisor.own(asked)
    assert found.answer in said(page)
    assert found.budget is not None
    assert any(found.budget.sentence in seen(item.value) for item in page.markdown)


@pytest.fixture(scope="module")
def found() -> Ownership:
    """Bought for 2000 with a quote of 1 USD: 500 h a month pass the price within four months."""
    return advisor.own(
        {
            **WORK,
            "hardware": {"accelerator": "rtx-4090", "count": 1},
            "owning": {
                "hours_per_month": 500,
                "months": 12,
                "purchase_usd": 2000,
                "host_share": 0,
                "electricity_usd_per_kwh": 0,
                "discount_rate": 0,
            },
            "renting": {"usd_per_hour": 1, "rent_change": 0},
        }
    )


def test_the_lines_of_the_timeline(found: Ownership) -> None:
    frame = tables.timeline_frame(found)
    assert frame["month"].tolist() == list(range(13))
    assert frame["rent_usd"].tolist() == pytest.approx([500.0 * month for month in range(13)])
    # Bought on the first day; sold for the expected four fifths of a five-year life at the end.
    assert frame["own_usd"].tolist() == pytest.approx([2000.0] * 12 + [400.0])
    even = found.rents[0].break_even
    assert even.month == 4
    chart = charts.timeline_chart(frame, months=(4, 4, 4), theme=LIGHT)
    assert [trace.name for trace in chart.data if trace.name] == ["Owning", "Renting"]
    assert chart.layout.shapes[-1].x0 == 4
    # Owning ends below renting: its label is below its end, the other's above.
    anchors = {item.text: item.yanchor for item in chart.layout.annotations}
    assert [anchors[name] for name in anchors if "Owning" in name] == ["top"]
    assert [anchors[name] for name in anchors if "Renting" in name] == ["bottom"]
    assert "overtakes renting in month 4" in charts.timeline_finding(frame, month=even.month)
    assert chart.layout.yaxis.tickformat == "$,.0f"
    assert charts.dollars(0.8) == "$,.2f"  # no two ticks of $0 and $1 for fifty cents
    words = charts.timeline_alt(frame, month=even.month)
    assert "month 4" in words
    assert "$6,000" in words


def test_the_tornado_starts_at_the_expected_saving(found: Ownership) -> None:
    frame = tables.effects_frame(found)
    assert frame["expected_usd"].tolist() == pytest.approx([5600.0] * len(frame))
    assert frame["title"].iloc[0] == "Worth at the end"
    # A life of three years leaves two thirds of 2000, one of six years five sixths.
    assert frame["low_usd"].iloc[0] == pytest.approx(6000 - 2000 * (1 - 2 / 3))
    assert frame["high_usd"].iloc[0] == pytest.approx(6000 - 2000 * (1 - 5 / 6))
    chart = charts.effects_chart(frame, theme=LIGHT)
    assert chart.data[0].base == pytest.approx(5600.0)
    assert "Worth at the end matters most" in charts.effects_alt(frame)


def test_the_value_of_each_input_that_turns_the_answer(found: Ownership) -> None:
    table = {row[0]: row[1:] for row in tables.flips_table(found).to_numpy().tolist()}
    # 500 h in each of twelve months at 1 USD; a fifth of the price of 2000 USD is lost.
    assert table["Hours in use"] == ["500 h a month", "below 33.3 h a month"]
    assert table["Price of one accelerator"] == ["$2,000", "above $30,000"]
    assert table["Rent, all instances"] == ["$1.00/h", "below $0.0667/h"]
    assert tables.flips_sentence(found).startswith("Owning costs less than renting now.")


def test_a_slider_fills_the_box_and_changes_the_sentence() -> None:
    page = opened()
    page.select_slider(key="slide_hours").set_value(400.0).run()
    assert page.number_input(key="own_hours").value == 400
    page.select_slider(key="slide_price").set_value(20000.0).run()
    assert not page.exception
    assert engine("h100-sxm", 8, hours_per_month=400, purchase_usd=20000).answer in said(page)
    assert page.query_params["hours"] == "400"


def test_a_box_is_right_where_the_browser_sends_a_slider_that_has_not_moved_yet() -> None:
    page = opened()
    page.number_input(key="own_hours").set_value(159)
    page.select_slider(key="slide_hours").set_value(10.0)
    page.run()
    assert page.number_input(key="own_hours").value == 159
    assert page.query_params["hours"] == "159"
    page.select_slider(key="slide_hours").set_value(300.0).run()
    assert page.number_input(key="own_hours").value == 300


def test_labels_of_the_tornado_stand_on_either_side_of_the_expected_saving(
    found: Ownership,
) -> None:
    frame = tables.effects_frame(found)
    labels = charts.effects_chart(frame, theme=LIGHT).layout.annotations
    assert len(labels) == 2 * len(frame)
    assert all((item.x <= 5600) if item.xanchor == "right" else (item.x >= 5600) for item in labels)
    assert {item.bgcolor for item in labels} == {LIGHT.page}  # the zero line does not cross them


def test_who_has_the_machine_already_reads_what_it_goes_on_costing() -> None:
    found = engine("h100-sxm", 8)
    bill = {line.title: line.usd for line in found.own.lines}
    kept = sum(bill[line] for line in ("Electricity, cooling included", "Colocation", "Staff"))
    words = tables.owned_sentence(found)
    assert f"its upkeep alone, ${round(kept, -3):,.0f} over 3 years; renting costs $" in words


def test_a_large_bill_has_no_cents_and_still_adds_up() -> None:
    bill = tables.bill_table(engine("h100-sxm", 8)).iloc[:, 1]
    *lines, total = [int(cell.replace(",", "")) for cell in bill]
    assert sum(lines) == total


def test_a_strip_is_the_break_even_along_one_input(found: Ownership) -> None:
    strips = {strip.field: strip for strip in found.strips}
    frame = tables.strip_frame(strips["purchase_usd"])
    # 400 USD are lost of 2000 in twelve months: 33.3 h a month at 1 USD; in proportion to price.
    assert frame["value"].iloc[[0, -1]].tolist() == pytest.approx([500.0, 5000.0])
    assert frame["hours"].iloc[[0, -1]].tolist() == pytest.approx([400 / 12 / 4, 400 / 12 * 2.5])
    chart = charts.strip_chart(
        frame, title="Price", value=2000.0, text="$2,000", hours=500.0, ticks="$,.0f", theme=LIGHT
    )
    assert chart.layout.shapes[0].x0 == 2000.0
    assert "between 8 and 83 hours" in charts.strip_alt(frame, title="Price", value_text="$2,000")


def test_tables_hold_the_bill_and_the_processors(found: Ownership) -> None:
    bill = tables.bill_table(found)
    assert bill.iloc[:, 1].tolist() == ["2,000.00", "-1,600.00", "400.00"]
    assert tables.processors_table(found)["As fast"].iloc[0] == "1x"
    assert "given" in set(tables.inputs_table(found)["Range"])
    assert tables.rents_table(found)["Rent"].tolist() == ["$1.00/h"]


def test_a_budget_and_a_place_are_asked_on_the_page() -> None:
    page = unfolded(opened(), "own_bought")
    page.number_input(key="own_budget_usd").set_value(6000.0)
    page.selectbox(key="own_place").set_value("deu").run()
    assert not page.exception
    found = advisor.own(
        {
            **WORK,
            "hardware": {"accelerator": "h100-sxm", "count": 8},
            "owning": {"hours_per_month": 200, "months": 36, "budget_usd": 6000, "place": "deu"},
        }
    )
    assert found.budget is not None
    assert found.answer in said(page)
    shown = [seen(markdown.value) for markdown in page.markdown]
    assert found.budget.sentence in shown


def test_every_assumption_can_be_changed_on_the_page() -> None:
    page = unfolded(opened(), "own_further")
    page.number_input(key="own_pue").set_value(1.2)
    page.number_input(key="own_discount_rate").set_value(3.0)
    page.number_input(key="own_api_usd_per_million").set_value(0.5).run()
    assert not page.exception
    found = advisor.own(
        {
            **WORK,
            "hardware": {"accelerator": "h100-sxm", "count": 8},
            "owning": {"hours_per_month": 200, "months": 36, "pue": 1.2, "discount_rate": 0.03},
            "renting": {"api_usd_per_million": 0.5},
        }
    )
    assert found.answer in said(page)
