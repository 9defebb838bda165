"""The command line as tests run it: in this process with standard input, or as another."""

import io
import os
import subprocess
import sys

import pytest

from tests.cases import tune

CASE = tune("llama-3.1-8b", method="lora", tokens=50e6, limits={"deadline_hours": 24})


def give_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "advisor", *arguments],
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
        encoding="utf-8",
        timeout=200,
    )
