"""Charts: what is drawn where, from the stand-in engine's figures."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from advisor.charts.cost_time import cost_time_alt, cost_time_chart, cost_time_finding
from advisor.charts.draw import log_ticks
from advisor.charts.grid import grid_chart, grid_finding
from advisor.charts.labels import Label, LogPlot, place
from advisor.charts.memory import memory_alt, memory_chart, memory_finding
from advisor.charts.theme import DARK, LIGHT, Theme
from advisor.frames.memory import MemoryTerm, memory_terms
from advisor.frames.points import Point, axes, candidate_points, picked_points, picks
from advisor.nouns.case import Case
from tests.ui import factory

FINE_TUNING = {"kind": "fine_tuning", "tokens": 10e6}


def draw(
    workload: dict[str, object] | None = None, *, compact: bool = False, **limits: object
) -> Any:
    found = factory.recommend(
        Case.model_validate(
            {
                "model": {"preset": "llama-3.1-8b"},
                "workload": workload or FINE_TUNING,
                "limits": limits,
            }
        )
    )
    return cost_time_chart(
        candidate_points(found),
        picked_points(picks(found)),
        axes(found),
        theme=replace(LIGHT, compact=compact),
    )


def trace(figure: Any, name: str) -> Any:
    [found] = [item for item in figure.data if item.name == name]
    return found


def lines(figure: Any) -> list[Any]:
    return [shape for shape in figure.layout.shapes if shape.type == "line"]


def test_the_frontier_is_a_step_line_that_falls() -> None:
    frontier = trace(draw(deadline_hours=24), "Best trade-offs")

    # Horizontal first: a price holds until a cheaper point is reached.
    assert frontier.line.shape == "hv"
    assert list(frontier.x) == sorted(frontier.x)
    assert list(frontier.y) == sorted(frontier.y, reverse=True)
    assert frontier.y[-1] == pytest.approx(10)


def test_beaten_points_are_hollow() -> None:
    figure = draw(deadline_hours=24)

    beaten = trace(figure, "Slower and dearer")
    assert beaten.marker.symbol == "circle-open"
    assert len(beaten.x) + len(trace(figure, "Best trade-offs").x) == 16


def test_the_deadline_line_stands_at_the_deadline() -> None:
    figure = draw(deadline_hours=24)

    [line] = lines(figure)
    [area] = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert (line.x0, line.x1) == (24, 24)
    assert area.x0 == 24
    # The excluded area reaches the end of the axis.
    assert math.log10(area.x1) == pytest.approx(figure.layout.xaxis.range[1])
    assert any(note.text == "after your deadline, 24 h" for note in figure.layout.annotations)


def test_the_budget_line_stands_at_the_budget() -> None:
    figure = draw(budget_usd=60)

    [line] = lines(figure)
    assert (line.y0, line.y1) == (60, 60)
    assert any(note.text == "over your budget, $60" for note in figure.layout.annotations)


def test_without_limits_nothing_is_excluded() -> None:
    assert len(draw().layout.shapes) == 0


def test_a_token_time_is_a_limit_of_serving() -> None:
    figure = draw({"kind": "serving"}, max_tpot_ms=50)

    [line] = lines(figure)
    assert line.x0 == 50
    assert figure.layout.xaxis.title.text == "Time per output token (ms)"


def test_ranges_are_crosses_on_frontier_and_plans_only() -> None:
    figure = draw(deadline_hours=24)

    plans = trace(figure, "The plans above")
    # One L40S: 10 h (8 to 13), 10 USD (8 to 13).
    slowest = list(plans.x).index(max(plans.x))
    assert plans.error_x.array[slowest] == pytest.approx(3)
    assert plans.error_x.arrayminus[slowest] == pytest.approx(2)
    assert plans.error_y.array[slowest] == pytest.approx(3)
    assert trace(figure, "Slower and dearer").error_x.array is None


@pytest.mark.parametrize(("compact", "most"), [(False, 7), (True, 3)])
def test_few_points_carry_a_label(compact: bool, most: int) -> None:
    figure = draw(deadline_hours=24, compact=compact)

    labels = [note for note in figure.layout.annotations if note.textangle is None]
    assert len(labels) <= most
    assert any("Cheapest" in note.text for note in labels)
    assert any("Fastest and best value" in note.text for note in labels)


def test_ticks_are_1_2_5_and_stay_inside() -> None:
    axis = draw(deadline_hours=24).layout.xaxis

    assert set(axis.ticktext) <= {"0.2", "0.5", "1", "2", "5", "10", "20"}
    assert {"0.5", "1", "2", "5", "10"} <= set(axis.ticktext)


def test_minutes_and_days_label_short_and_long_runs() -> None:
    short = draw({"kind": "fine_tuning", "tokens": 1e5})
    long = draw({"kind": "fine_tuning", "tokens": 5e9})

    assert short.layout.xaxis.title.text == "Time of the run (minutes)"
    # One L40S takes 0.1 h, 6 minutes: the tick at 5 stands at 5/60 h.
    ticks = dict(zip(short.layout.xaxis.ticktext, short.layout.xaxis.tickvals, strict=True))
    assert ticks["5"] == pytest.approx(5 / 60)
    assert long.layout.xaxis.title.text == "Time of the run (days)"


def test_owned_cards_are_counted_where_nothing_costs() -> None:
    found = factory.recommend(
        Case.model_validate({"model": {"preset": "llama-3.1-8b"}, "workload": FINE_TUNING})
    )
    free = found.model_copy(
        update={
            "candidates": tuple(
                item.model_copy(update={"cost_usd": None}) for item in found.candidates
            )
        }
    )

    figure = cost_time_chart(candidate_points(free), picked_points(()), axes(free), theme=LIGHT)

    assert figure.layout.yaxis.title.text == "Cards used"
    assert set(trace(figure, "Best trade-offs").y) <= {1.0, 2.0, 4.0, 8.0}


def test_names_cannot_bring_markup_along() -> None:
    found = factory.recommend(
        Case.model_validate({"model": {"preset": "llama-3.1-8b"}, "workload": FINE_TUNING})
    )
    chosen = [item._replace(label="<a href='x'>card</a>") for item in picked_points(picks(found))]

    figure = cost_time_chart(candidate_points(found), chosen, axes(found), theme=LIGHT)

    assert not any("<a" in note.text for note in figure.layout.annotations)


def test_no_candidate_is_a_mistake_of_the_caller() -> None:
    found = factory.recommend(
        Case.model_validate({"model": {"preset": "llama-3.1-8b"}, "workload": FINE_TUNING})
    )
    with pytest.raises(ValueError, match="at least one candidate"):
        cost_time_chart([], [], axes(found), theme=DARK)


def test_the_alt_text_holds_finding_axes_and_range() -> None:
    found = factory.recommend(
        Case.model_validate(
            {
                "model": {"preset": "llama-3.1-8b"},
                "workload": FINE_TUNING,
                "limits": {"deadline_hours": 24},
            }
        )
    )

    text = cost_time_alt(candidate_points(found), picked_points(picks(found)), axes(found))

    assert text.startswith("Scatter chart of 16 configurations, logarithmic axes. ")
    assert "Cheapest: 1x NVIDIA L40S, 10 h, $10" in text
    # Eight B200 take 2.5 h / 8^0.9 = 0.385 h.
    assert "Time of the run from 23 min to 10 h" in text
    assert text.endswith("Excluded: after your deadline, 24 h.")


def memory_figure(theme: Theme = DARK) -> tuple[Any, str]:
    found = factory.recommend(
        Case.model_validate({"model": {"preset": "llama-3.1-8b"}, "workload": FINE_TUNING})
    )
    memory = memory_terms(picks(found))
    return memory_chart(memory, theme=theme), memory_alt(memory)


def test_memory_bars_start_at_zero_and_end_at_the_total() -> None:
    figure, _ = memory_figure()

    solid = [item for item in figure.data if not item.marker.pattern.shape]
    assert figure.layout.xaxis.range[0] == 0
    assert figure.layout.barmode == "stack"
    assert sum(item.x[0] for item in solid) == pytest.approx(29.0)


def test_the_uncertain_end_is_hatched() -> None:
    figure, _ = memory_figure()

    [hatched] = [item for item in figure.data if item.marker.pattern.shape]
    # 29 GiB, high end 10 % above.
    assert hatched.x[0] == pytest.approx(2.9)


def test_each_bar_has_its_own_capacity_line() -> None:
    figure, _ = memory_figure()

    assert [shape.x0 for shape in figure.layout.shapes] == pytest.approx([45.0, 179.0])
    assert any(note.text == "45.0 GiB usable" for note in figure.layout.annotations)


def test_the_memory_alt_text_holds_the_numbers() -> None:
    _, text = memory_figure()

    assert "1x NVIDIA L40S: 29 GiB (up to 32) of 45.0 GiB usable" in text
    assert "most of it weights (15 GiB)" in text


def test_the_findings_say_what_the_charts_show() -> None:
    found = factory.recommend(
        Case.model_validate({"model": {"preset": "llama-3.1-8b"}, "workload": FINE_TUNING})
    )
    memory = memory_terms(picks(found))
    # 15 of 29 GiB; 45 GiB less the high end of 31.9.
    assert memory_finding(memory).startswith("Weights take 52 % of the memory")
    assert "at least 13 GiB stay free" in memory_finding(memory)

    first = picked_points(picks(found))[0]

    def words(
        cost: float, dearer: float, spread: float = 0, *, beyond: Sequence[Point] = ()
    ) -> str:
        low, high = cost - spread, cost + spread
        cheap = first._replace(pick="Cheapest", time=10.0, cost_low=low, cost=cost, cost_high=high)
        fast = first._replace(
            pick="Fastest", time=2.0, cost=dearer, cost_low=dearer, cost_high=dearer
        )
        return cost_time_finding([*beyond, cheap, fast], [cheap, fast], axes(found))

    assert "2 h instead of 10 h (5 times as fast)" in words(12, 36)
    assert "$36 instead of $12 (3 times as much)" in words(12, 36)
    assert "(150 times as much)" in words(12, 1812)
    assert "faster still" not in words(12, 36)
    further = first._replace(time=1.0, on_frontier=True)
    assert "faster still, further left" in words(12, 36, beyond=[further])
    assert not cost_time_finding([first], [first], axes(found))

    # A list price in full; an estimate in two digits, as its card shows it.
    assert "$1,812 instead of $1,300" in words(1292, 1812, spread=400)


@pytest.mark.parametrize(
    ("low", "high", "at_most", "expected"),
    [
        (0.9, 60, 9, [1, 2, 5, 10, 20, 50]),
        (0.05, 0.2, 9, [0.05, 0.1, 0.2]),
        (1, 1e6, 7, [1, 10, 100, 1e3, 1e4, 1e5, 1e6]),
        (1, 1e6, 4, [1, 100, 1e4, 1e6]),
    ],
)
def test_log_ticks(low: float, high: float, at_most: int, expected: list[float]) -> None:
    assert log_ticks(low, high, at_most=at_most) == expected


def test_log_ticks_refuse_an_axis_that_includes_zero() -> None:
    with pytest.raises(ValueError, match="0 < low"):
        log_ticks(0, 10, at_most=9)


PLOT = LogPlot(x_range=(1, 100), y_range=(1, 100), width_px=400, height_px=300)


def test_a_label_near_the_right_edge_goes_to_the_left() -> None:
    [placed] = place([Label(95, 10, ("1x NVIDIA L40S 48GB",))], PLOT, at_most=1)

    assert placed.xanchor == "right"


def test_labels_of_one_point_do_not_cover_each_other() -> None:
    labels = [Label(10, 10, ("first",)), Label(10, 10, ("second",))]

    first, second = place(labels, PLOT, at_most=7)

    assert (first.xanchor, first.yanchor) != (second.xanchor, second.yanchor)


def test_what_finds_no_free_place_is_left_out_unless_required() -> None:
    crowd = [Label(10, 10, ("a label of some length",)) for _ in range(9)]
    required = Label(10, 10, ("needed",), required=True)

    placed = place([*crowd, required], PLOT, at_most=99)

    assert len(placed) < 10
    assert placed[-1].label is required


def test_required_labels_of_neighbours_move_apart() -> None:
    labels = [
        Label(10 + step / 5, 10, ("Fastest", "512x NVIDIA B300 SXM"), required=True)
        for step in range(3)
    ]

    placed = place(labels, PLOT, at_most=7)

    assert len({(item.xanchor, item.yanchor, item.lift_px) for item in placed}) == 3


def test_no_label_crosses_the_wall() -> None:
    # 9 px right of the point the wall begins; the text is 132 px wide.
    [placed] = place([Label(50, 10, ("1x NVIDIA L40S 48GB",))], PLOT, at_most=1, wall=55)

    assert placed.xanchor == "right"


def test_a_plan_in_a_crowd_hides_points_rather_than_the_wall() -> None:
    crowd = [(x / 2, y) for x in range(20, 100) for y in range(1, 100)]
    label = Label(50, 10, ("1x NVIDIA L40S 48GB",), required=True)

    [placed] = place([label], PLOT, at_most=1, avoid=crowd, wall=55)

    assert placed.xanchor == "right"


def test_the_heat_map_greys_what_does_not_work_and_says_the_cheapest() -> None:
    columns = ["card", "count", "time", "usd", "text_time", "text_usd", "why"]
    rows = [
        ("NVIDIA GeForce RTX 4090", 1, 2.0, 1.0, "2 h", "$1.00", ""),
        ("NVIDIA GeForce RTX 4090", 2, None, None, "too small", "too small", "too small"),
        ("NVIDIA L4", 1, 9.0, 3.0, "9 h", "$3.00", "too slow"),
        ("NVIDIA L4", 2, 1.5, 4.0, "1.5 h", "$4.00", ""),
    ]
    frame = pd.DataFrame(rows, columns=columns)
    chart: Any = grid_chart(frame, by="usd", theme=LIGHT)
    [cells] = chart.data
    assert [[cell is None for cell in row] for row in cells.z] == [[False, True], [True, False]]
    assert [list(row) for row in cells.text] == [["$1.00", "too small"], ["too slow", "$4.00"]]
    assert cells.z[0][0] > cells.z[1][1]  # the cheaper one is the stronger
    small: Any = grid_chart(frame, by="time", theme=replace(LIGHT, compact=True))
    assert list(small.layout.yaxis.ticktext) == ["RTX 4090", "L4"]
    assert [list(row) for row in small.data[0].text] == [["2 h", ""], ["", "1.5 h"]]
    assert grid_finding(frame) == (
        "Cheapest: 1x NVIDIA GeForce RTX 4090, about $1.00, 2 h. Fastest shown: 2x NVIDIA L4, "
        "1.5 h, about $4.00. 2 of 4 cells have no plan: 1 too small, 1 too slow."
    )


def test_a_phone_has_the_legend_in_lines_of_text() -> None:
    small, _ = memory_figure(replace(DARK, compact=True))
    names = [trace.name for trace in small.data]
    assert not small.layout.showlegend
    legend = small.layout.annotations[-1]
    assert all(name in legend.text for name in names)
    assert len(legend.text.split("<br>")) <= 3
    assert DARK.hues[0] in legend.text


def test_no_size_reads_as_a_power_of_ten() -> None:
    term = MemoryTerm("Cheapest", "1x A", "Weights", 15.0, 15.0, 14.0, 16.0, 164.0)
    assert "at least 150 GiB stay free" in memory_finding([term])
