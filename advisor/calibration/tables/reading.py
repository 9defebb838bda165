"""Reading tables of measurements: cells to typed values, rows to cases the engine can predict."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from advisor.architecture.config.fields import load_config_text
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.presets import find_preset, load_preset
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import SampleSize
from advisor.architecture.weights.weights_file import read_start
from advisor.errors import InputError
from advisor.foundation.data_records import read_cells
from advisor.foundation.files import read_file
from advisor.foundation.resources import data_path

MEASUREMENTS = "measurements"
MAX_TABLE_BYTES = 5_000_000
MAX_COLUMNS = 500
MAX_CELLS = 500_000
LARGEST = 1e18
SUPPORTED_FAMILIES = ("transformer", "moe_transformer")

SHORT_NAMES = {
    "gpt-2-124m": "gpt2",
    "bert-large": "bert-large-uncased",
    "bert-large pretrain": "bert-large-uncased",
    "bert-large squad": "bert-large-uncased",
    "bart-large pretrain": "bart-large",
    "resnet-50 v1.5": "resnet-50",
    "vit-b/16": "vit-base-patch16-224",
    "deit_base_patch16_224": "vit-base-patch16-224",
    "mobilenetv3_large_100": "mobilenet-v3-large",
    "retinanet resnext50": "retinanet-resnext-50",
    "stable diffusion v1 u-net dreambooth": "sd-1.5-unet",
    "stable diffusion v2-base": "sd-2-base-unet",
}
"""Names of the tables, in lower case, that are no preset's."""
SCHEDULE = re.compile(r" [1-9]x$")
"""Length of a detector's training, behind its name in Detectron2's tables."""
LIBRARY_PREFIX = "timm "
"""Before the names of image networks that a library published times of."""

DROPOUT_FRAMEWORKS = ("deeplearningexamples", "megatron")
"""Frameworks whose models of 2018 to 2021 (BERT, GPT) train with dropout of 0.1."""

SHAPE_MISFIT = 1.5
"""Ratio of parameters counted to stated from which shape columns describe another model."""

LATENT_SCALE = 8
"""Pixels for each element of a latent, along a side (Stable Diffusion)."""
LEAST_LATENT = 512
"""Diffusion networks make images of this side and more by default. [pixels]"""

Row = Mapping[str, str]


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a CSV file of measurements.

    Raises
    ------
    InputError
        If the file is missing, too large, not UTF-8, or has no header.
    """
    remedy = "Give a CSV file with the columns of docs/accuracy.md."
    content = read_file(
        path,
        most=MAX_TABLE_BYTES,
        name="the table",
        allowed="a readable UTF-8 CSV file",
        remedy=remedy,
    )
    try:
        rows = _rows(content.decode("utf-8-sig"), remedy)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"the table cannot be read ({error.__class__.__name__})",
            value=str(path),
            allowed="a readable UTF-8 CSV file",
            remedy=remedy,
        ) from None
    if not rows:
        raise InputError("the table has no rows", value=str(path), allowed="rows", remedy=remedy)
    return rows


def shipped_rows(name: str) -> list[dict[str, str]]:
    """Read a table of measurements that ships.

    Parameters
    ----------
    name : str
        File name in ``data/measurements``, with or without its ending.

    Raises
    ------
    CatalogError
        If the table is broken, or two rows have one id.
    ResourceError
        If the folder is missing.
    """
    path = data_path(MEASUREMENTS) / f"{name.removesuffix('.csv')}.csv"
    return read_cells(path, key=("id",))


def _rows(text: str, remedy: str) -> list[dict[str, str]]:
    """Return the rows of a table, counted before they fill the memory."""
    # Commas in quotes are few.
    cells = text.count(",")
    reader = csv.DictReader(StringIO(text, newline=""))
    rows: list[dict[str, str]] = []
    while cells <= MAX_CELLS:
        columns = len(reader.fieldnames or ())
        if columns > MAX_COLUMNS:
            raise InputError(
                "the table has too many columns",
                value=columns,
                allowed=f"up to {MAX_COLUMNS}",
                remedy=remedy,
            )
        row = next(reader, None)
        if row is None:
            return rows
        rows.append(row)
        cells = max(cells, len(rows) * columns)
    raise InputError(
        "the table has too many cells",
        value=f"more than {MAX_CELLS:,}",
        allowed=f"up to {MAX_CELLS:,}",
        remedy=remedy,
    )


def cell(row: Row, column: str) -> str:
    """Return a cell's text without spaces around it; empty where the column is missing."""
    return (row.get(column) or "").strip()


def number(row: Row, column: str) -> float | None:
    """Return a cell as a number, or None where it is empty or missing.

    Raises
    ------
    InputError
        If the cell holds anything but a finite number.
    """
    text = cell(row, column)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise InputError(
            f"{column} is no usable number",
            value=text,
            allowed=f"a finite number up to {LARGEST:.0e}, or nothing",
            remedy="Correct the cell.",
            field=column,
        )
    return value


