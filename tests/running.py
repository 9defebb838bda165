"""Servers that tests start: processes on free ports of the loopback address."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

START_S = 90


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], address: str, *, log: Path | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until an address answers; it ends with the context."""
    with (log or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **environment}
        )
    try:
        wait_until_it_answers(address, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_it_answers(address: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            with urlopen(address, timeout=5):
                return
        except (URLError, OSError):
            assert process.poll() is None, f"the server ended with {process.returncode}"
            assert time.monotonic() < end, f"{address} does not answer"
            time.sleep(0.1)
