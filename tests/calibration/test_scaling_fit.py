"""The jitter between machines, from published curves."""

from __future__ import annotations

import pytest

from advisor.calibration.fitting.training import CURVES, Curve, read_curves, scaling_section
from advisor.calibration.scoring.accuracy_page import UNSEEN_CURVES
from advisor.calibration.tables.context import shipped_engine


def test_the_shipped_jitters_are_those_that_the_curves_show() -> None:
    engine = shipped_engine()
    network = engine.calibration.network
    found = {"jitter": network.jitter, "image_jitter": network.image_jitter}
    assert scaling_section(engine) == found
    assert all(0 < value < 0.04 for value in found.values())


def test_a_curve_loses_what_its_runs_say() -> None:
    """MPT-1B: 45,455 tokens a second each on 8 cards, 39,837 on 512. BERT-large: 4,591 sequences a
    second on 8, 138,294 on 256."""
    curves = {curve.name: curve for name in (CURVES, UNSEEN_CURVES) for curve in _read(name)}
    assert curves["MPT-1B on H100"].counts == (8, 512)
    assert curves["MPT-1B on H100"].lost == pytest.approx(1 - 39_837 / 45_455)
    bert = curves["BERT-large on A100"]
    assert bert.lost == pytest.approx(1 - (138_294 / 256) / (4_591 / 8))


def _read(name: str) -> tuple[Curve, ...]:
    return read_curves(name, shipped_engine())


def test_no_curve_is_both_fitted_and_unseen() -> None:
    fitted, unseen = ({curve.name for curve in _read(name)} for name in (CURVES, UNSEEN_CURVES))
    assert not fitted & unseen
    assert len(unseen) >= 0.4 * (len(fitted) + len(unseen))
