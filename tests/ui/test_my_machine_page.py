"""The page *My machine*: a report in, its rates, its roofline and its problems out."""

from __future__ import annotations

import threading
import time
from html import escape
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import advisor
import advisor.ui.pages
from advisor.catalog import load_catalog
from advisor.charts.roofline import roofline_alt, roofline_chart
from advisor.charts.theme import LIGHT
from advisor.errors import InputError
from advisor.frames.machine import products_table, roofline_frame
from advisor.probe.checks.comparison import compare_device, expected_times_s
from advisor.probe.devices.nvml import read_smi
from advisor.probe.report import ProbeReport
from advisor.ui.parts import my_machine
from tests.cases import tune
from tests.probe.fakes import FakeBackend, h200, probed
from tests.ui.seen import seen

PAGE = Path(advisor.ui.pages.__file__).parent / "my_machine.py"
SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:18:00.0 Off |                    0 |
| N/A   31C    P0             76W /  700W |       4MiB / 143771MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 4090        Off |   00000000:2A:00.0 Off |                  Off |
| 30%   65C    P2            380W /  450W |   20480MiB /  24564MiB |     98%      Default |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.fixture(scope="module")
def report() -> ProbeReport:
    backend = FakeBackend(h200(), peak=700e12, bandwidth=4.0e12, lacking=frozenset({"fp8"}))
    sizes = ((1, 4096, 4096), (8192, 8192, 8192))
    return probed(backend, sizes=sizes, time_limit_s=2.0)


def test_the_page_opens_without_a_report() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()

    assert not page.exception
    assert not page.error
    assert page.button(key="machine_start").label == "Measure this machine"


def test_a_report_is_shown(report: ProbeReport) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.session_state[my_machine.REPORT] = report
    page.run()

    assert not page.exception
    assert not page.error
    assert page.header[0].value == "NVIDIA H200"
    shown = seen(" ".join(each.value for each in page.markdown))
    assert "696 TFLOPS in bf16 (70 % of the data sheet)" in shown
    assert "Fp8 product is not supported on this device" in shown


def test_the_pasted_text_is_previewed() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()
    page.text_area(key="machine_smi").set_value(SMI).run()

    assert not page.exception
    shown = seen(" ".join(each.value for each in page.markdown))
    assert "0: NVIDIA H200, 140 GiB (140 GiB free), in the catalog as h200-sxm" in shown
    assert "1: NVIDIA GeForce RTX 4090, 24 GiB (4.0 GiB free), in the catalog as rtx-4090" in shown

    page.button(key="machine_smi_use").click().run()
    assert not page.exception
    asked = {name: page.session_state[f"in_{name}"] for name in ("rent", "own_accelerator")}
    assert asked == {"rent": "own", "own_accelerator": "h200-sxm"}
    assert "at the rates of its data sheet" in page.success[0].value


def test_text_without_a_card_is_a_sentence() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()
    page.text_area(key="machine_smi").set_value("command not found").run()

    assert not page.exception
    assert "The text contains no card" in page.error[0].value


def test_the_fields_of_nvidia_smi() -> None:
    first, second = read_smi(SMI)

    assert (first.driver, first.power_limit_w) == ("570.133.20", 700)
    assert first.memory_bytes == 143_771 * 2**20
    assert first.free_bytes == (143_771 - 4) * 2**20
    assert (second.condition.temperature_c, second.condition.busy_fraction) == (65, 0.98)
    with pytest.raises(InputError, match="no card"):
        read_smi("|   0  NVIDIA H200   On  |")


def test_marks_and_ceilings_of_the_roofline(report: ProbeReport) -> None:
    [found] = report.devices
    frame = roofline_frame(found, expected_times_s(found, load_catalog()))
    chart = roofline_chart(frame, bandwidth_bytes_per_s=4.0e12, theme=LIGHT)
    line, measured, expected = chart.data

    # bf16: 2 x 8192^3 FLOPs over three matrices of 8192^2 in 2 bytes: 8192 / 3 FLOPs per byte.
    assert measured.x[1] == pytest.approx(8192 / 3)
    assert measured.y[1] == pytest.approx(696.4, abs=0.1)
    # The ceiling turns where 696 TFLOPS meet 4 TB/s.
    assert line.x[1] == pytest.approx(174, abs=1)
    assert line.y[1] == line.y[2] == measured.y[1]
    assert expected.name == "bf16, expected"
    assert "bf16 696 TFLOPS; memory 4.00 TB/s" in roofline_alt(frame, bandwidth_bytes_per_s=4e12)


def test_the_tables_are_text(report: ProbeReport) -> None:
    [found] = report.devices
    catalog = load_catalog()
    rates = [row.cells for row in compare_device(found, catalog)]
    products = products_table(found, expected_times_s(found, catalog))

    assert [row["Data sheet"] for row in rates] == ["989 TFLOPS", "4.80 TB/s"]
    assert [row["Share"] for row in rates] == ["70 %", "83 %"]
    assert products["Product"].tolist() == ["1 x 4096 by 4096 x 4096", "8192 x 8192 by 8192 x 8192"]


def test_one_probe_at_a_time(monkeypatch: pytest.MonkeyPatch, report: ProbeReport) -> None:
    release = threading.Event()

    def slow(mode: str, **_: object) -> ProbeReport:
        release.wait(10)
        return report

    monkeypatch.setattr(my_machine, "probe", slow)
    first, second = my_machine.start("short"), my_machine.start("short")

    assert first.running
    assert second.problem.startswith("Another probe is running")
    release.set()
    assert first.thread is not None
    first.thread.join(10)
    assert first.report == report
    third = my_machine.start("short")
    assert third.thread is not None
    third.thread.join(10)
    assert third.report == report


def test_the_page_measures_shows_progress_and_stops() -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()
    page.button(key="machine_start").click().run()
    assert not page.exception
    job = page.session_state[my_machine.JOB]
    deadline = time.monotonic() + 60
    while job.progress is None and time.monotonic() < deadline:
        time.sleep(0.05)
    page.button(key="machine_stop").click().run()
    job.thread.join(20)
    page.run()

    assert not page.exception
    assert not page.error
    assert not page.session_state[my_machine.REPORT].complete


def test_the_machine_becomes_the_card_of_the_question(report: ProbeReport) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.session_state[my_machine.REPORT] = report
    page.run()
    page.button(key="machine_use").click().run()

    assert not page.exception
    other = AppTest.from_file(str(PAGE.parent / "advisor.py"), default_timeout=60)
    for name in ("in_rent", "in_own_accelerator", "in_own_count", "measured"):
        other.session_state[name] = page.session_state[name]
    other.run()
    assert not other.exception
    found = advisor.recommend(
        tune(
            "llama-3.1-8b",
            method="lora",
            tokens=10e6,
            limits={"deadline_hours": 24, "owned": advisor.owned_from_report(report)},
        )
    )
    assert "H200" in found.answer
    assert escape(found.answer) in seen(other.get("html")[0].proto.body)
