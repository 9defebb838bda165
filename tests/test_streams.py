"""Standard input, output and error that are closed, full, narrow or left by their reader."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.cli import main
from tests.command_line import process

pytestmark = pytest.mark.slow

COMPARE = "compare t4 l4"
EXPORT = "export --model llama-3.1-8b --task lora --tokens 50M --accelerator h100-sxm --to csv"


def shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command under a shell, which redirects."""
    return subprocess.run(
        ["bash", "-c", words.replace("ADVISOR", f"{sys.executable} -m advisor")],
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
        encoding="utf-8",
        timeout=200,
    )


@pytest.mark.parametrize("command", [COMPARE, f"{COMPARE} --json", "presets", "schema", "--help"])
def test_a_full_standard_output_says_so(command: str) -> None:
    done = shell(f"ADVISOR {command} > /dev/full")

    assert done.returncode == 1
    assert done.stderr == (
        "gpu-advisor: error: the answer cannot be written to standard output (No space left on "
        "device). What was printed is not whole. Make room, or send it elsewhere.\n"
    )


def test_a_closed_standard_output_says_so() -> None:
    done = shell(f"ADVISOR {COMPARE} >&-")

    assert (done.returncode, done.stderr) == (
        1,
        "gpu-advisor: error: standard output is closed. Open it: the answer goes there.\n",
    )


@pytest.mark.parametrize("how", ["<&-", "0>/dev/null"])
def test_a_closed_standard_input_says_so(how: str) -> None:
    done = shell(f"ADVISOR recommend - {how}")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("gpu-advisor: error: standard input cannot be read (")
    assert "Pipe the case into the command" in done.stderr


def test_a_closed_standard_input_that_nobody_reads_is_no_matter() -> None:
    done = shell(f"ADVISOR {COMPARE} <&-")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(("command", "code"), [(COMPARE, 0), ("compare nix", 2), ("--nix", 2)])
def test_an_unusable_standard_error_keeps_answer_and_code(
    how: str, command: str, code: int
) -> None:
    done = shell(f"ADVISOR {command} {how}")

    assert done.returncode == code
    assert ("T4" in done.stdout) is (code == 0)
    assert "error" not in done.stdout


def test_nothing_open_at_all_ends_quietly() -> None:
    assert shell(f"ADVISOR {COMPARE} <&- >&- 2>&-").returncode == 1


WINDOWS = (
    *(f"COLUMNS={value}" for value in ("0", "1", "-3", "abc", "²", "", "9" * 30, "9" * 6_000)),
    *("LINES=0", "LINES=²", "TERM=dumb", "NO_COLOR=1", "FORCE_COLOR=1"),
)
"""What the program reads anew for each answer."""
PRINTED = (["compare", "t4", "l4"], ["recommend", "--help"])
PRINTER = f"""
import os, sys
from advisor.cli import main
for setting in sys.argv[1:]:
    name, _, value = setting.partition("=")
    os.environ[name] = value
    for command in {PRINTED}:
        print("\\0", main(command), end="\\0", flush=True)
    del os.environ[name]
"""


def test_no_window_is_too_odd_to_print_to() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTER, *WINDOWS],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=200,
    )
    answers, codes = done.stdout.split("\0")[:-1:2], done.stdout.split("\0")[1::2]

    assert (done.returncode, done.stderr) == (0, "")
    assert codes == [" 0"] * len(WINDOWS) * len(PRINTED)
    assert [answer[:80] for answer in answers if not 400 < len(answer) < 100_000] == []


@pytest.mark.parametrize(
    "setting", ["LC_ALL=C", "PYTHONIOENCODING=ascii", "PYTHONIOENCODING=utf-8:strict"]
)
def test_no_locale_is_too_odd_to_print_in(setting: str) -> None:
    name, _, value = setting.partition("=")
    program = f"from advisor.cli import main\nfor each in {PRINTED}:\n    print('\\0', main(each))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        env={**os.environ, name: value},
        encoding="utf-8",
        timeout=200,
    )
    *answers, last = done.stdout.split("\0 0\n")

    assert (done.returncode, done.stderr, last) == (0, "", "")
    assert len(answers) == len(PRINTED)
    assert all(400 < len(answer) < 100_000 for answer in answers)


def test_a_narrow_window_has_the_answer_too() -> None:
    done = process("recommend", "--model", "llama-3.1-8b", "--task", "lora", COLUMNS="1")

    assert (done.returncode, done.stderr) == (0, "")
    assert "--explain shows" in done.stdout


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/dev/full", "No space left on device"),
        (".", "Is a directory"),
        ("missing/report.csv", "No such file or directory"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_sentence(
    target: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPORT.split(), "--output", str(tmp_path / target)]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"cannot be written ({why})" in said.err
    assert list(tmp_path.iterdir()) == []


def test_an_output_replaces_the_older_file(tmp_path: Path) -> None:
    target = tmp_path / "report.csv"
    target.write_text("old")
    done = process(*EXPORT.split(), "--output", str(target))

    assert (done.returncode, done.stdout) == (0, f"Wrote {target}.\n")
    assert target.read_text(encoding="utf-8").count("\n") > 5
    assert [path.name for path in tmp_path.iterdir()] == ["report.csv"]


def test_the_name_of_an_output_moves_no_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPORT.split(), "--output", str(tmp_path / "a\x1b[2J\nb")]) == 0

    assert capsys.readouterr().out.removesuffix("\n").isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["a\x1b[2J\nb"]


@pytest.mark.parametrize("option", ["--output=", "--output=."])
def test_an_output_without_a_name_is_not_printed_instead(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPORT.split(), option]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert "cannot be written" in said.err


def test_a_report_that_cannot_be_kept_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measuring takes minutes: what was measured is not lost."""
    target = tmp_path / "none" / "probe.json"
    assert main(["probe", "--time-limit=1s", "--library=numpy", "--output", str(target)]) == 1

    said = capsys.readouterr()
    assert "cannot be written" in said.err
    kept = tmp_path / "probe.json"
    kept.write_text(said.out)
    assert main(["probe", "--report", str(kept)]) == 0


def test_files_on_standard_output_keep_every_character(tmp_path: Path) -> None:
    """A range has an en dash, which neither ASCII nor Latin-1 has."""
    target = tmp_path / "report.md"
    report = EXPORT.replace("csv", "markdown").split()
    assert main([*report, "--output", str(target)]) == 0
    written = target.read_text(encoding="utf-8")
    assert "\u2013" in written
    for encoding in ("ascii", "latin-1"):
        done = process(*report, PYTHONIOENCODING=encoding)
        assert (done.returncode, done.stdout) == (0, written)


def test_what_a_c_library_prints_does_not_follow_the_answer() -> None:
    """HiGHS 1.12 prints "HighsMipSolverData::..." (github.com/jump-dev/HiGHS.jl issue 318)."""
    program = (
        "import ctypes, sys, advisor.compare.cards; from advisor import cli\n"
        "compare = sys.modules['advisor.compare.cards']; found = compare.compare_cards\n"
        "def loud(*words, **options):\n"
        "    ctypes.CDLL(None).printf(b'HighsMipSolverData\\n')\n"
        "    return found(*words, **options)\n"
        "compare.compare_cards = loud; sys.argv[1:] = ['compare', 't4', 'l4', '--json']\n"
        "raise SystemExit(cli.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, encoding="utf-8"
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)
