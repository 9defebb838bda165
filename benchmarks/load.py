"""Many visitors at once: ``python -m benchmarks.load [--sessions N] [--seconds S]``.

Opens real sessions over websockets on the loopback address. Each changes an input every five
seconds. Prints latency by percentile, errors and memory, for one process and for two behind
nginx.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.replicas import app, behind_nginx, find_nginx, free_port
from benchmarks.sessions import Session

EVERY_S = 5.0
MOST_SESSIONS, MOST_SECONDS = 500, 3_600
OPENED_AT_ONCE = 4
VALUES = 400
"""Different inputs that visitors choose from."""


@dataclass
class Heard:
    """What the visitors saw."""

    seconds: list[float] = field(default_factory=list)
    """From a changed input to the whole answer. [s]"""
    errors: list[str] = field(default_factory=list)
    opened_mb: float = 0.0
    """Memory of the servers once all sessions are open on one question. [MB]"""


async def visitor(session: Session, heard: Heard, end: float, turn: random.Random) -> None:
    """Change an input every few seconds until the end."""
    await asyncio.sleep(turn.uniform(0, EVERY_S))
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            await session.change("Tokens", f"{turn.randrange(1, VALUES)}M")
        except Exception as error:  # noqa: BLE001 - counted
            heard.errors.append(f"{type(error).__name__}: {error}"[:100])
            await session.open()
        spent = time.monotonic() - start
        heard.seconds.append(spent)
        await asyncio.sleep(max(0.0, EVERY_S - spent))


async def load(address: str, sessions: int, seconds: float, processes: list[int]) -> Heard:
    """Open sessions a few at a time, then let all of them ask."""
    heard, gate = Heard(), asyncio.Semaphore(OPENED_AT_ONCE)
    visitors = [Session(address) for _ in range(sessions)]

    async def enter(session: Session) -> None:
        async with gate:
            await session.open()

    await asyncio.gather(*(enter(session) for session in visitors))
    heard.opened_mb = resident_mb(processes)
    end = time.monotonic() + seconds
    await asyncio.gather(
        *(visitor(one, heard, end, random.Random(seed)) for seed, one in enumerate(visitors))
    )
    heard.errors += ["an exception on the page"] * sum(one.exceptions for one in visitors)
    await asyncio.gather(*(session.close() for session in visitors))
    return heard


def resident_mb(processes: list[int]) -> float:
    """Return the memory of processes. [MB]"""
    sizes = 0
    for process in processes:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
        sizes += int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
    return sizes * 1024 / 1e6


def cpu_s(processes: list[int]) -> float:
    """Return the processor time of processes. [s]"""
    ticks = 0
    for process in processes:
        words = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / 100


def report(name: str, address: str, processes: list[int], sessions: int, seconds: float) -> None:
    """Warm up, apply the load and print what it did."""
    asyncio.run(load(address, 4 * len(processes), 0, processes))
    before, spent, start = resident_mb(processes), cpu_s(processes), time.monotonic()
    heard = asyncio.run(load(address, sessions, seconds, processes))
    share = (cpu_s(processes) - spent) / (time.monotonic() - start)
    grown = (heard.opened_mb - before) / sessions
    marks = statistics.quantiles(heard.seconds, n=100) if len(heard.seconds) > 1 else [0.0] * 99
    print(
        f"{name}: {sessions} sessions, {len(heard.seconds)} answers in {seconds:g} s; "
        f"latency p50 {marks[49]:.2f} s, p95 {marks[94]:.2f} s, p99 {marks[98]:.2f} s; "
        f"{len(heard.errors)} errors; {share:.2f} cores; {before:.0f} MB before, "
        f"{grown:.2f} MB for each session, {resident_mb(processes):.0f} MB at the end"
    )
    for text in sorted(set(heard.errors))[:3]:
        print(f"  {text}")


def main() -> int:
    """Measure one process, then two behind nginx."""
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument("--sessions", type=int, default=25, help="visitors of one process (25)")
    parser.add_argument("--seconds", type=float, default=60, help="of load (60)")
    given = parser.parse_args()
    sessions = min(max(1, given.sessions), MOST_SESSIONS)
    seconds = min(max(1.0, given.seconds), MOST_SECONDS)
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        with app(folder, port) as process:
            report("one process", f"http://127.0.0.1:{port}", [process.pid], sessions, seconds)
        if find_nginx() is None:
            print("two processes: nginx is not installed", file=sys.stderr)
            return 0
        with behind_nginx(folder) as replicas:
            processes = [one.pid for one in replicas.processes.values()]
            for visitors in (sessions, 2 * sessions):
                report("two behind nginx", replicas.address, processes, visitors, seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
