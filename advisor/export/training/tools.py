"""Which training program starts a plan in which format."""

from typing import Final

from advisor.architecture.table.model import Unit
from advisor.errors import refusal
from advisor.export.engines.programs import predicts_tokens
from advisor.export.formats import Format
from advisor.export.setup import Setup
from advisor.export.training.accelerators import GAUDI, MAXTEXT, MLX, NEURON
from advisor.export.training.hugging_face import (
    AXOLOTL,
    DEEPSPEED,
    EMBEDDINGS,
    LLAMA_FACTORY,
    MASKED,
    TRAINER,
    TRL,
    UNSLOTH,
)
from advisor.export.training.megatron import MEGATRON
from advisor.export.training.pytorch import RECURRENT, TORCHTITAN, TORCHTUNE, knows, recurs
from advisor.export.training.samples import (
    DIFFUSERS,
    GAUDI_TIMM,
    GAUDI_WHISPER,
    SIMPLETUNER,
    SUMMARIES,
    TIMM,
    ULTRALYTICS,
    WHISPER,
)
from advisor.export.training.tool import Tool
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tools import known_tools, tool_choice
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import Serving

OWN: Final = {
    Format.ACCELERATE: TRL,
    Format.DEEPSPEED: DEEPSPEED,
    Format.UNSLOTH: UNSLOTH,
    Format.AXOLOTL: AXOLOTL,
    Format.LLAMA_FACTORY: LLAMA_FACTORY,
    Format.TORCHTUNE: TORCHTUNE,
    Format.TORCHTITAN: TORCHTITAN,
    Format.GAUDI: GAUDI,
    Format.MAXTEXT: MAXTEXT,
    Format.MLX: MLX,
}
"""Formats of one program. The others start the program that the plan is for."""


NAMED: Final = {
    "trl": TRL,
    "accelerate": TRL,
    "liger": TRL,
    "deepspeed": TRL,
    "axolotl": AXOLOTL,
    "llama-factory": LLAMA_FACTORY,
    "torchtune": TORCHTUNE,
    "unsloth": UNSLOTH,
    "torchtitan": TORCHTITAN,
    "transformers": TRAINER,
    "megatron-core": MEGATRON,
    "optimum-habana": GAUDI,
    "optimum-neuron": NEURON,
    "maxtext": MAXTEXT,
    "mlx-lm": MLX,
}
"""Tools of ``data/tools.yaml`` that files start."""


def tool_for(setup: Setup, to: Format) -> Tool:
    """Return the program that a file in this format starts."""
    if to in OWN and not (to is Format.GAUDI and setup.model.unit is not Unit.TOKEN):
        return OWN[to]
    assert not isinstance(setup.workload, Serving)
    asked, pretrains = setup.workload.software or "", setup.run.method is None
    text, gpu = setup.model.unit is Unit.TOKEN, MASKED.says.reaches(setup.accelerator)
    if text and gpu and not setup.model.generates:
        return MASKED if predicts_tokens(setup.model) else EMBEDDINGS
    if text and gpu and recurs(setup.model):
        return RECURRENT
    if text and asked in known_tools() and asked not in known_stacks():
        if asked not in NAMED:
            raise refusal(
                "tool_without_export", value=asked, allowed=NAMED, title=known_tools()[asked].title
            )
        return TRAINER if pretrains and NAMED[asked] is TRL else NAMED[asked]
    unit, vendor = setup.model.unit, setup.accelerator.vendor
    gaudi = setup.accelerator.key.startswith("gaudi")
    if unit is not Unit.TOKEN:
        return _for_samples(setup, gaudi=gaudi)
    if gaudi:
        return GAUDI
    if own := {"Google": MAXTEXT, "Apple": MLX, "AWS": NEURON}.get(vendor):
        return own
    return _for_text(setup)


def _for_samples(setup: Setup, *, gaudi: bool) -> Tool:
    if setup.model.denoises:
        used = setup.estimate.software
        return SIMPLETUNER if used and used.name == SIMPLETUNER.key else DIFFUSERS
    if setup.model.unit is Unit.IMAGE:
        yolo = setup.model.family in ULTRALYTICS.says.families
        return ULTRALYTICS if yolo else GAUDI_TIMM if gaudi else TIMM
    if gaudi:
        return GAUDI_WHISPER
    return WHISPER if setup.model.family in tool_choice().speech else SUMMARIES


def trains_on(to: Format, card: Accelerator) -> bool:
    """Whether a training format has files for a card."""
    tools = (OWN[to],) if to in OWN else (*NAMED.values(),)
    return any(tool.says.reaches(card) for tool in tools)


def most_cards(to: Format, limit: int) -> int:
    """Return how many cards a format can start, up to a limit."""
    return 1 if to in (Format.UNSLOTH, Format.MLX) else limit


def _for_text(setup: Setup) -> Tool:
    layout, run = setup.estimate.layout, setup.run
    context = 1 if run.method is FineTuningMethod.FULL else layout.context
    split = layout.tensor * layout.pipeline * context * layout.expert > 1
    if run.frozen:
        if split and run.stack.launcher == "megatron":
            return MEGATRON
        used = setup.estimate.software
        found = NAMED.get(used.name, TRL) if used else TRL
        return TRL if found is MEGATRON else found
    if run.method is None and setup.named is None and setup.accelerator.vendor == "NVIDIA":
        return MEGATRON  # the others read a published model's configuration
    if run.stack.name == "compiled" and (split or run.method is None):
        return TORCHTITAN if split or knows(setup) else TRAINER
    pretrains = run.method is None and "pipeline" in run.stack.divides
    if setup.accelerator.vendor == "AMD" and pretrains:
        return TORCHTITAN
    if pretrains or split or run.stack.launcher == "megatron":
        return MEGATRON
    return TRL if run.method else TRAINER
