"""A measured machine takes the place of the catalog's card."""

import json
from functools import cache
from pathlib import Path

import pytest

import advisor
from advisor import cli
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError
from advisor.foundation.quantities import Evidence
from advisor.nouns.case import Hardware
from advisor.nouns.limits import Constraints, OwnedHardware
from advisor.planning.prepared import with_measured
from advisor.probe.checks.comparison import compare_device
from advisor.probe.learned_constants import owned_hardware
from advisor.probe.measuring.plan import shapes
from advisor.probe.report import DeviceKind, Mode, ProbeReport
from tests.cases import tune
from tests.probe.fakes import FakeBackend, h200, probed


@pytest.fixture(scope="module")
def report() -> ProbeReport:
    backend = FakeBackend(h200(), peak=700e12, bandwidth=4.0e12, overhead_s=5e-6)
    return probed(backend, time_limit_s=4.0)


def lora(**owned: object) -> advisor.Case:
    return advisor.load_case(
        tune("llama-3.1-8b", method="lora", tokens=50e6, limits={"owned": [owned]})
    )


@cache
def machine(report: ProbeReport) -> OwnedHardware:
    [owned] = owned_hardware(report, catalog=load_catalog(), calibration=load_calibration())
    return owned


def test_the_curve_finds_the_rates_that_made_it(report: ProbeReport) -> None:
    owned = machine(report)
    assert owned.measured is not None
    curve = owned.measured.kernels.matmul["default"]

    # Of the data sheet's 989.4 TFLOPS (H200: 989.5 in dense bf16) and 4.8 TB/s.
    assert curve.compute == pytest.approx(700 / 989.4, rel=0.01)
    assert curve.bandwidth == pytest.approx(4.0 / 4.8, rel=0.01)
    assert curve.overhead_s == pytest.approx(5e-6, rel=0.05)
    assert curve.fit is not None
    assert curve.fit.rows == len(shapes(DeviceKind.CUDA, Mode.SHORT))
    assert owned.measured.kernels.evidence is Evidence.MEASURED
    assert owned.measured.kernels.elementwise_bandwidth == pytest.approx(4.0 / 4.8, rel=1e-3)


def test_memory_is_what_the_driver_reports(report: ProbeReport) -> None:
    owned = machine(report)

    assert owned.accelerator == "h200-sxm"
    assert owned.measured is not None
    assert owned.measured.accelerator.memory_reported_bytes == 143_771 * 2**20


def test_a_plan_on_the_machine_has_a_narrower_range(report: ProbeReport) -> None:
    listed = advisor.recommend(lora(accelerator="h200-sxm"))
    measured = advisor.recommend(lora(**machine(report).model_dump()))
    before, after = listed.candidates[0].hours, measured.candidates[0].hours

    assert before is not None
    assert after is not None
    assert after.high / after.low < before.high / before.low
    assert any("probe of NVIDIA H200" in text for text in measured.assumptions)


def test_the_constants_are_called_measured(report: ProbeReport) -> None:
    catalog, taught = with_measured(
        load_catalog(), load_calibration(), Constraints(owned=(machine(report),))
    )
    kernels, known = taught.kernels_for(catalog.accelerator("h200-sxm"))

    assert known
    assert kernels.evidence is Evidence.MEASURED
    assert taught.interval("training_time", measured=True).evidence is Evidence.MEASURED


def test_a_slower_machine_takes_longer(report: ProbeReport) -> None:
    slow = FakeBackend(h200(), peak=350e12, bandwidth=2.0e12)
    half = probed(slow, time_limit_s=4.0)
    times = [
        advisor.recommend(lora(**machine(each).model_dump())).plans[0].estimate.time
        for each in (report, half)
    ]

    assert times[0] is not None
    assert times[1] is not None
    # Every kernel at half the rate; launches of software do not double.
    assert 1.8 < times[1].step_s.expected / times[0].step_s.expected <= 2.0


def test_a_slow_host_slows_the_steps_that_wait_for_it(report: ProbeReport) -> None:
    [found] = report.devices
    assert found.launch is not None
    slow = found.launch.model_copy(update={"median_s": 2 * found.launch.median_s})
    later = report.model_copy(update={"devices": (found.model_copy(update={"launch": slow}),)})

    def step_s(measured: ProbeReport, sequences: int) -> float:
        question = tune("gpt2", tokens=50e6, limits={"owned": [machine(measured).model_dump()]})
        case = advisor.load_case(
            question
            | {
                "hardware": {"accelerator": "h200-sxm"},
                "layout": {"micro_batch": sequences, "recompute": "none"},
            }
        )
        time = advisor.estimate(case).time
        assert time is not None
        return time.step_s.expected

    # One sequence of GPT-2 keeps an H200 busy for 6 ms, and its host for 10 and more.
    assert step_s(later, 1) / step_s(report, 1) == pytest.approx(2.0, rel=0.15)
    assert step_s(later, 64) == pytest.approx(step_s(report, 64), rel=1e-6)


