"""The fit itself: known constants come back, outliers and bounds do no harm."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from advisor.calibration.fitting.robust import Parameter, errors, fit_log_times, quality, rounded

SIZES = np.geomspace(1e3, 1e9, 40)


def line(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values[0] + SIZES / values[1])


PARAMETERS = (
    Parameter("latency", starts=(1e-4,), low=1e-9, high=1.0),
    Parameter("rate", starts=(1e6, 1e12), low=1e3, high=1e15),
)


def test_constants_come_back():
    fit = fit_log_times(line, line(np.array([5e-6, 4e11])), PARAMETERS)

    assert fit.values == pytest.approx([5e-6, 4e11], rel=1e-6)
    assert fit.cost == pytest.approx(0, abs=1e-9)
    assert fit.at_bound == ()


def test_a_few_wild_rows_do_not_pull_the_fit():
    measured = line(np.array([5e-6, 4e11]))
    measured[::10] *= 20  # four of forty rows

    fit = fit_log_times(line, measured, PARAMETERS)

    # Least squares would put a tenth of log(20) = 0.3 on all rows, that is 35 %.
    assert fit.values == pytest.approx([5e-6, 4e11], rel=0.03)


def test_a_constant_that_vanishes_is_named():
    fit = fit_log_times(line, SIZES / 4e11, PARAMETERS)

    assert fit.at_bound == ("latency",)
    assert fit.values[0] == pytest.approx(1e-9)


def test_an_optional_constant_that_vanishes_is_left_out():
    latency, rate = PARAMETERS
    parameters = (replace(latency, optional=True), rate)

    fit = fit_log_times(line, SIZES / 4e11, parameters)

    assert (fit.left_out, fit.at_bound) == (("latency",), ())
    assert fit.values == pytest.approx([0.0, 4e11])


def test_a_share_stays_below_its_bound():
    share = Parameter("share", starts=(0.5,), low=0.1, high=1.0)

    fit = fit_log_times(lambda values: SIZES / values[0], SIZES / 1.3, [share])

    assert fit.values[0] == pytest.approx(1.0)
    assert fit.at_bound == ("share",)


def test_errors_are_relative_to_the_measurement():
    assert errors(np.array([1.2, 0.5]), np.array([1.0, 1.0])) == pytest.approx([0.2, 0.5])


def test_quality_takes_median_and_ninth_decile():
    inside, outside = np.arange(11) / 100, np.array([0.2, 0.4, 0.6])

    found = quality(inside, outside)

    assert (found.rows, found.median_error, found.p90_error) == (11, 0.05, 0.09)
    assert (found.held_out_median_error, found.held_out_p90_error) == (0.4, 0.56)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(123456.0, 4, 123500.0), (0.99999, 3, 1.0), (2.4349e-6, 3, 2.43e-6)],
)
def test_rounding_keeps_significant_digits(value, digits, expected):
    assert rounded(value, digits) == expected


def test_a_constant_that_nothing_measures_stays_at_its_prior_and_a_measured_one_leaves_it() -> None:
    sizes = np.geomspace(1e3, 1e6, 40)
    constants = [
        Parameter("slope", starts=(1.0,), low=1e-6, high=1e3, prior=0.3),
        Parameter("unseen", starts=(5.0,), low=1e-6, high=1e3, prior=2.0),
    ]

    fit = fit_log_times(lambda values: values[0] * sizes, 0.25 * sizes, constants)

    assert fit.values[1] == pytest.approx(2.0)
    assert fit.values[0] == pytest.approx(0.25, rel=0.01)
