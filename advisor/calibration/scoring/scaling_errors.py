"""Errors of scaling: what throughput of each accelerator a larger run loses."""

from advisor.calibration.fitting.scaling import CURVES, read_curves
from advisor.calibration.tables.context import shipped_engine
from advisor.foundation.noun import Noun


class CurveError(Noun):
    """A published curve and its prediction."""

    name: str
    first: int
    last: int
    """Accelerators of the smaller and of the larger run."""
    lost_pct: float
    """Measured. [%]"""
    predicted_pct: float
    """[%]"""
    fitted: bool
    """Whether a constant was fitted on it."""

    @property
    def error_points(self) -> float:
        """Predicted minus measured loss. [percentage points]"""
        return self.predicted_pct - self.lost_pct


def scaling_errors(unseen: str) -> tuple[CurveError, ...]:
    """Score the shipped curves.

    Parameters
    ----------
    unseen : str
        Table of curves that no fit uses.
    """
    engine = shipped_engine()
    return tuple(
        CurveError(
            name=curve.name,
            first=curve.counts[0],
            last=curve.counts[1],
            lost_pct=100 * curve.lost,
            predicted_pct=100 * curve.predicted(engine, engine.calibration.network),
            fitted=table == CURVES,
        )
        for table in (CURVES, unseen)
        for curve in read_curves(table, engine)
    )
