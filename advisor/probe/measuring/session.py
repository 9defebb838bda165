"""The measurements of one device. A failure becomes a sentence in the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from advisor.catalog import Catalog
from advisor.errors import ProbeError
from advisor.foundation.formatting import memory, percent
from advisor.probe.devices.backend import Backend, UnsupportedError
from advisor.probe.devices.match import catalog_key
from advisor.probe.devices.nvml import HOT
from advisor.probe.measuring.plan import (
    LaunchTask,
    MatmulTask,
    Shape,
    Task,
    TransferTask,
    plan_tasks,
)
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
    Timing,
    TransferRate,
)

MEMORY_SHARE: Final = 0.5
"""Share of the free memory that the probe uses, so that other programs can go on."""
BUSY: Final = 0.1
"""If the load before the probe exceeds this, its rates are doubtful."""
HELD: Final = 0.05
"""If a larger share of a card's memory is in use, other programs use it, not only the driver."""


class Session:
    """The measurements of one device."""

    def __init__(
        self,
        backend: Backend,
        mode: Mode,
        most_bytes: float,
        sizes: tuple[Shape, ...] | None,
        condition: Callable[[], Condition],
    ) -> None:
        device = backend.device
        self.backend, self._device, self._condition = backend, device, condition
        self.tasks = plan_tasks(
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

    def run(self, task: Task, clock: Clock, *, budget_s: float) -> None:
        """Measure one task. A failure becomes a sentence in the report.

        Raises
        ------
        StoppedError
            If the user cancels, or the time is over.
        """
        kind = task.number_format if isinstance(task, MatmulTask) else task.title
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

    def _measure(self, task: Task, clock: Clock, budget_s: float) -> None:
        backend = self.backend
        if isinstance(task, LaunchTask):
            self._launch = measure_launch(backend, budget_s=budget_s, clock=clock)
        elif isinstance(task, TransferTask):
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

    def _refuse_long(self, task: MatmulTask) -> None:
        rate = self._rates.get(task.number_format)
        if rate is not None and task.flops / rate > LONGEST_CALL_S:
            msg = f"{task.title} is left out: one takes {task.flops / rate:.1f} s on this device"
            raise ProbeError(msg)

    def _within_memory(self, task: Task) -> Task:
        """Return the task, with fewer rotating operands if that is needed to fit into memory."""
        limit = min(self._most_bytes, MEMORY_SHARE * self.backend.free_bytes())
        if task.needed_bytes > limit and isinstance(task, MatmulTask):
            task = replace(task, sets=1)
        if task.needed_bytes > limit:
            msg = (
                f"{task.title} is left out: it takes {memory(task.needed_bytes)}, and the probe "
                f"may take {memory(limit)}"
            )
            raise ProbeError(msg)
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
