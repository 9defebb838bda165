"""What the search may give up for a simpler layout: at most 3 % of its speed."""

from __future__ import annotations

from advisor.estimate.candidates import LayoutArrays
from advisor.nouns.layout import ParallelLayout
from advisor.planning.search.simple import RECOMPUTED, complexity

TIE = 1.03


def loses_nothing(
    chosen: ParallelLayout, other: ParallelLayout, *, ratio: float, layers: int
) -> bool:
    """Whether ``other``, of ``ratio`` times the chosen time, is slower, or nearly as slow and less
    simple."""
    arrays = LayoutArrays.stack([chosen, other])
    one, two = complexity(arrays, layers=layers) + RECOMPUTED[arrays.recompute.astype(int)]
    return ratio >= 1 - 1e-9 or (ratio >= 1 / TIE - 1e-9 and bool(two > one))
