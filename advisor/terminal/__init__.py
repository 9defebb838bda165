"""Results as text for a terminal: readable at 80 columns, without colour, and in a pipe."""

from advisor.probe.report import read_report
from advisor.terminal.comparison import show_comparison
from advisor.terminal.console import new_console
from advisor.terminal.estimate import show_estimate
from advisor.terminal.fits import show_fits
from advisor.terminal.ownership import show_ownership
from advisor.terminal.probe import probe_with_progress, show_probe
from advisor.terminal.recommendation import show_recommendation
from advisor.terminal.validation import show_validation

__all__ = [
    "new_console",
    "probe_with_progress",
    "read_report",
    "show_comparison",
    "show_estimate",
    "show_fits",
    "show_ownership",
    "show_probe",
    "show_recommendation",
    "show_validation",
]
