"""What a library has to offer so that the probe can measure with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from advisor.errors import ProbeError
from advisor.probe.report import Device, NumberFormat, TransferKind

ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Of one operand's element, by format. [bytes]"""
RESULT_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2, "int8": 4}
"""Of one element of the product: fp8 products are written in 16 bits, int8 ones in 32. [bytes]"""


def operand_and_result_bytes(number_format: str, m: int, n: int, k: int) -> float:
    """Return what one product reads and writes: each operand and the result once. [bytes]

    Examples
    --------
    >>> operand_and_result_bytes("int8", 2, 3, 5)
    49.0
    """
    operands = ELEMENT_BYTES[number_format] * (m * k + k * n)
    return float(operands + RESULT_BYTES[number_format] * m * n)


class UnsupportedError(ProbeError):
    """The device or the library lacks this; no other size of it is tried."""


class MemoryShortError(ProbeError):
    """The device ran out of memory in the middle; other sizes are still tried."""


Work = Callable[[int], None]
"""One call; the number says which of the rotating operands it takes."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Operands on the device and the call that uses them."""

    work: Work
    moved_bytes: float
    """Read plus written in one call. [bytes]"""


class Backend(Protocol):
    """One library on one device.

    Operands hold random numbers: multipliers of zeros draw less power and clock higher than any
    real work (a data sheet's rate is then beaten for nothing).
    """

    @property
    def software(self) -> str:
        """Library and version."""

    @property
    def device(self) -> Device:
        """What it runs on."""

    @property
    def formats(self) -> tuple[NumberFormat, ...]:
        """Number formats to try."""

    @property
    def transfers(self) -> tuple[TransferKind, ...]:
        """Ways of moving bytes that exist here."""

    @property
    def sample_s(self) -> float:
        """Length of one sample: long against the clock's resolution, short against a cancel. [s]"""

    def free_bytes(self) -> float:
        """Return what is free on the device now. [bytes]"""

    def matmul(self, *, number_format: str, m: int, n: int, k: int, sets: int) -> Prepared:
        """Return a product with ``sets`` rotating operands, so that no cache keeps them.

        Raises
        ------
        UnsupportedError, MemoryShortError
        """

    def transfer(self, kind: TransferKind, *, size_bytes: int) -> Prepared:
        """Return a movement over arrays of ``size_bytes``.

        Raises
        ------
        UnsupportedError, MemoryShortError
        """

    def tiny(self) -> Prepared:
        """Return the smallest operation, whose time is that of starting it."""

    def elapsed_s(self, work: Work, *, first: int, calls: int) -> float:
        """Run ``calls`` calls one after the other and return their time together. [s]

        By device events, or by a clock around a synchronised device.
        """

    def launch_s(self, work: Work, *, calls: int) -> float:
        """Return the host's time to start ``calls`` calls, the device left behind. [s]"""

    def release(self) -> None:
        """Give the operands' memory back."""
