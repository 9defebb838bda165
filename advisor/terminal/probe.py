"""The probe in a terminal: progress and cancel while it measures, then the results."""

import signal
import threading
from types import FrameType

from rich.progress import TextColumn

from advisor.catalog import Catalog
from advisor.foundation.units import plain
from advisor.probe.checks.comparison import compare_device
from advisor.probe.checks.training_check import with_checks
from advisor.probe.measuring.run import Progress, probe
from advisor.probe.report import DeviceReport, ProbeReport, describe_device
from advisor.terminal.console import Report, drawn

THIN_TOKENS = 128
"""Products with at most this many rows are shown as products of decoding."""


def probe_with_progress(
    *,
    mode: str,
    library: str,
    time_limit_s: float | None,
    memory_limit_bytes: float | None,
    check: bool,
) -> ProbeReport:
    """Run the probe, and training steps if asked for.

    An interrupt (Ctrl+C) ends it and keeps the results so far.
    """
    cancel = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        cancel.set()

    in_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, stop) if in_main else None
    columns = TextColumn("{task.description}"), TextColumn("{task.fields[clock]}")
    try:
        with drawn(*columns, total=1.0, clock="") as update:

            def show(step: Progress) -> None:
                update(
                    completed=step.done / step.total,
                    description=step.title,
                    clock=f"{step.elapsed_s:.0f} of {step.limit_s:.0f} s",
                )

            report = probe(
                mode,
                library=library,
                time_limit_s=time_limit_s,
                memory_limit_bytes=memory_limit_bytes,
                progress=show,
                cancelled=cancel.is_set,
            )
            if not check or cancel.is_set():
                return report
            update(description="training steps", clock="")
            return with_checks(report, cancelled=cancel.is_set)
    finally:
        if previous is not None:
            signal.signal(signal.SIGINT, previous)


def show_probe(console: Report, report: ProbeReport, catalog: Catalog) -> None:
    """Print devices, best and published rates, products of decoding, and problems."""
    ended = "" if report.complete else ", not complete"
    console.print(f"This machine, probed {report.created[:10]}{ended}", style="bold")
    console.paragraph(f"{report.backend}; {report.system}; {report.elapsed_s:.0f} s.")
    for found in report.devices:
        console.heading(found.device.name)
        console.paragraph(describe_device(found.device, found.catalog_key))
        _rates(console, found, catalog)
    checks = [check.cells for check in report.checks]
    console.tabled_cells("Training steps", checks, right=(1, 2, 3, 4))
    problems = (text[:1].upper() + text[1:] for text in report.problems)
    console.bullets("Not measured, or doubtful", problems)


def _rates(console: Report, found: DeviceReport, catalog: Catalog) -> None:
    rates = [row.cells for row in compare_device(found, catalog)]
    console.tabled_cells("", rates, right=(1, 2, 3, 4))
    thin = [row.cells for row in found.matmuls if row.m <= THIN_TOKENS]
    console.tabled_cells("Products of decoding", thin, right=(2, 3, 4))
    console.tabled_cells("Memory", [row.cells for row in found.transfers], right=(1, 2))
    if found.launch is not None:
        launch = f"{plain(found.launch.median_s * 1e6, 3)} µs"
        console.paragraph(f"Launch of an operation: {launch}.")
