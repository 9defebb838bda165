"""The processors and the memory of this machine, as the operating system reports them."""

import platform
import re
from pathlib import Path
from typing import Final

from advisor.foundation.concurrency.processes import usable_cores
from advisor.foundation.units import GIB, KIB
from advisor.probe.report import Condition, Device, DeviceKind

PROC: Final = Path("/proc")
CPU: Final = Path("/sys/devices/system/cpu")
CGROUP: Final = Path("/sys/fs/cgroup")
HOST_SAMPLE_S: Final = 0.001
"""Shorter than a scheduler's time slice of some milliseconds. [s]"""
UNKNOWN_FREE_BYTES: Final = 2.0 * GIB
"""Most memory that a probe takes if the system does not report its free memory. [bytes]"""


def host_device() -> Device:
    """Describe the processors that this process may use."""
    return Device(
        kind=DeviceKind.CPU,
        index=0,
        name=processor_name(),
        driver=f"{platform.system()} {platform.release()}"[:300],
        memory_bytes=_memory("MemTotal") or UNKNOWN_FREE_BYTES,
        free_bytes=free_memory_bytes(),
        cores=usable_cores(),
        cache_bytes=cache_bytes(),
        condition=host_condition(),
    )


def host_condition() -> Condition:
    """Return clock and load of the processors."""
    match = re.search(r"^cpu MHz\s*:\s*([\d.]+)", _text(PROC / "cpuinfo"), re.MULTILINE)
    load = re.match(r"[\d.]+", _text(PROC / "loadavg"))
    busy = min(1.0, float(load[0]) / usable_cores()) if load else None
    return Condition(clock_hz=float(match[1]) * 1e6 if match else None, busy_fraction=busy)


def processor_name() -> str:
    """Return the name of the processors as the system reports it."""
    match = re.search(r"^model name\s*:\s*(.+)$", _text(PROC / "cpuinfo"), re.MULTILINE)
    name = match[1] if match else platform.processor() or platform.machine() or "CPU"
    return name.strip()[:100]


def cache_bytes() -> float | None:
    """Return the size of the last-level cache; None if the system does not report it. [bytes]"""
    sizes = []
    for path in CPU.glob("cpu0/cache/index*/size"):
        match = re.fullmatch(r"(\d+)([KM]?)\s*", _text(path))
        if match:
            sizes.append(float(match[1]) * {"": 1.0, "K": KIB, "M": KIB * KIB}[match[2]])
    return max(sizes, default=None)


def free_memory_bytes() -> float:
    """Return the memory that this process may still use, within machine and container. [bytes]"""
    free = _memory("MemAvailable")
    limit, used = _text(CGROUP / "memory.max").strip(), _text(CGROUP / "memory.current").strip()
    inside = float(limit) - float(used) if limit.isdigit() and used.isdigit() else None
    known = [value for value in (free, inside) if value is not None]
    return max(0.0, min(known)) if known else UNKNOWN_FREE_BYTES


def _memory(field: str) -> float | None:
    match = re.search(rf"^{field}:\s*(\d+) kB", _text(PROC / "meminfo"), re.MULTILINE)
    return float(match[1]) * KIB if match else None


def _text(path: Path) -> str:
    """Return the content of a system file; empty if this system does not have it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
