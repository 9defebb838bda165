"""Reads a written file back: which servers it starts, and what they serve.

The script is executed among stub programs, so that the arguments are those that the program gets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from advisor.nouns.precision import WEIGHT_FORMATS
from tests.export.stubs import Stubs

NAMED = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "bitsandbytes": "nf4"}
MAKING = ["-m", "optimum.commands.optimum_cli"]
NAMED |= {"int8": "int8", "fp8": "fp8", "fp8_e4m3": "fp8", "f16": "fp16", "f32": "fp32"}
PROGRAMS = {
    "vllm": "vllm",
    "python3": "sglang",
    "trtllm-serve": "tensorrt-llm",
    "lmdeploy": "lmdeploy",
    "llama-server": "llama-cpp",
    "ollama": "ollama",
    "text-embeddings-router": "tei",
    "infinity_emb": "infinity",
    "whisper-server": "whisper-cpp",
    "tritonserver": "triton",
}
OURS = {"--steps": "diffusers", "--compute-type": "faster-whisper"}
"""Options by which scripts of our own tell what they start."""


@dataclass
class Server:
    """One server, as its arguments say."""

    program: str
    options: dict[str, str]
    tensor: int = 1
    pipeline: int = 1
    copies: int = 1
    experts: bool = False
    context: int | None = None
    sequences: int = 0
    """Of one copy."""
    weights: str | None = None
    """None: what the checkpoint holds."""
    cache: str | None = None
    """None: as the weights are computed."""


def scripts(text: str, to: str) -> Iterator[tuple[str, int]]:
    """Each script of a file, and how often it is started."""
    if to == "kubernetes":
        for item in yaml.safe_load_all(text):
            spec = item["spec"]
            if item["kind"] == "Deployment":
                yield container(spec["template"]), spec["replicas"]
            elif item["kind"] == "LeaderWorkerSet":
                yield container(spec["leaderWorkerTemplate"]["leaderTemplate"]), spec["replicas"]
    elif to == "compose":
        for service in yaml.safe_load(text)["services"].values():
            assert service["entrypoint"] == ["bash", "-c"]
            yield service["command"][0].replace("$$", "$"), 1
    elif to == "skypilot":
        content = yaml.safe_load(text)
        yield content["run"], content["service"]["replicas"]
    elif to == "dstack":
        content = yaml.safe_load(text)
        yield content["commands"][0], content["replicas"]
    else:
        yield text, 1


def container(template: dict[str, Any]) -> str:
    [found] = template["spec"]["containers"]
    first, second, script = found["command"]
    assert (first, second) == ("bash", "-c")
    return re.sub(r"\$\$", "$", script)


def servers(text: str, to: str, stubs: Stubs) -> list[Server]:
    """Every server that a file starts; those of one machine, where the file is for each machine."""
    found = []
    for script, times in scripts(text, to):
        ran = stubs.run(script.replace("/weights", "."))
        for name, *arguments in ran.calls:
            if arguments[:1] in (["list"], ["create"], ["-c"]) or arguments[:2] == MAKING:
                continue
            if name in PROGRAMS:
                program = program_of(name, arguments)
                found += [read(program, arguments, ran.texts)] * times
    return found


def program_of(name: str, arguments: list[str]) -> str:
    """The program that a call starts."""
    if arguments[:1] != ["serve.py"]:
        return PROGRAMS[name]
    options = paired(arguments)
    known = (program for option, program in OURS.items() if option in options)
    return next(known, options.get("--runtime", "openvino"))


def paired(arguments: list[str]) -> dict[str, str]:
    """Options with their values, "" where they have none."""
    result: dict[str, str] = {}
    for index, word in enumerate(arguments):
        if word.startswith("-") and not word[1:2].isdigit():
            later = arguments[index + 1 : index + 2]
            value = later[0] if later and not later[0].startswith("-") else ""
            result[word] = value
    return result


def read(program: str, arguments: list[str], files: dict[str, str]) -> Server:
    options = paired(arguments)
    server = Server(program, options)
    if program == "vllm":
        server.tensor = int(options["--tensor-parallel-size"])
        server.pipeline = int(options["--pipeline-parallel-size"])
        server.copies = int(options["--data-parallel-size"])
        server.experts = "--enable-expert-parallel" in options
        server.context = int(options["--max-model-len"])
        server.sequences = int(options["--max-num-seqs"])
    elif program == "sglang":
        server.copies = int(options["--dp-size"])
        server.experts = "--ep-size" in options
        inside = server.copies if server.experts else 1
        server.tensor = int(options["--tp-size"]) // inside
        server.pipeline = int(options["--pp-size"])
        server.context = int(options["--context-length"])
        server.sequences = int(options["--max-running-requests"]) // server.copies
    elif program == "tensorrt-llm":
        content = yaml.safe_load(files["serve.yaml"])
        server.experts = "moe_expert_parallel_size" in content
        server.tensor = content["tensor_parallel_size"]
        server.pipeline = content["pipeline_parallel_size"]
        server.context, server.sequences = content["max_seq_len"], content["max_batch_size"]
        server.cache = NAMED.get(content["kv_cache_config"]["dtype"])
    elif program == "lmdeploy":
        sizes = (options[name] for name in ("--tp", "--session-len", "--max-batch-size"))
        server.tensor, server.context, server.sequences = map(int, sizes)
    elif program == "llama-cpp":
        server.sequences = int(options["-np"])
        server.context = int(options["-c"]) // server.sequences
        server.weights = gguf_format(options.get("-m") or options["-hf"])
        server.cache = NAMED.get(options["--cache-type-k"])
    elif program == "ollama":
        lines = dict(
            line.removeprefix("PARAMETER ").split(" ", 1)
            for line in files["Modelfile"].splitlines()
        )
        server.context = int(lines["num_ctx"])
        server.weights = gguf_format(lines["FROM"])
    elif program in ("tei", "infinity"):
        server.sequences = int(options.get("--max-batch-requests") or options["--batch-size"])
    elif program == "whisper-cpp":
        server.sequences, server.weights = 1, whisper_format(options["-m"])
    elif program == "triton":
        [batch] = re.findall(r"max_batch_size: (\d+)", files["config.pbtxt"])
        server.sequences = int(batch)
    else:
        server.sequences = int(options.get("--batch", 1))
    named = [options.get(name) for name in ("--quantization", "--dtype", "--compute-type")]
    if weights := next(filter(None, named), None):
        server.weights = NAMED[weights]
    if "--kv-cache-dtype" in options:
        server.cache = NAMED[options["--kv-cache-dtype"]]
    return server


def whisper_format(file: str) -> str:
    """Return what a file of whisper.cpp has: 16 bits in ggml-large-v3.bin, or what it says."""
    packed = gguf_format(file.removesuffix(".bin"))
    return packed if packed in WEIGHT_FORMATS else "fp16"


def gguf_format(name: str) -> str:
    if re.search(r"ggml-org/gpt-oss-\d+b-GGUF$", name):
        return "mxfp4_moe"  # the only file of these repositories
    return re.split(r"[:-]", name.removesuffix(".gguf"))[-1].lower()
