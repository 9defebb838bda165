"""Which screen of the terminal shows which answer."""

from importlib import import_module
from typing import Final

from rich.console import Console

SCREENS: Final = {
    "Comparison": "comparison.show_comparison",
    "Estimate": "estimate.show_estimate",
    "Fits": "fits.show_fits",
    "FleetPlan": "fleet.show_fleet",
    "Lessons": "lessons.show_lessons",
    "OfferList": "prices.show_offers",
    "Ownership": "ownership.show_ownership",
    "PriceOverview": "prices.show_prices",
    "ProbeReport": "probe.show_probe",
    "Recommendation": "recommendation.show_recommendation",
    "RefreshReport": "prices.show_refresh",
    "SweepSummary": "sweep.show_sweep",
    "ValidationReport": "validation.show_validation",
}
"""Module and function by the type of the answer; imported when one is shown."""


def show(console: Console, answer: object, **how: object) -> None:
    """Print an answer of a type that has a screen; ``how`` are further arguments of it."""
    module, _, name = SCREENS[type(answer).__name__].partition(".")
    getattr(import_module(f"advisor.terminal.{module}"), name)(console, answer, **how)
