"""The parts of the page *My machine*."""

import functools
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import streamlit as st

from advisor import api
from advisor.charts.roofline import roofline_alt, roofline_chart
from advisor.errors import AdvisorError, InputError
from advisor.foundation.formatting import memory, percent
from advisor.frames import machine as tables
from advisor.nouns.limits import OwnedHardware
from advisor.probe.checks.comparison import RateComparison, compare_device, expected_times_s
from advisor.probe.devices.match import catalog_key
from advisor.probe.devices.nvml import read_smi
from advisor.probe.learned_constants import owned_from_report
from advisor.probe.measuring.run import Progress, probe
from advisor.probe.report import MAX_REPORT_BYTES, ProbeReport, describe_device, parse_report
from advisor.ui.parts import question
from advisor.ui.parts.chart_view import TABLE_PX, draw
from advisor.ui.parts.widgets import box, download, show_mistake
from advisor.ui.parts.wording import plain, text_table
from advisor.ui.session import state
from advisor.ui.session.links import Page, choice
from advisor.ui.session.server import is_public
from advisor.ui.session.state import sentence
from advisor.ui.session.uploads import uploader

MODES: Final = {"short": "Short, 15 s", "normal": "Normal, 2 min", "thorough": "Thorough, 10 min"}
REFRESH_S: Final = 0.5
REPORT, JOB = "machine_report", "machine_job"


