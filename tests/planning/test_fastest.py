"""The fastest plan is one that people buy: each cost of the best value saves 10 % of its time."""

import pytest

from advisor.nouns.limits import Objective
from advisor.planning.search.options import Option
from advisor.planning.search.ranking import best_option


def options(*points: tuple[float, float]) -> list[Option]:
    """Options of (cost [USD], time [h]), each known exactly."""
    return [
        Option(
            system=0,
            count=1,
            instances=1,
            offer=None,
            precision="bf16_mixed",
            layouts=None,  # type: ignore[arg-type]
            row=0,
            time=time,
            time_high=time,
            first_token_s=None,
            tokens_per_s=None,
            usd_per_hour=1.0,
            cost_usd=cost,
            cost_high_usd=cost,
        )
        for cost, time in points
    ]


@pytest.mark.parametrize(
    ("points", "chosen"),
    [
        # Each doubling of the cost halves the time: the fastest stays.
        ([(100, 8), (200, 4), (400, 2)], (400, 2)),
        # The last doubling buys 6 %, the one before it 50 %.
        ([(100, 8), (200, 4), (400, 3.76)], (200, 4)),
        # The last doubling saves 16 % of the time reached, but 8 % of the best value's (30).
        ([(100, 80), (200, 30), (400, 16), (800, 13.5)], (400, 16)),
        # Two doublings that buy too little each.
        ([(100, 4), (200, 3.8), (400, 3.6)], (100, 4)),
        # Exactly 10 % for twice the cost is not over 10 %.
        ([(100, 10), (200, 9)], (100, 10)),
        # 5 % are no difference, whatever the cost.
        ([(100, 10), (150, 9.6)], (100, 10)),
        # 17 % for half as much again is worth it.
        ([(100, 10), (150, 8.3)], (150, 8.3)),
        # Each doubling saves over 10 % of the best value's time, but the last ones cost two, four
        # and eight times the best value: nobody buys 64 B200 for 64 users of DeepSeek-V3.
        ([(100, 100), (200, 70), (400, 55), (800, 42), (1600, 31)], (200, 70)),
        # Owned cards cost nothing.
        ([(0, 10), (0, 9.9), (0, 5)], (0, 5)),
    ],
)
def test_the_knee_is_chosen(points: list[tuple[float, float]], chosen: tuple[float, float]) -> None:
    best = best_option(options(*points), Objective.FASTEST)

    assert best is not None
    assert (best.cost_usd, best.time) == chosen
