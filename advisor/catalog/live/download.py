"""Reads price files from the network, within bounds of size and time."""

import csv
import io
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import IO, Any, BinaryIO, Final
from urllib.request import Request, urlopen
from zipfile import BadZipFile

from advisor.foundation.names import visible

SILENCE_S: Final = 30.0
"""A server that stays silent for this long has failed. [s]"""
LONGEST_S: Final = 600.0
"""Longest time that one file may take. [s]"""
MOST_BYTES: Final = 30_000_000
"""Largest answer that is held in memory."""
BROKEN: Final = (
    *(ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError),
    *(ValueError, HTTPException, csv.Error, BadZipFile),
)
"""What reading an answer raises if the network fails or the answer has another form."""


class Bounded(io.RawIOBase):
    """A stream that fails after ``most`` bytes or after ``LONGEST_S``."""

    def __init__(self, answer: IO[bytes], most: int) -> None:
        self.answer, self.left, self.end = answer, most, time.monotonic() + LONGEST_S

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; raises OSError past a bound."""
        content = self.answer.read(len(buffer))
        buffer[: len(content)] = content
        self.left -= len(content)
        if self.left < 0 or time.monotonic() > self.end:
            raise OSError("it is too large" if self.left < 0 else "it takes too long")
        return len(content)


@contextmanager
def opened(
    address: str,
    *,
    most: int = MOST_BYTES,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[BinaryIO]:
    """Open an answer of at most ``most`` bytes; a ``body`` is posted. Raises one of `BROKEN`."""
    request = Request(address, data=body, headers={"User-Agent": "gpu-advisor", **(headers or {})})
    with urlopen(request, timeout=SILENCE_S) as answer:
        yield io.BufferedReader(Bounded(answer, most))


def json_at(
    address: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Any:
    """Return a JSON answer, without the JavaScript call that one AWS file wraps around it."""
    with opened(address, body=body, headers=headers) as stream:
        text = stream.read().decode("utf-8-sig").strip()
    return json.loads(text.removeprefix("callback(").rstrip(";").removesuffix(")"))


def reason(error: BaseException) -> str:
    """Return the reason in one line, without addresses, so that equal reasons read the same."""
    cause = getattr(error, "reason", None) or error
    text = getattr(cause, "strerror", None) or str(cause).partition("\n")[0]
    if type(cause).__module__.startswith("requests"):  # its text has address and objects
        text = type(cause).__name__
    if isinstance(cause, LookupError | TypeError | AttributeError):
        text = f"the answer has another form ({text})"
    return visible(str(text)[:120]) or type(error).__name__