def test_the_estimate_uses_the_machine_too(report: ProbeReport) -> None:
    case = lora(**machine(report).model_dump())
    plan = advisor.recommend(case).plans[0].estimate
    single = case.model_copy(
        update={
            "hardware": advisor.nouns.case.Hardware(accelerator="h200-sxm"),
            "layout": plan.layout,
        }
    )

    found = advisor.estimate(single)
    assert found.time is not None
    assert plan.time is not None
    assert found.time.step_s == plan.time.step_s


def test_the_plan_says_that_it_rests_on_measurements(report: ProbeReport) -> None:
    listed = advisor.recommend(lora(accelerator="h200-sxm")).plans[0].estimate.time
    taught = advisor.recommend(lora(**machine(report).model_dump())).plans[0].estimate.time

    assert listed is not None
    assert taught is not None
    assert listed.run_hours.evidence is Evidence.CALIBRATED
    assert taught.run_hours.evidence is Evidence.MEASURED
    assert taught.step_s.high / taught.step_s.low < listed.step_s.high / listed.step_s.low


def test_two_cards_of_a_name_are_two_owned() -> None:
    owned = machine(probed(FakeBackend(h200()), described=(h200(index=1),), time_limit_s=4.0))

    assert owned.count == 2


def test_ranges_stay_wide_where_a_card_was_not_measured(report: ProbeReport) -> None:
    calibration = load_calibration()
    mixed = Constraints(owned=(machine(report), OwnedHardware(accelerator="t4")))
    _, taught = with_measured(load_catalog(), calibration, mixed)

    assert taught.intervals == calibration.intervals
    assert set(taught.machines) == {"h200-sxm"}


def test_an_unknown_device_is_planned_with_at_its_measured_rates() -> None:
    odd = h200(name="NVIDIA Unheard-of 9")
    owned = machine(probed(FakeBackend(odd), time_limit_s=4.0))
    answer = advisor.recommend(lora(**owned.model_dump()))

    assert owned.accelerator == "this-machine"
    assert answer.plans[0].estimate.accelerator_name == "NVIDIA Unheard-of 9"


def test_a_report_without_measurements_teaches_nothing(report: ProbeReport) -> None:
    bare = report.devices[0].model_copy(update={"matmuls": ()})
    empty = report.model_copy(update={"devices": (bare,), "problems": ("the card was lost",)})

    with pytest.raises(InputError, match="the card was lost"):
        machine(empty)


def test_the_comparison_with_what_is_published(report: ProbeReport) -> None:
    rows = {row.name: row for row in compare_device(report.devices[0], load_catalog())}

    assert list(rows) == ["bf16", "fp8", "memory"]
    # data/matmul_achievable.csv: H200 SXM, fp8, 1453.4 TFLOPS.
    assert rows["fp8"].achievable == pytest.approx(1453.4e12)
    assert rows["bf16"].share == pytest.approx(700 / 989.4, rel=0.02)
    assert rows["memory"].share == pytest.approx(4.0 / 4.8, rel=1e-3)


def test_the_command_plans_on_a_report(
    report: ProbeReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "probe.json"
    path.write_text(report.to_json())

    assert cli.main(["probe", "--report", str(path)]) == 0
    assert "h200-sxm" in capsys.readouterr().out
    asked = ["recommend", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "50M"]
    assert cli.main([*asked, "--owned", str(path)]) == 0
    answer = advisor.recommend(lora(**machine(report).model_dump())).answer
    assert answer in " ".join(capsys.readouterr().out.split())
    assert cli.main(["estimate", *asked[1:], "--owned", str(path), "--json"]) == 0
    estimated = json.loads(capsys.readouterr().out)
    plan = advisor.recommend(lora(**machine(report).model_dump())).plans[0].estimate
    assert plan.time is not None
    assert estimated["count"] == machine(report).count
    assert estimated["time"]["run_hours"] == plan.time.run_hours.model_dump(mode="json")
    assert estimated["cost"]["rent_usd"] is None


def test_the_command_probes_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "probe.json"
    asked = ["probe", "--library", "numpy", "--time-limit", "2s", "--json", "--output", str(path)]

    assert cli.main(asked) == 0
    assert advisor.ProbeReport.model_validate_json(capsys.readouterr().out) == (
        advisor.ProbeReport.model_validate_json(path.read_text())
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["probe", "--mode", "endless"],
        ["probe", "--report", "missing.json"],
        ["probe", "--time-limit", "soon"],
        ["recommend", "--model", "7B", "--task", "lora", "--owned", "missing.json"],
    ],
)
def test_a_mistake_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert "gpu-advisor: error: " in capsys.readouterr().err


def test_rent_or_buy_times_a_measured_machine_at_its_own_rates(report: ProbeReport) -> None:
    """The measured H200 reaches 71 % of its sheet's rate: its run is as ``estimate`` says."""
    case = lora(**machine(report).model_dump())
    asked = case.model_copy(update={"hardware": Hardware(accelerator="h200-sxm")})
    found = advisor.own(asked)
    estimated = advisor.estimate(asked)

    assert estimated.time is not None
    assert found.processors[0].hours is not None
    assert found.processors[0].hours.expected == estimated.time.run_hours.expected
    listed = advisor.own(asked.model_copy(update={"limits": Constraints()}))
    assert listed.processors[0].hours is not None
    assert found.processors[0].hours.expected != listed.processors[0].hours.expected
    assert any("probe" in line for line in found.assumptions)
