"""The help and docs/cli.md name every command and option, and what they show runs."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from advisor import cli
from advisor.architecture.presets import list_presets, load_preset
from advisor.architecture.table.model import Unit
from advisor.arguments.options import declared_options, described
from advisor.nouns.inputs import Reads
from advisor.nouns.layout import Recompute, Sharding
from advisor.nouns.limits import Objective
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.training_choices import AttentionKernel, Optimizer
from tests.command_line import give_input

pytestmark = pytest.mark.slow

HEAVY = {"numpy", "pydantic", "pandas", "plotly", "rich", "streamlit", "yaml"}
COMMANDS = (
    "recommend",
    "estimate",
    "export",
    "own",
    "fleet",
    "fits",
    "compare",
    "learn",
    "sweep",
    "prices",
    "validate",
    "probe",
    "web",
    "serve-api",
    "mcp",
    "presets",
    "software",
    "schema",
)
CLI_PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_documented(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = CLI_PAGE.read_text(encoding="utf-8")

    assert cli.main([command, "--help"]) == 0
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}

    assert f"`{command}`" in document
    assert options - set(re.findall(r"--[a-z-]+", document)) == set()


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0

    listed = re.findall(r"^    ([a-z-]+)\b", capsys.readouterr().out, flags=re.MULTILINE)
    assert listed == list(COMMANDS)


def test_every_command_has_a_function() -> None:
    assert cli.COMMANDS.keys() == set(COMMANDS)
    for name, module in cli.COMMANDS.items():
        assert callable(
            getattr(import_module(f"advisor.commands.{module}"), name.replace("-", "_"))
        )


def examples(document: str) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", document, flags=re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line[:2] == "$ "]


SECTIONS = re.split(r"^## ", CLI_PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
SHOWN = {section.partition("\n")[0]: examples(section) for section in SECTIONS}


def test_the_page_shows_every_command() -> None:
    shown = {line.split()[1] for lines in SHOWN.values() for line in lines}
    # They need a table of one's own, and run until they are ended.
    assert shown == set(COMMANDS) - {"validate", "serve-api", "mcp"}


def ends_of_families(takes: Unit) -> list[str]:
    """Return the first and the last preset of each family: the others differ in sizes alone."""
    names = list_presets(takes)
    last = {load_preset(name).family: name for name in names}
    first = {load_preset(name).family: name for name in reversed(names)}
    return [name for name in names if name in {*first.values(), *last.values()}]


@pytest.mark.parametrize("section", [name for name, lines in SHOWN.items() if lines])
def test_the_documented_examples_run(
    section: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    [case] = re.findall(r"```yaml\n(.*?)```", "".join(SECTIONS), flags=re.DOTALL)
    (tmp_path / "case.yaml").write_text(case, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda *_: None)
    monkeypatch.setattr("advisor.planning.fits.request.list_presets", ends_of_families)
    monkeypatch.setattr("advisor.foundation.resources.app_path", lambda: tmp_path / "app.py")
    for line in SHOWN[section]:
        program, *words = shlex.split(line)
        if "<" in words:
            give_input(monkeypatch, Path(words[-1]).read_bytes())
            words = words[: words.index("<")]

        code = cli.main(words)

        shown = capsys.readouterr()
        assert (program, code, shown.err) == ("gpu-advisor", 0, ""), line
        assert shown.out or words[0] == "web", line


def test_the_help_names_what_the_case_accepts() -> None:
    options = declared_options(("workload", "layout", "objective"))
    helps = {item.told.flag: described(item) for item in options}

    for option, names in (
        ("--precision", RECIPES),
        ("--optimizer", list(Optimizer)),
        ("--attention", list(AttentionKernel)),
        ("--weights", WEIGHT_FORMATS),
        ("--kv-cache", KV_CACHE_FORMATS),
        ("--sharding", list(Sharding)),
        ("--recompute", list(Recompute)),
        ("--objective", list(Objective)),
    ):
        listed = helps[option].partition(": ")[2].replace(" (default)", "")
        assert listed.replace(" or ", ", ").split(", ") == list(names), option
    assert all(name in helps["--software"] for name in known_stacks())


def test_no_name_is_chosen_without_being_told() -> None:
    options = declared_options(("model", "workload", "limits", "layout", "objective"))
    for item in options:
        if item.reads is Reads.CHOICE and not item.told.sets:
            missing = [name for name in item.choices if name not in described(item)]
            if item.told.many:
                assert missing, f"{item.path}: the help names them all"
                continue
            assert missing == [], item.path


def loaded(*arguments: str) -> set[str]:
    """Modules in the process after a command."""
    script = (
        "import sys; from advisor.cli import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, check=True, text=True
    )

    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert HEAVY & loaded(*arguments) == set()


def test_the_help_of_a_command_loads_the_nouns_alone() -> None:
    """Its options come from them."""
    found = loaded("recommend", "--help")

    assert (HEAVY - {"pydantic"}) & found == set()
    rooms = {name.split(".")[1] for name in found if name.startswith("advisor.")}
    assert rooms == {"arguments", "cli", "errors", "foundation", "nouns", "terminal"}


def test_a_recommendation_loads_only_what_it_needs() -> None:
    """Other families, commands and readers would take a third of the process's time."""
    arguments = ["recommend", "--model", "llama-3.1-8b", "--task", "lora", "--accelerator", "l40s"]
    found = loaded(*arguments)

    assert "advisor.planning.recommend" in found
    rooms = {name.removeprefix("advisor.").partition(".")[0] for name in found}
    assert {"calibration", "charts", "compare", "frames", "owning", "probe", "ui"} & rooms == set()
    assert {
        "advisor.architecture.stack.layers",
        "advisor.architecture.weights.weights_file",
        "advisor.catalog.live.refresh",
        "advisor.planning.fits.request",
    } & found == set()
