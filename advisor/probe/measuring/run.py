"""The probe: finds the devices, measures them within a time limit, and returns a report."""

import platform
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from advisor.catalog import Catalog, load_catalog
from advisor.errors import ProbeError, refusal
from advisor.foundation.formatting import memory, percent
from advisor.foundation.names import check_known
from advisor.foundation.record import record
from advisor.probe.devices.backend import Backend, UnsupportedError
from advisor.probe.devices.detect import Found, Library, find_devices
from advisor.probe.devices.match import catalog_key
from advisor.probe.devices.nvml import HOT
from advisor.probe.measuring import plan
from advisor.probe.measuring.timing import (
    LONGEST_CALL_S,
    Clock,
    StoppedError,
    measure,
    measure_launch,
)
from advisor.probe.report import (
    Condition,
    Device,
    DeviceKind,
    DeviceReport,
    MatmulRate,
    Mode,
    ProbeReport,
    Timing,
    TransferRate,
)

MEMORY_SHARE: Final = 0.5
"""Share of the free memory that the probe uses, so that other programs can go on."""
BUSY: Final = 0.1
"""If the load before the probe exceeds this, its rates are doubtful."""
HELD: Final = 0.05
"""If a larger share of a card's memory is in use, other programs use it, not only the driver."""

RESERVE: Final = 0.04
"""Share of the time kept in reserve for samples that take longer than planned."""
LONGEST_LIMIT_S: Final = 3600.0


class Session:
    """The measurements of one device."""

    def __init__(
        self,
        backend: Backend,
        mode: Mode,
        most_bytes: float,
        sizes: tuple[plan.Shape, ...] | None,
        condition: Callable[[], Condition],
    ) -> None:
        device = backend.device
        self.backend, self._device, self._condition = backend, device, condition
        self.tasks = plan.plan_tasks(
            kind=device.kind,
            mode=mode,
            formats=backend.formats,
            transfers=backend.transfers,
            cache_bytes=device.cache_bytes,
            sizes=sizes,
        )
        self.problems = warnings_of(device)
        self._most_bytes = most_bytes
        self._matmuls: list[MatmulRate] = []
        self._transfers: list[TransferRate] = []
        self._launch: Timing | None = None
        self._lacking: set[str] = set()
        self._rates: dict[str, float] = {}

    def run(self, task: plan.Task, clock: Clock, *, budget_s: float) -> None:
        """Measure one task.

        A failure becomes a sentence. Raises ``StoppedError`` if cancelled or out of time.
        """
        kind = task.number_format if isinstance(task, plan.MatmulTask) else task.title
        if kind in self._lacking:
            return
        try:
            self._measure(self._within_memory(task), clock, budget_s)
        except StoppedError:
            raise
        except UnsupportedError as error:
            self._lacking.add(kind)
            self.problems.append(str(error))
        except ProbeError as error:
            self.problems.append(str(error))
        finally:
            self.backend.release()

    def _measure(self, task: plan.Task, clock: Clock, budget_s: float) -> None:
        backend = self.backend
        if isinstance(task, plan.LaunchTask):
            self._launch = measure_launch(backend, budget_s=budget_s, clock=clock)
        elif isinstance(task, plan.TransferTask):
            prepared = backend.transfer(task.kind, size_bytes=task.size_bytes)
            timing = measure(backend, prepared, budget_s=budget_s, clock=clock)
            self._transfers.append(
                TransferRate(kind=task.kind, moved_bytes=prepared.moved_bytes, timing=timing)
            )
        else:
            self._refuse_long(task)
            prepared = backend.matmul(
                number_format=task.number_format, m=task.m, n=task.n, k=task.k, sets=task.sets
            )
            timing = measure(backend, prepared, budget_s=budget_s, clock=clock)
            row = MatmulRate(format=task.number_format, m=task.m, n=task.n, k=task.k, timing=timing)
            self._matmuls.append(row)
            best = self._rates.get(row.format, 0.0)
            self._rates[row.format] = max(best, row.flops_per_s)

    def _refuse_long(self, task: plan.MatmulTask) -> None:
        rate = self._rates.get(task.number_format)
        if rate is not None and task.flops / rate > LONGEST_CALL_S:
            raise ProbeError(
                f"{task.title} is left out: one takes {task.flops / rate:.1f} s on this device"
            )

    def _within_memory(self, task: plan.Task) -> plan.Task:
        """Return the task, with fewer rotating operands if that is needed to fit into memory."""
        limit = min(self._most_bytes, MEMORY_SHARE * self.backend.free_bytes())
        if task.needed_bytes > limit and isinstance(task, plan.MatmulTask):
            task = replace(task, sets=1)
        if task.needed_bytes > limit:
            raise ProbeError(
                f"{task.title} is left out: it takes {memory(task.needed_bytes)}, and the probe "
                f"may take {memory(limit)}"
            )
        return task

    def report(self, catalog: Catalog) -> DeviceReport:
        """Return the measurements so far."""
        after = self._condition()
        if set(after.throttling) & set(HOT):
            self.problems.append(f"{self._device.name} got too hot and lowered its clocks")
        return DeviceReport(
            device=self._device,
            catalog_key=catalog_key(self._device, catalog),
            matmuls=tuple(self._matmuls),
            transfers=tuple(self._transfers),
            launch=self._launch,
            after=after,
        )


