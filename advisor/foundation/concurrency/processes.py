"""Worker processes of this package: how they start and end, and the messages between."""

import contextlib
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import IO, Any


def usable_cores() -> int:
    """Return the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def exchanged(worker: subprocess.Popen[bytes], message: object) -> Any:
    """Send a worker one message and return its answer.

    Raises ``OSError``, ``EOFError`` or ``pickle.UnpicklingError`` if it died.
    """
    assert worker.stdin is not None
    assert worker.stdout is not None
    pickle.dump(message, worker.stdin)
    worker.stdin.flush()
    return pickle.load(worker.stdout)


def started(answer: bytes) -> subprocess.Popen[bytes]:
    """Start a worker (:mod:`advisor.foundation.concurrency.worker`) with its pickled function.

    One that died at once is seen when it is asked. A worker of ``multiprocessing`` would run the
    user's script again, up to its ``__main__`` guard.
    """
    root = str(Path(__file__).resolve().parent.parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    worker = subprocess.Popen(
        # Without -P, a folder `advisor` where the command runs would be imported.
        [sys.executable, "-P", "-m", "advisor.foundation.concurrency.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "OPENBLAS_NUM_THREADS": "1",
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        },
    )
    with contextlib.suppress(OSError):
        worker.stdin.write(answer)  # type: ignore[union-attr]
    return worker


def ended(worker: subprocess.Popen[bytes]) -> None:
    """End a worker, whatever it does."""
    worker.kill()
    worker.wait()
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return the streams from and to the process that started this worker."""
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints, of Python or of C, must not get between the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return sys.stdin.buffer, outgoing
