"""Inputs of every prediction of a table's row, and the row's model."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from advisor.architecture.config.fields import load_config_text
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.presets import find_preset, load_preset
from advisor.architecture.table.model import ModelArchitecture, SampleSize
from advisor.architecture.weights.tensor_table import read_start
from advisor.calibration.tables.guesses import filled, table_words
from advisor.calibration.tables.reading import Row
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import AdvisorError, refusal
from advisor.estimate.sample import SIZES
from advisor.foundation.record import record
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.efficiency import Calibration

SUPPORTED_FAMILIES = ("transformer", "moe_transformer")

SHAPE_MISFIT = 1.5
"""Above this ratio of counted to stated parameters, shape columns describe another model."""

LATENT_SCALE = 8
"""Pixels for each element of a latent, along a side (Stable Diffusion)."""
LEAST_LATENT = 512
"""Least default side of a diffusion network's images. [pixels]"""


def row_architecture(row: Row, configs: Mapping[str, Path]) -> ModelArchitecture:
    """Resolve a row's model: preset by hub id, then a stored config, then its shape columns.

    Raises AdvisorError if none of the three describes a model the engine can build.
    """
    row = filled(row, "shape")
    name = row.cell("architecture_key") or row.cell("model")
    if name:
        preset = find_preset(table_words().models.spelled(name))
        if preset is not None:
            return _sized_preset(preset, row)
        stored = configs.get(name.lower())
        if stored is not None:
            found = _stored(stored, _changed(stored))
            if isinstance(found, AdvisorError):
                raise found.with_traceback(None)
            return found
    family = row.cell("family") or "transformer"
    if family not in SUPPORTED_FAMILIES:
        raise refusal("row_of_another_family", value=family, allowed=SUPPORTED_FAMILIES)
    built = architecture_from_config(_shape_config(row), name=row.cell("model") or "unnamed")
    stated = row.number("parameters")
    if stated is not None and not stated / SHAPE_MISFIT < built.total_parameters < (
        stated * SHAPE_MISFIT
    ):
        value = f"{built.total_parameters / 1e9:,.1f} billion parameters"
        raise refusal("row_of_another_shape", value=value, billions=stated / 1e9)
    return built


@lru_cache(maxsize=16)
def _stored(path: Path, _state: tuple[int, int]) -> ModelArchitecture | AdvisorError:
    """Return the model of a file, or what is wrong with it: rows of one model follow each other."""
    try:
        return architecture_from_config(
            load_config_text(read_start(path)), name=path.stem.replace("__", "/")
        )
    except AdvisorError as error:
        return error


def _changed(path: Path) -> tuple[int, int]:
    """Return time and size of a file: a changed file is read again."""
    try:
        state = path.stat()
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size


def _sized_preset(name: str, row: Row) -> ModelArchitecture:
    """Return a preset with the vocabulary, the class and the sizes that the row states."""
    preset = load_preset(name)
    other: dict[str, Any] = {}
    if (entries := row.integer("vocab_size", preset.vocab_size)) != preset.vocab_size:
        other["vocab_size"] = entries
    if kind := row.cell("model_class"):
        other["architectures"] = (kind,)
    sample = preset.sample and row_sample(row, preset.sample)
    return load_preset(name, sample, other=tuple(other.items()))


def row_sample(row: Row, default: SampleSize) -> SampleSize:
    """Return the size of a row's input.

    Tables of memory peaks have one column of sizes, ``seq_len``: the side of an image, of a
    diffusion network's latent, or the tokens of both halves of a pair.
    """
    size = {field: row.integer(field, 0) or None for field in SIZES}
    stated_size = row.integer("seq_len", 0) or row.integer("px", 0)
    if stated_size and default.image_size is not None:
        latent = default.image_size >= LEAST_LATENT and 4 * stated_size <= default.image_size
        size["image_size"] = LATENT_SCALE * stated_size if latent else stated_size
    elif stated_size:
        size["decoder_sequence_length"] = stated_size
        if default.sequence_length is not None:
            size["sequence_length"] = stated_size
    return SampleSize.model_validate(size)


def _shape_config(row: Row) -> dict[str, Any]:
    """Return a Hugging Face style config with the row's shape columns."""
    required = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    missing = [name for name in (*required, "intermediate_size") if row.number(name) is None]
    if missing == [*required, "intermediate_size"]:
        raise refusal(
            "row_of_unknown_model", value=row.cell("architecture_key") or row.cell("model")
        )
    if missing:
        raise refusal("row_without_shape", value=", ".join(missing))
    gated = row.flag("gated_mlp")
    learned = row.flag("learned_positions")
    config: dict[str, Any] = {name: row.integer(name, 0) for name in required}
    config["num_key_value_heads"] = row.integer(
        "num_key_value_heads", config["num_attention_heads"]
    )
    config["intermediate_size"] = row.integer("intermediate_size", 0)
    if row.number("head_dim") is not None:
        config["head_dim"] = row.integer("head_dim", 0)
    config["tie_word_embeddings"] = row.flag("tie_word_embeddings")
    experts = row.integer("num_experts", 0)
    if experts > 1:
        config |= {
            "model_type": "qwen3_moe",
            "num_experts": experts,
            "num_experts_per_tok": row.integer("experts_per_token", 1),
            "moe_intermediate_size": row.integer(
                "moe_intermediate_size", config["intermediate_size"]
            ),
        }
        return config
    if gated:
        config["model_type"] = "llama"
        return config
    sequence = row.integer("sequence_length", 2048)
    # GELU is one kernel: only the hub's GPT-2, a preset, computes it by separate operations.
    config |= {
        "model_type": "gpt2" if learned else "gpt_neox",
        "activation_function": "gelu",
        "resid_pdrop": row.number("hidden_dropout") or 0.0,
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


MAX_CONFIGS: Final = 10_000
"""Files of a folder that are looked through."""


@record
class Engine:
    """The catalog, the constants and the user's folder of model configurations."""

    catalog: Catalog
    calibration: Calibration
    configs: Mapping[str, Path] = field(default_factory=dict)
    """As `stored_configs` finds them."""

    def architecture(self, row: Row) -> ModelArchitecture:
        """Return the row's model; see ``row_models.row_architecture``."""
        return row_architecture(row, self.configs)

    def accelerator(self, row: Row) -> Accelerator:
        """Return the row's accelerator."""
        return self.catalog.accelerator(row.cell("accelerator"))


def shipped_engine() -> Engine:
    """Return the catalog and the constants as they ship."""
    return Engine(catalog=load_catalog(), calibration=load_calibration())


def stored_configs(folder: Path) -> dict[str, Path]:
    """Return the configurations of a folder, in which every row looks its model up.

    By ``org__name`` and, where no other ends so, by ``name``, in lower case. Raises InputError if
    it cannot be listed, or has more files than are looked through.

    ``folder``: of files named ``org__name.json``.
    """
    files: dict[str, Path] = {}
    fault = None
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in entries if entry.name.endswith(".json"))
            for name in sorted(islice(names, MAX_CONFIGS + 1)):
                files[name.removesuffix(".json").lower()] = folder / name
    except (OSError, ValueError):
        fault = "is not a folder"
    if len(files) > MAX_CONFIGS:
        fault = f"has more than {MAX_CONFIGS:,} files"
    if fault is not None:
        raise refusal("configs_unusable", value=str(folder), fault=fault)
    ends = {stem: stem.rpartition("__")[2] for stem in files}
    times = Counter(ends.values())
    return {ends[stem]: path for stem, path in files.items() if times[ends[stem]] == 1} | files
