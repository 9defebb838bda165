"""Portfolios, grids of a sweep, and files of a user's own facts, broken."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from advisor import api
from advisor.catalog import load_catalog
from advisor.catalog.own.facts import using_catalog
from advisor.errors import InputError
from advisor.nouns.case_files import parse_case
from advisor.sweeps.questions import read_grid
from tests.fuzz.mutate import mutated, torn
from tests.fuzz.tables import kept

READ: Final = 20
"""Rows of a grid that are checked."""
PORTFOLIO: Final[dict[str, Any]] = {
    "name": "A start-up",
    "site": {"power_kw": 4, "noise_dba": 50, "rack_units": 42},
    "budget": {"purchase_usd": 60000, "usd_per_year": 1e5},
    "workloads": [
        {
            "name": "chatbot",
            "case": {
                "model": {"preset": "llama-3.1-8b"},
                "workload": {"kind": "serving", "concurrency": 32},
                "limits": {"max_tpot_ms": 50},
            },
            "hours": "office",
            "growth_per_year": 0.5,
        },
        {
            "name": "weekly",
            "case": {
                "model": {"preset": "llama-3.1-8b"},
                "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 50e6},
                "limits": {"deadline_hours": 24},
            },
            "runs_per_month": 4.3,
            "preemptible": True,
            "priority": 3,
        },
    ],
    "owned": [{"machine": "hgx-8/h100-sxm", "count": 1, "months_left": 24}],
    "owning": {"months": 36, "place": "usa"},
}
GRID: Final[dict[str, Any]] = {
    "model": [{"preset": "llama-3.1-8b"}, {"preset": "gpt2"}],
    "workload": {
        "kind": "serving",
        "concurrency": {"from": 1, "to": 64, "factor": 2},
        "input_tokens": [128, 1024],
    },
    "hardware": {"accelerator": ["h100-sxm", "l40s"], "count": {"from": 1, "to": 4, "step": 1}},
}
FACTS: Final[dict[str, Any]] = {
    "offers": [
        {
            "provider": "ACME",
            "instance_type": "x4",
            "accelerator": "acme-1",
            "accelerators": 4,
            "on_demand_per_hour": 9.6,
            "network_gbit_per_s": 3200,
        }
    ],
    "accelerators": {
        "acme-1": {
            "name": "ACME One",
            "vendor": "NVIDIA",
            "memory_gb": 96,
            "memory_bandwidth_gb_per_s": 4000,
            "dense_tflops": {"bf16": 500, "fp16": 500, "fp32": 60},
        }
    },
    "discounts": {"AWS": "22%"},
    "providers": ["AWS", "ACME"],
}


def make_portfolio(source: Random) -> Any:
    """Return a portfolio with changes."""
    return mutated(PORTFOLIO, source, source.choice((0, 1, 1, 2, 4)))


def run_portfolio(content: Any) -> None:
    """Check a portfolio; planning it is bounded in time by the solver, and tested elsewhere."""
    api.load_portfolio(content)


def make_grid(source: Random) -> str:
    """Return the text of a grid with changes, sometimes torn."""
    content = mutated(GRID, source, source.choice((0, 1, 1, 2, 4)))
    text = json.dumps(content, default=str)
    return torn(text, source, 2) if source.random() < 0.3 else text


def run_grid(text: str) -> None:
    """Read a grid and check its first rows."""
    grid = read_grid(parse_case(text))
    kept(grid)
    for question in itertools.islice(grid.read(), READ):
        if isinstance(question.case, InputError):
            raise question.case
        api.load_case(question.case)


def make_facts(source: Random) -> tuple[str, bytes]:
    """Return a file of own facts with changes: YAML, or a table of its offers."""
    content = mutated(FACTS, source, source.choice((0, 1, 1, 2, 4)))
    offers = content.get("offers") if isinstance(content, dict) else None
    if source.random() < 0.4 and isinstance(offers, list) and offers:
        rows = [row for row in offers if isinstance(row, dict)]
        lines = [",".join(map(str, row)) + "\n" + ",".join(map(str, row.values())) for row in rows]
        text, name = "\n".join(lines), "quotes.csv"
    else:
        text, name = yaml.dump(content, default_flow_style=source.random() < 0.5), "quotes.yaml"
    if source.random() < 0.3:
        text = torn(text, source, 2)
    return name, text.encode("utf-8", "surrogatepass")


def run_facts(given: tuple[str, bytes]) -> None:
    """Put own facts over the catalog."""
    name, content = given
    path = Path(os.environ["GPU_ADVISOR_CACHE_DIR"]) / name
    path.write_bytes(content)
    with using_catalog([str(path)]):
        load_catalog()
