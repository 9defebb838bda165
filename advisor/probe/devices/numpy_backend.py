"""Measures the processors of this machine with NumPy and its BLAS."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.probe.devices.backend import Prepared, UnsupportedError, Work, operand_and_result_bytes
from advisor.probe.devices.host import HOST_SAMPLE_S, free_memory_bytes
from advisor.probe.report import Device, NumberFormat, TransferKind

Floats = NDArray[np.float32]

BLOCK_ELEMENTS: Final = 1 << 17
"""Block of a triad. Its intermediate result (512 KiB) stays in the second-level cache, and the
call's fixed cost stays below a few percent of its time."""
RANDOM_ELEMENTS: Final = 1 << 20
"""Random numbers are made once and repeated, because making them takes longer than the test."""


class NumpyBackend:
    """Measures the CPU, only in fp32: BLAS has no kernels for fp16, bf16, fp8 or int8."""

    formats: tuple[NumberFormat, ...] = ("fp32",)
    transfers: tuple[TransferKind, ...] = (TransferKind.COPY, TransferKind.TRIAD)
    sample_s = HOST_SAMPLE_S

    def __init__(self, device: Device) -> None:
        self.device = device
        self._random = np.random.default_rng(0).standard_normal(RANDOM_ELEMENTS, dtype=np.float32)
        workers = device.cores or 1
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

    @property
    def software(self) -> str:
        """Name and version of NumPy and its BLAS."""
        blas = np.show_config("dicts")["Build Dependencies"]["blas"]
        return f"NumPy {np.__version__}, {blas['name']} {blas['version']}"

    def free_bytes(self) -> float:
        """Return the memory that this process may still use. [bytes]"""
        return free_memory_bytes()

    def matmul(self, *, number_format: str, m: int, n: int, k: int, sets: int) -> Prepared:
        """Return a product of random matrices."""
        if number_format != "fp32":
            raise UnsupportedError(f"NumPy's BLAS has no {number_format} product: left out")
        left = [self._filled(m * k).reshape(m, k) for _ in range(sets)]
        right = [self._filled(k * n).reshape(k, n) for _ in range(sets)]
        out = np.empty((m, n), dtype=np.float32)

        def work(call: int) -> None:
            np.matmul(left[call % sets], right[call % sets], out=out)

        return Prepared(work, operand_and_result_bytes(number_format, m, n, k))

    def transfer(self, kind: TransferKind, *, size_bytes: int) -> Prepared:
        """Return ``a = b`` (copy) or ``a = b + 3 c`` (triad) over arrays of that size."""
        elements = size_bytes // 4
        if kind is TransferKind.COPY:
            source, target = self._filled(elements), np.empty(elements, dtype=np.float32)

            def copy(part: slice) -> None:
                np.copyto(target[part], source[part])

            return Prepared(self._spread(copy, elements), 8.0 * elements)
        if kind is TransferKind.TRIAD:
            first, second = self._filled(elements), self._filled(elements)
            result = np.empty(elements, dtype=np.float32)
            factor = np.float32(3.0)

            def triad(part: slice) -> None:
                for begin in range(part.start, part.stop, BLOCK_ELEMENTS):
                    block = slice(begin, min(begin + BLOCK_ELEMENTS, part.stop))
                    np.multiply(second[block], factor, out=result[block])
                    np.add(first[block], result[block], out=result[block])

            return Prepared(self._spread(triad, elements), 12.0 * elements)
        raise UnsupportedError(f"a CPU has no {kind.value.replace('_', ' ')} transfer")

    def tiny(self) -> Prepared:
        """Return an addition of two numbers."""
        one, two = np.ones(1, dtype=np.float32), np.empty(1, dtype=np.float32)

        def work(call: int) -> None:
            np.add(one, one, out=two)

        return Prepared(work, 12.0)

    def elapsed_s(self, work: Work, *, first: int, calls: int) -> float:
        """Run the calls and return their total time. [s]"""
        start = perf_counter()
        for call in range(first, first + calls):
            work(call)
        return perf_counter() - start

    def launch_s(self, work: Work, *, calls: int) -> float:
        """Return the time of the calls; on a CPU nothing runs asynchronously. [s]"""
        return self.elapsed_s(work, first=0, calls=calls)

    def release(self) -> None:
        """Do nothing: Python frees the memory with the last reference."""

    def _filled(self, elements: int) -> Floats:
        """Return random numbers. All processors write them, because the first touch is slow."""
        made = np.empty(elements, dtype=np.float32)

        def fill(part: slice) -> None:
            for begin in range(part.start, part.stop, RANDOM_ELEMENTS):
                end = min(begin + RANDOM_ELEMENTS, part.stop)
                made[begin:end] = self._random[: end - begin]

        self._spread(fill, elements)(0)
        return made

    def _spread(self, task: Callable[[slice], None], elements: int) -> Work:
        """Divide the elements over all processors: one cannot use the full bandwidth."""
        step = -(-elements // self._workers)
        parts = [slice(at, min(at + step, elements)) for at in range(0, elements, step)]
        pool = self._pool

        def work(call: int) -> None:
            if pool is None:
                task(parts[0])
            else:
                list(pool.map(task, parts))

        return work
