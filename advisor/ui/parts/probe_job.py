"""A probe that runs beside the page: progress to look at, a cancel, one at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import streamlit as st

from advisor.errors import AdvisorError
from advisor.probe.measuring.run import Progress, probe
from advisor.probe.report import ProbeReport
from advisor.ui.session.state import sentence


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
