"""A sweep on a real Dask cluster of two worker processes, one of them killed in the middle."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import advisor
from advisor.errors import AdvisorError, InputError
from advisor.sweeps.crew import dask_address
from tests.sweeps.test_sweep import GRID

pytest.importorskip("distributed")
LENGTHS = {"from": 512, "to": 8192, "step": 256}
QUESTIONS = GRID | {"workload": GRID["workload"] | {"method": "lora", "sequence_length": LENGTHS}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers: its address, and the workers."""
    told = tmp_path / "scheduler.json"
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    processes = [start("dask_scheduler", "--port", "0", "--scheduler-file", str(told), *here)]
    try:
        until(told.exists)
        until(lambda: told.read_text(encoding="utf-8").endswith("}"))
        address = json.loads(told.read_text(encoding="utf-8"))["address"]
        single = ["--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path)]
        processes += [start("dask_worker", address, *single, *here) for _ in range(2)]
        yield address.replace("tcp://", "dask://"), processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def until(true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_cluster_gives_the_same_rows_though_a_worker_dies(cluster) -> None:
    address, workers = cluster
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if done > total // 4 and workers[0].poll() is None:
            workers[0].kill()

    rows = advisor.sweep(QUESTIONS, on=address, progress=progress)

    assert workers[0].poll() is not None
    assert workers[1].poll() is None
    assert seen[-1] == len(rows) == 372
    pd.testing.assert_frame_equal(rows, advisor.sweep(QUESTIONS, workers=1))


def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(AdvisorError, match=r"scheduler .* cannot be reached"):
        advisor.sweep(GRID, on="dask://127.0.0.1:1")


@pytest.mark.parametrize(
    "text",
    ["", "nowhere", "http://h:1", "dask://h", "dask://u:p@h:1", "dask://h:x", "dask://h:1/x"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="dask://HOST:PORT"):
        dask_address(text)


def test_a_cluster_has_its_own_number_of_workers() -> None:
    with pytest.raises(InputError, match="its own workers"):
        advisor.sweep(GRID, on="dask://127.0.0.1:1", workers=2)
