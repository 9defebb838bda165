"""Describes NVIDIA's cards: by NVML, or from the table that ``nvidia-smi`` prints."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Self

from advisor.errors import ProbeError, refusal
from advisor.foundation.units import MIB
from advisor.probe.report import Condition, Device, DeviceKind

THROTTLING: Final = {
    0x0000000000000004: "power limit",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "sync boost with another card",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
    0x0000000000000100: "display clock setting",
}
"""Bits of nvmlClocksEventReasons (nvml.h, NVML API reference) that mean throttling. Idle clocks
and clocks set by an application do not count."""
DRIVER_FILE: Final = Path("/dev/nvidiactl")
"""This file exists if the driver is loaded."""
HOT: Final = ("software thermal slowdown", "hardware thermal slowdown")
MHZ: Final = 1e6
MILLI: Final = 1e-3
MAX_CHARACTERS: Final = 100_000
NAMED: Final = re.compile(
    r"^\|\s+(?P<index>\d{1,2})\s+(?P<name>\S.{0,60}?)\s+(?:On|Off|N/A)\s*\|", re.MULTILINE
)
STATED: Final = re.compile(
    r"^\|.{0,12}?(?P<celsius>\d{1,3})C.{0,30}?/\s*(?P<watts>\d{1,4}|N/A)W?\s*\|"
    r"\s*(?P<used>\d{1,7})MiB\s*/\s*(?P<total>\d{1,7})MiB\s*\|\s*(?P<load>\d{1,3}|N/A)",
    re.MULTILINE,
)
DRIVER: Final = re.compile(r"Driver Version:\s*([\d.]{1,20})")


class Nvml:
    """An open session with the driver."""

    def __init__(self, library: ModuleType) -> None:
        self._library: Any = library

    @classmethod
    def open(cls) -> Self:
        """Start a session.

        Raises ``ProbeError`` if the Python package, the driver or a device is missing.
        """
        try:
            import pynvml
        except ImportError:
            there = DRIVER_FILE.exists()
            raise ProbeError(
                "the NVIDIA driver is here but cannot be asked: pip install 'gpu-advisor[probe]' "
                "adds nvidia-ml-py"
                if there
                else "no NVIDIA driver was found, so the processors were measured"
            ) from None
        return cls.of(pynvml)

    @classmethod
    def of(cls, library: ModuleType) -> Self:
        """Start a session with a library.

        Raises ``ProbeError`` if the driver is missing, silent, or has no device.
        """
        try:
            library.nvmlInit()
            count = library.nvmlDeviceGetCount()
        except library.NVMLError as error:
            raise ProbeError(_sentence(library, error)) from None
        if count == 0:
            raise ProbeError(
                "the NVIDIA driver runs but has no device: check 'nvidia-smi' and the container"
            )
        return cls(library)

    def devices(self) -> tuple[Device, ...]:
        """Describe every card. A field that the driver does not report stays unknown."""
        return tuple(
            self._device(index) for index in range(int(self._library.nvmlDeviceGetCount()))
        )

    def index_of(self, uuid: str) -> int | None:
        """Return the driver's index of a card; a process may see the cards in another order."""
        handle = self._ask(self._library.nvmlDeviceGetHandleByUUID, f"GPU-{uuid}")
        index = None if handle is None else self._ask(self._library.nvmlDeviceGetIndex, handle)
        return None if index is None else int(index)

    def condition(self, index: int) -> Condition:
        """Return the current temperature, clock, power, load and throttling of a card."""
        library, handle = self._library, self._library.nvmlDeviceGetHandleByIndex(index)
        celsius = self._ask(library.nvmlDeviceGetTemperature, handle, library.NVML_TEMPERATURE_GPU)
        clock = self._ask(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM)
        power = self._ask(library.nvmlDeviceGetPowerUsage, handle)
        load = self._ask(library.nvmlDeviceGetUtilizationRates, handle)
        reasons = self._ask(library.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
        return Condition(
            temperature_c=celsius,
            clock_hz=clock * MHZ if clock else None,
            power_w=None if power is None else power * MILLI,
            busy_fraction=None if load is None else load.gpu / 100,
            throttling=tuple(name for bit, name in THROTTLING.items() if reasons & bit),
        )

    def _device(self, index: int) -> Device:
        library = self._library
        handle = library.nvmlDeviceGetHandleByIndex(index)
        memory = library.nvmlDeviceGetMemoryInfo(handle)
        capability = self._ask(library.nvmlDeviceGetCudaComputeCapability, handle)
        limit = self._ask(library.nvmlDeviceGetPowerManagementLimit, handle)
        return Device(
            kind=DeviceKind.CUDA,
            index=index,
            name=_text(library.nvmlDeviceGetName(handle))[:100],
            driver=_text(library.nvmlSystemGetDriverVersion())[:300],
            memory_bytes=float(memory.total),
            free_bytes=float(memory.free),
            compute_capability=".".join(map(str, capability)) if capability else None,
            power_limit_w=limit * MILLI if limit else None,
            pcie_generation=self._ask(library.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            pcie_lanes=self._ask(library.nvmlDeviceGetMaxPcieLinkWidth, handle),
            nvlink_peers=self._peers(index, handle),
            mig_slices=self._slices(handle),
            condition=self.condition(index),
        )

    def _peers(self, index: int, handle: object) -> tuple[int, ...]:
        """Return the cards at the other ends of the links, or the card itself behind a switch."""
        library = self._library
        by_bus = {
            _text(info.busId): other
            for other in range(int(library.nvmlDeviceGetCount()))
            if (
                info := self._ask(
                    library.nvmlDeviceGetPciInfo, library.nvmlDeviceGetHandleByIndex(other)
                )
            )
        }
        found = set()
        for link in range(int(library.NVML_NVLINK_MAX_LINKS)):
            if self._ask(library.nvmlDeviceGetNvLinkState, handle, link):
                remote = self._ask(library.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
                found.add(by_bus.get(_text(remote.busId), index) if remote else index)
        return tuple(sorted(found))

    def _slices(self, handle: object) -> tuple[str, ...]:
        library = self._library
        mode = self._ask(library.nvmlDeviceGetMigMode, handle)
        if not mode or mode[0] != library.NVML_DEVICE_MIG_ENABLE:
            return ()
        names = []
        for place in range(int(self._ask(library.nvmlDeviceGetMaxMigDeviceCount, handle) or 0)):
            part = self._ask(library.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
            if part is not None:
                names.append(_text(library.nvmlDeviceGetName(part))[:100])
        return tuple(names[:16])

    def _ask(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Return the driver's answer; None if this card or driver does not support the query."""
        try:
            return function(*arguments)
        except self._library.NVMLError:
            return None


def _sentence(library: Any, error: Exception) -> str:
    """Return the reason why NVML did not start."""
    if isinstance(error, library.NVMLError_LibraryNotFound):
        return "no NVIDIA driver was found (NVML, its library, is missing)"
    if isinstance(error, library.NVMLError_DriverNotLoaded):
        return "the NVIDIA driver is installed but not loaded: no device answers"
    return f"the NVIDIA driver does not answer: {error}"[:300]


def _text(value: str | bytes) -> str:
    """Return text, also for older versions of the binding, which return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def read_smi(text: str) -> tuple[Device, ...]:
    """Read the cards from the output of ``nvidia-smi`` without options; the rest stays unknown.

    Raises InputError if the text contains no card.
    """
    text = text[:MAX_CHARACTERS]
    names, states = list(NAMED.finditer(text)), list(STATED.finditer(text))
    if not names or len(names) != len(states):
        raise refusal("no_card_in_text", value=text[:60])
    driver = DRIVER.search(text)
    return tuple(
        Device(
            kind=DeviceKind.CUDA,
            index=int(name["index"]),
            name=name["name"].removesuffix("..."),
            driver=driver[1] if driver else "",
            memory_bytes=max(1.0, float(state["total"])) * MIB,
            free_bytes=max(0.0, float(state["total"]) - float(state["used"])) * MIB,
            power_limit_w=float(state["watts"]) if state["watts"].isdigit() else None,
            condition=Condition(
                temperature_c=min(200.0, float(state["celsius"])),
                busy_fraction=min(1.0, float(state["load"]) / 100)
                if state["load"].isdigit()
                else None,
            ),
        )
        for name, state in zip(names, states, strict=True)
    )