@dataclass
class Job:
    """One probe in a thread of its own."""

    mode: str
    cancel: threading.Event = field(default_factory=threading.Event)
    progress: Progress | None = None
    report: ProbeReport | None = None
    problem: str = ""
    thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it is still measuring."""
        return self.thread is not None and self.thread.is_alive()


@st.cache_resource(show_spinner=False)
def _machine() -> threading.Lock:
    """Held while this machine is measured: two probes would measure each other."""
    return threading.Lock()


def start(mode: str) -> Job:
    """Start a probe; where another session's is running, say so and start none."""
    job, lock = Job(mode), _machine()
    if not lock.acquire(blocking=False):
        job.problem = "Another probe is running on this machine. Try again when it has ended."
        return job

    def show(progress: Progress) -> None:
        job.progress = progress

    def run() -> None:
        try:
            job.report = probe(job.mode, progress=show, cancelled=job.cancel.is_set)
        except AdvisorError as error:
            job.problem = sentence(error)
        finally:
            lock.release()

    job.thread = threading.Thread(target=run, name="probe", daemon=True)
    job.thread.start()
    return job


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address; what is measured stays out of it."""
    mode = choice("machine_mode", "How long", "short", lambda: MODES)
    return state.beside("my_machine", {"mode": mode})


def ask() -> None:
    """Show the three ways to a report: measure, upload, or the text of ``nvidia-smi``."""
    question.asked(page(), title="My machine", heading="How fast is my machine?")
    st.markdown(
        "Measure how fast your machine really is; the estimates for it then use the measurement. "
        "Nothing that is measured leaves the machine; a report that you upload is read and never "
        "run."
    )
    left, right = st.columns(2)
    with left.container(border=True):
        _measure()
    with right.container(border=True):
        uploader("Or open a report", key="machine_upload", most=MAX_REPORT_BYTES, take=_take)
        st.caption("Measure another machine there, then open the report here:")
        st.code("gpu-advisor probe --output probe.json", language=None, wrap_lines=True)
    with st.expander("Only the text of nvidia-smi?"):
        _read_text()


def _measure() -> None:
    """Measure the machine that runs this page, where its visitors are no strangers."""
    if is_public():
        st.markdown(
            "This server is public: it does not measure itself. Measure your machine with the "
            "command line, then open its report."
        )
        return
    job: Job | None = st.session_state.get(JOB)
    busy = job is not None and job.running
    mode = box(page(), "mode")
    state.write(page())
    if st.button("Measure this machine", disabled=busy, key="machine_start"):
        st.session_state[JOB] = start(mode)
        st.rerun()
    if job is not None:
        _follow(job)


def _follow(job: Job) -> None:
    """Show a running probe, and take its report when it has ended."""
    if job.running:

        @st.fragment(run_every=REFRESH_S)
        def watch() -> None:
            if not job.running:
                st.rerun()
            step = job.progress
            done = 0.0 if step is None else min(1.0, step.elapsed_s / step.limit_s)
            st.progress(done, text="Starting" if step is None else plain(f"Now: {step.title}"))
            if st.button("Stop and keep what is measured", key="machine_stop"):
                job.cancel.set()

        watch()
        return
    if job.problem:
        st.error(plain(job.problem), icon=":material/error:")
    if job.report is not None:
        st.session_state[REPORT] = job.report
    elif not job.problem:
        st.error(
            "The probe failed on an error of ours; the log has the details.",
            icon=":material/error:",
        )
    st.session_state[JOB] = None


def _take(_: str, content: bytes) -> None:
    """Read an uploaded report."""
    st.session_state[REPORT] = parse_report(content)


def _read_text() -> None:
    """Preview what the text of ``nvidia-smi`` tells; rates stay unknown."""
    text = st.text_area("Paste what nvidia-smi prints", key="machine_smi", max_chars=100_000)
    if not text.strip():
        return
    try:
        devices = read_smi(text)
    except InputError as error:
        show_mistake(error)
        return
    catalog = api.load_catalog()
    keys = [catalog_key(device, catalog) for device in devices]
    for device, key in zip(devices, keys, strict=True):
        known = f"in the catalog as {key}" if key else "not in the catalog"
        st.markdown(
            plain(
                f"{device.index}: {device.name}, {memory(device.memory_bytes)} "
                f"({memory(device.free_bytes)} free), {known}. Rates: unknown until a probe runs."
            )
        )
    cards = Counter(key for key in keys if key)
    if cards:
        owned = [OwnedHardware(accelerator=key, count=count) for key, count in cards.items()]
        _offer(owned, key="machine_smi_use", rates="the rates of its data sheet.")


def show(report: ProbeReport) -> None:
    """Show a report: a sentence, the rates, the roofline and what could not be measured."""
    catalog = api.load_catalog()
    for place, found in enumerate(report.devices):
        st.header(plain(found.device.name), anchor=False)
        rows = compare_device(found, catalog)
        st.markdown(plain(_sentence(rows)))
        st.caption(plain(describe_device(found.device, found.catalog_key)))
        if rows:
            text_table([row.cells for row in rows])
        bandwidth = found.best_bandwidth()
        if not found.matmuls or bandwidth is None:
            continue
        expected = expected_times_s(found, catalog)
        frame = tables.roofline_frame(found, expected)
        key = f"machine_roofline_{place}"
        draw(roofline_chart, frame, key=key, bandwidth_bytes_per_s=bandwidth)
        st.caption(plain(roofline_alt(frame, bandwidth_bytes_per_s=bandwidth)))
        with st.expander("View as table"):
            text_table(tables.products_table(found, expected), tallest_px=TABLE_PX)
            text_table([row.cells for row in found.transfers])
    if report.checks:
        st.header("Training steps beside their predictions", anchor=False)
        text_table([check.cells for check in report.checks])
    if report.problems:
        st.header("Not measured, or doubtful", anchor=False)
        st.markdown(
            "\n".join(f"- {plain(text[:1].upper() + text[1:])}" for text in report.problems)
        )
    st.header("Plan on this machine", anchor=False)
    try:
        owned = owned_from_report(report)
    except InputError as error:
        st.markdown(plain(sentence(error)))
    else:
        rates = "its measured rates. A link cannot carry the measurement: send the case file under "
        _offer(owned, key="machine_use", rates=f"{rates}Share instead.")
    download("Download the report", "probe.json", report.to_json, key="machine_download")
    st.code(
        "gpu-advisor recommend --model llama-3.1-8b --task lora --owned probe.json", language=None
    )


def _offer(owned: Sequence[OwnedHardware], *, key: str, rates: str) -> None:
    """Draw the button that asks all pages about a machine; ``rates`` ends what it then says."""
    titles = state.accelerator_names()
    names = " and ".join(
        f"{item.count:,}x "
        + (item.measured.accelerator.name if item.measured else titles[item.accelerator])
        for item in owned
    )
    if st.button(
        f"Use this machine: {names}",
        key=key,
        on_click=state.use_machine,
        args=(owned,),
        icon=":material/check:",
    ):
        st.success(f"All pages now ask about this machine, at {rates}")


def _sentence(rows: tuple[RateComparison, ...]) -> str:
    """Say the best rates in one sentence, each beside the data sheet where there is one."""
    if not rows:
        return "Described, not measured."
    parts = [
        f"{row.text(row.measured)} in {row.name}"
        + (f" ({percent(row.share)} of the data sheet)" if row.share is not None else "")
        for row in rows
    ]
    return f"{', '.join(parts)}."
