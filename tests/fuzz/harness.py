"""Runs inputs under limits and gathers failures into classes."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from advisor.errors import AdvisorError, InputError
from tests.fuzz.answers import BrokenAnswerError, check_message

LONGEST_S: Final = 1.0
"""Processor time of an input that is refused."""
STOPPED_S: Final = 5.0
"""Processor time after which any input is stopped, and its place told."""
MOST_BYTES: Final = 100_000_000
"""What one input may add to the process."""
SAMPLED: Final = 7
"""Memory is measured of one input in so many; by seed and index, so that it repeats."""
STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of input."""

    name: str
    share: int
    """Of 60,000."""
    make: Callable[[Random], Any]
    run: Callable[[Any], None]
    """Raises `AdvisorError` for what it refuses, `BrokenAnswerError` for a breach."""


@dataclass(slots=True)
class Failures:
    """One class of failures: how many, and the smallest of those that show it."""

    count: int
    example: str
    detail: str
    repeat: str


@dataclass(slots=True)
class Found:
    """What a run brought up."""

    inputs: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    largest_bytes: int = 0
    classes: dict[str, Failures] = field(default_factory=dict)

    def note(self, name: str, example: str, detail: str, repeat: str) -> None:
        """Count one failure."""
        self.merge_class(name, Failures(1, example, detail, repeat))

    def merge_class(self, name: str, other: Failures) -> None:
        """Count failures of one class, and keep the smaller example."""
        known = self.classes.get(name)
        if known is None:
            self.classes[name] = other
            return
        smaller = other if len(other.example) < len(known.example) else known
        self.classes[name] = Failures(
            known.count + other.count, smaller.example, smaller.detail, smaller.repeat
        )

    def merge(self, other: Found) -> None:
        """Add what another run brought up."""
        self.inputs += other.inputs
        self.refused += other.refused
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.largest_bytes = max(self.largest_bytes, other.largest_bytes)
        for name, failures in other.classes.items():
            self.merge_class(name, failures)


def run_inputs(kind: Kind, *, seed: int, first: int, count: int) -> Found:
    """Run the inputs ``first`` to ``first + count`` of a kind in an empty folder."""
    found = Found()
    before = Path.cwd()
    # What the process holds already is not walked anew each time that memory is measured.
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder, _apart(folder):
        os.chdir(folder)
        try:
            for index in range(first, first + count):
                _one(kind, seed, index, found)
        finally:
            os.chdir(before)
            gc.unfreeze()
    return found


@contextlib.contextmanager
def _apart(folder: str) -> Iterator[None]:
    """Neither the user's prices nor the hub reach an input, nor an input them."""
    told = {"GPU_ADVISOR_CACHE_DIR": folder, "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _one(kind: Kind, seed: int, index: int, found: Found) -> None:
    source = Random(f"{seed} {kind.name} {index}")
    content = kind.make(source)
    repeat = f"--seed {seed} --only {kind.name} --at {index}"

    def note(name: str, detail: str) -> None:
        found.note(name, shown(content), detail, repeat)

    sampled = index % SAMPLED == 0 and STATUS.exists()
    start_bytes = _watch_memory() if sampled else 0
    refused = False
    start = time.process_time()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, STOPPED_S)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            kind.run(content)
    except AdvisorError as error:
        found.refused += 1
        refused = True
        try:
            check_message(str(error))
        except BrokenAnswerError as breach:
            note(f"{breach.args[0]}, {place(error)}", breach.args[1])
        if isinstance(error, InputError) and not error.remedy:
            note(f"a refusal names no remedy, {place(error)}", str(error))
    except BrokenAnswerError as breach:
        note(f"{breach.args[0]}, {kind.name}", breach.args[1])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - what nobody foresaw is what is looked for
        note(f"{type(error).__name__}, {place(error)}", str(error)[:300])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    took = time.process_time() - start
    found.inputs += 1
    found.slowest_s = max(found.slowest_s, took)
    if refused and took > LONGEST_S:
        note(f"over {LONGEST_S:g} s to refuse, {kind.name}", f"{took:.2f} s")
    if sampled:
        grown = _memory("VmHWM") - start_bytes
        found.largest_bytes = max(found.largest_bytes, grown)
        if grown > MOST_BYTES:
            note(f"over {MOST_BYTES // 10**6} MB, {kind.name}", f"{grown / 1e6:.0f} MB")


class StoppedError(BaseException):
    """An input took far too long; no handler of the project may swallow it."""


def _stop(_number: int, _frame: object) -> None:
    raise StoppedError(f"over {STOPPED_S:g} s")


def _watch_memory() -> int:
    """Forget the peak of the process so far; return its size now. [bytes]"""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def place(error: BaseException) -> str:
    """Return the innermost line of the project that an error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/advisor/" in frame.filename]
    if not ours:
        return "outside the project"
    last = ours[-1]
    return f"{last.filename.rpartition('/advisor/')[2]}:{last.name}"


def shown(content: Any) -> str:
    """Return an input as one line to read, shortened."""
    try:
        text = json.dumps(content)
    except (TypeError, ValueError):
        text = ascii(content)
    return text if len(text) <= 2000 else f"{text[:1200]} ... ({len(text):,} characters)"
