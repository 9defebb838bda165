"""Every option and value that a training file names exists in the release that the file installs.

``tool_options.yaml`` lists, for each program, the options that exports write, with the values that
its own source allows. It was extracted from the source of the named release: names and ``choices``
of argument parsers, fields and ``Literal`` types of configuration classes, members of enumerations.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.errors import InputError
from advisor.export.versions import version_of
from tests.cases import pretrain
from tests.export.reading import PROGRAMS, read
from tests.export.test_training_exports import placed, tuned

LISTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "tool_options.yaml").read_text(encoding="utf-8")
)
TORCHRUN = {"nnodes", "nproc-per-node", "standalone", "node-rank", "master-addr", "master-port"}
INSTRUCT = "meta-llama/Llama-3.1-8B-Instruct"
H100 = {"accelerator": "h100-sxm"}


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
        "GPT-2": (
            "torchrun",
            pretrain("gpt2", tokens=1e9, hardware=eight),
        ),
        "fp8": (
            "torchrun",
            pretrain("llama-3.1-8b", tokens=1e9, precision="fp8", hardware=eight),
        ),
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
        "simpletuner": "simpletuner",
    }
    return next(name for part, name in names.items() if part in words)


def used(text: str, to: str) -> Iterator[tuple[str, Any]]:
    """Yield each option of a file with its value; parts of a part as ``part.option``."""
    if to in ("axolotl", "llama-factory", "torchtune", "accelerate", "mlx-lm"):
        yield from flat(yaml.safe_load(text))
        return
    if program_of(text, to) in ("unsloth", "transformers"):
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
    to, case = CASES[name]
    checkpoint = INSTRUCT if name.startswith(("instruct", "pairs")) else None
    text = advisor.export(case, to, checkpoint=checkpoint).content
    options = LISTS[program_of(text, to)]["options"]
    found = list(used(text, to))
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
    assert len(PROGRAMS) == 12


@pytest.mark.parametrize(("to", "words"), [("axolotl", "--sharding ddp"), ("unsloth", "one card")])
def test_what_a_program_lacks_is_refused_with_what_works(to: str, words: str) -> None:
    case = tuned("llama-3.1-70b", "qlora", tokens=20e6, preference="dpo")
    case |= {"hardware": {**H100, "count": 2}, "layout": {"sharding": "zero3"}}
    with pytest.raises(InputError, match=words):
        advisor.export(case, to)
