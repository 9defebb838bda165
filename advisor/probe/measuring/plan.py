"""The sizes that each mode measures, and the memory that each takes."""

from typing import Final

from advisor.foundation.record import record
from advisor.foundation.units import MIB
from advisor.probe.devices.backend import ELEMENT_BYTES, RESULT_BYTES
from advisor.probe.report import DeviceKind, Mode, NumberFormat, TransferKind

LIMITS_S: Final = {Mode.SHORT: 15.0, Mode.NORMAL: 120.0, Mode.THOROUGH: 600.0}
"""Time limit of a whole probe. [s]"""

Shape = tuple[int, int, int]
"""m, n and k of a product of m x k by k x n; m counts tokens."""

DECODING: Final = {
    Mode.SHORT: (1, 4, 16, 64),
    Mode.NORMAL: (1, 4, 16, 32, 64, 128),
    Mode.THOROUGH: (1, 2, 4, 8, 16, 32, 64, 128, 256),
}
"""Tokens of one decoding step. Products this thin are limited by reading their weights."""
GPU_LAYERS: Final = {
    Mode.SHORT: ((4096, 4096),),
    Mode.NORMAL: ((4096, 4096), (14336, 4096)),
    Mode.THOROUGH: ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192)),
}
"""Weights (n, k) of 8B and 70B Llama models (their config.json: hidden and intermediate size)."""
GPU_PREFILL: Final = {
    Mode.SHORT: (512, 4096),
    Mode.NORMAL: (256, 512, 1024, 4096),
    Mode.THOROUGH: (256, 512, 1024, 2048, 4096, 8192),
}
GPU_SQUARES: Final = {
    Mode.SHORT: (1024, 2048, 8192),
    Mode.NORMAL: (512, 1024, 2048, 8192),
    Mode.THOROUGH: (512, 1024, 2048, 4096, 8192, 16384),
}
CPU_LAYERS: Final = {
    Mode.SHORT: ((2048, 2048),),
    Mode.NORMAL: ((2048, 2048), (4096, 4096)),
    Mode.THOROUGH: ((2048, 2048), (4096, 4096), (14336, 4096)),
}
CPU_PREFILL: Final = {Mode.SHORT: (128,), Mode.NORMAL: (128, 512), Mode.THOROUGH: (128, 512)}
CPU_SQUARES: Final = {
    Mode.SHORT: (256, 512, 1024, 2048),
    Mode.NORMAL: (256, 512, 1024, 2048),
    Mode.THOROUGH: (256, 512, 1024, 2048, 4096),
}
STREAM_CACHES: Final = 4
"""STREAM's rule: each array at least four times the last level of cache (McCalpin 1995)."""
LEAST_STREAM_BYTES: Final = int(64 * MIB)
GPU_STREAM_BYTES: Final = int(1024 * MIB)
LINK_BYTES: Final = int(256 * MIB)
"""Size of a transfer between memories, so large that its latency does not count. [bytes]"""
COLD_CACHES: Final = 2
"""Total size of the rotating operands in units of the cache, so that none is still cached."""
MOST_SETS: Final = 64


FEWEST_INT8_ROWS: Final = 17
"""PyTorch's int8 product on a GPU takes more than 16 rows (``torch._int_mm`` of 2.11 on an H200,
2026-11-27)."""


@record
class MatmulTask:
    """One product to measure."""

    number_format: NumberFormat
    m: int
    n: int
    k: int
    sets: int
    """Number of rotating operands."""

    @property
    def flops(self) -> float:
        """Operations of one call. [FLOPs]"""
        return 2.0 * self.m * self.n * self.k

    @property
    def needed_bytes(self) -> float:
        """Memory for the operands, one temporary 32-bit random matrix, and the result. [bytes]"""
        size = ELEMENT_BYTES[self.number_format]
        operands = self.m * self.k + self.k * self.n
        largest = 4 * max(self.m * self.k, self.k * self.n)
        return float(
            self.sets * size * operands
            + largest
            + RESULT_BYTES[self.number_format] * self.m * self.n
        )

    @property
    def title(self) -> str:
        """What is measured, for people."""
        return f"{self.number_format} product, {self.m} x {self.k} by {self.k} x {self.n}"


@record
class TransferTask:
    """One transfer to measure."""

    kind: TransferKind
    size_bytes: int

    @property
    def needed_bytes(self) -> float:
        """Memory for two arrays, or three for a triad. [bytes]"""
        return float(self.size_bytes) * (3 if self.kind is TransferKind.TRIAD else 2)

    @property
    def title(self) -> str:
        """What is measured, for people."""
        return f"{self.kind.value.replace('_', ' ')} of {self.size_bytes / MIB:.0f} MiB"


@record
class LaunchTask:
    """The start of the smallest operation, to measure launch time."""

    needed_bytes: float = 0.0
    title: str = "launch of an operation"


Task = MatmulTask | TransferTask | LaunchTask


def shapes(kind: DeviceKind, mode: Mode) -> tuple[Shape, ...]:
    """Return the products to measure, least work first."""
    cpu = kind is DeviceKind.CPU
    layers, prefill, squares = (
        (CPU_LAYERS, CPU_PREFILL, CPU_SQUARES) if cpu else (GPU_LAYERS, GPU_PREFILL, GPU_SQUARES)
    )
    found = [(m, n, k) for n, k in layers[mode] for m in (*DECODING[mode], *prefill[mode])]
    found += [(size, size, size) for size in squares[mode]]
    return tuple(sorted(set(found), key=lambda shape: (shape[0] * shape[1] * shape[2], shape)))


def rotating_sets(needed: float, cache_bytes: float | None) -> int:
    """Return how many operands must rotate so that none stays in the cache until its next use.

    >>> rotating_sets(10e6, 32e6)
    7
    >>> rotating_sets(100e6, 32e6)
    1
    """
    if cache_bytes is None or needed > COLD_CACHES * cache_bytes:
        return 1
    return min(MOST_SETS, -int(-COLD_CACHES * cache_bytes // needed))


def plan_tasks(
    *,
    kind: DeviceKind,
    mode: Mode,
    formats: tuple[NumberFormat, ...],
    transfers: tuple[TransferKind, ...],
    cache_bytes: float | None,
    sizes: tuple[Shape, ...] | None = None,
) -> tuple[Task, ...]:
    """Return the measurements of a device, the most important first.

    ``cache_bytes`` is its last-level cache; ``sizes`` replaces the mode's products.
    """
    cache = cache_bytes or 0.0
    stream = LEAST_STREAM_BYTES if kind is DeviceKind.CPU else GPU_STREAM_BYTES
    stream = max(stream, int(STREAM_CACHES * cache))
    inside = (TransferKind.COPY, TransferKind.TRIAD)
    tasks: list[Task] = [LaunchTask()]
    tasks += [TransferTask(item, stream if item in inside else LINK_BYTES) for item in transfers]
    for m, n, k in sizes or shapes(kind, mode):
        for number_format in formats:
            if number_format == "int8" and m < FEWEST_INT8_ROWS and kind is not DeviceKind.CPU:
                continue
            operands = ELEMENT_BYTES[number_format] * (m * k + k * n)
            tasks.append(MatmulTask(number_format, m, n, k, rotating_sets(operands, cache_bytes)))
    return tuple(tasks)
