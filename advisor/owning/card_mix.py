"""The best mix of groups of cards under several limits, by mixed-integer programming."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WORTH_ADDING: Final = 1.05
"""Each further kind must raise the value by this factor: more kinds mean more work."""
ROUNDING: Final = 1e-9
GAP: Final = 1e-4
"""Mixes of more than ``MANY`` groups of a kind are solved to within this share; others exactly."""
MANY: Final = 1000
LONGEST_S: Final = 3.0
"""Time for all programs of a mix. A budget of $20,000 takes 0.1 s, one of $1e8 up to 3 s. [s]"""


@dataclass(frozen=True)
class Item:
    """Groups of one kind. Their use is a share of each limit; the first limit is money."""

    value: float
    """Value of one group."""
    pack_uses: tuple[float, ...]
    """Shares that one pack uses: cards that are sold together, without their machine."""
    packs_per_group: float = 1.0
    packs_per_machine: float = 1.0
    host_per_pack: float = 0.0
    host_per_machine: float = 0.0
    """Share of the money for the rest of the machines: the larger of two sums."""
    at_most: int = 1_000_000

    def uses(self, groups: Floats) -> Floats:
        """Return the shares that each number of groups uses; shape (number, limits)."""
        packs = np.ceil(groups * self.packs_per_group - ROUNDING)
        machines = np.ceil(packs / self.packs_per_machine - ROUNDING)
        shares: Floats = packs[:, None] * np.array(self.pack_uses)
        shares[:, 0] += np.maximum(packs * self.host_per_pack, machines * self.host_per_machine)
        return shares

    @cached_property
    def most(self) -> int:
        """Most groups that the limits allow of this kind alone."""
        each = max(self.pack_uses) * self.packs_per_group
        numbers = np.arange(1.0, min(self.at_most, int(1 / each + ROUNDING)) + 1)
        return int(np.sum((self.uses(numbers) <= 1 + ROUNDING).all(axis=1)))


@dataclass(frozen=True, slots=True)
class Mix:
    """Numbers of groups of each item."""

    counts: dict[int, int] = field(default_factory=dict)
    """By index of the item; empty if nothing fits."""
    proven: bool = True
    """Whether no other mix is worth more. False if the time ran out before that was sure."""


def best_mix(items: Sequence[Item]) -> Mix:
    """Return the number of groups of each item with the highest total value.

    The value of a mix of ``n`` kinds is divided by ``WORTH_ADDING ** (n - 1)``.

    Notes
    -----
    For each number of kinds one mixed-integer program, solved by HiGHS. More kinds
    are tried until no mix of any number of kinds could still win.

    References
    ----------
    .. [1] Huangfu and Hall, Parallelizing the dual revised simplex method, 2018,
       doi:10.1007/s12532-017-0130-5 (HiGHS, through ``scipy.optimize.milp``).
    """
    usable = _undominated(items)
    if not usable:
        return Mix()
    program = _Program([items[place] for place in usable])
    ceiling, _, proven = program.solve(kinds=len(usable))
    chosen: dict[int, int] = {}
    score = 0.0
    for kinds in range(1, len(usable) + 1):
        if ceiling / WORTH_ADDING ** (kinds - 1) <= score:
            break
        value, counts, solved = program.solve(kinds=kinds)
        proven = proven and solved
        burdened = value / WORTH_ADDING ** max(0, int(np.count_nonzero(counts)) - 1)
        if burdened > score * (1 + ROUNDING):
            score = burdened
            chosen = {usable[at]: int(counts[at]) for at in np.flatnonzero(counts)}
        if not solved:
            break
    return Mix(chosen, proven)


class _Program:
    """Columns: groups, packs, machines, money for hosts, and whether a kind is bought."""

    def __init__(self, items: Sequence[Item]) -> None:
        number, limits = len(items), len(items[0].pack_uses)
        self.end = time.monotonic() + LONGEST_S
        self.values = np.array([item.value for item in items])
        self.most = np.array([item.most for item in items], dtype=float)
        each = np.eye(number)
        none = np.zeros((number, number))

        def per_item(name: str) -> Floats:
            return np.diag([float(getattr(item, name)) for item in items])

        used = np.zeros((limits, 5 * number))
        used[:, number : 2 * number] = np.array([item.pack_uses for item in items]).T
        used[0, 3 * number : 4 * number] = 1.0
        self.rows = np.vstack(
            [
                np.hstack([per_item("packs_per_group"), -each, none, none, none]),
                np.hstack([none, each, -per_item("packs_per_machine"), none, none]),
                np.hstack([none, per_item("host_per_pack"), none, -each, none]),
                np.hstack([none, none, per_item("host_per_machine"), -each, none]),
                np.hstack([each, none, none, none, -np.diag(self.most)]),
                used,
                np.hstack([np.zeros(4 * number), np.ones(number)])[None],
            ]
        )
        self.upper = np.concatenate([np.zeros(5 * number), np.full(limits, 1 + ROUNDING)])
        packs = np.ceil(self.most * [item.packs_per_group for item in items])
        machines = np.ceil(packs / [item.packs_per_machine for item in items])
        self.high = np.concatenate([self.most, packs, machines, np.ones(2 * number)])
        self.integral = np.repeat([1, 1, 1, 0, 1], number)

    def solve(self, *, kinds: int) -> tuple[float, Floats, bool]:
        """Return value and counts of the best mix of at most so many kinds, and if it is proven."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        number = len(self.values)
        gap = GAP if self.most.max() > MANY else 0.0
        found = milp(
            c=np.concatenate([-self.values / self.values.max(), np.zeros(4 * number)]),
            constraints=LinearConstraint(self.rows, ub=np.append(self.upper, kinds)),
            bounds=Bounds(0, self.high),
            integrality=self.integral,
            options={"mip_rel_gap": gap, "time_limit": max(0.0, self.end - time.monotonic())},
        )
        counts = np.zeros(number) if found.x is None else np.round(found.x[:number])
        return float(counts @ self.values), counts, bool(found.success)


def _undominated(items: Sequence[Item]) -> list[int]:
    """Return the indices of items that no other item replaces at less use of every limit."""
    most = [item.most for item in items]
    usable = [place for place, number in enumerate(most) if number > 0]
    kept: list[int] = []
    for place in sorted(usable, key=lambda each: -items[each].value * most[each]):
        numbers = np.arange(1.0, most[place] + 1)
        uses = items[place].uses(numbers)
        if not any(
            _replaces(items[other], most[other], items[place], numbers, uses) for other in kept
        ):
            kept.append(place)
    return kept


def _replaces(other: Item, most: int, item: Item, numbers: Floats, uses: Floats) -> bool:
    """Whether groups of ``other`` with the value of one ``item`` never use more than it."""
    times = np.ceil(item.value / other.value - ROUNDING)
    if times * len(numbers) > most:
        return False
    return bool((other.uses(numbers * times) <= uses + ROUNDING).all())
