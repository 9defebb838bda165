"""The scaling chart: efficiency over the number of accelerators."""

from typing import Any

import pytest

from advisor.charts.curves import scaling_alt, scaling_chart
from advisor.charts.theme import DARK, LIGHT
from advisor.frames.turning import scaling_frame, scaling_table
from advisor.nouns.layout import ParallelLayout
from advisor.planning.explain.curves import Scaling, ScalingPoint


def point(count: int, efficiency: float) -> ScalingPoint:
    return ScalingPoint(
        count=count,
        layout=ParallelLayout(data=count),
        step_s=1.0,
        run_hours=10.0 / count,
        tokens_per_s=100.0 * count * efficiency,
        efficiency=efficiency,
        goodput=0.99,
        cost_usd=20.0,
        bound_by="network" if efficiency < 1 else "compute",
    )


FOUND = Scaling(
    accelerator="h100-sxm",
    accelerator_name="H100",
    provider="Lambda",
    points=(point(8, 1.0), point(16, 0.95), point(32, 0.8)),
)


def test_each_number_is_a_point_beside_perfect_scaling() -> None:
    figure: Any = scaling_chart(scaling_frame(FOUND), theme=LIGHT)
    perfect, best = figure.data
    assert list(best.x) == [8, 16, 32]
    assert list(best.y) == [1.0, 0.95, 0.8]
    assert list(perfect.y) == [1.0, 1.0]
    assert "95 % of the speed" in best.text[1]


def test_the_chart_in_words_names_both_ends_and_the_bound() -> None:
    words = scaling_alt(scaling_frame(FOUND))
    assert "from 8 to 32" in words
    assert "80 %" in words
    assert "traffic between accelerators" in words


def test_without_points_there_is_no_chart() -> None:
    empty = FOUND.model_copy(update={"points": ()})
    with pytest.raises(ValueError, match="at least one"):
        scaling_chart(scaling_frame(empty), theme=DARK)


def test_the_table_has_layout_and_cost() -> None:
    table = scaling_table(FOUND)
    assert table["Layout"].tolist() == ["data 8", "data 16", "data 32"]
    assert table["Cost"].tolist() == ["$20", "$20", "$20"]
