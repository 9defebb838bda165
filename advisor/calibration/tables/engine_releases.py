"""What earlier releases of the serving engines did otherwise when they sized their cache.

The shipped facts are today's vLLM's. A log tells which release wrote it; what changed since then
stands in that engine's own source, which each constant names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from advisor.calibration.tables.reading import Row, cell, integer
from advisor.nouns.engines import ServingFacts

Release = tuple[int, int]

CUT_PROMPTS: Final[Release] = (0, 8)
"""vLLM's second engine, the default from 0.8 on, cuts prompts into steps of ``batched_tokens``."""
WHOLE_PROMPT_TOKENS: Final = 32768
"""Before that, an engine sized itself for one prompt of the whole context, up to this length;
for longer contexts it cut prompts too, and then sampled nothing while it sized itself
(vllm/engine/arg_utils.py, worker/model_runner.py, releases 0.5 to 0.7)."""
LEAST_STEP_TOKENS: Final = 2048
MORE_SEQUENCES: Final[Release] = (0, 9)
"""Large cards take 1,024 sequences from here on, 256 before; the A100 keeps the smaller limits
(vllm/engine/arg_utils.py, pull request 17885)."""
COUNTS_OWN: Final[Release] = (0, 4)
"""Before that, all that was not free counted, the driver's context too (vllm/worker/worker.py:
``total_gpu_memory - free_gpu_memory``)."""
UNSORTED: Final[Release] = (0, 16)
"""From here on top-k and top-p no longer sort all logits (vllm/v1/sample/ops/topk_topp_triton)."""
SORTING_BYTES_PER_LOGIT: Final = 39.0
"""The sort's values, 64-bit indices and buffers, beside logits, probabilities and their sums: what
eight logs of releases 0.6 to 0.10 show, 38.4 to 39.3 each."""
GRAPHS_INSIDE: Final[Release] = (0, 21)
"""CUDA graphs count within the engine's share from here on, which grew to make up for it
(vllm/v1/worker/gpu_worker.py, pull request 30515)."""
EARLIER_FRACTION: Final = 0.9
FREED_BUFFERS: Final = "2023"
"""The first engine kept the input of every all-reduce until its sizing step was over (comment on
TORCH_NCCL_AVOID_RECORD_STREAMS in vllm/worker/worker.py)."""

DATED: Final[tuple[tuple[str, Release], ...]] = (
    ("2026-05", GRAPHS_INSIDE),
    ("2026-02", UNSORTED),
    ("2025-06", MORE_SEQUENCES),
    ("2025-03", CUT_PROMPTS),
    ("0000-00", (0, 0)),
)
"""First month of a release, for logs that tell a date alone."""
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

SGLANG_STEPS: Final = ((20, 2048, 8), (35, 2048, 24), (60, 4096, 32), (160, 8192, 256))
"""Below so many GB: tokens of a step, and sequences of the largest graph."""
SGLANG_LARGEST: Final = (16384, 512)
SGLANG_MB_PER_TOKEN: Final = 1.5
SGLANG_MB_PER_SEQUENCE: Final = 2.0
"""What SGLang reserves beside weights and cache (srt/server_args.py, GPU memory settings)."""


class Share(Enum):
    """Of what the engine's fraction is a share, and what comes out of it."""

    CARD = "of the card: weights, activations, libraries and cache (vLLM)"
    AT_START = "of what is free at the start: weights and cache (SGLang)"
    AT_END = "of what weights and a first run leave free: cache (TensorRT-LLM)"


@dataclass(frozen=True, slots=True)
class EngineRelease:
    """How the engine of one log divides its card."""

    facts: ServingFacts
    share: Share = Share.CARD
    keeps_reductions: bool = False
    """The input of every all-reduce of the sizing step stays alive to its end."""
    counts_context: bool = False
    """The driver's context comes out of the engine's share of the card."""

    def cache_room(
        self, *, fraction: float, device: float, held: float, weights: float, passing: float
    ) -> float:
        """Return the bytes left for the cache.

        Parameters
        ----------
        fraction : float
            The engine's share.
        device, held : float
            Memory of the card, and of it the driver's context and collective buffers. [bytes]
        weights, passing : float
            Weights; activations, sampler, graphs and workspaces. [bytes]
        """
        if self.share is Share.AT_END:
            return fraction * (device - held - weights - passing)
        if self.share is Share.AT_START:
            return fraction * (device - held) - weights
        return fraction * device - weights - passing


