"""What every prediction of a table's row needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from advisor.architecture.table.model import ModelArchitecture
from advisor.calibration.tables.reading import Row, cell
from advisor.calibration.tables.row_models import row_architecture
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.nouns.efficiency import Calibration
from advisor.nouns.hardware import Accelerator


@dataclass(frozen=True, slots=True)
class Engine:
    """The catalog, the constants and the user's folder of model configurations."""

    catalog: Catalog
    calibration: Calibration
    configs: Path | None = None

    def architecture(self, row: Row) -> ModelArchitecture:
        """Return the row's model; see ``row_models.row_architecture``."""
        return row_architecture(row, self.configs)

    def accelerator(self, row: Row) -> Accelerator:
        """Return the row's accelerator."""
        return self.catalog.accelerator(cell(row, "accelerator"))


def shipped_engine() -> Engine:
    """Return the catalog and the constants as they ship."""
    return Engine(catalog=load_catalog(), calibration=load_calibration())
