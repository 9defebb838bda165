"""Trainers on top of Hugging Face's: TRL, DeepSpeed, Axolotl, LLaMA-Factory and Unsloth."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.architecture.table.operators import OperatorKind
from advisor.estimate.training.defaults import usual_loss
from advisor.estimate.training.run import offer_for, software_of
from advisor.export.engines.programs import scores_text
from advisor.export.setup import Setup
from advisor.export.training.model_names import launch_models
from advisor.export.training.sharded import held_apart, uses_deepspeed, uses_fsdp
from advisor.export.training.tool import Tool, fused
from advisor.export.training.words import adapts_all, chats, targets
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.software.tools import known_tools
from advisor.nouns.training_choices import AttentionKernel, CrossEntropy, GradientSync
from advisor.nouns.workload import Serving


def _stack(tool: str, setup: Setup) -> str:
    """Return the stack of a tool's file; DeepSpeed where it holds the states of plain code.

    Fused and compiled code needs Triton, and so a card on which Liger runs.
    """
    assert not isinstance(setup.workload, Serving)
    stack = software_of(setup.workload, setup.model, setup.run.recipe, known_tools()[tool])
    if stack.trainer_options and known_tools()["liger"].support(setup.accelerator):
        return stack.name
    return _unfused(setup)


def _unfused(setup: Setup) -> str:
    return "deepspeed" if uses_deepspeed(setup) else "huggingface"


def _script_stack(setup: Setup) -> str:
    """Return the stack of a script: compiled as in the plan, where the model is one graph."""
    whole = setup.layout.sharding is Sharding.DDP and not setup.layout.offload
    return "compiled" if whole and setup.run.stack.name == "compiled" else _unfused(setup)


def _trainer_stack(setup: Setup) -> str:
    """Return the stack of a script of the Trainer, which takes Liger's kernels too."""
    able = known_tools()["liger"].support(setup.accelerator)
    return "liger" if able and setup.run.stack.name == "liger" else _script_stack(setup)


def _runs_liger(setup: Setup) -> bool:
    """Whether the Trainer puts Liger's kernels in place of the model's."""
    return "use_liger_kernel" in setup.run.stack.trainer_options


def _attention(setup: Setup) -> str:
    """Return the attention that the file asks of transformers."""
    if setup.run.attention is AttentionKernel.EAGER:
        return "eager"
    return launch_models().attention.names.get(setup.model.family, "sdpa")


def _decided(tool: str, setup: Setup) -> Mapping[str, object]:
    """Return what a tool decides; its loss is that of fused kernels if it has no other."""
    loss, _ = usual_loss(tool, setup.run.preference)
    return _attended(setup, fused(loss, waits=uses_fsdp(setup) and setup.run.frozen))


def _attended(
    setup: Setup, decided: Mapping[str, object], fast: tuple[str, ...] = ("sdpa", "flex_attention")
) -> Mapping[str, object]:
    """Return what a program decides, with eager attention in families that take none of `fast`."""
    attends = any(row.kind is OperatorKind.ATTENTION for row in setup.model.operators)
    if _attention(setup) in fast or not attends:
        return decided
    return {**decided, "attention": AttentionKernel.EAGER}


def _both_targets(setup: Setup) -> list[str]:
    """Return adapted matrices joint and apart: Unsloth loads its copy of Phi, which parts them.

    PEFT adapts those that are there (unsloth 2026.10.9, models/mapper.py and llama.py).
    """
    joint, names = targets(setup), launch_models().projections
    parts = names.fused.get(setup.model.family, {})
    return [*joint, *(names.plain[part] for name in joint for part in parts.get(name, ()))]


def _template(setup: Setup) -> str:
    """Return LLaMA-Factory's name of the chat template; empty if it does not name it."""
    if not chats(setup.weights):
        return "empty"
    return launch_models().llama_factory.of(setup.weights) or ""


