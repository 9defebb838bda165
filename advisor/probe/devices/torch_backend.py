"""Measures NVIDIA, AMD and Apple devices, and processors, with PyTorch."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, TypeVar

from advisor.errors import ProbeError
from advisor.probe.devices import backend
from advisor.probe.devices.host import HOST_SAMPLE_S, free_memory_bytes
from advisor.probe.report import Device, DeviceKind, NumberFormat, TransferKind

T = TypeVar("T")

TYPES: Final = {
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
}
FORMATS: Final[dict[DeviceKind, tuple[NumberFormat, ...]]] = {
    DeviceKind.CUDA: ("bf16", "fp16", "tf32", "fp32", "fp8", "int8"),
    DeviceKind.ROCM: ("bf16", "fp16", "tf32", "fp32", "fp8", "int8"),
    DeviceKind.MPS: ("fp16", "bf16", "fp32"),
    DeviceKind.CPU: ("fp32", "bf16", "int8"),
}
LARGEST_INT8: Final = 127
DEVICE_SAMPLE_S: Final = 0.02


class TorchBackend:
    """One PyTorch device (``cuda:0``, ``mps``, ``cpu``), and a ``peer`` to transfer to."""

    def __init__(self, device: Device, target: str, *, peer: int | None = None) -> None:
        import torch

        self._torch: Any = torch
        self.device = device
        self._target = torch.device(target)
        self._peer = peer
        self._events = device.kind in (DeviceKind.CUDA, DeviceKind.ROCM)

    @property
    def software(self) -> str:
        """Name and version of the library."""
        built = self._torch.version
        runtime = f", HIP {built.hip}" if built.hip else f", CUDA {built.cuda}"
        return f"PyTorch {self._torch.__version__}{runtime if self._events else ''}"

    @property
    def formats(self) -> tuple[NumberFormat, ...]:
        """Number formats to try."""
        return FORMATS[self.device.kind]

    @property
    def transfers(self) -> tuple[TransferKind, ...]:
        """Ways of moving bytes that this device has."""
        within = (TransferKind.COPY, TransferKind.TRIAD)
        if self.device.kind is DeviceKind.CPU:
            return within
        host = (TransferKind.HOST_TO_DEVICE, TransferKind.DEVICE_TO_HOST)
        between = (TransferKind.DEVICE_TO_DEVICE,) if self._peer is not None else ()
        return within + host + between

    @property
    def sample_s(self) -> float:
        """Much longer than the events' resolution of 0.5 us; processors use NumPy's value. [s]"""
        return HOST_SAMPLE_S if self.device.kind is DeviceKind.CPU else DEVICE_SAMPLE_S

    def free_bytes(self) -> float:
        """Return the free memory of the device. [bytes]"""
        if self._events:
            return float(self._torch.cuda.mem_get_info(self._target)[0])
        return free_memory_bytes()  # Apple's processors share the main memory

    def matmul(self, *, number_format: str, m: int, n: int, k: int, sets: int) -> backend.Prepared:
        """Return a product of random matrices in the format."""
        return self._guarded(
            f"{number_format} product of {m} x {k} by {k} x {n}",
            lambda: self._matmul(number_format, m, n, k, sets),
        )

    def _matmul(self, number_format: str, m: int, n: int, k: int, sets: int) -> backend.Prepared:
        torch = self._torch
        left = [self._random(m, k, number_format) for _ in range(sets)]
        # Weights are stored as n x k, as in a linear layer; fp8 kernels need this layout.
        right = [self._random(n, k, number_format).t() for _ in range(sets)]
        if number_format == "fp8":
            one = torch.ones((), device=self._target)

            def call(i: int) -> Any:
                return torch._scaled_mm(
                    left[i], right[i], scale_a=one, scale_b=one, out_dtype=torch.bfloat16
                )
        elif number_format == "int8":

            def call(i: int) -> Any:
                return torch._int_mm(left[i], right[i])
        else:
            out = torch.empty((m, n), dtype=left[0].dtype, device=self._target)

            def call(i: int) -> Any:
                return torch.mm(left[i], right[i], out=out)

        precision = "high" if number_format == "tf32" else "highest"

        def work(index: int) -> None:
            if torch.get_float32_matmul_precision() != precision:
                torch.set_float32_matmul_precision(precision)
            call(index % sets)

        work(0)
        self._synchronize()
        return backend.Prepared(work, backend.operand_and_result_bytes(number_format, m, n, k))

    def transfer(self, kind: TransferKind, *, size_bytes: int) -> backend.Prepared:
        """Return a transfer of arrays of ``size_bytes``."""
        name = f"{kind.value.replace('_', ' ')} of {size_bytes / 1e6:.0f} MB"
        return self._guarded(name, lambda: self._transfer(kind, size_bytes // 4))

    def _transfer(self, kind: TransferKind, elements: int) -> backend.Prepared:
        torch = self._torch
        source = torch.randn(elements, device=self._target)
        size = 4.0 * elements
        if kind is TransferKind.TRIAD:
            other, target = torch.randn_like(source), torch.empty_like(source)
            return backend.Prepared(
                lambda _: torch.add(source, other, alpha=3.0, out=target), 3 * size
            )
        if kind is TransferKind.COPY:
            target = torch.empty_like(source)
            return backend.Prepared(lambda _: target.copy_(source), 2 * size)
        if kind is TransferKind.DEVICE_TO_DEVICE:
            if self._peer is None:
                raise backend.UnsupportedError("there is no second device to copy to")
            remote = torch.empty(elements, device=f"{self._target.type}:{self._peer}")
            return backend.Prepared(lambda _: remote.copy_(source, non_blocking=True), size)
        # Pinned pages, because the device can read only those directly.
        host = torch.randn(elements)
        host = host.pin_memory() if self._events else host
        if kind is TransferKind.HOST_TO_DEVICE:
            return backend.Prepared(lambda _: source.copy_(host, non_blocking=True), size)
        return backend.Prepared(lambda _: host.copy_(source, non_blocking=True), size)

    def tiny(self) -> backend.Prepared:
        """Return an addition to one number."""
        one = self._torch.ones(1, device=self._target)
        return backend.Prepared(lambda _: one.add_(1.0), 8.0)

    def elapsed_s(self, work: backend.Work, *, first: int, calls: int) -> float:
        """Run the calls and return their time, from device events or from the clock. [s]"""
        return self._guarded("measurement", lambda: self._elapsed_s(work, first, calls))

    def _elapsed_s(self, work: backend.Work, first: int, calls: int) -> float:
        self._synchronize()
        if not self._events:
            begin = perf_counter()
            for call in range(first, first + calls):
                work(call)
            self._synchronize()
            return perf_counter() - begin
        events = self._torch.cuda.Event
        with self._torch.cuda.device(self._target):
            start, end = events(enable_timing=True), events(enable_timing=True)
            start.record()
            for call in range(first, first + calls):
                work(call)
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def launch_s(self, work: backend.Work, *, calls: int) -> float:
        """Return the host's time to queue the calls, independent of the device. [s]"""
        self._synchronize()
        begin = perf_counter()
        for call in range(calls):
            work(call)
        queued = perf_counter() - begin
        self._synchronize()
        return queued

    def release(self) -> None:
        """Return cached memory to the device."""
        if self._events:
            self._torch.cuda.empty_cache()

    def _random(self, rows: int, columns: int, number_format: str) -> Any:
        torch = self._torch
        if number_format == "int8":
            return torch.randint(
                -LARGEST_INT8, LARGEST_INT8, (rows, columns), dtype=torch.int8, device=self._target
            )
        kind = getattr(torch, TYPES[number_format])
        return torch.randn(rows, columns, device=self._target, dtype=torch.float32).to(kind)

    def _synchronize(self) -> None:
        if self._events:
            self._torch.cuda.synchronize(self._target)
        elif self.device.kind is DeviceKind.MPS:
            self._torch.mps.synchronize()

    def _guarded(self, what: str, action: Callable[[], T]) -> T:
        """Turn PyTorch's errors into those of the probe."""
        torch = self._torch
        try:
            return action()
        except torch.OutOfMemoryError:
            self.release()
            raise backend.MemoryShortError(
                f"{what}: {self.device.name} ran out of memory; smaller sizes are still measured"
            ) from None
        except (NotImplementedError, TypeError, ValueError, AttributeError) as error:
            raise backend.UnsupportedError(self._lacking(what, error)) from None
        except RuntimeError as error:
            if type(error).__name__ == "AcceleratorError":
                raise ProbeError(
                    f"{what}: {self.device.name} failed: {_first_line(error)}"
                ) from None
            raise backend.UnsupportedError(self._lacking(what, error)) from None

    def _lacking(self, what: str, error: Exception) -> str:
        return f"{what} is not supported on {self.device.name}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:120]
