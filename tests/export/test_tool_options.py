"""Every option and value that a training file names exists in the release that the file installs.

``tool_options.yaml`` lists, for each program, the options that exports write, with the values that
its own source allows. It was extracted from the source of the named release: names and ``choices``
of argument parsers, fields and ``Literal`` types of configuration classes, members of enumerations.

The parsers of TRL, Accelerate and DeepSpeed take the files, too. They need PyTorch, so a plain
development environment skips them. ``.ci/run`` installs the tools at the versions of
``data/launch_versions.yaml``; a processor is enough.
"""

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.errors import InputError
from advisor.export.versions import version_of
from tests.cases import pretrain
from tests.conftest import missing
from tests.export.reading import PROGRAMS, Started, read
from tests.export.test_training_exports import placed, tuned

pytestmark = pytest.mark.slow
LISTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "tool_options.yaml").read_text(encoding="utf-8")
)
TORCHRUN = {"nnodes", "nproc-per-node", "standalone", "node-rank", "master-addr", "master-port"}
INSTRUCT = "meta-llama/Llama-3.1-8B-Instruct"
H100 = {"accelerator": "h100-sxm"}
REQUIRED_BY = "GPU_ADVISOR_REQUIRE_TORCH"
SCRIPTS = {"trl sft": "trl.scripts.sft", "trl dpo": "trl.scripts.dpo"}
OF_TRL, OF_DEEPSPEED, OF_ACCELERATE = 15, 2, 4
"""Files that each tool reads, so that none gets lost."""
STARTER = {*TORCHRUN, "config_file", "num_processes", "num_machines", "machine_rank"}


