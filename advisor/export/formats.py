"""The export formats: launch configurations and reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

from advisor.errors import InputError
from advisor.foundation.names import check_known
from advisor.foundation.noun import Noun
from advisor.nouns.software.tools import spelled


class Format(StrEnum):
    """A format that ``export`` writes, with its title and its file's name.

    Programs that serve, programs that train, clusters, guides, reports. Every machine runs the same
    shell script.
    """

    label: str
    file_name: str

    def __new__(cls, value: str, label: str = "", file_name: str = "") -> Self:
        """Return a member whose text is ``value``."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label, member.file_name = label, file_name
        return member

    VLLM = "vllm", "Launch with vLLM (shell)", "serve.sh"
    SGLANG = "sglang", "Launch with SGLang (shell)", "serve.sh"
    TENSORRT_LLM = "tensorrt-llm", "Launch with TensorRT-LLM (shell)", "serve.sh"
    LMDEPLOY = "lmdeploy", "Launch with LMDeploy (shell)", "serve.sh"
    LLAMA_CPP = "llama-cpp", "Launch with llama.cpp (shell)", "serve.sh"
    OLLAMA = "ollama", "Launch with Ollama (shell)", "serve.sh"
    TEI = "tei", "Launch with TEI (shell)", "serve.sh"
    INFINITY = "infinity", "Launch with Infinity (shell)", "serve.sh"
    FASTER_WHISPER = "faster-whisper", "Launch with faster-whisper (shell)", "serve.sh"
    WHISPER_CPP = "whisper-cpp", "Launch with whisper.cpp (shell)", "serve.sh"
    DIFFUSERS = "diffusers", "Launch with Diffusers (shell)", "serve.sh"
    PYTORCH = "pytorch", "Launch with PyTorch (shell)", "serve.sh"
    ONNXRUNTIME = "onnxruntime", "Launch with ONNX Runtime (shell)", "serve.sh"
    OPENVINO = "openvino", "Launch with OpenVINO (shell)", "serve.sh"
    TRITON = "triton", "Launch with Triton (shell)", "serve.sh"
    TORCHRUN = "torchrun", "Launch with torchrun (shell)", "train.sh"
    ACCELERATE = "accelerate", "Accelerate (YAML)", "accelerate.yaml"
    DEEPSPEED = "deepspeed", "DeepSpeed (JSON)", "ds_config.json"
    UNSLOTH = "unsloth", "Unsloth (Python)", "train_unsloth.py"
    AXOLOTL = "axolotl", "Axolotl (YAML)", "axolotl.yaml"
    LLAMA_FACTORY = "llama-factory", "LLaMA-Factory (YAML)", "llama_factory.yaml"
    TORCHTUNE = "torchtune", "torchtune (YAML)", "torchtune.yaml"
    TORCHTITAN = "torchtitan", "Launch with torchtitan (shell)", "train.sh"
    GAUDI = "gaudi", "Gaudi: Optimum Habana (shell)", "train.sh"
    MAXTEXT = "maxtext", "TPU: MaxText (shell)", "train.sh"
    MLX = "mlx-lm", "Apple: MLX-LM (YAML)", "mlx_lora.yaml"
    SLURM = "slurm", "Slurm (sbatch)", "job.sbatch"
    KUBERNETES = "kubernetes", "Kubernetes (YAML)", "kubernetes.yaml"
    SKYPILOT = "skypilot", "SkyPilot (YAML)", "sky.yaml"
    COMPOSE = "compose", "Docker Compose (YAML)", "compose.yaml"
    DSTACK = "dstack", "dstack (YAML)", ".dstack.yml"
    CHECKLIST = "checklist", "Set-up checklist (Markdown)", "setup.md"
    CHECK_SCRIPT = "check-script", "Check of a machine (shell)", "check.sh"
    MARKDOWN = "markdown", "Report (Markdown)", "report.md"
    HTML = "html", "Report to print or save as PDF (HTML)", "report.html"
    JSON = "json", "The whole answer (JSON)", "report.json"
    CSV = "csv", "Every configuration as figures (CSV)", "report.csv"


MEDIA_TYPES: Final = {
    "html": "text/html",
    "md": "text/markdown",
    "csv": "text/csv",
    "json": "application/json",
    "sh": "text/x-shellscript",
    "yaml": "application/yaml",
    "py": "text/x-python",
    "sbatch": "text/x-shellscript",
    "yml": "application/yaml",
}
"""By the end of a file's name."""
GUIDES: Final = (Format.CHECKLIST, Format.CHECK_SCRIPT)
"""Formats that set a plan up."""
REPORTS: Final = (Format.HTML, Format.MARKDOWN, Format.CSV, Format.JSON)
_ALL: Final = tuple(Format)
_TRAINS, _HOSTS, _GUIDES = map(_ALL.index, (Format.TORCHRUN, Format.SLURM, Format.CHECKLIST))
ENGINES: Final = _ALL[:_TRAINS]
"""Formats that name the program that serves."""
SERVES: Final = (*ENGINES, *_ALL[_HOSTS:_GUIDES])
"""Launch formats for serving."""
APART: Final = (Format.KUBERNETES, Format.SKYPILOT, Format.DSTACK)
"""Of these, the formats that start each replica by itself, on whatever machine holds it."""
TRAINS: Final = _ALL[_TRAINS:_GUIDES]
"""Launch formats for training."""


class Export(Noun):
    """One file to save."""

    format: Format
    file_name: str
    media_type: str
    content: str

    @classmethod
    def of(cls, to: Format, content: str) -> Export:
        """Return the content as a file of this format."""
        media_type = MEDIA_TYPES[to.file_name.rpartition(".")[2]]
        return cls(format=to, file_name=to.file_name, media_type=media_type, content=content)


def cannot(what: str, *, value: object, allowed: str, remedy: str) -> InputError:
    """Return the error for a plan that the launcher cannot start."""
    return InputError(what, value=value, allowed=allowed, remedy=remedy, field="--to")


ALSO: Final = {
    "trtllm": Format.TENSORRT_LLM,
    "k8s": Format.KUBERNETES,
    "docker-compose": Format.COMPOSE,
    "trl": Format.TORCHRUN,
    "megatron": Format.TORCHRUN,
}
"""What people call some formats."""


def format_named(name: str) -> Format:
    """Return the format with this name; raise ``InputError`` if there is none.

    >>> format_named("llama.cpp").value, format_named("K8s").value
    ('llama-cpp', 'kubernetes')
    """
    known = ALSO.get(spelled(name), spelled(name))
    if known not in [*Format]:
        check_known(name, Format, what="format", field="--to")
    return Format(known)
