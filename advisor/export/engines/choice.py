"""Which serving program a file starts, and the plan as that program can state it.

Where a program cannot state a part of a plan, the plan is estimated again as the file says it, so
that a file's head and its options agree.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from advisor.architecture.pairs import writes_apart
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.estimate.batch.forward import generates
from advisor.estimate.results import Estimate
from advisor.estimate.serving.times import cache_format
from advisor.export.engines.tools import Tool, Work, platform_of, tools
from advisor.export.formats import Format, cannot
from advisor.nouns.case import Case, Hardware
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import FORMAT_BYTES, KV_CACHE_FORMATS, WEIGHT_FORMATS
from advisor.nouns.workload import Serving

SPEECH_FAMILIES: Final = ("Whisper",)
"""Families of pairs that vLLM serves (docs/models/supported_models.md of 0.31.0, transcription)."""
GGUF_DEFAULT: Final = "q4_k_m"
"""What ``llama-server -hf`` and Ollama load if nothing else is named (tools/server/README.md)."""
ELSEWHERE: Final = {
    Work.TEXT: "the accelerator's own software, started by hand",
    Work.SPEECH: "whisper.cpp (Apple, processors, any card) or faster-whisper (NVIDIA, processors)",
    Work.EMBEDDINGS: "the model's own code under PyTorch",
    Work.PAIRS: "transformers' pipelines or CTranslate2",
    Work.IMAGES: "diffusers, which holds the pipeline of the model, or ComfyUI",
    Work.NUMBERS: "ONNX Runtime, or Triton Inference Server with an exported model",
}
"""What serves the work if no program of this package does."""
OWN_SOFTWARE: Final = {
    "Gaudi": "vLLM with the plugin vllm-gaudi, in Intel's Gaudi image",
    "AWS": "vLLM with the plugin vllm-neuron, in an AWS Deep Learning Container",
    "Huawei": "vLLM with the plugin vllm-ascend",
    "Tenstorrent": "Tenstorrent's fork of vLLM (tt-inference-server)",
    "Apple": "MLX-LM",
    "Google": "vllm-tpu on TPU v5e and newer",
}
"""What serves text on accelerators for which no format here writes a file."""


class Expressed(NamedTuple):
    """A plan as a program can state it."""

    case: Case
    """The plan in full: hardware, layout and formats."""
    differences: tuple[str, ...]
    """Where it differs from the plan, one sentence each."""


def work_of(model: ModelArchitecture) -> Work:
    """Return what a model does when it serves."""
    if generates(model):
        if not writes_apart(model):
            return Work.TEXT
        return Work.SPEECH if model.family in SPEECH_FAMILIES else Work.PAIRS
    if model.unit is Unit.TOKEN:
        return Work.EMBEDDINGS
    return Work.IMAGES if model.denoises else Work.NUMBERS


def tool_for(
    to: Format, case: Case, model: ModelArchitecture, card: Accelerator | None = None
) -> Tool:
    """Return the program that a format starts.

    Parameters
    ----------
    to : Format
        A program's own format names it. Slurm and its like take the usual one.
    card : Accelerator, optional
        None before a search: then the vendor does not narrow the choice.

    Raises
    ------
    InputError
        If the program does not do this work or does not run on the card. The message names what
        does.
    """
    work, known = work_of(model), tools()
    if to.value in known:
        tool = known[to.value]
        if work not in tool.does or (card is not None and not tool.runs_on(card)):
            raise _unsuited(tool.title, work, case, model, card)
        return tool
    able = _able(work, case, card)
    if not able:
        raise _unsuited("No program that this format starts", work, case, model, card)
    return able[0]


def _able(work: Work, case: Case, card: Accelerator | None) -> list[Tool]:
    """Return the programs that do a work on a card, the usual one first."""
    found = [
        tool
        for tool in tools().values()
        if work in tool.does and (card is None or tool.runs_on(card))
    ]
    assert isinstance(case.workload, Serving)
    wanted = case.workload.weight_format
    gguf = wanted is not None and WEIGHT_FORMATS[wanted].mixture
    return sorted(found, key=lambda tool: tool.reads_gguf is not gguf)


def _unsuited(
    who: str, work: Work, case: Case, model: ModelArchitecture, card: Accelerator | None
) -> Exception:
    able = [tool.name for tool in _able(work, case, card)]
    where = f" on {card.name}" if card else ""
    own = OWN_SOFTWARE.get(platform_of(card)) if card and work is Work.TEXT else None
    instead = own or ELSEWHERE[work]
    return cannot(
        f"{who} does not serve {model.family}{where}",
        value=model.name,
        allowed=f"--to {', '.join(able)}" if able else f"a report; what serves it is {instead}",
        remedy=f"Choose --to {able[0]}." if able else "Export a report, or choose another card.",
    )


def with_default_format(tool: Tool, case: Case, model: ModelArchitecture) -> Case:
    """Return the case with a program's usual weight format, if it leaves the format open.

    A model that is published in fewer bits than 16 keeps its format if the program has it.
    """
    workload = case.workload
    assert isinstance(workload, Serving)
    narrow = model.weight_format in tool.weights and model.weight_format not in FORMAT_BYTES
    if workload.weight_format or not tool.reads_gguf or narrow:
        return case
    return case.model_copy(
        update={"workload": workload.model_copy(update={"weight_format": GGUF_DEFAULT})}
    )


def expressed(tool: Tool, case: Case, plan: Estimate, card: Accelerator) -> Expressed:
    """Return a plan as a program can state it, with the differences.

    Parameters
    ----------
    case : Case
        The question, with lengths fitted to the model.
    plan : Estimate
        One of its answers.
    """
    workload = case.workload
    assert isinstance(workload, Serving)
    differences: list[str] = []
    weights = _weights(tool, plan.precision, card, differences)
    cache = _cache(tool, cache_format(workload, card), differences)
    layout = _layout(tool, plan.layout, differences)
    update: dict[str, object] = {
        "hardware": Hardware(accelerator=plan.accelerator, count=plan.count),
        "layout": layout,
        "workload": workload.model_copy(
            update={"weight_format": weights, "kv_cache_format": cache}
        ),
    }
    return Expressed(case.model_copy(update=update), tuple(differences))


def _weights(tool: Tool, wanted: str, card: Accelerator, differences: list[str]) -> str:
    found = tool.states(wanted)
    if found and (not found.platforms or platform_of(card) in found.platforms):
        return wanted
    taken = tool.instead.get(wanted)
    if taken is None:
        formats = [
            name
            for name, item in tool.weights.items()
            if not item.platforms or platform_of(card) in item.platforms
        ]
        remedy = "Choose one of these --weights"
        if WEIGHT_FORMATS[wanted].mixture:
            remedy += ", or --to llama-cpp or ollama, which read GGUF files"
        raise cannot(
            f"{tool.title} does not take {wanted} weights on {card.name}",
            value=wanted,
            allowed=", ".join(formats),
            remedy=f"{remedy}.",
        )
    differences.append(f"Weights are {taken} instead of {wanted}, which {tool.title} has not.")
    return taken


def _cache(tool: Tool, wanted: str, differences: list[str]) -> str:
    if wanted in tool.cache:
        return wanted
    wide = [name for name in tool.cache if KV_CACHE_FORMATS.get(name) == KV_CACHE_FORMATS["fp16"]]
    taken = wide[0]
    differences.append(
        f"Keys and values are {taken} instead of {wanted}, which {tool.title} has not."
    )
    return taken


def _layout(tool: Tool, wanted: ParallelLayout, differences: list[str]) -> ParallelLayout:
    update: dict[str, int] = {}
    if wanted.tensor > 1 and not tool.tensor and tool.pipeline:
        update = {"tensor": 1, "pipeline": wanted.pipeline * wanted.tensor}
        differences.append(
            f"{tool.title} gives each card whole layers: {update['pipeline']} stages instead of "
            f"{wanted.tensor}-way tensor parallelism."
        )
    if wanted.expert > 1 and not tool.experts:
        update["expert"] = 1
        differences.append(f"{tool.title} does not spread experts over copies of the model.")
    if (wanted.tensor > 1 or wanted.pipeline > 1) and not (tool.tensor or tool.pipeline):
        update = {"tensor": 1, "pipeline": 1, "expert": 1, "data": wanted.accelerators}
        differences.append(f"{tool.title} does not divide a model: each card holds a copy.")
    return wanted.model_copy(update=update) if update else wanted
