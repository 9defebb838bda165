"""Finds the devices of this machine, and a library to measure each."""

import platform
from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import Any

from advisor.errors import ProbeError
from advisor.foundation.record import record
from advisor.probe.devices.backend import Backend
from advisor.probe.devices.host import host_condition, host_device, processor_name
from advisor.probe.devices.numpy_backend import NumpyBackend
from advisor.probe.devices.nvml import Nvml
from advisor.probe.report import Condition, Device, DeviceKind


class Library(StrEnum):
    """The library that measures."""

    AUTO = "auto"
    """PyTorch if it finds an accelerator, otherwise NumPy."""
    NUMPY = "numpy"
    TORCH = "torch"


@record
class Found:
    """Devices of this machine: some can be measured, the others only described."""

    backends: tuple[Backend, ...]
    described: tuple[Device, ...] = ()
    problems: tuple[str, ...] = ()
    conditions: dict[int, Callable[[], Condition]] = field(default_factory=dict)
    """Function that reads temperature, clock and load, by index in ``backends``."""


def find_devices(library: Library = Library.AUTO) -> Found:
    """Find the accelerators, or else the processors.

    Raises ``ProbeError`` if a chosen PyTorch is missing.
    """
    problems: list[str] = []
    nvml = _nvml(problems)
    cards = nvml.devices() if nvml else ()
    torch = None if library is Library.NUMPY else _torch()
    if library is Library.TORCH and torch is None:
        raise ProbeError("PyTorch is not installed: pip install 'gpu-advisor[probe]' adds it")
    if torch is not None:
        found = _accelerators(torch, nvml)
        if found is not None:
            return found
    if cards:
        why = (
            "PyTorch is not installed: pip install 'gpu-advisor[probe]' adds it"
            if torch is None
            else "this PyTorch was built without CUDA, or is hidden from the card"
        )
        if library is Library.NUMPY:
            why = "the chosen library NumPy runs only on processors"
        problems = [*problems, f"{cards[0].name} is here but was not measured: {why}"]
    host = host_device()
    conditions = {0: host_condition}
    if library is Library.TORCH:
        from advisor.probe.devices.torch_backend import TorchBackend

        on_host: Backend = TorchBackend(host, "cpu")
    else:
        on_host = NumpyBackend(host)
    return Found((on_host,), cards, tuple(problems), conditions)


def _nvml(problems: list[str]) -> Nvml | None:
    try:
        return Nvml.open()
    except ProbeError as error:
        problems.append(str(error))
        return None


def _torch() -> Any:
    """Return PyTorch; None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def _accelerators(torch: Any, nvml: Nvml | None) -> Found | None:
    """Return the accelerators that PyTorch can use; one of each name is measured."""
    from advisor.probe.devices.torch_backend import TorchBackend

    if torch.cuda.is_available():
        total = torch.cuda.device_count()
        devices = [_cuda_device(torch, nvml, index) for index in range(total)]
        first = {device.name: place for place, device in reversed(list(enumerate(devices)))}
        chosen = sorted(first.values())
        peers = {place: 0 if place else 1 for place in chosen} if total > 1 else {}
        backends = tuple(
            TorchBackend(devices[place], f"cuda:{place}", peer=peers.get(place)) for place in chosen
        )
        conditions = {
            order: _condition_of(nvml, devices[place]) for order, place in enumerate(chosen)
        }
        rest = tuple(device for place, device in enumerate(devices) if place not in chosen)
        return Found(backends, rest, (), conditions)
    if torch.backends.mps.is_available():
        memory = float(torch.mps.recommended_max_memory())
        device = Device(
            kind=DeviceKind.MPS,
            index=0,
            name=processor_name(),
            driver=f"macOS {platform.mac_ver()[0]}",
            memory_bytes=memory,
            free_bytes=max(0.0, memory - float(torch.mps.driver_allocated_memory())),
        )
        return Found((TorchBackend(device, "mps"),))
    return None


def _condition_of(nvml: Nvml | None, device: Device) -> Callable[[], Condition]:
    if nvml is None or device.kind is not DeviceKind.CUDA:
        return Condition
    return lambda: nvml.condition(device.index)


def _cuda_device(torch: Any, nvml: Nvml | None, place: int) -> Device:
    """Describe a PyTorch device, with further facts about the card from the driver."""
    properties = torch.cuda.get_device_properties(place)
    free, total = torch.cuda.mem_get_info(place)
    rocm = bool(torch.version.hip)
    known = {
        "kind": DeviceKind.ROCM if rocm else DeviceKind.CUDA,
        "name": properties.name[:100],
        "memory_bytes": float(total),
        "free_bytes": float(free),
        "cores": properties.multi_processor_count,
        "cache_bytes": float(properties.L2_cache_size) or None,
        "compute_capability": None if rocm else f"{properties.major}.{properties.minor}",
    }
    index = nvml.index_of(str(properties.uuid)) if nvml and not rocm else None
    if nvml is None or index is None:
        driver = f"HIP {torch.version.hip}" if rocm else f"CUDA {torch.version.cuda}"
        return Device.model_validate({"index": place, "driver": driver, **known})
    return nvml.devices()[index].changed(**known)
