"""Writes plans as files: launch configurations and reports.

A plan that a program would not run as written raises ``InputError``: its message says why, and what
would start. A broken file of ``data`` raises ``CatalogError``.
"""

from advisor.export.answer import Wishes, export_case
from advisor.export.formats import format_named

__all__ = ["Wishes", "export_case", "format_named"]
