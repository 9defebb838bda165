"""The tools' own parsers take the files that exports write.

TRL, Accelerate and DeepSpeed need PyTorch, so a plain development environment skips these tests.
``.ci/run`` installs the tools at the versions of ``data/launch_versions.yaml``; a processor is
enough.
"""

import importlib
import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.export.versions import version_of
from tests.conftest import missing
from tests.export.reading import Started, read
from tests.export.test_tool_options import CASES, INSTRUCT, TORCHRUN, program_of

REQUIRED_BY = "GPU_ADVISOR_REQUIRE_TORCH"
SCRIPTS = {"trl sft": "trl.scripts.sft", "trl dpo": "trl.scripts.dpo"}
STARTER = {*TORCHRUN, "config_file", "num_processes", "num_machines", "machine_rank"}


def tool(name: str) -> Any:
    """Return a tool, or skip with the reason."""
    try:
        installed = version(name)
    except PackageNotFoundError:
        missing(f"{name} is not installed: it needs PyTorch", required_by=REQUIRED_BY)
    if installed != version_of(name):
        missing(
            f"{name} {installed} is not {version_of(name)}, which files install",
            required_by=REQUIRED_BY,
        )
    return importlib.import_module(name)


def written(name: str) -> tuple[str, str]:
    """Return a file and the program that it is for."""
    to, case = CASES[name]
    checkpoint = INSTRUCT if name.startswith(("instruct", "pairs")) else None
    text = advisor.export(case, to, checkpoint=checkpoint).content
    return text, program_of(text, to)


OF_TRL = [name for name in CASES if written(name)[1] in SCRIPTS]
OF_ACCELERATE = [name for name in CASES if written(name)[1] == "accelerate"]
OF_DEEPSPEED = [name for name in OF_TRL if "deepspeed" in read(written(name)[0]).options]


def arguments(found: Started) -> list[str]:
    """Return the script's own arguments, without the starter's."""
    return [
        word
        for name, values in found.options.items()
        if name not in STARTER
        for word in (f"--{name}", *values)
    ]


def put(found: Started, folder: Path) -> None:
    """Write the files that a script writes before it starts."""
    for name, content in found.files.items():
        (folder / name).write_text(content)


@pytest.fixture
def with_a_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let TRL and Transformers believe in a card, for they refuse bf16 without one."""
    tool("trl")
    training_args = importlib.import_module("transformers.training_args")
    monkeypatch.setattr(training_args, "is_torch_bf16_gpu_available", lambda: True)
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("with_a_card")
@pytest.mark.parametrize("name", OF_TRL)
def test_trl_takes_the_options(name: str, tmp_path: Path) -> None:
    text, program = written(name)
    found = read(text)
    put(found, tmp_path)

    parser = importlib.import_module(SCRIPTS[program]).make_parser()
    _, training, model, *_ = parser.parse_args_and_config(args=arguments(found))

    assert training.per_device_train_batch_size == int(
        found.options["per_device_train_batch_size"][0]
    )
    assert model.model_name_or_path == found.options["model_name_or_path"][0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_DEEPSPEED)
def test_deepspeed_takes_its_configuration(name: str) -> None:
    found = read(written(name)[0])
    tool("deepspeed")
    load: Callable[..., Any] = importlib.import_module("deepspeed.runtime.config").DeepSpeedConfig
    content = json.loads(found.files[found.options["deepspeed"][0]])
    numbers = {key: value for key, value in content.items() if value != "auto"}

    taken = load(numbers)

    assert taken.zero_config.stage == content["zero_optimization"]["stage"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_ACCELERATE)
def test_accelerate_takes_the_configuration(name: str, tmp_path: Path) -> None:
    tool("accelerate")
    path = tmp_path / "config.yaml"
    path.write_text(written(name)[0])
    load = importlib.import_module("accelerate.commands.config.config_args").load_config_from_file

    taken = load(str(path))

    assert taken.num_processes == yaml.safe_load(path.read_text())["num_processes"]
