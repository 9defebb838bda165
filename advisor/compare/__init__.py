"""Compares cards side by side: facts with sources, prices, and which differences are real."""

from advisor.compare.cards import MAX_CARDS, ComparedCard, Comparison, compare_cards
from advisor.compare.facts import RECALLED, Differences, Row, comparison_rows
from advisor.compare.spread import METRICS, Metric, Spread, Verdict, spreads, verdicts

__all__ = [
    "MAX_CARDS",
    "METRICS",
    "RECALLED",
    "ComparedCard",
    "Comparison",
    "Differences",
    "Metric",
    "Row",
    "Spread",
    "Verdict",
    "compare_cards",
    "comparison_rows",
    "spreads",
    "verdicts",
]
