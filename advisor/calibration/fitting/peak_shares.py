"""Share of the 16-bit peak that the best matmul reaches, by card and by generation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Final

from advisor.calibration.fitting.kernel_tables import BestRates
from advisor.calibration.fitting.robust import rounded
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.generations import peak_generation

SIXTEEN_BIT: Final = ("bf16", "fp16")
"""Formats in the order in which attention and 16-bit matmuls choose their peak."""


def best_shares(rates: BestRates, cards: Mapping[str, Accelerator]) -> dict[str, float]:
    """Best measured rate over the dense peak, by accelerator and by generation.

    Parameters
    ----------
    rates : BestRates
        Readings, several for some cards.
    cards : mapping of str to Accelerator
        The catalog by key.

    Returns
    -------
    dict of str to float
        Median over the readings of a card; then, for the narrowest name of each generation, the
        median over its measured cards. Above 1 if a card's clocks exceed those of its data
        sheet. [fraction]
    """
    readings = defaultdict(list)
    for card, rate in zip(rates.accelerator.tolist(), rates.flops_per_s.tolist(), strict=True):
        readings[card].append(rate / _peak(cards[card]))
    single = {card: median(values) for card, values in readings.items()}
    groups = defaultdict(list)
    for card, share in single.items():
        groups[peak_generation(cards[card])].append(share)
    return {
        **{card: rounded(share, 3) for card, share in sorted(single.items())},
        **{name: rounded(median(group), 3) for name, group in sorted(groups.items())},
    }


def _peak(card: Accelerator) -> float:
    peaks = card.peak_flops_per_s
    return next(peaks[name] for name in SIXTEEN_BIT if name in peaks)