def integer(row: Row, column: str, default: int) -> int:
    """Return a cell as a whole number of at least one, or ``default`` where it is empty.

    Raises
    ------
    InputError
        If the cell holds anything else.
    """
    value = number(row, column)
    if value is None:
        return default
    if value < 1 or value != int(value):
        raise InputError(
            f"{column} is no count",
            value=cell(row, column),
            allowed="a whole number of 1 or more, or nothing",
            remedy="Correct the cell.",
            field=column,
        )
    return int(value)


def needed(row: Row, column: str) -> int:
    """Return a whole number that the row must have.

    Raises
    ------
    InputError
        If the cell is empty or no count.
    """
    value = integer(row, column, 0)
    if not value:
        raise InputError(
            f"the row has no {column}",
            value=None,
            allowed="a whole number of 1 or more",
            remedy="Fill the cell.",
            field=column,
        )
    return value


def flag(row: Row, column: str) -> bool:
    """Return whether a cell holds 1."""
    return number(row, column) == 1.0


Choice = TypeVar("Choice")


def choice(row: Row, column: str, options: Mapping[str, Choice]) -> Choice:
    """Return what a cell's word means.

    Raises
    ------
    InputError
        If the word is not among ``options``.
    """
    text = cell(row, column).lower()
    if text not in options:
        raise InputError(
            f"unknown {column}",
            value=text,
            allowed=", ".join(name or "nothing" for name in options),
            remedy="Use one of the allowed words.",
            field=column,
        )
    return options[text]


def row_architecture(row: Row, configs: Mapping[str, Path]) -> ModelArchitecture:
    """Resolve a row's model: preset by hub id, then a stored config, then its shape columns.

    Raises
    ------
    AdvisorError
        If none of the three describes a model the engine can build.
    """
    key = cell(row, "architecture_key")
    name = key or cell(row, "model")
    if name:
        spelled = SCHEDULE.sub("", name.lower().removeprefix(LIBRARY_PREFIX))
        preset = find_preset(SHORT_NAMES.get(spelled, spelled.replace(" ", "-")).replace("__", "/"))
        if preset is not None:
            return _sized_preset(preset, row)
        stored = configs.get(name.lower())
        if stored is not None:
            return architecture_from_config(
                load_config_text(read_start(stored)), name=stored.stem.replace("__", "/")
            )
    family = cell(row, "family") or "transformer"
    if family not in SUPPORTED_FAMILIES:
        raise InputError(
            "the row's family is not built yet",
            value=family,
            allowed=", ".join(SUPPORTED_FAMILIES),
            remedy="Leave the row out or wait for that family.",
            field="family",
        )
    built = architecture_from_config(_shape_config(row), name=cell(row, "model") or "unnamed")
    stated = number(row, "parameters")
    if stated is not None and not stated / SHAPE_MISFIT < built.total_parameters < (
        stated * SHAPE_MISFIT
    ):
        raise InputError(
            "the row's shape columns describe another model",
            value=f"{built.total_parameters / 1e9:,.1f} billion parameters",
            allowed=f"about the {stated / 1e9:,.1f} billion that the row states",
            remedy="Give --configs with its config.json.",
            field="architecture_key",
        )
    return built


def _sized_preset(name: str, row: Row) -> ModelArchitecture:
    """Return a preset, built for the row's sizes where it depends on any."""
    architecture = load_preset(name)
    default = architecture.sample
    if default is None:
        return architecture
    return load_preset(name, row_sample(row, default))


def row_sample(row: Row, default: SampleSize) -> SampleSize:
    """Return the size of a row's input.

    Tables of memory peaks have one column of sizes, ``seq_len``: the side of an image, of a
    diffusion network's latent, or the tokens of both halves of a pair.
    """
    size = {
        field: integer(row, field, 0) or None
        for field in ("image_size", "sequence_length", "decoder_sequence_length")
    }
    told = integer(row, "seq_len", 0) or integer(row, "px", 0)
    if told and default.image_size is not None:
        latent = default.image_size >= LEAST_LATENT and 4 * told <= default.image_size
        size["image_size"] = LATENT_SCALE * told if latent else told
    elif told:
        size["decoder_sequence_length"] = told
        if default.sequence_length is not None:
            size["sequence_length"] = told
    return SampleSize.model_validate(size)


def _shape_config(row: Row) -> dict[str, Any]:
    """Return a Hugging Face style config with the row's shape columns."""
    required = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    missing = [name for name in (*required, "intermediate_size") if number(row, name) is None]
    if missing == [*required, "intermediate_size"]:
        raise InputError(
            "the row's model is neither a preset nor in the folder of configurations",
            value=cell(row, "architecture_key") or cell(row, "model"),
            allowed="a preset, DIR/<key>.json, or shape columns",
            remedy="Give --configs with its config.json, or fill the shape columns.",
            field="architecture_key",
        )
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
    # GELU as one kernel: Python's chain of powers is the hub's GPT-2 alone, which has a preset.
    config |= {
        "model_type": "gpt2" if learned else "gpt_neox",
        "activation_function": "gelu",
        "resid_pdrop": 0.1 if cell(row, "framework") in DROPOUT_FRAMEWORKS else 0.0,
    }
    if learned:
        config |= {
            "n_layer": config["num_hidden_layers"],
            "n_embd": config["hidden_size"],
            "n_head": config["num_attention_heads"],
            "n_inner": config["intermediate_size"],
            "n_positions": sequence,
        }
    return config
