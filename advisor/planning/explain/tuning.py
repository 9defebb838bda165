"""What would make a plan faster or smaller on the same cards, computed for that plan."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from advisor.architecture.pairs import writes_apart
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.errors import InputError
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.serving.heads import heads_of
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.engine import constants_of
from advisor.estimate.tools.software import tool_of
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.memory_report import memory_total, usual_total
from advisor.estimate.training.report import evaluate_run_hours
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.formatting import (
    duration,
    memory,
    memory_against,
    milliseconds,
    percent,
    rate,
)
from advisor.foundation.quantities import Range
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.nouns.case import Hardware
from advisor.nouns.layout import Offload, Recompute
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.tools import known_tools, usual_tools
from advisor.nouns.techniques import Speculation, TextKind, technique_facts
from advisor.nouns.training_choices import (
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    Optimizer,
)
from advisor.nouns.workload import FineTuning, Serving
from advisor.planning.prepared import PricedCase

HIT_SHARE: Final = 0.5
"""Share of each prompt that the sentence on prefix caching supposes in the cache."""
LONG_PROMPT: Final = 256
"""Shorter prompts gain little from a prefix cache. [tokens]"""
LARGE_STEP: Final = 2048
"""Prompt tokens of one step that are offered where an engine reads fewer: ``-b`` of llama.cpp,
whose ``-ub`` is 512 (tools/server/README.md of ggml-org/llama.cpp at 00dc8057)."""
REPEATING: Final = (TextKind.SUMMARY, TextKind.RAG)
"""Texts that repeat their prompts. n-grams draft little else (data/serving_techniques.yaml)."""
WORTH: Final = 0.95
"""A technique is told if a time falls to this share of it."""


def served_improvements(
    asked: ResolvedCase, placement: Placement, plan: Estimate
) -> tuple[str, ...]:
    """Return one sentence for each technique or tool that is worth its effort on a plan.

    Each with the speeds before and after. For networks that process batches, other usual tools;
    none for pairs, whose prompts pass an encoder: engines neither cache nor draft for them. A
    framework does neither.

    ``asked``: of serving. What it states already is not offered. ``plan``: its estimate.
    """
    architecture, workload = asked.architecture, asked.case.workload
    if not isinstance(workload, Serving) or writes_apart(architecture):
        return ()
    if not architecture.generates:
        return _faster_tools(asked, workload, placement, plan)
    if placement.tool is not None and not placement.tool.engine:
        return ()

    def speeds(estimate: Estimate) -> tuple[Range, Range, Range]:
        found = estimate.serving
        if found is None:
            raise TypeError("serving has no estimate")
        return found.ttft_ms, found.tpot_ms, found.output_tokens_per_s

    first, token, output = speeds(plan)
    told = []
    duty = duty_of(workload, architecture)
    engine = constants_of(asked.calibration, placement.tool, placement.accelerator, duty).serving
    for title, update in _offers(workload, architecture, engine, placement):
        own = asked.case.changed(workload=workload.changed(**update))
        changed = estimate_configuration(asked.of(own), placement)
        after_first, after_token, after_output = speeds(changed)
        faster = after_token.expected <= WORTH * token.expected
        sooner = after_first.expected <= WORTH * first.expected
        if not (faster or sooner) or plan.memory.fits > changed.memory.fits:
            continue
        effects = (
            ("first token {} → {}", _ms(first), _ms(after_first)),
            ("{} → {} a token", _ms(token), _ms(after_token)),
            ("{} → {}", *(rate(item.expected, "tokens/s") for item in (output, after_output))),
        )
        moved = [text.format(old, new) for text, old, new in effects if old != new]
        told.append(f"{title}: {', '.join(moved)}")
    return tuple(told)


def _faster_tools(
    asked: ResolvedCase, workload: Serving, placement: Placement, plan: Estimate
) -> tuple[str, ...]:
    """Return the usual tools on the plan's card that compute batches faster than its own."""
    limits, card = asked.case.limits, placement.accelerator
    if workload.engine or limits.software or limits.frameworks:
        return ()
    told = []
    for tool in usual_tools(card, duty_of(workload, asked.architecture)):
        own = asked.case.changed(workload=workload.changed(engine=tool.name))
        if tool == placement.tool or tool_of(own, asked.architecture, card) != tool:
            continue
        changed = estimate_configuration(asked.of(own), replace(placement, tool=tool))
        before, after = (one.serving.ttft_ms for one in (plan, changed) if one.serving)
        if after.expected <= WORTH * before.expected:
            timed = "an answer" if workload.requests_per_s else "a batch"
            told.append(
                f"{tool.title} (--engine {tool.name}): {_ms(before)} → {_ms(after)} {timed}"
            )
    return tuple(told)