def engine_release(row: Row, facts: ServingFacts, memory_bytes: float) -> EngineRelease:
    """Return what the engine that wrote a row's log did, where it differs from today's vLLM.

    Parameters
    ----------
    row : mapping
        ``engine``, ``engine_version``, ``max_model_len`` and ``accelerator`` are read.
    facts : ServingFacts
        Of today's engine.
    memory_bytes : float
        What the driver reports. [bytes]

    Returns
    -------
    EngineRelease
    """
    name = cell(row, "engine")
    if name == "sglang":
        fraction = _sglang_fraction(memory_bytes)
        return EngineRelease(facts.model_copy(update={"memory_fraction": fraction}), Share.AT_START)
    if name == "tensorrt_llm":
        # The fraction of what a first run leaves free (kv_cache_config.free_gpu_memory_fraction).
        return EngineRelease(
            facts.model_copy(update={"memory_fraction": EARLIER_FRACTION}), Share.AT_END
        )
    if name != "vllm":
        return EngineRelease(facts)
    release = _release(cell(row, "engine_version"))
    small = {"batched_tokens": facts.small_batched_tokens}
    few = {"sampled_sequences": facts.small_sampled_sequences}
    update: dict[str, float] = {}
    if release < GRAPHS_INSIDE:
        update |= {"memory_fraction": EARLIER_FRACTION, "graph_bytes": 0.0}
    if release < UNSORTED:
        update["sampling_bytes_per_logit"] = SORTING_BYTES_PER_LOGIT
    if release < MORE_SEQUENCES:
        update |= few
    elif cell(row, "accelerator").startswith("a100"):
        update |= small | few
    if release < CUT_PROMPTS:
        update |= _whole_prompts(integer(row, "max_model_len", LEAST_STEP_TOKENS))
    return EngineRelease(
        facts.model_copy(update=update),
        keeps_reductions=FREED_BUFFERS in cell(row, "engine_version"),
        counts_context=FREED_BUFFERS in cell(row, "engine_version")
        or (0, 0) < release < COUNTS_OWN,
    )


def _whole_prompts(context: int) -> dict[str, float]:
    if context > WHOLE_PROMPT_TOKENS:
        step, sampled = LEAST_STEP_TOKENS, {"sampling_bytes_per_logit": 0.0}
    else:
        step, sampled = max(context, LEAST_STEP_TOKENS), {}
    return {"batched_tokens": step, "small_batched_tokens": step} | sampled


def _release(text: str) -> Release:
    """Return the release that a log's ``engine_version`` tells, today's where it tells none."""
    told = re.search(r"\b(\d+)\.(\d+)", text)
    if told is not None:
        return int(told[1]), int(told[2])
    if "V0" in text:
        return 0, 0
    date = re.search(r"(?:([A-Za-z]{3})-)?(20\d\d)", text)
    if date is not None:
        name = (date[1] or "jun").lower()
        month = f"{date[2]}-{MONTHS.index(name) + 1 if name in MONTHS else 6:02d}"
        return next(release for start, release in DATED if month >= start)
    return MORE_SEQUENCES if "V1" in text else GRAPHS_INSIDE


def _sglang_fraction(memory_bytes: float) -> float:
    """Return SGLang's own ``mem_fraction_static``."""
    gigabytes = memory_bytes / 2**30
    tokens, sequences = next(
        ((step, graphs) for limit, step, graphs in SGLANG_STEPS if gigabytes < limit),
        SGLANG_LARGEST,
    )
    reserved = tokens * SGLANG_MB_PER_TOKEN + sequences * SGLANG_MB_PER_SEQUENCE
    return max(1 - reserved / (gigabytes * 1024), 0.0)
