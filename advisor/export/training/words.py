"""Choices that every training program shares and that no estimate depends on."""

from __future__ import annotations

import re
from math import ceil, floor
from typing import TYPE_CHECKING, Final

from advisor.errors import refusal
from advisor.export.training.model_names import launch_models
from advisor.foundation.units import HOUR_S

if TYPE_CHECKING:
    from advisor.export.setup import Setup

CHATS: Final = re.compile(
    r"instruct|chat|thinking|reasoning|gpt-oss|(^|[-_/])(it|sft|dpo|r1|rl)([-_.]|$)", re.IGNORECASE
)
"""Parts of a name that publishers give to models with a chat template."""
BASE: Final = re.compile(r"(^|[-_/.])(base|pt|pretrained)([-_.]|$)", re.IGNORECASE)
CHATS_UNLESS_BASE: Final = re.compile(
    r"/(Qwen3|SmolLM3|GLM-[45]|Kimi-K2|NVIDIA-Nemotron-3|DeepSeek-V[34]|phi-4|c4ai-command|MiniMax-M2|MiMo-V2)",
    re.IGNORECASE,
)
"""Families whose base models alone say so in their names, or that have none (their pages on
huggingface.co, read 2026-11-22; the last four: templates of LLaMA-Factory 0.9.5,
extras/constants.py)."""
MOST_UNSAVED: Final = 1000
"""Steps between two checkpoints where failures are rare. Assumed."""
ALPHA_PER_RANK: Final = 2
"""As in TRL's defaults: ``lora_alpha`` 32 for ``lora_r`` 16."""
INNER: Final = ("gate_proj", "up_proj", "down_proj")
"""Those of the feed-forward layer."""


def chats(weights: str) -> bool:
    """Whether the name of a model says that it answers in a chat template.

    >>> [chats(name) for name in ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct")]
    [False, True]
    >>> [chats(name) for name in ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-Base", "google/gemma-3-4b-it")]
    [True, False, True]
    """
    if BASE.search(weights):
        return False
    return bool(CHATS.search(weights) or CHATS_UNLESS_BASE.search(f"/{weights.rpartition('/')[2]}"))


def dataset(setup: Setup) -> str:
    """Return a public dataset in the form that the model is trained on."""
    usual = launch_models().usual
    named = usual.alone if setup.run.preference is None else usual.pairs
    return named["chat" if chats(setup.weights) else "text"]


def template_note(setup: Setup) -> str:
    """Return a note on the chat template."""
    if chats(setup.weights):
        return "The model has a chat template, which applies to datasets with dialogues."
    return "A base model has no chat template: its data are plain texts, or prompts and answers."


def rate(setup: Setup) -> str:
    """Return the learning rate."""
    usual, run = launch_models().usual, setup.run
    if run.method is None:
        large = setup.model.total_parameters > usual.large
        return usual.large_rate if large else usual.pretraining_rate
    whole, adapters = usual.rates[run.preference.value if run.preference else "answers"]
    return adapters if run.frozen else whole


def steps(setup: Setup) -> int:
    """Return the optimizer steps of the run."""
    return ceil(setup.run.tokens / setup.run.tokens_per_step)


def warm_up(setup: Setup) -> int:
    """Return the first steps, in which the learning rate rises."""
    usual = launch_models().usual
    return min(usual.most_warm_up, ceil(usual.warm_up * steps(setup)))


def save_steps(setup: Setup) -> int:
    """Return the steps between two checkpoints, by the interval that the estimate counts on.

    Adapters are small, so they are saved every hour.
    """
    time = setup.estimate.time
    if time is None:
        return MOST_UNSAVED
    hourly = HOUR_S if setup.run.frozen else None
    intervals = filter(None, (time.checkpoint_interval_s, setup.kept_s, hourly))
    counts = (floor(interval_s / time.step_s.expected) for interval_s in intervals)
    return max(1, min([MOST_UNSAVED, *counts]))


def targets(setup: Setup) -> tuple[str, ...]:
    """Return the matrices that adapters are on, by their names in transformers.

    Raises InputError if one matrix holds a projection with adapters and one without.
    """
    names, asked = launch_models().projections, setup.run.lora_targets
    rows = {row.name.rpartition(".")[2] for row in setup.model.operators}
    latent = names.latent if "key_value_compress" in rows else {}
    if latent and "query_compress" not in rows:
        latent = latent | {"q": (names.whole_query,)}
    fused = names.fused.get(setup.model.family, {})
    found: list[str] = []
    for target in asked:
        joint = next((name for name, parts in fused.items() if target in parts), None)
        if joint and not set(fused[joint]) <= set(asked):
            raise refusal(
                "targets_in_one_matrix", value=", ".join(asked), setup=setup, together=fused[joint]
            )
        found += (joint,) if joint else latent.get(target, (names.plain[target],))
    return tuple(dict.fromkeys(found))


def adapts_all(setup: Setup) -> bool:
    """Whether adapters are on every projection."""
    return set(setup.run.lora_targets) == set(launch_models().projections.plain)
