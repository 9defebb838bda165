"""The probe: finds the devices, measures them within a time limit, and returns a report."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

from advisor.catalog import Catalog, load_catalog
from advisor.errors import InputError
from advisor.foundation.names import check_known
from advisor.probe.devices.detect import Found, Library, find_devices
from advisor.probe.devices.match import catalog_key
from advisor.probe.measuring.plan import (
    LIMITS_S,
    Shape,
)
from advisor.probe.measuring.session import Session
from advisor.probe.measuring.timing import Clock, StoppedError
from advisor.probe.report import (
    Condition,
    DeviceReport,
    Mode,
    ProbeReport,
)

W = TypeVar("W", bound=StrEnum)

RESERVE: Final = 0.04
"""Share of the time kept in reserve for samples that take longer than planned."""
LONGEST_LIMIT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of the probe."""

    done: int
    total: int
    title: str
    """The current measurement."""
    elapsed_s: float
    limit_s: float


def _silent(progress: Progress) -> None:
    """Ignore the progress."""


def _never() -> bool:
    return False


def probe(
    mode: Mode | str = Mode.SHORT,
    *,
    library: Library | str = Library.AUTO,
    time_limit_s: float | None = None,
    memory_limit_bytes: float | None = None,
    progress: Callable[[Progress], None] = _silent,
    cancelled: Callable[[], bool] = _never,
    sizes: tuple[Shape, ...] | None = None,
    catalog: Catalog | None = None,
    found: Found | None = None,
) -> ProbeReport:
    """Measure this machine.

    Parameters
    ----------
    mode : Mode or str, optional
        ``short`` (15 s), ``normal`` (2 min) or ``thorough`` (10 min).
    library : Library or str, optional
        ``auto``, ``numpy`` or ``torch``.
    time_limit_s : float, optional
        Time limit instead of the mode's. It starts when the library is loaded. [s]
    memory_limit_bytes : float, optional
        Most memory to use. The probe never uses more than half of the free memory. [bytes]
    progress : callable, optional
        Called before each measurement.
    cancelled : callable, optional
        Called between samples. After it returns True, the probe ends within a second and returns
        a partial report.
    sizes : tuple of (m, n, k), optional
        Matrix products to measure instead of the mode's.
    found : Found, optional
        Devices to measure instead of this machine's.

    Returns
    -------
    ProbeReport
        Partial if something failed; ``problems`` says what and why.

    Raises
    ------
    InputError
        If a mode or library is unknown, or a limit is out of bounds.
    ProbeError
        If the user chose PyTorch and it is not installed.
    """
    check_known(mode, Mode, what="mode", field="mode")
    check_known(library, Library, what="library", field="library")
    mode, library = Mode(mode), Library(library)
    limit_s = _limit(time_limit_s, LIMITS_S[mode], LONGEST_LIMIT_S, "time_limit_s")
    most_bytes = _limit(memory_limit_bytes, 1e15, 1e15, "memory_limit_bytes")
    catalog = catalog or load_catalog()
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = found or find_devices(library)
    # The clock starts here, because PyTorch may take longer to load than the whole time limit.
    clock = Clock(limit_s, cancelled)
    sessions = [
        Session(backend, mode, most_bytes, sizes, found.conditions.get(place, Condition))
        for place, backend in enumerate(found.backends)
    ]
    reserve_s = RESERVE * limit_s
    total, done, stopped = sum(len(session.tasks) for session in sessions), 0, False
    for session in sessions:
        for task in session.tasks:
            progress(Progress(done, total, task.title, clock.elapsed_s, limit_s))
            try:
                clock.check()
                session.run(task, clock, budget_s=(clock.left_s - reserve_s) / (total - done))
            except StoppedError as stop:
                session.problems.append(f"{stop}; measurements missing: {total - done}")
                stopped = True
                break
            done += 1
        if stopped:
            break
    progress(Progress(done, total, "done", clock.elapsed_s, limit_s))
    problems = [*found.problems, *(text for session in sessions for text in session.problems)]
    reports = [session.report(catalog) for session in sessions]
    reports += [
        DeviceReport(device=device, catalog_key=catalog_key(device, catalog))
        for device in found.described
    ]
    return ProbeReport(
        created=created,
        mode=mode,
        backend=sessions[0].backend.software[:100],
        system=f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        elapsed_s=round(clock.elapsed_s, 3),
        complete=not stopped,
        devices=tuple(reports),
        problems=tuple(dict.fromkeys(map(plain_text, problems))),
    )


def plain_text(text: str) -> str:
    """Return a library's message for a report: one line without control characters."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:300]


def _limit(value: float | None, default: float, most: float, field: str) -> float:
    if value is None:
        return default
    if not 0 < value <= most:
        raise InputError(
            f"{field} is out of bounds",
            value=value,
            allowed=f"more than 0, at most {most:.4g}",
            remedy="Give another limit, or leave it out.",
            field=field,
        )
    return float(value)
