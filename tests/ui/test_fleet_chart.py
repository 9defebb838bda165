"""The chart of a fleet's week: one bar a machine and part of the week, divided by workload."""

from __future__ import annotations

import pandas as pd
import pytest

from advisor.charts.fleet import weeks_alt, weeks_chart, weeks_differ, weeks_finding
from advisor.charts.theme import LIGHT

SHARES = {"a": 0.3, "b": 0.2, "c": 0.1, "d": 0.08, "e": 0.07, "f": 0.05, "g": 0.04}


def frame(rows: tuple[str, ...] = ("server, office hours", "server, other hours")) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"row": row, "workload": name, "share": share}
            for row in rows
            for name, share in SHARES.items()
        ],
        columns=["row", "workload", "share"],
    )


def test_the_largest_workloads_have_a_colour_and_the_others_share_one() -> None:
    traces = weeks_chart(frame(), theme=LIGHT).data

    assert [trace.name for trace in traces] == ["a", "b", "c", "d", "e", "All others"]
    assert list(traces[-1].x) == pytest.approx([9.0, 9.0])
    assert [list(trace.y) for trace in traces] == [
        ["server, office hours", "server, other hours"]
    ] * 6
    assert sum(trace.x[0] for trace in traces) == pytest.approx(84.0)


def test_the_words_say_how_much_of_each_machine_is_in_use() -> None:
    assert "server, office hours: 84 % in use" in weeks_alt(frame())


def test_a_fleet_without_machines_has_no_chart() -> None:
    with pytest.raises(ValueError, match="a machine in use"):
        weeks_chart(frame(()), theme=LIGHT)


def test_one_workload_at_all_hours_alike_is_a_sentence_and_no_chart() -> None:
    alone = pd.DataFrame(
        [{"row": f"server, {part} hours", "workload": "a", "share": 1.0} for part in ("a", "b")]
    )
    assert not weeks_differ(alone)
    assert weeks_finding(alone).endswith(" hours: 100 % in use by a.")
    assert weeks_differ(frame())
    assert weeks_differ(alone.assign(share=[1.0, 0.4]))
