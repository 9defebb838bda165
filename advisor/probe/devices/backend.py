"""The interface that a library must offer so that the probe can measure with it."""

from collections.abc import Callable
from typing import Protocol

from advisor.errors import ProbeError
from advisor.foundation.record import record
from advisor.probe.report import Device, NumberFormat, TransferKind

ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Size of one element of an operand, by format. [bytes]"""
RESULT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2, "int8": 4}
"""Size of one element of the product: 16 bits for fp8 operands, 32 bits for int8. [bytes]"""


def operand_and_result_bytes(number_format: str, m: int, n: int, k: int) -> float:
    """Return the bytes that one product reads and writes: operands and result, each once. [bytes]

    >>> operand_and_result_bytes("int8", 2, 3, 5)
    49.0
    """
    operands = ELEMENT_BYTES[number_format] * (m * k + k * n)
    return float(operands + RESULT_BYTES[number_format] * m * n)


class UnsupportedError(ProbeError):
    """The device or the library does not support the operation, so no other size is tried."""


class MemoryShortError(ProbeError):
    """The device ran out of memory; other sizes are still tried."""


Work = Callable[[int], None]
"""One call. Its argument selects one of the rotating operands."""


@record
class Prepared:
    """Operands on the device, and the call that uses them."""

    work: Work
    moved_bytes: float
    """Bytes read plus bytes written in one call. [bytes]"""


class Backend(Protocol):
    """One library on one device.

    Operands hold random numbers. With zeros, the multipliers would draw less power and clock higher
    than in any real work.
    """

    @property
    def software(self) -> str:
        """Name and version of the library."""

    @property
    def device(self) -> Device:
        """The device that it runs on."""

    @property
    def formats(self) -> tuple[NumberFormat, ...]:
        """Number formats to try."""

    @property
    def transfers(self) -> tuple[TransferKind, ...]:
        """Ways of moving bytes that this device has."""

    @property
    def sample_s(self) -> float:
        """Length of one sample: long enough for the clock, short enough for a quick cancel. [s]"""

    def free_bytes(self) -> float:
        """Return the free memory of the device. [bytes]"""

    def matmul(self, *, number_format: str, m: int, n: int, k: int, sets: int) -> Prepared:
        """Return a product with ``sets`` rotating operands, so that no cache keeps them.

        Raises UnsupportedError if the device or the library does not support the product. Raises
        MemoryShortError if the operands do not fit.
        """

    def transfer(self, kind: TransferKind, *, size_bytes: int) -> Prepared:
        """Return a transfer of arrays of ``size_bytes``.

        Raises UnsupportedError if the device does not have this kind of transfer. Raises
        MemoryShortError if the arrays do not fit.
        """

    def tiny(self) -> Prepared:
        """Return the smallest operation: its time is the time to start it."""

    def elapsed_s(self, work: Work, *, first: int, calls: int) -> float:
        """Run ``calls`` calls one after the other and return their total time. [s]

        Device events measure it, or a clock around a synchronised device.
        """

    def launch_s(self, work: Work, *, calls: int) -> float:
        """Return the host's time to start ``calls`` calls, without waiting for the device. [s]"""

    def release(self) -> None:
        """Free the memory of the operands."""
