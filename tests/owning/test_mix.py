"""The mix of cards against every mix there is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.owning import card_mix
from advisor.owning.card_mix import Item, best_mix


def item(value: float, *shares: float) -> Item:
    """Return groups of which each takes the same shares of the limits."""
    return Item(value=value, pack_uses=shares)


def every_mix(items: list[Item]) -> float:
    """Return the best score of all mixes, tried one by one."""
    best = 0.0
    for counts in itertools.product(*(range(each.most + 1) for each in items)):
        used = sum(
            (each.uses(np.array([float(n)]))[0] for each, n in zip(items, counts, strict=True)),
            start=np.zeros(3),
        )
        kinds = sum(n > 0 for n in counts)
        if kinds and used.max() <= 1 + 1e-9:
            total = sum(n * each.value for each, n in zip(items, counts, strict=True))
            best = max(best, total / 1.05 ** (kinds - 1))
    return best


def score(items: list[Item], counts: dict[int, int]) -> float:
    total = sum(items[place].value * number for place, number in counts.items())
    return total / 1.05 ** (len(counts) - 1)


share = st.sampled_from([0.0, 0.15, 0.21, 0.34, 0.5, 0.9])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 9), st.floats(0.12, 1), share, share), max_size=4))
def test_no_mix_is_better(rows: list[tuple[float, float, float, float]]) -> None:
    items = [item(*row) for row in rows]
    found = best_mix(items).counts
    assert score(items, found) == pytest.approx(every_mix(items)) if found else not items


def test_three_kinds_where_each_limit_binds() -> None:
    """Budget 100, power 100: one of 60 / 20, one of 30 / 30, one of 10 / 50 fill both."""
    items = [item(60, 0.6, 0.2, 0), item(34, 0.3, 0.3, 0), item(29, 0.1, 0.5, 0)]
    # 60 + 34 + 29 = 123 of three kinds, / 1.05^2 = 111.6; 34 x 3 = 102; 60 + 29 = 89.
    assert best_mix(items).counts == {0: 1, 1: 1, 2: 1}


def test_a_second_kind_must_be_worth_its_trouble() -> None:
    """Nine of ten parts are used by the first; the rest adds 4 %, or 6 %."""
    main = item(10, 0.3, 0, 0)
    assert best_mix([main, item(1.2, 0.1, 0, 0)]).counts == {0: 3}
    assert best_mix([main, item(1.8, 0.1, 0, 0)]).counts == {0: 3, 1: 1}


def test_machines_are_shared() -> None:
    """Two groups share a machine of 0.2: four of 0.1 take 0.4 + 2 x 0.2, five 0.5 + 3 x 0.2."""
    shared = Item(value=1, pack_uses=(0.1, 0.0, 0.0), packs_per_machine=2, host_per_machine=0.2)
    assert best_mix([shared]).counts == {0: 4}


def test_small_groups_share_a_baseboard() -> None:
    """Groups of two of a board of eight: four fill one of 0.4, so eight use 0.8."""
    board = Item(value=1, pack_uses=(0.4, 0.0, 0.0), packs_per_group=0.25)
    assert best_mix([board]).counts == {0: 8}


def test_hosts_cost_the_larger_of_their_two_sums() -> None:
    """Half of the card's 0.2, or 0.15 a machine: 0.3 each beside a share of 0.1, 0.35 beside it."""
    assert best_mix([Item(value=1, pack_uses=(0.2, 0, 0), host_per_pack=0.1)]).counts == {0: 3}
    dear = Item(value=1, pack_uses=(0.2, 0, 0), host_per_pack=0.1, host_per_machine=0.15)
    assert best_mix([dear]).counts == {0: 2}


def test_a_group_may_need_several_machines() -> None:
    """Five cards, one to a machine of 0.1: 0.4 + 5 x 0.1 is within the budget once."""
    apart = Item(value=1, pack_uses=(0.4, 0, 0), packs_per_machine=0.2, host_per_machine=0.1)
    assert best_mix([apart]).counts == {0: 1}


def test_a_mix_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine kinds of cards whose shares have no common measure, thousands of groups of each."""
    rng = np.random.default_rng(7)
    items = [
        item(*map(float, (value, value / 20_000 * skew, 1 / 90_000 / skew, 1 / 70_000)))
        for value, skew in zip(rng.uniform(1, 9, 9), rng.uniform(0.9, 1.1, 9), strict=True)
    ]
    monkeypatch.setattr(card_mix, "LONGEST_S", 0.0)

    assert not best_mix(items).proven
    monkeypatch.undo()
    assert best_mix(items[:2]).proven
