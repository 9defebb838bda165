"""What fits a GPU: known models on given cards, with the functions of ``estimate``."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.errors import InputError
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.hardware.card_formats import stored_format
from advisor.estimate.results import Estimate
from advisor.estimate.serving.demand import EXPERTS_ONLY_FORMATS
from advisor.estimate.serving.notes import raising
from advisor.estimate.serving.report import on_host
from advisor.estimate.tools.serving_formats import ladder_of
from advisor.estimate.training.memory_report import evaluate_memory
from advisor.estimate.training.run import resolve_training, takes_adapters
from advisor.foundation.formatting import count as in_words
from advisor.foundation.units import GIB, MILLISECOND
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import WEIGHT_FORMATS, recipe_named
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.quality import quality_words
from advisor.nouns.software.tools import known_tools
from advisor.nouns.training_choices import LORA_TARGETS, FineTuningMethod
from advisor.nouns.workload import FineTuning
from advisor.planning.fits.results import (
    Fits,
    ModelFit,
    ServedFit,
    TrainedFit,
    Verdict,
    raised_bytes,
)
from advisor.planning.search.systems import System

SHORT_LIST: Final = (
    "llama-3.2-1b",
    "llama-3.2-3b",
    "llama-3.1-8b",
    "llama-3.3-70b",
    "llama-3.1-405b",
    "qwen3-4b",
    "qwen3-8b",
    "qwen3-14b",
    "qwen3-30b-a3b",
    "qwen3-32b",
    "qwen3-235b-a22b",
    "gemma-3-4b",
    "gemma-3-12b",
    "gemma-3-27b",
    "mistral-7b-v0.3",
    "mistral-small-24b",
    "mixtral-8x7b",
    "phi-4",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "deepseek-v3",
)
"""Open models from 1 to 671 billion parameters, at least one of each widely used family."""

Serve = Callable[[str, ModelArchitecture, int, int], tuple[Estimate, Estimate]]

OUTPUT_TOKENS: Final = 256
"""Generated tokens of a request, the default of ``Serving``; the rest is prompt."""

LENGTHS: Final = (1, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Sequence lengths at which training memory is evaluated; between them see :func:`longest`."""


def what_fits(
    architectures: Sequence[tuple[str, ModelArchitecture]],
    system: System,
    *,
    count: int,
    precision: str,
    context_tokens: int,
    concurrency: int,
    serve: Serve,
    calibration: Calibration,
) -> Fits:
    """Return which models the cards can serve and train.

    Raises InputError if the context is too short for a prompt and an answer.

    Parameters
    ----------
    context_tokens : int
        Prompt and answer together (serving), the sequence (training). [tokens]
    concurrency : int
        Sequences served at once; one alone is always evaluated too.
    serve : callable
        Estimates one model for one sequence and for several: preset, shape, context [tokens] and
        sequences at once.
    """
    if context_tokens < 2:
        raise InputError(
            "the context is too short",
            value=context_tokens,
            allowed="2 tokens or more",
            remedy="Ask for a longer context, e.g. 8K.",
            field="context",
        )
    models, without = [], []
    for preset, architecture in architectures:
        limit = architecture.max_position_embeddings
        context = min(context_tokens, limit) if limit else context_tokens
        try:
            one, several = serve(preset, architecture, context, concurrency)
        except InputError:  # No software reads the weights of this preset there.
            without.append(preset)
            continue
        alone = served_fit(one, 1)
        together = alone if several is one else served_fit(several, concurrency)
        models.append(
            ModelFit(
                preset=preset,
                parameters=architecture.total_parameters,
                verdict=_verdict(alone, system.accelerator, architecture),
                context_tokens=context,
                served=alone,
                served_together=together if together.fits else None,
                trained=tuple(
                    _trained(architecture, method, precision, system, count, context, calibration)
                    for method in FineTuningMethod
                    if method is FineTuningMethod.FULL or takes_adapters(architecture, LORA_TARGETS)
                    if not system.accelerator.inference_only
                ),
            )
        )
    left_out = ", ".join(without)
    order = list(Verdict)
    models.sort(key=lambda model: (order.index(model.verdict), -model.parameters))
    return Fits(
        accelerator=system.accelerator.key,
        accelerator_name=system.accelerator.name,
        count=count,
        memory_bytes=system.accelerator.memory_reported_bytes,
        context_tokens=context_tokens,
        concurrency=concurrency,
        models=tuple(models),
        assumptions=(
            f"a context of {in_words(context_tokens)} tokens, or the model's longest if shorter",
            f"cache in {stored_format(system.accelerator, 'bf16')}",
            f"fine-tuning in {recipe_named(precision).title}, adamw, Hugging Face software",
            "one training sequence per card at a time",
            "a model fits if the high end of its memory range fits",
            *_kept_free(models, system.accelerator),
            *((f"no software for these weights on this card: {left_out}",) if without else ()),
        ),
    )


