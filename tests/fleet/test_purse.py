"""What a budget buys, against every mix of machines that it can buy."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import advisor
from advisor.fleet import purse
from advisor.fleet.purse import Unit, best_units

ROOM = purse._Room(usd=100.0, power_w=1000.0, slots=10.0, desks=float(purse.DESKS))


def unit(
    value: float, usd: float, watts: float = 0.0, *, cards: int = 0, rack: bool = True
) -> Unit:
    """Return a machine of which nothing but its limits matters."""
    row = SimpleNamespace(rack_units=2 if rack else 0, cards=cards)
    return Unit(
        machine=cast("Any", SimpleNamespace(row=row, rated_w=watts)),
        machines=1,
        count=1,
        groups=1,
        throughput=value,
        sure=value,
        hours=None,
        usd=usd,
    )


def fits(units: list[Unit], counts: tuple[int, ...]) -> bool:
    pairs = list(zip(units, counts, strict=True))
    return (
        sum(each.usd * n for each, n in pairs) <= 100 + 1e-6
        and sum(each.machine.rated_w * n for each, n in pairs) <= 1000 + 1e-6
        and sum(each.cards * n for each, n in pairs) <= 10
        and sum(n for each, n in pairs if each.machine.row.rack_units == 0) <= 12
    )


def score(units: list[Unit], counts: tuple[int, ...]) -> float:
    """Each kind after the first has to add 5 %, and twice as many machines 20 %."""
    kinds = sum(n > 0 for n in counts)
    total = sum(each.sure * n for each, n in zip(units, counts, strict=True))
    return total / 1.05 ** (kinds - 1) / 1.2 ** math.log2(sum(counts)) if kinds else 0.0


def best_score(units: list[Unit]) -> float:
    most = [int(min(100 / each.usd, 12) + 1e-9) for each in units]
    return max(
        score(units, counts)
        for counts in itertools.product(*(range(number + 1) for number in most))
        if sum(n > 0 for n in counts) <= 3 and fits(units, counts)
    )


def found(units: list[Unit]) -> tuple[int, ...]:
    numbers, proven = best_units(units, ROOM)
    assert proven
    chosen = {id(each): number for each, number in numbers}
    return tuple(chosen.get(id(each), 0) for each in units)


kinds = st.builds(
    unit,
    st.floats(0.5, 9),
    st.floats(12, 100),
    st.sampled_from([0.0, 150.0, 210.0, 340.0, 500.0]),
    cards=st.sampled_from([0, 1, 2, 4]),
    rack=st.booleans(),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(kinds, min_size=1, max_size=4))
def test_no_mix_is_better(units: list[Unit]) -> None:
    counts = found(units)

    assert fits(units, counts)
    assert score(units, counts) == pytest.approx(best_score(units), rel=1e-6)


def test_three_kinds_where_each_limit_binds() -> None:
    """One of 60 USD and 200 W, one of 30 and 300, one of 10 and 500 fill both limits."""
    units = [unit(60, 60, 200), unit(34, 30, 300), unit(29, 10, 500)]
    # 60 + 34 + 29 = 123 of three kinds and machines, / 1.05^2 / 1.335 = 83.6; 3 x 34 = 102 of one
    # kind, / 1.335 = 76.4; 60 + 29 = 89 of two, / 1.05 / 1.2 = 70.6.
    assert found(units) == (1, 1, 1)


def test_a_second_kind_must_be_worth_its_trouble() -> None:
    """Nine of ten parts are used by the first. A fourth machine has to add 8 %: 1.2^(log2 4
    - log2 3) is 1.079. One of another kind has to add 13 %: 1.079 times 1.05."""
    main = unit(10, 30)
    assert found([main, unit(3.9, 10)]) == (3, 0)
    assert found([main, unit(4.1, 10)]) == (3, 1)


def test_at_most_twelve_computers_stand_outside_a_rack() -> None:
    assert found([unit(1, 1, rack=False)]) == (12,)
    assert found([unit(1, 1)]) == (100,)


def test_slots_count_cards() -> None:
    assert found([unit(1, 1, cards=4)]) == (2,)


def test_many_machines_must_be_worth_their_care() -> None:
    """Four of 25 USD do 30 % more than one of 100, and have to do 44 %: 1.2^2."""
    assert found([unit(13, 25), unit(40, 100)]) == (0, 1)
    assert found([unit(15, 25), unit(40, 100)]) == (4, 0)


def owned(vendor: str, value: float, expected: float, usd: float) -> Unit:
    """Return a machine with a card of a vendor; its low end and what is expected of it."""
    card = SimpleNamespace(key=vendor, vendor=vendor, architecture="", segment=None)
    each = unit(value, usd)
    machine = SimpleNamespace(row=each.machine.row, rated_w=0.0, card=card)
    return dataclasses.replace(each, machine=cast("Any", machine), throughput=expected)


@pytest.mark.parametrize(("usd", "bought"), [(1500, ("AMD", 2)), (1600, ("NVIDIA", 1))])
def test_another_platform_wins_with_what_an_engineer_leaves(
    usd: float, bought: tuple[str, int]
) -> None:
    """Of 6,000 USD a week at 75 USD an hour leaves 3,000; two do 18 / 1.2, one does 9 of 10."""
    room = dataclasses.replace(ROOM, usd=6000.0)
    units = [owned("NVIDIA", 10, 12, 3600), owned("AMD", 9, 11, usd)]
    [(chosen, number)], _ = purse._chosen(units, room, lambda key: True)
    assert (chosen.machine.card.vendor, number) == bought


def test_another_platform_is_bought_where_cuda_costs_too_much() -> None:
    units = [owned("NVIDIA", 10, 12, 101), owned("AMD", 9, 11, 90)]
    [(chosen, _)], _ = purse._chosen(units, ROOM, lambda key: True)
    assert chosen.machine.card.vendor == "AMD"


def test_cards_without_measurements_win_by_their_low_end_only() -> None:
    room = dataclasses.replace(ROOM, usd=3100.0)
    nvidia = owned("NVIDIA", 10, 12, 1600)
    for low, winner in ((11, "NVIDIA"), (13, "AMD")):
        units = [nvidia, owned("AMD", low, 20, 60)]
        [(chosen, number)], _ = purse._chosen(units, room, lambda key: key == "NVIDIA")
        assert number == 1
        assert chosen.machine.card.vendor == winner


def test_a_mix_that_takes_too_many_steps_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [
        unit(
            5 + math.sin(place), 0.2 + 0.01 * math.cos(7 * place), 0.3 + 0.01 * math.sin(5 * place)
        )
        for place in range(40)
    ]
    monkeypatch.setattr(purse, "NODES", 0)

    assert not best_units(units, ROOM)[1]


@pytest.mark.parametrize("budget", [250_000, 6_000])
def test_a_budget_far_beyond_the_load_says_what_the_load_needs(budget: int) -> None:
    """Twelve users of 8B need one card: 12 x 50 tokens/s are a fraction of what one decodes.

    In 16 bits, 16 GB of weights take a card of 24 GB: 3,200 USD and 1,308.50 for the rest.
    """
    found = advisor.own(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {"kind": "serving", "concurrency": 12},
            "owning": {"budget_usd": budget},
        }
    )
    assert found.budget is not None
    assert "the answer above names what the load needs" in found.budget.sentence
    told = re.search(r"The machines: 1 x .* for \$([\d,]+),", found.answer)
    assert told is not None
    assert float(told[1].replace(",", "")) < min(budget, 5_000)
