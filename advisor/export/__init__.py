"""Plans as files: launch configurations that start, and reports."""

from advisor.export.answer import export_answer
from advisor.export.formats import KINDS, REPORTS, SERVES, TRAINS, Export, Format

__all__ = ["KINDS", "REPORTS", "SERVES", "TRAINS", "Export", "Format", "export_answer"]