def _kept_free(models: Sequence[ModelFit], card: Accelerator) -> Iterator[str]:
    """Say how much of a card a server may fill, where it is not just all."""
    if raised_bytes(models, card.memory_reported_bytes) is not None:
        yield raising(card)
        return
    whole = card.memory_reported_bytes / GIB
    least = min((model.served.usable_bytes / GIB for model in models), default=whole)
    if f"{least:.1f}" != f"{whole:.1f}" and least < whole:
        yield (
            f"a server may fill {least:.1f} of the card's {whole:.1f} GiB: driver, screen or "
            "the engine's reserve keep the rest; training may fill all"
        )


def _verdict(fit: ServedFit, card: Accelerator, architecture: ModelArchitecture) -> Verdict:
    if not fit.fits:
        return Verdict.DOES_NOT_FIT
    if on_host(fit.layout):
        return Verdict.FITS_WITH_HOST
    own = stored_format(card, architecture.weight_format)
    size = WEIGHT_FORMATS[fit.weight_format].bytes_per_parameter
    whole = size >= WEIGHT_FORMATS[own].bytes_per_parameter or own in EXPERTS_ONLY_FORMATS
    usual = fit.weight_format in ladder_of(known_tools()[fit.software]).usual
    return Verdict.FITS if whole or usual else Verdict.FITS_IF_CHANGED


def served_fit(found: Estimate, concurrency: int) -> ServedFit:
    """Return the part of an estimate that tells whether and how fast a model is served."""
    memory, serving = found.memory, found.serving
    if serving is None or found.software is None:
        msg = "an estimate of serving has times and software"
        raise ValueError(msg)
    engine = (
        memory.activations_bytes,
        memory.logits_bytes,
        memory.workspace_bytes,
        memory.context_bytes,
    )
    return ServedFit(
        weight_format=found.precision,
        software=found.software.name,
        software_title=found.software.title,
        quality=quality_words(found.precision),
        concurrency=concurrency,
        layout=found.layout,
        fits=memory.fits,
        max_context_tokens=serving.max_context_tokens,
        weights_bytes=memory.weights_bytes.expected,
        kv_cache_bytes=memory.kv_cache_bytes.expected,
        engine_bytes=sum(part.expected for part in engine),
        needed_bytes=memory.total_bytes.high,
        usable_bytes=memory.usable_bytes,
        host_bytes=memory.host_bytes.expected,
        tokens_per_s=serving.tpot_ms.reciprocal(1.0 / MILLISECOND) if memory.fits else None,
    )


def _trained(
    architecture: ModelArchitecture,
    method: FineTuningMethod,
    precision: str,
    system: System,
    count: int,
    context: int,
    calibration: Calibration,
) -> TrainedFit:
    """Return the longest sequences of one method, with and without recomputation."""
    levels = (Sharding.DDP,) if count == 1 else (Sharding.DDP, Sharding.ZERO3)
    layouts = [
        ParallelLayout(data=count, sharding=sharding, recompute=recompute)
        for recompute in (Recompute.NONE, Recompute.FULL)
        for sharding in levels
    ]
    run = resolve_training(FineTuning(method=method), architecture, recipe_named(precision))
    # Every rank of a large count needs a sequence.
    run = replace(run, global_batch=max(run.global_batch, count))

    limit = architecture.max_position_embeddings or LENGTHS[-1]
    lengths = sorted({*(length for length in LENGTHS if length < limit), context, limit})
    usable = system.accelerator.memory_reported_bytes

    needs = evaluate_memory(
        run,
        LayoutArrays.stack(layouts * len(lengths)),
        calibration,
        lengths=np.repeat(np.array(lengths, dtype=np.float64), len(layouts)),
    ).reshape(len(lengths), len(layouts))
    reached = longest(np.array(lengths, dtype=np.float64), needs, usable)
    kept, recomputed = reached[: len(levels)], reached[len(levels) :]
    best = int(np.argmax(recomputed))
    at_context = needs[lengths.index(context)]
    least = float(at_context.min())
    return TrainedFit(
        method=method,
        precision=precision,
        sharding=levels[best],
        fits=least <= usable,
        longest_kept=int(kept.max()),
        longest_recomputed=int(recomputed.max()),
        needed_bytes=float(at_context[len(levels) :].min()),
        usable_bytes=usable,
    )


def longest(lengths: Floats, needs: Floats, usable_bytes: float) -> Floats:
    """Return the longest sequence that fits in the usable memory. [tokens]

    0 if the first length does not fit.

    ``needs``: memory of ``m`` configurations at each length. [bytes]

    The peak is the largest of moments that grow linearly with the length (quadratically where
    attention stores its scores), so it is convex: a chord lies above it, and the length at
    which the chord crosses the limit always fits.

    Examples
    --------
    >>> longest(np.array([1.0, 101.0]), np.array([[0.0], [100.0]]), 50.0)
    array([51.])
    """
    result = np.zeros(needs.shape[1])
    for column in range(needs.shape[1]):
        need = needs[:, column]
        fitting = np.flatnonzero(need <= usable_bytes)
        if not fitting.size:
            continue
        last = int(fitting[-1])
        result[column] = lengths[last]
        if last + 1 < len(lengths):
            share = (usable_bytes - need[last]) / (need[last + 1] - need[last])
            result[column] += share * (lengths[last + 1] - lengths[last])
    return np.floor(result)
