"""The sizes that each mode measures, and the memory that each takes."""

from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.noun import Noun, shipped
from advisor.foundation.record import record
from advisor.foundation.units import MIB
from advisor.probe.devices.backend import ELEMENT_BYTES, RESULT_BYTES
from advisor.probe.report import DeviceKind, Mode, NumberFormat, TransferKind

Shape = tuple[int, int, int]
"""m, n and k of a product of m x k by k x n; m counts tokens."""
Size = Annotated[int, Field(ge=1, le=1_000_000)]
Sizes = dict[Mode, tuple[Size, ...]]


class Products(Noun):
    """Sizes to measure on one kind of device."""

    layers: dict[Mode, tuple[tuple[Size, Size], ...]]
    """Weights: n and k."""
    prefill: Sizes
    squares: Sizes


class ProbeSizes(Noun):
    """Content of the file, which explains its fields."""

    limits_s: dict[Mode, Annotated[float, Field(gt=0, le=3600)]]
    decoding: Sizes
    accelerators: Products
    processors: Products


probe_sizes = shipped("probe_sizes.yaml", ProbeSizes)
"""Returns time limit and products of each mode."""

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
    known = probe_sizes()
    own = known.processors if kind is DeviceKind.CPU else known.accelerators
    tokens = (*known.decoding[mode], *own.prefill[mode])
    found = [(m, n, k) for n, k in own.layers[mode] for m in tokens]
    found += [(size, size, size) for size in own.squares[mode]]
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