def further() -> dict[str, tuple[str, dict[str, Any]]]:
    """Cases whose files have options that the pairs do not need."""
    eight, two = {**H100, "count": 8}, {**H100, "count": 2}
    instruct = tuned("llama-3.1-8b", "lora", tokens=20e6)
    moe = pretrain(
        "qwen3-30b-a3b",
        "h200-sxm",
        32,
        tokens=1e9,
        precision="bf16_mixed",
        layout={"tensor": 4, "pipeline": 2, "sharding": "zero1", "recompute": "full"},
    )
    fsdp = {"tensor": 1, "pipeline": 1, "sharding": "zero3", "recompute": "none"}
    small = {"optimizer": "paged_adamw_8bit"}
    dpo = tuned("llama-3.1-8b", "lora", tokens=20e6, preference="dpo")
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "experts": ("torchrun", moe),
        "full sharding": ("torchrun", {**moe, "layout": fsdp}),
        "GPT-2": ("torchrun", pretrain("gpt2", tokens=1e9, hardware=eight)),
        "fp8": ("torchrun", pretrain("llama-3.1-8b", tokens=1e9, precision="fp8", hardware=eight)),
        "FSDP of 16 bits": (
            "torchrun",
            {
                **tuned("llama-3.1-70b", "lora", tokens=20e6),
                "hardware": eight,
                "layout": {"sharding": "zero3"},
            },
        ),
        "Liger": (
            "torchrun",
            {**tuned("llama-3.1-8b", "full", tokens=20e6, software="liger"), "hardware": eight},
        ),
        "one machine of several": (
            "torchrun",
            {**tuned("llama-3.1-8b", "full", tokens=20e6), "hardware": {**H100, "count": 16}},
        ),
        "activations in host memory": (
            "torchrun",
            {
                **instruct,
                "hardware": two,
                "layout": {"offload": ["activations"], "recompute": "full"},
            },
        ),
    }
    long = {**tuned("llama-3.1-70b", "lora", tokens=50e6, sequence_length=131072)}
    for to in ("torchrun", "accelerate"):
        split = {"context": 4, "sharding": "zero3", "recompute": "full"}
        cases[f"long {to}"] = (to, {**long, "hardware": eight, "layout": split})
        whole = tuned("llama-3.1-8b", "full", tokens=50e6, sequence_length=131072)
        cases[f"long full {to}"] = (to, {**whole, "hardware": eight, "layout": split})
    for to in ("torchrun", "axolotl", "llama-factory"):
        cases[f"instruct {to}"] = (to, {**instruct, "hardware": two})
        cases[f"pairs {to}"] = (to, {**dpo, "hardware": two})
        case = tuned("llama-3.1-8b", "full", tokens=20e6, **small)
        cases[f"8-bit states {to}"] = (to, {**case, "hardware": two, "layout": fsdp})
    one = {"hardware": {**H100, "count": 1}}
    for model, method in (("qwen3-30b-a3b", "qlora"), ("gpt-oss-20b", "lora")):
        case = {**tuned(model, method, tokens=1e6), **one}
        for to in ("torchrun", "axolotl", "unsloth"):
            cases[f"{model} {to}"] = (to, case)
    cases["qwen3-30b-a3b llama-factory"] = (
        "llama-factory",
        {**tuned("qwen3-30b-a3b", "qlora", tokens=1e6), **one},
    )
    cases["instruct torchtune"] = ("torchtune", {**instruct, **one})
    cases["instruct unsloth"] = ("unsloth", {**instruct, **one})
    cases["pairs unsloth"] = ("unsloth", {**dpo, **one})
    flux = {"kind": "fine_tuning", "method": "lora", "samples": 5000}
    for name in ("FLUX", "SimpleTuner in 4 bits"):
        own = {"software": "diffusers"} if name == "FLUX" else {"method": "qlora"}
        case = {"model": {"preset": "flux.1-dev"}, "workload": {**flux, **own}}
        cases[name] = ("torchrun", {**case, **one})
    cases["BERT anew"] = ("torchrun", pretrain("bert-base", tokens=1e9, hardware=eight))
    cases["BERT"] = ("torchrun", {**tuned("bert-large", "full", tokens=50e6), **one})
    cases["BGE"] = ("torchrun", {**tuned("bge-m3", "full", tokens=50e6), **one})
    mac = {"hardware": {"accelerator": "apple-m4-max", "count": 1}}
    some = tuned("llama-3.1-8b", "qlora", tokens=1e6, lora_targets=["q", "v", "down"])
    cases["MLX"] = ("mlx-lm", {**some, **mac})
    cases["Gaudi"] = ("gaudi", placed("LoRA 8B", "Gaudi"))
    return cases


PAIRS = {
    f"{to} {vendor} {work}": (to, placed(work, vendor))
    for to, vendor, work in (
        *(("torchrun", "NVIDIA", work) for work in ("LoRA 8B", "QLoRA 70B", "full 8B", "DPO 7B")),
        *(("torchrun", "NVIDIA", work) for work in ("pretrain 1B", "pretrain 70B", "ResNet-50")),
        *(("torchrun", "NVIDIA", work) for work in ("Whisper", "SDXL LoRA", "T5")),
        *(("torchrun", "Gaudi", work) for work in ("ResNet-50", "Whisper")),
        *(("torchrun", "AMD", work) for work in ("pretrain 1B", "pretrain 70B")),
        ("torchrun", "TPU", "pretrain 70B"),
        ("gaudi", "Gaudi", "full 8B"),
        *(("torchrun", "AWS", work) for work in ("LoRA 8B", "full 8B")),
        *((to, "NVIDIA", "QLoRA 70B") for to in ("axolotl", "llama-factory", "torchtune")),
        *((to, "NVIDIA", "full 8B") for to in ("axolotl", "llama-factory", "torchtune")),
        *((to, "NVIDIA", work) for to in ("accelerate",) for work in ("QLoRA 70B", "full 8B")),
    )
}
CASES = {**PAIRS, **further()}


