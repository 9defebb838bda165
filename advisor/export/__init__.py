"""Writes plans as files: launch configurations and reports."""

from advisor.export.answer import export_answer
from advisor.export.formats import format_named

__all__ = ["export_answer", "format_named"]
