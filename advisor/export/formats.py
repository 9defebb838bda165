"""The export formats: launch configurations and reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from advisor.errors import InputError
from advisor.foundation.names import check_known
from advisor.foundation.noun import Noun
from advisor.nouns.software.tools import spelled


class Format(StrEnum):
    """A format that ``export`` writes: programs that serve and train, clusters, guides, reports."""

    VLLM = "vllm"
    """Shell script that serves with vLLM; every machine runs the same one."""
    SGLANG = "sglang"
    TENSORRT_LLM = "tensorrt-llm"
    LLAMA_CPP = "llama-cpp"
    OLLAMA = "ollama"
    TEI = "tei"
    """Text Embeddings Inference."""
    INFINITY = "infinity"
    FASTER_WHISPER = "faster-whisper"
    WHISPER_CPP = "whisper-cpp"
    DIFFUSERS = "diffusers"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"
    TRITON = "triton"
    """NVIDIA's inference server."""
    TORCHRUN = "torchrun"
    """Shell script that trains; every machine runs the same one."""
    ACCELERATE = "accelerate"
    """Configuration of Hugging Face Accelerate."""
    DEEPSPEED = "deepspeed"
    """Configuration of DeepSpeed."""
    UNSLOTH = "unsloth"
    """Python script that fine-tunes with Unsloth."""
    AXOLOTL = "axolotl"
    LLAMA_FACTORY = "llama-factory"
    TORCHTUNE = "torchtune"
    TORCHTITAN = "torchtitan"
    """Shell script that pretrains with torchtitan."""
    GAUDI = "gaudi"
    """Shell script that trains with Optimum Habana."""
    MAXTEXT = "maxtext"
    """Shell script that trains with MaxText."""
    MLX = "mlx-lm"
    """Configuration of ``mlx_lm.lora``, for Apple's chips."""
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    SKYPILOT = "skypilot"
    COMPOSE = "compose"
    """Docker Compose."""
    DSTACK = "dstack"
    CHECKLIST = "checklist"
    """Steps from an empty machine to the plan's run (Markdown)."""
    CHECK_SCRIPT = "check-script"
    """Shell script that says what a machine lacks for the plan."""
    MARKDOWN = "markdown"
    HTML = "html"
    """Report on A4 pages; a browser's print dialog saves it as PDF."""
    JSON = "json"
    CSV = "csv"


class Kind(NamedTuple):
    """Title, file name and media type of a format."""

    title: str
    file_name: str
    media_type: str


KINDS: Final = {
    Format.HTML: Kind("Report to print or save as PDF (HTML)", "report.html", "text/html"),
    Format.MARKDOWN: Kind("Report (Markdown)", "report.md", "text/markdown"),
    Format.CSV: Kind("Every configuration as figures (CSV)", "report.csv", "text/csv"),
    Format.JSON: Kind("The whole answer (JSON)", "report.json", "application/json"),
    Format.VLLM: Kind("Launch with vLLM (shell)", "serve.sh", "text/x-shellscript"),
    Format.SGLANG: Kind("Launch with SGLang (shell)", "serve.sh", "text/x-shellscript"),
    Format.TENSORRT_LLM: Kind("Launch with TensorRT-LLM (shell)", "serve.sh", "text/x-shellscript"),
    Format.LLAMA_CPP: Kind("Launch with llama.cpp (shell)", "serve.sh", "text/x-shellscript"),
    Format.OLLAMA: Kind("Launch with Ollama (shell)", "serve.sh", "text/x-shellscript"),
    Format.TEI: Kind("Launch with TEI (shell)", "serve.sh", "text/x-shellscript"),
    Format.INFINITY: Kind("Launch with Infinity (shell)", "serve.sh", "text/x-shellscript"),
    Format.FASTER_WHISPER: Kind(
        "Launch with faster-whisper (shell)", "serve.sh", "text/x-shellscript"
    ),
    Format.WHISPER_CPP: Kind("Launch with whisper.cpp (shell)", "serve.sh", "text/x-shellscript"),
    Format.DIFFUSERS: Kind("Launch with Diffusers (shell)", "serve.sh", "text/x-shellscript"),
    Format.ONNXRUNTIME: Kind("Launch with ONNX Runtime (shell)", "serve.sh", "text/x-shellscript"),
    Format.OPENVINO: Kind("Launch with OpenVINO (shell)", "serve.sh", "text/x-shellscript"),
    Format.TRITON: Kind("Launch with Triton (shell)", "serve.sh", "text/x-shellscript"),
    Format.TORCHRUN: Kind("Launch with torchrun (shell)", "train.sh", "text/x-shellscript"),
    Format.ACCELERATE: Kind("Accelerate (YAML)", "accelerate.yaml", "application/yaml"),
    Format.DEEPSPEED: Kind("DeepSpeed (JSON)", "ds_config.json", "application/json"),
    Format.UNSLOTH: Kind("Unsloth (Python)", "train_unsloth.py", "text/x-python"),
    Format.AXOLOTL: Kind("Axolotl (YAML)", "axolotl.yaml", "application/yaml"),
    Format.LLAMA_FACTORY: Kind("LLaMA-Factory (YAML)", "llama_factory.yaml", "application/yaml"),
    Format.TORCHTUNE: Kind("torchtune (YAML)", "torchtune.yaml", "application/yaml"),
    Format.TORCHTITAN: Kind("Launch with torchtitan (shell)", "train.sh", "text/x-shellscript"),
    Format.GAUDI: Kind("Gaudi: Optimum Habana (shell)", "train.sh", "text/x-shellscript"),
    Format.MAXTEXT: Kind("TPU: MaxText (shell)", "train.sh", "text/x-shellscript"),
    Format.MLX: Kind("Apple: MLX-LM (YAML)", "mlx_lora.yaml", "application/yaml"),
    Format.SLURM: Kind("Slurm (sbatch)", "job.sbatch", "text/x-shellscript"),
    Format.KUBERNETES: Kind("Kubernetes (YAML)", "kubernetes.yaml", "application/yaml"),
    Format.SKYPILOT: Kind("SkyPilot (YAML)", "sky.yaml", "application/yaml"),
    Format.CHECKLIST: Kind("Set-up checklist (Markdown)", "setup.md", "text/markdown"),
    Format.CHECK_SCRIPT: Kind("Check of a machine (shell)", "check.sh", "text/x-shellscript"),
    Format.COMPOSE: Kind("Docker Compose (YAML)", "compose.yaml", "application/yaml"),
    Format.DSTACK: Kind("dstack (YAML)", ".dstack.yml", "application/yaml"),
}
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
        kind = KINDS[to]
        return cls(format=to, file_name=kind.file_name, media_type=kind.media_type, content=content)


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
