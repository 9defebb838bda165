"""Writes plans as files: launch configurations and reports."""

from advisor.export.answer import export_case
from advisor.export.formats import format_named

__all__ = ["export_case", "format_named"]
