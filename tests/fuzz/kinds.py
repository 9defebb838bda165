"""Every kind of input, with its share of 60,000."""

from __future__ import annotations

from typing import Final

from tests.fuzz import files, links, plans, questions, tables, work
from tests.fuzz.harness import Kind

KINDS: Final = (
    Kind("case", 9_000, work.make_case, work.run_case),
    Kind("case-text", 8_000, work.make_case_text, work.run_case_text),
    Kind("question", 2_000, questions.make_question, questions.run_question),
    Kind("config", 9_000, files.make_config, files.run_config),
    Kind("config-text", 2_000, files.make_config_text, files.run_config_text),
    Kind("gguf", 3_000, files.make_gguf, files.run_gguf),
    Kind("safetensors", 3_000, files.make_safetensors, files.run_safetensors),
    Kind("stack", 4_000, files.make_stack, files.run_stack),
    Kind("link", 3_000, links.make_link, links.run_link),
    Kind("table", 3_000, files.make_table, files.run_table),
    Kind("report", 2_000, files.make_report, files.run_report),
    Kind("cache", 2_000, files.make_cache, files.run_cache),
    Kind("feed", 1_000, files.make_feed, files.run_feed),
    Kind("portfolio", 1_000, plans.make_portfolio, plans.run_portfolio),
    Kind("grid", 1_000, plans.make_grid, plans.run_grid),
    Kind("facts", 1_000, plans.make_facts, plans.run_facts),
    Kind("demand", 1_000, tables.make_demand, tables.run_demand),
    Kind("cells", 1_000, tables.make_cells, tables.run_cells),
    Kind("command", 2_000, work.make_command, work.run_command),
    Kind("amount", 2_000, work.make_amount, work.run_amount),
)
TOTAL: Final = sum(kind.share for kind in KINDS)