def warnings_of(device: Device) -> list[str]:
    """Return warnings about conditions before the probe that make its measurements doubtful."""
    now, found = device.condition, []
    if now.busy_fraction is not None and now.busy_fraction > BUSY:
        found.append(
            f"{device.name} is busy: {percent(now.busy_fraction)} of its time went to other work "
            "when the probe began, so its rates may be low"
        )
    held = device.memory_bytes - device.free_bytes
    if device.kind is not DeviceKind.CPU and held > HELD * device.memory_bytes:
        found.append(
            f"{device.name} is in use: {memory(held)} of {memory(device.memory_bytes)} are taken "
            "by other programs"
        )
    if set(now.throttling) & set(HOT):
        found.append(
            f"{device.name} is hot ({now.temperature_c:.0f} °C) and runs at lowered clocks: let "
            "it cool and probe again"
            if now.temperature_c is not None
            else f"{device.name} is hot and runs at lowered clocks: let it cool and probe again"
        )
    if device.mig_slices:
        found.append(f"{device.name} is divided into {len(device.mig_slices)} MIG slices")
    return found


@record
class Progress:
    """Progress of the probe."""

    done: int
    total: int
    title: str
    """The current measurement."""
    elapsed_s: float
    limit_s: float


def probe(
    mode: Mode | str = Mode.SHORT,
    *,
    library: Library | str = Library.AUTO,
    time_limit_s: float | None = None,
    memory_limit_bytes: float | None = None,
    progress: Callable[[Progress], object] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
    sizes: tuple[plan.Shape, ...] | None = None,
    catalog: Catalog | None = None,
    found: Found | None = None,
) -> ProbeReport:
    """Measure this machine.

    ``mode``: ``short`` (15 s), ``normal`` (2 min) or ``thorough`` (10 min). ``library``: ``auto``,
    ``numpy`` or ``torch``. ``time_limit_s``: time limit instead of the mode's. It starts when the
    library is loaded. [s] ``memory_limit_bytes``: most memory to use. The probe never uses more
    than half of the free memory. [bytes] ``progress``: called before each measurement.
    ``cancelled``: called between samples. After it returns True, the probe ends within a second and
    returns a partial report. ``sizes``: matrix products to measure instead of the mode's.
    ``found``: devices to measure instead of this machine's.

    The report is partial if something failed; ``problems`` says what and why.

    Raises InputError if a mode or library is unknown, or a limit is out of bounds. Raises
    ProbeError if the user chose PyTorch and it is not installed.
    """
    check_known(mode, Mode, what="mode", field="mode")
    check_known(library, Library, what="library", field="library")
    mode, library = Mode(mode), Library(library)
    limit_s = _limit(
        time_limit_s, plan.probe_sizes().limits_s[mode], LONGEST_LIMIT_S, "time_limit_s"
    )
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
        raise refusal("limit_out_of_bounds", field=field, value=value, most=most)
    return float(value)