def program_of(text: str, to: str) -> str:
    """Return the name of the list that a file's options stand in."""
    if to in LISTS:
        return to
    words = " ".join(read(text).program)
    names = {
        "trl.scripts.sft": "trl sft",
        "trl.scripts.dpo": "trl dpo",
        "pretrain_gpt": "megatron",
        "run_lora_clm": "gaudi lora",
        "run_clm": "gaudi full",
        "torchtitan": "torchtitan",
        "train_hpu_lazy": "gaudi timm",
        "optimum-habana/examples/speech": "gaudi whisper",
        "pytorch-image-models": "timm",
        "speech": "whisper",
        "run_summarization": "summaries",
        "run_mlm": "masked",
        "diffusers/examples": "diffusers",
        "maxtext": "maxtext",
        "pretrain.py": "transformers",
        "train_embeddings.py": "embeddings",
        "simpletuner": "simpletuner",
        "train_neuron.py": "optimum-neuron",
    }
    return next(name for part, name in names.items() if part in words)


@cache
def written(name: str) -> tuple[str, str]:
    """Return the file of a case, and the program that it is for."""
    to, case = CASES[name]
    checkpoint = INSTRUCT if name.startswith(("instruct", "pairs")) else None
    text = advisor.export(case, to, checkpoint=checkpoint).content
    return text, program_of(text, to)


def used(text: str, to: str) -> Iterator[tuple[str, Any]]:
    """Yield each option of a file with its value; parts of a part as ``part.option``."""
    if to in ("axolotl", "llama-factory", "torchtune", "accelerate", "mlx-lm"):
        yield from flat(yaml.safe_load(text))
        return
    if program_of(text, to) in ("unsloth", "transformers", "embeddings", "optimum-neuron"):
        for line in text.splitlines():
            if re.match(r" +\w+=[^=]", line):
                yield line.strip().partition("=")[0], None
        return
    found = read(text)
    if "config.json" in found.files:
        yield from flat(json.loads(found.files["config.json"]))
    for word in found.program:
        if "=" in word:
            name, _, value = word.partition("=")
            yield name, value
    for name, values in found.options.items():
        if name not in TORCHRUN:
            yield name, values[0] if values else None


def flat(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if name == "deepspeed":
            yield before + name, None  # DeepSpeed's own configuration
        elif isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for item in value:
                yield from flat(item, f"{before}{name}.")
        else:
            yield before + name, value


@pytest.mark.parametrize("name", CASES)
def test_every_option_and_value_is_of_the_release(name: str) -> None:
    text, program = written(name)
    options = LISTS[program]["options"]
    found = list(used(text, CASES[name][0]))
    assert found
    for option, value in found:
        assert option in options, option
        allowed = options[option]
        if allowed is not None and value is not None and not str(value).startswith("$"):
            assert str(value) in map(str, allowed), (option, value)


def test_lists_are_of_the_releases_that_files_install() -> None:
    for name, item in LISTS.items():
        assert item["source"]
        assert item["release"] == version_of(item["package"]), name


def test_every_program_has_a_reader() -> None:
    assert len(PROGRAMS) == 13


@pytest.mark.parametrize(("to", "words"), [("axolotl", "--sharding ddp"), ("unsloth", "one card")])
def test_what_a_program_lacks_is_refused_with_what_works(to: str, words: str) -> None:
    case = tuned("llama-3.1-70b", "qlora", tokens=20e6, preference="dpo")
    case |= {"hardware": {**H100, "count": 2}, "layout": {"sharding": "zero3"}}
    with pytest.raises(InputError, match=words):
        advisor.export(case, to)


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
    of_trl = {name: written(name) for name in CASES if written(name)[1] in SCRIPTS}
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
    of_trl = {name: read(written(name)[0]) for name in CASES if written(name)[1] in SCRIPTS}
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
    of_accelerate = {name: written(name)[0] for name in CASES if written(name)[1] == "accelerate"}
    assert len(of_accelerate) >= OF_ACCELERATE
    for name, text in of_accelerate.items():
        path = tmp_path / "config.yaml"
        path.write_text(text)
        assert load(str(path)).num_processes == yaml.safe_load(text)["num_processes"], name
