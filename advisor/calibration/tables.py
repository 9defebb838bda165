"""Reading tables of measurements: cells to typed values, rows to cases the engine can predict."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.architecture.config_fields import load_config_text
from advisor.architecture.huggingface import architecture_from_config
from advisor.architecture.model import ModelArchitecture
from advisor.architecture.presets import find_preset, load_preset
from advisor.errors import AdvisorError, InputError

MAX_TABLE_BYTES = 50_000_000
SUPPORTED_FAMILIES = ("transformer", "moe_transformer")

Row = Mapping[str, str]


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a CSV file of measurements.

    Raises
    ------
    InputError
        If the file is missing, too large, not UTF-8, or has no header.
    """
    remedy = "Give a CSV file with the columns of docs/accuracy.md."
    try:
        if path.stat().st_size > MAX_TABLE_BYTES:
            raise InputError(
                "the table is too large",
                value=f"{path.stat().st_size:,} bytes",
                allowed=f"up to {MAX_TABLE_BYTES:,} bytes",
                remedy=remedy,
            )
        with path.open(encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"the table cannot be read ({error.__class__.__name__})",
            value=str(path),
            allowed="a readable UTF-8 CSV file",
            remedy=remedy,
        ) from None
    if not rows:
        raise InputError("the table has no rows", value=str(path), allowed="rows", remedy=remedy)
    return rows


def number(row: Row, column: str) -> float | None:
    """Return a cell as a number, or None where it is empty or missing."""
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def integer(row: Row, column: str, default: int) -> int:
    """Return a cell as a whole number, or ``default`` where it is empty."""
    value = number(row, column)
    return default if value is None else int(value)


def flag(row: Row, column: str) -> bool:
    """Return whether a cell holds 1."""
    return number(row, column) == 1.0


def row_architecture(row: Row, configs: Path | None) -> ModelArchitecture:
    """Resolve a row's model: preset by hub id, then a stored config, then its shape columns.

    Raises
    ------
    AdvisorError
        If none of the three describes a model the engine can build.
    """
    key = (row.get("architecture_key") or "").strip()
    if key:
        preset = find_preset(key.replace("__", "/"))
        if preset is not None:
            return load_preset(preset)
        if configs is not None and (configs / f"{key}.json").is_file():
            text = (configs / f"{key}.json").read_text(encoding="utf-8")
            return architecture_from_config(load_config_text(text), name=key.replace("__", "/"))
    family = row.get("family") or "transformer"
    if family not in SUPPORTED_FAMILIES:
        raise InputError(
            "the row's family is not built yet",
            value=family,
            allowed=", ".join(SUPPORTED_FAMILIES),
            remedy="Leave the row out or wait for that family.",
            field="family",
        )
    return architecture_from_config(_shape_config(row), name=row.get("model") or "unnamed")


def _shape_config(row: Row) -> dict[str, Any]:
    """Return a Hugging Face style config with the row's shape columns."""
    required = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    missing = [name for name in (*required, "intermediate_size") if number(row, name) is None]
    if missing:
        raise InputError(
            "the row lacks shape columns",
            value=", ".join(missing),
            allowed="all of the transformer's shape",
            remedy="Fill the columns or give --configs.",
        )
    gated = flag(row, "gated_mlp")
    learned = flag(row, "learned_positions")
    config: dict[str, Any] = {name: integer(row, name, 0) for name in required}
    config["num_key_value_heads"] = integer(
        row, "num_key_value_heads", config["num_attention_heads"]
    )
    config["intermediate_size"] = integer(row, "intermediate_size", 0)
    if number(row, "head_dim") is not None:
        config["head_dim"] = integer(row, "head_dim", 0)
    config["tie_word_embeddings"] = flag(row, "tie_word_embeddings")
    experts = integer(row, "num_experts", 0)
    if experts > 1:
        config |= {
            "model_type": "qwen3_moe",
            "num_experts": experts,
            "num_experts_per_tok": integer(row, "experts_per_token", 1),
            "moe_intermediate_size": integer(
                row, "moe_intermediate_size", config["intermediate_size"]
            ),
        }
        return config
    if gated:
        config["model_type"] = "llama"
        return config
    sequence = integer(row, "sequence_length", 2048)
    config |= {"model_type": "gpt2" if learned else "gpt_neox"}
    if learned:
        config |= {
            "n_layer": config["num_hidden_layers"],
            "n_embd": config["hidden_size"],
            "n_head": config["num_attention_heads"],
            "n_inner": config["intermediate_size"],
            "n_positions": sequence,
        }
    return config


__all__ = [
    "AdvisorError",
    "flag",
    "integer",
    "number",
    "read_table",
    "row_architecture",
]