def _offers(
    workload: Serving, architecture: ModelArchitecture, engine: ServingFacts, placement: Placement
) -> Iterator[tuple[str, dict[str, Any]]]:
    longest = min(LARGE_STEP, workload.input_tokens)
    if workload.step_tokens is None and engine.batched_tokens < longest:
        yield (
            f"steps of {LARGE_STEP:,} tokens (--step-tokens {LARGE_STEP})",
            {"step_tokens": LARGE_STEP},
        )
    told = workload.prefix_hit_share is not None or workload.shared_prefix_tokens
    if not told and workload.input_tokens >= LONG_PROMPT:
        yield (
            f"prompts of which {percent(HIT_SHARE)} are cached (--prefix-hits {HIT_SHARE:.0%})",
            {"prefix_hit_share": HIT_SHARE},
        )
    tool = placement.tool
    if workload.speculation is None and tool is not None:
        methods = dict[Speculation, str]()
        if architecture.prediction_layers:
            methods[Speculation.MTP] = ""
        elif published := heads_of(architecture).get(tool.name):
            methods[Speculation.EAGLE3] = f", {published}"
        if workload.text_kind in REPEATING:
            methods[Speculation.NGRAM] = ""
        for method, heads in methods.items():
            if not tool.drafts(placement.accelerator, method):
                continue
            title = technique_facts().speculation[method].title
            yield (
                f"speculative decoding with {title}{heads} (--speculation {method})",
                {"speculation": method},
            )


def _ms(value_ms: Range) -> str:
    return milliseconds(value_ms.expected * MILLISECOND)


WORTH_TIME: Final = 0.95
WORTH_MEMORY: Final = 0.9
"""A change is offered if it takes at most this share of the time, or of the memory in no more
time."""
TIGHT: Final = 0.8
"""Less memory is offered only where a plan takes more than this share of the card's."""
LIKELY: Final = 0.95
"""Share of the usable memory up to which an expected total is named where nothing surely fits."""
MOST_OFFERED: Final = 3
LIGER_VENDORS: Final = ("NVIDIA", "AMD")
"""Liger's kernels are written in Triton (arXiv:2410.10989), bitsandbytes' in CUDA and HIP."""


@record
class _Change:
    title: str
    run: TrainingRun
    alone: bool = False
    """Whether it gives up what the plan keeps on the host."""


def improvements(asked: PricedCase, placement: Placement, plan: Estimate) -> tuple[str, ...]:
    """Return one sentence for each change of method, software or options worth its effort.

    After the method, at most three; those that make a plan fit come first, then the fastest.

    ``plan``: its estimate. Each change may recompute less and keep less on the host, if that fits.
    """
    packed = _packed(asked, placement, plan)
    usable = placement.accelerator.memory_reported_bytes
    run = placement.training(asked.case, asked.architecture)
    before = _best(asked, placement, run, fixed=True)
    if before is None:
        return packed
    hours, _, need = before
    found = []
    for change in _changes(run, placement):
        try:
            after = _best(asked, placement, change.run, alone=change.alone)
        except InputError:
            continue  # The change does not apply to this network.
        if after is None:
            continue
        then, expected, most = after
        rescued = need > usable and (most <= usable or expected <= LIKELY * usable)
        worth = then <= WORTH_TIME * hours
        tight = need > TIGHT * usable
        smaller = tight and most <= WORTH_MEMORY * need and then <= hours * 1.001
        if rescued or (most <= usable and (worth or smaller)):
            first, later = (
                duration(each * HOUR_S, beside=hours * HOUR_S) for each in (hours, then)
            )
            told = f"{change.title}: run {first} → {later}"
            told += f", memory up to {memory(need)}"
            if memory(most) == memory(need):
                told += " as before"
            elif most <= usable:
                told += f" → {memory(most)}"
            else:
                ends = memory_against(most, usable)
                told += f" → {ends[0]} of {ends[1]}; {memory(expected)} expected, so it may fit"
            found.append((not rescued, then, told))
    return (*packed, *(told for _, _, told in sorted(found)[:MOST_OFFERED]))


def _packed(asked: PricedCase, placement: Placement, plan: Estimate) -> tuple[str, ...]:
    """Return the same adapters over a base in 4 bits, where a base in 16 waits on the host."""
    workload, card = asked.case.workload, placement.accelerator
    lora = isinstance(workload, FineTuning) and workload.method is FineTuningMethod.LORA
    if not lora or Offload.PARAMETERS not in placement.layout.offload:
        return ()
    from advisor.planning.stated import best_placement

    four_bit = workload.changed(method=FineTuningMethod.QLORA, software=None)
    hardware = Hardware(accelerator=card.key, count=placement.count)
    own = asked.of(asked.case.changed(workload=four_bit, hardware=hardware, layout=None))
    try:
        found = estimate_configuration(own, best_placement(own))
    except InputError:
        return ()  # No tool packs this network.
    if not found.memory.fits or Offload.PARAMETERS in found.layout.offload:
        return ()
    hours = [one.time.run_hours.expected * HOUR_S for one in (plan, found) if one.time]
    before, after = (duration(each, beside=hours[0]) for each in hours)
    tool, most = found.software.title if found.software else "", memory(found.memory.needed_bytes)
    told = (
        f"QLoRA (--task qlora) with {tool}, whose 4-bit weights stay on the card: run {before} → "
    )
    return (f"{told}{after}, memory up to {most}",)


