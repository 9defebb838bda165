"""What the README shows must run as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

import advisor
from advisor.cli import main

FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LONG = ("probe", "sweep", "web")


def blocks(root: Path, language: str) -> list[str]:
    text = (root / "README.md").read_text(encoding="utf-8")
    return [body for name, body in FENCE.findall(text) if name == language]


def commands(root: Path, program: str) -> list[list[str]]:
    found = []
    for block in blocks(root, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == [program]:
                found.append(words)
    return found


def test_every_command_of_the_readme_runs(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    shown = commands(root, "gpu-advisor")
    assert {words[1] for words in shown} == {
        "recommend",
        "estimate",
        "export",
        "own",
        "fleet",
        "compare",
        "sweep",
        "fits",
        "prices",
        "probe",
        "web",
    }
    for words in shown:
        extra = ["--help"] if words[1] in LONG else []
        code = main([*words[1:], *extra])
        said = capsys.readouterr()
        assert code == 0, f"{' '.join(words)}\n{said.err}"
        assert said.out.strip()


def test_the_two_commands_of_the_readme_are_make_targets(root: Path) -> None:
    shown = commands(root, "make")
    assert [words[1] for words in shown] == ["web", "test"]
    for words in shown:
        done = subprocess.run(
            [*words[:1], "--dry-run", words[1]],
            capture_output=True,
            text=True,
            cwd=root,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_python_of_the_readme_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(root, "python")
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - the README is ours
    assert "Rent" in capsys.readouterr().out


def test_the_case_of_the_readme_is_one(root: Path, tmp_path: Path) -> None:
    (text,) = blocks(root, "yaml")
    path = tmp_path / "case.yaml"
    path.write_text(text, encoding="utf-8")
    assert advisor.load_case(path).limits.deadline_hours == 24
