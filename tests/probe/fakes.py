"""A device that obeys a roofline, and a driver that tells what a recorded card told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.foundation.units import GIB
from advisor.probe.devices.backend import MemoryShortError, Prepared, UnsupportedError, Work
from advisor.probe.devices.detect import Found
from advisor.probe.measuring import timing
from advisor.probe.measuring.run import probe
from advisor.probe.report import (
    Condition,
    Device,
    DeviceKind,
    NumberFormat,
    ProbeReport,
    TransferKind,
)

H200_BYTES = 143_771 * 2.0**20
"""nvidia-smi of an H200: 143771MiB."""


def h200(**changed: Any) -> Device:
    known = {
        "kind": DeviceKind.CUDA,
        "index": 0,
        "name": "NVIDIA H200",
        "memory_bytes": H200_BYTES,
        "free_bytes": H200_BYTES - 0.5 * GIB,
        "cache_bytes": 60.0 * 2**20,
        "compute_capability": "9.0",
        "condition": Condition(temperature_c=31, busy_fraction=0.0),
    }
    return Device.model_validate(known | changed)


class FakeBackend:
    """Times follow peak, bandwidth and a fixed cost, joined as two sides of a right triangle."""

    software = "Fake 1.0"
    sample_s = 0.02

    def __init__(
        self,
        device: Device,
        *,
        formats: tuple[NumberFormat, ...] = ("bf16", "fp8"),
        peak: float = 700e12,
        bandwidth: float = 4.0e12,
        overhead_s: float = 5e-6,
        lacking: frozenset[str] = frozenset(),
        short_above: float = float("inf"),
        free: float | None = None,
    ) -> None:
        self.device = device
        self.formats = formats
        self.transfers = (TransferKind.COPY, TransferKind.HOST_TO_DEVICE)
        self._peak, self._bandwidth, self._overhead_s = peak, bandwidth, overhead_s
        self._lacking, self._short_above = lacking, short_above
        self._free = device.free_bytes if free is None else free
        self._times: dict[int, float] = {}
        self.busy_s = 0.0
        self.released = 0

    def free_bytes(self) -> float:
        return self._free

    def matmul(self, *, number_format: str, m: int, n: int, k: int, sets: int) -> Prepared:
        if number_format in self._lacking:
            raise UnsupportedError(f"{number_format} product is not supported on this device")
        size = 1 if number_format == "fp8" else 2
        moved = float(size * (m * k + k * n) + 2 * m * n)
        if moved > self._short_above:
            raise MemoryShortError(f"product of {m} rows: out of memory; smaller sizes go on")
        rate = self._peak * (2 if number_format == "fp8" else 1)
        arithmetic, stream = 2.0 * m * n * k / rate, moved / self._bandwidth
        return self._timed((arithmetic**2 + stream**2) ** 0.5 + self._overhead_s, moved)

    def transfer(self, kind: TransferKind, *, size_bytes: int) -> Prepared:
        moved = 2.0 * size_bytes if kind is TransferKind.COPY else float(size_bytes)
        rate = self._bandwidth if kind is TransferKind.COPY else 50e9
        return self._timed(moved / rate, moved)

    def tiny(self) -> Prepared:
        return self._timed(4e-6, 8.0)

    def elapsed_s(self, work: Work, *, first: int, calls: int) -> float:
        took = calls * self._times[id(work)]
        self.busy_s += took
        return took

    def launch_s(self, work: Work, *, calls: int) -> float:
        return self.elapsed_s(work, first=0, calls=calls)

    def release(self) -> None:
        self.released += 1

    def _timed(self, seconds: float, moved: float) -> Prepared:
        def work(call: int) -> None: ...

        self._kept = work  # an id is only unique while its owner lives
        self._times = {id(work): seconds}
        return Prepared(work, moved)


def probed(*backends: FakeBackend, described: tuple[Device, ...] = (), **told: Any) -> ProbeReport:
    """Probe in the devices' own time, however busy or slow the machine of the tests is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "perf_counter", lambda: sum(item.busy_s for item in backends))
        return probe(found=Found(backends, described), **told)


class NVMLError(Exception):
    """As the binding's."""


class LibraryNotFoundError(NVMLError):
    """The driver is not installed."""


class DriverNotLoadedError(NVMLError):
    """It is installed and does not run."""


class FakeNvml:
    """The calls of ``pynvml`` that the probe makes, answered for one H200 of an 8-card node."""

    NVMLError = NVMLError
    NVMLError_LibraryNotFound = LibraryNotFoundError
    NVMLError_DriverNotLoaded = DriverNotLoadedError
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_NVLINK_MAX_LINKS = 18

    def __init__(
        self,
        *,
        fails: Exception | None = None,
        count: int = 1,
        celsius: int = 31,
        load: int = 0,
        reasons: int = 0x1,
        slices: tuple[str, ...] = (),
    ) -> None:
        self._fails, self._count, self._celsius = fails, count, celsius
        self._load, self._reasons, self._slices = load, reasons, slices

    def nvmlInit(self) -> None:  # noqa: N802 - the binding's names
        if self._fails:
            raise self._fails

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetCount": lambda: self._count,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetHandleByUUID": lambda uuid: 0,
            "nvmlDeviceGetIndex": lambda handle: handle,
            "nvmlDeviceGetName": lambda handle: (
                handle if isinstance(handle, str) else "NVIDIA H200"
            ),
            "nvmlSystemGetDriverVersion": lambda: b"570.133.20",
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(
                total=int(H200_BYTES), free=int(H200_BYTES - 0.5 * GIB)
            ),
            "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
            "nvmlDeviceGetPowerManagementLimit": lambda handle: 700_000,
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda handle: 5,
            "nvmlDeviceGetMaxPcieLinkWidth": lambda handle: 16,
            "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=f"0000:{handle}".encode()),
            "nvmlDeviceGetNvLinkState": lambda handle, link: 1,
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda handle, link: SimpleNamespace(
                busId=f"0000:{1 - handle}".encode() if link < 2 else b"0000:switch"
            ),
            "nvmlDeviceGetMigMode": lambda handle: (1 if self._slices else 0, 0),
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": self._slice,
            "nvmlDeviceGetTemperature": lambda handle, sensor: self._celsius,
            "nvmlDeviceGetClockInfo": lambda handle, clock: 1980,
            "nvmlDeviceGetPowerUsage": lambda handle: 76_500,
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=self._load),
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: self._reasons,
        }
        return answers[name]

    def _slice(self, handle: int, place: int) -> str:
        if place >= len(self._slices):
            raise NVMLError
        return self._slices[place]
