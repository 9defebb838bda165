"""The reserve and the ranges of training memory, on made-up peaks whose answer is known."""

from __future__ import annotations

import pytest

import advisor
from advisor.calibration.fitting.memory import (
    NAMES,
    PeakRun,
    fit_peak_intervals,
    fit_reserve,
    hold_out_peaks,
)
from advisor.catalog.constants import load_calibration
from tests.cases import tune

NOTHING = {"low": 0.0, "expected": 0.0, "high": 0.0}


def peak(source: str, measured: float, **fields: object) -> PeakRun:
    values: dict[str, object] = {
        "id": f"{source} {measured}",
        "source": source,
        "group": source,
        "software": "plain",
        "interval": NAMES[0],
        "kind": NAMES[0],
        "measured": measured,
        "tensors": 100.0,
        "weights": 0.0,
        "outside": NOTHING,
        "counts_reserve": True,
    }
    return PeakRun(**(values | fields))  # type: ignore[arg-type]


def test_the_reserve_is_what_most_groups_show() -> None:
    runs = [peak("a", 110.0), peak("b", 110.0), peak("c", 119.0)]
    assert fit_reserve(runs) == 0.10


def test_runs_with_guessed_settings_have_no_part_in_the_reserve() -> None:
    guessed = [peak(name, 104.0, interval=NAMES[2]) for name in "xyz"]
    assert fit_reserve([peak("a", 109.0), *guessed]) == 0.09


def test_what_a_tool_does_not_count_is_not_added() -> None:
    driver = {"low": 3.0, "expected": 5.0, "high": 8.0}
    whole = peak("a", 115.0, outside=driver)
    assert fit_reserve([whole]) == 0.10
    assert whole.held(0.10) + driver["expected"] == pytest.approx(115.0)
    assert peak("b", 100.0, counts_reserve=False).held(0.10) == 100.0


def test_what_a_formula_fixes_has_no_range() -> None:
    """Of 100 that were predicted 109 are seen: 1.09 of all, 1.9 of the 10 that nothing fixes."""
    [seen] = hold_out_peaks([peak("a", 109.0, certain=90.0, counts_reserve=False)])
    facts = load_calibration().memory
    assert seen.factor(facts, "high") == pytest.approx(1.9)
    interval = load_calibration().intervals[NAMES[0]].changed(low=0.5, high=2.0)
    found = seen.predicted(facts, interval)
    assert (found.low, found.high) == (95.0, 110.0)


def test_weights_reserve_nothing() -> None:
    """Weights stay where they were loaded: 20 % of the other 40 make 8 of 100."""
    assert fit_reserve([peak("a", 108.0, weights=60.0)]) == 0.20


def test_a_source_is_predicted_without_its_own_runs() -> None:
    runs = [peak("a", 112.0), peak("b", 110.0)]
    reserves = {item.run.source: item.reserve for item in hold_out_peaks(runs)}
    assert reserves == {"a": 0.10, "b": 0.12}


def test_ranges_hold_the_next_group_and_what_fits_nine_of_ten_known_ones() -> None:
    facts = load_calibration().memory
    runs = [peak(str(index), 90.0 + 3 * index, counts_reserve=False) for index in range(11)]
    interval = fit_peak_intervals(hold_out_peaks(runs), facts)[NAMES[0]]
    # Measured over tensors from 0.90 to 1.20 in steps of 0.03. Of twelve groups, a tenth is above
    # one, so the range for the twelfth reaches both ends. Nine of ten known ones stay below 1.17.
    assert (interval.low, interval.high, interval.usual) == (0.9, 1.2, 1.17)


def test_software_with_few_published_peaks_has_a_wider_range_and_says_so() -> None:
    """Two groups of rows with a peak ran Liger's kernels (Unsloth); more ran Hugging Face."""
    case = tune("llama-3.1-8b", "h100-sxm", 1, method="lora")
    spans = {}
    for software in ("huggingface", "liger"):
        case["workload"]["software"] = software
        found = advisor.estimate(case)
        total = found.memory.total_bytes
        spans[software] = total.high / total.expected
        few = any("few published runs show the peak memory" in line for line in found.assumptions)
        assert few == (software == "liger")
    assert spans["liger"] > spans["huggingface"]
