"""Inputs of every prediction of a table's row."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.calibration.tables.reading import Row, cell
from advisor.calibration.tables.row_models import row_architecture
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.efficiency import Calibration

MAX_CONFIGS: Final = 10_000
"""Files of a folder that are looked through."""


@dataclass(frozen=True, slots=True)
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
        return self.catalog.accelerator(cell(row, "accelerator"))


def shipped_engine() -> Engine:
    """Return the catalog and the constants as they ship."""
    return Engine(catalog=load_catalog(), calibration=load_calibration())


def stored_configs(folder: Path) -> dict[str, Path]:
    """Return the configurations of a folder, in which every row looks its model up.

    By ``org__name`` and, where no other ends so, by ``name``, in lower case. Raises InputError if
    it cannot be listed, or has more files than are looked through.

    Parameters
    ----------
    folder : Path
        Of files named ``org__name.json``.
    """
    files: dict[str, Path] = {}
    problem = None
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in entries if entry.name.endswith(".json"))
            for name in sorted(islice(names, MAX_CONFIGS + 1)):
                files[name.removesuffix(".json").lower()] = folder / name
    except (OSError, ValueError):
        problem = "--configs is not a folder"
    if len(files) > MAX_CONFIGS:
        problem = f"--configs has more than {MAX_CONFIGS:,} files"
    if problem is not None:
        raise InputError(
            problem,
            value=str(folder),
            allowed="a folder of files named org__name.json",
            remedy="Give an existing folder, or leave it out.",
            field="configs",
        )
    ends = {stem: stem.rpartition("__")[2] for stem in files}
    times = Counter(ends.values())
    return {ends[stem]: path for stem, path in files.items() if times[ends[stem]] == 1} | files