def _arranged(tool: str, setup: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout as ZeRO or FSDP arranges it, recomputed as the tool does such work."""
    assert not isinstance(setup.workload, Serving)
    held = held_apart(setup, layout)
    offer = offer_for(known_tools()[tool], setup.workload, setup.model)
    if offer is None or held.recompute in offer.recompute:
        return held
    return held.changed(recompute=offer.recompute[0])


def _splits_otherwise(setup: Setup) -> bool:
    """Whether sequences would be split in a way that Accelerate's FSDP does not take."""
    assert not isinstance(setup.workload, Serving)
    offer = offer_for(known_tools()["trl"], setup.workload, setup.model)
    able = offer is not None and "context" in offer.divides and uses_fsdp(setup)
    return setup.layout.context > 1 and not able


def _factory_arranged(setup: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout; activations move to the host's memory only between recomputed blocks."""
    held = held_apart(setup, layout)
    if Offload.ACTIVATIONS not in held.offload:
        return held
    return held.changed(recompute=Recompute.FULL)


def _expert_parameters(setup: Setup) -> tuple[str, ...]:
    """Return the parameters of all routed experts that get adapters, named as in transformers 5."""
    if not setup.run.frozen or setup.model.num_experts == 1:
        return ()
    read = {"gate": "gate_up_proj", "up": "gate_up_proj", "down": "down_proj"}
    names = dict.fromkeys(read[name] for name in setup.run.lora_targets if name in read)
    return tuple(f"mlp.experts.{name}" for name in names)


def _trainer_means(setup: Setup) -> Mapping[str, object]:
    """Return what the Trainer decides; Liger's loss makes no logits of the whole batch."""
    loss = CrossEntropy.LINEAR if _trainer_stack(setup) == "liger" else CrossEntropy.PLAIN
    return _attended(setup, fused(loss))


TRL: Final = Tool(
    "trl",
    facts={
        "attention": _attention,
        "liger_option": _runs_liger,
        "split_unit": lambda setup: 2 * setup.layout.context,
        "splits_otherwise": _splits_otherwise,
        "trainer_options": lambda setup: tuple(
            (f"--{name}", value) for name, value in setup.run.stack.trainer_options.items()
        ),
    },
    chosen_stack=partial(_stack, "trl"),
    arranged=partial(_arranged, "trl"),
    means=partial(_decided, "trl"),
)
DEEPSPEED: Final = Tool(
    "deepspeed", arranged=held_apart, means=lambda _: {"gradient_sync": GradientSync.EACH}
)
"""Its configuration for a script of one's own."""
AXOLOTL: Final = Tool(
    "axolotl",
    facts={
        "attention": _attention,
        "expert_parameters": _expert_parameters,
    },
    chosen_stack=partial(_stack, "axolotl"),
    arranged=partial(_arranged, "axolotl"),
    means=partial(_decided, "axolotl"),
)
LLAMA_FACTORY: Final = Tool(
    "llama-factory",
    facts={
        "attention": lambda setup: "sdpa" if _attention(setup) == "sdpa" else "disabled",
        "lora_target": lambda setup: "all" if adapts_all(setup) else ",".join(targets(setup)),
        "template": _template,
    },
    chosen_stack=partial(_stack, "llama-factory"),
    arranged=_factory_arranged,
    # It knows no flex attention.
    means=lambda setup: _attended(setup, _decided("llama-factory", setup), ("sdpa",)),
)
TRAINER: Final = Tool(
    "transformers",
    facts={"attention": _attention, "liger_option": _runs_liger},
    chosen_stack=_trainer_stack,
    arranged=held_apart,
    means=_trainer_means,
)
"""A script of its own that pretrains what transformers can build, compiled where the plan is."""
MASKED: Final = replace(
    TRAINER,
    key="masked",
    chosen_stack=_script_stack,
    arranged=lambda _, layout: layout,
    means=lambda setup: _attended(setup, fused(CrossEntropy.PLAIN)),
)
"""Encoders that predict masked tokens."""
EMBEDDINGS: Final = replace(
    MASKED,
    key="embeddings",
    facts={
        **MASKED.facts,
        "even": lambda setup: setup.layout.micro_batch % 2 == 0,
        "pairs": lambda setup: setup.layout.micro_batch // 2,
        "scores": lambda setup: scores_text(setup.model),
    },
)
"""Encoders that embed texts, or score pairs of them."""
UNSLOTH: Final = Tool(
    "unsloth",
    facts={
        "both_targets": _both_targets,
        "families": lambda _: ", ".join(launch_models().usual.unsloth),
        "unknown_family": lambda setup: (
            not any(name in setup.model.family for name in launch_models().usual.unsloth)
        ),
    },
    means=lambda _: fused(None),
)