def _best(
    asked: ResolvedCase,
    placement: Placement,
    run: TrainingRun,
    *,
    fixed: bool = False,
    alone: bool = False,
) -> tuple[float, float, float] | None:
    """Hours of the fastest fitting variant of the plan's layout, its expected and most bytes."""
    architecture, calibration, layout = asked.architecture, asked.calibration, placement.layout
    if alone:
        layout = layout.changed(offload=())
    levels = list(Recompute)
    if architecture.unit is not Unit.TOKEN:
        levels.remove(Recompute.SELECTIVE)
    lower = levels[: levels.index(layout.recompute) + 1]
    variants = [layout.changed(recompute=level) for level in lower]
    variants = [layout] if fixed or Offload.ACTIVATIONS in layout.offload else variants
    card, node = placement.accelerator, placement.node
    kernels, _ = calibration.kernels_for(card)
    candidates = Candidates.of(variants, card, node, kernels, compute=run.recipe.compute)
    layouts = candidates.layout
    tensors = training_memory(run, layouts, calibration.memory).tensors
    expected = memory_total(tensors, layouts, calibration.memory, "expected", 1.0)
    need = usual_total(run, tensors, layouts, calibration)
    hours, _ = evaluate_run_hours(run, candidates, calibration)
    if placement.interrupted is not None:  # on spot machines, as the plan's own hours
        hours = hours * placement.interrupted.expected
    fits: Floats = np.where(need <= card.memory_reported_bytes, hours, np.inf)
    place = int(np.argmin(fits)) if np.isfinite(fits).any() else len(variants) - 1
    if not np.isfinite(hours[place]):
        return None
    return float(hours[place]), float(expected[place]), float(need[place])


def _changes(run: TrainingRun, placement: Placement) -> Iterator[_Change]:
    text, writes = run.architecture.unit is Unit.TOKEN, run.architecture.generates
    eager = run.software == "huggingface" and writes and run.method is not None
    kernels = known_tools()["liger"].support(placement.accelerator)
    if eager and kernels and run.method and kernels[1].tunes(placement.accelerator, run.method):
        yield _Change(
            "Liger kernels (--software liger)", replace(run, software="liger", cross_entropy=None)
        )
    if run.software == "plain" and run.method is None and kernels:
        # Both need Triton.
        yield _Change("torch.compile (--software compiled)", replace(run, software="compiled"))
    chunks = not run.offers or any(CrossEntropy.LINEAR in offer.losses for offer in run.offers)
    plain = run.cross_entropy in (None, CrossEntropy.PLAIN) and run.preference is None
    if eager and plain and chunks:
        yield _Change(
            "loss in chunks (--cross-entropy linear)",
            replace(run, cross_entropy=CrossEntropy.LINEAR),
        )
    if run.attention is AttentionKernel.EAGER:
        yield _Change(
            "FlashAttention (--attention flash)", replace(run, attention=AttentionKernel.FLASH)
        )
    if run.optimizer is not Optimizer.ADAMW or run.frozen or not text:
        return
    offered = any(Optimizer.ADAMW_8BIT in offer.optimizers for offer in run.offers)
    if placement.accelerator.vendor in LIGER_VENDORS and (offered or not run.offers):
        yield _Change(
            "8-bit AdamW states (--optimizer adamw_8bit)",
            replace(run, optimizer=Optimizer.ADAMW_8BIT),
        )
    single = placement.count == 1 and run.method is FineTuningMethod.FULL
    if (
        single
        and writes
        and run.recipe.compute == "bf16"
        and placement.accelerator.vendor == "NVIDIA"
    ):
        # The recipe of torchtune for 8B on one card of 24 GB.
        yield _Change(
            "torchtune's recipe, which updates weights in the backward pass, one sequence a step "
            "(--optimizer-in-backward yes --optimizer paged_adamw_8bit --precision bf16_pure, "
            "export --to torchtune; release 0.6.1, no longer developed)",
            replace(
                run,
                software="plain",
                optimizer=Optimizer.PAGED_ADAMW_8BIT,
                recipe=recipe_named("bf16_pure"),
                cross_entropy=CrossEntropy.CHUNKED,
                switches=replace(run.switches, update_in_backward=True),
            ),
            alone=True,
        )
