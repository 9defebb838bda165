"""Predicting rows: cache."""

from __future__ import annotations

from advisor.calibration.engine import Engine
from advisor.calibration.report import ValidationRow
from advisor.calibration.tables import Row
from advisor.errors import InputError


def predict_cache_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict one row."""
    raise InputError("not built yet", value=None, allowed="", remedy="")
