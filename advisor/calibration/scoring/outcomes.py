"""Whether the runs of a table fitted their cards, measured and predicted."""

from __future__ import annotations

from advisor.calibration.scoring.report import FitVerdict
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import Row, cell, number
from advisor.calibration.tables.training_rows import OUTCOMES, RAN, row_interval, settled_run
from advisor.estimate.training.memory_report import describe_memory
from advisor.foundation.units import GIB

ON_PAPER = "analytic_not_measured"
"""Flag of rows whose memory was computed by their authors: it may exceed the card."""


def judge_training_row(row: Row, engine: Engine) -> FitVerdict | None:
    """Predict whether a run fits, if the table states whether it did.

    Parameters
    ----------
    row : mapping
        A row of a table of training runs.

    Returns
    -------
    FitVerdict or None
        None if the row states neither a memory nor that it ran out.

    Raises
    ------
    InputError
        If the engine has no builder for the row's model or work, or a cell is unusable.
    """
    outcome = cell(row, "outcome") or RAN
    states_outcome = number(row, "peak_memory_gib") is not None or outcome != RAN
    if not states_outcome or outcome not in OUTCOMES or ON_PAPER in cell(row, "flags").split(";"):
        return None
    architecture, run, layout = settled_run(row, engine)
    memory = describe_memory(
        architecture,
        run,
        layout,
        engine.accelerator(row),
        engine.calibration,
        row_interval(row, engine.calibration),
    )
    needed = memory.total_bytes.scaled(1 / GIB)
    return FitVerdict(
        id=cell(row, "id"),
        outcome=outcome,
        low_gib=needed.low,
        expected_gib=needed.expected,
        high_gib=needed.high,
        usable_gib=memory.usable_bytes / GIB,
    )
