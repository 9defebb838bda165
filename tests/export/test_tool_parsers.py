"""The tools' own parsers take the files that exports write.

TRL, Accelerate and DeepSpeed need PyTorch, so a plain development environment skips these tests.
``.ci/run`` installs the tools at the versions of ``data/launch_versions.yaml``; a processor is
enough.
"""

import functools
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
OF_TRL, OF_DEEPSPEED, OF_ACCELERATE = 15, 2, 4
"""Files that each tool reads, so that none gets lost."""
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


@functools.cache
def written() -> dict[str, tuple[str, str]]:
    """Every file by the name of its case, and the program that it is for."""
    found = {}
    for name, (to, case) in CASES.items():
        checkpoint = INSTRUCT if name.startswith(("instruct", "pairs")) else None
        text = advisor.export(case, to, checkpoint=checkpoint).content
        found[name] = text, program_of(text, to)
    return found


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
def test_trl_takes_the_options(tmp_path: Path) -> None:
    of_trl = {name: file for name, file in written().items() if file[1] in SCRIPTS}
    assert len(of_trl) >= OF_TRL
    for name, (text, program) in of_trl.items():
        found = read(text)
        put(found, tmp_path)
        parser = importlib.import_module(SCRIPTS[program]).make_parser()
        _, training, model, *_ = parser.parse_args_and_config(args=arguments(found))

        batch = int(found.options["per_device_train_batch_size"][0])
        assert training.per_device_train_batch_size == batch, name
        assert model.model_name_or_path == found.options["model_name_or_path"][0], name


@pytest.mark.filterwarnings("ignore")
def test_deepspeed_takes_its_configuration() -> None:
    tool("deepspeed")
    load: Callable[..., Any] = importlib.import_module("deepspeed.runtime.config").DeepSpeedConfig
    of_trl = {name: read(text) for name, (text, program) in written().items() if program in SCRIPTS}
    of_deepspeed = {name: one for name, one in of_trl.items() if "deepspeed" in one.options}
    assert len(of_deepspeed) >= OF_DEEPSPEED
    for name, found in of_deepspeed.items():
        content = json.loads(found.files[found.options["deepspeed"][0]])
        numbers = {key: value for key, value in content.items() if value != "auto"}
        assert load(numbers).zero_config.stage == content["zero_optimization"]["stage"], name


@pytest.mark.filterwarnings("ignore")
def test_accelerate_takes_the_configuration(tmp_path: Path) -> None:
    tool("accelerate")
    load = importlib.import_module("accelerate.commands.config.config_args").load_config_from_file
    of_accelerate = {name: text for name, (text, to) in written().items() if to == "accelerate"}
    assert len(of_accelerate) >= OF_ACCELERATE
    for name, text in of_accelerate.items():
        path = tmp_path / "config.yaml"
        path.write_text(text)
        assert load(str(path)).num_processes == yaml.safe_load(text)["num_processes"], name
