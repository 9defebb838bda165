"""What fits a GPU: known models on given cards, with the functions of ``estimate``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.errors import InputError
from advisor.estimate.assumed_shape import shape_widening
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.memory import serving_memory
from advisor.estimate.serving.report import LONGEST_CONTEXT_TOKENS, serving_quantity
from advisor.estimate.serving.times import (
    ServingTimes,
    compute_format,
    serving_times,
    stored_format,
)
from advisor.estimate.training.memory_report import evaluate_memory
from advisor.estimate.training.run import recipe_named, resolve_training, takes_adapters
from advisor.foundation.formatting import count as in_words
from advisor.foundation.quantities import Evidence, Range
from advisor.nouns.efficiency import Calibration
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import KV_CACHE_FORMATS, WEIGHT_FORMATS
from advisor.nouns.training_choices import LORA_TARGETS, FineTuningMethod
from advisor.nouns.workload import FineTuning
from advisor.planning.fits.results import Fits, ModelFit, ServedFit, TrainedFit, Verdict
from advisor.planning.search.precisions import LOW_PRECISION_WEIGHTS
from advisor.planning.search.replicas import PIPELINE_DEGREES, TENSOR_DEGREES
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
    calibration: Calibration,
) -> Fits:
    """Return which models the cards can serve and train.

    Parameters
    ----------
    architectures : sequence of (str, ModelArchitecture)
        Presets and their shapes.
    system : System
        The accelerator and its links.
    count : int
        Accelerators.
    precision : str
        Training recipe.
    context_tokens : int
        Prompt and answer together (serving), the sequence (training). [tokens]
    concurrency : int
        Sequences served at once; one alone is always evaluated too.

    Raises
    ------
    InputError
        If the context is too short for a prompt and an answer.
    """
    if context_tokens < 2:
        raise InputError(
            "the context is too short",
            value=context_tokens,
            allowed="2 tokens or more",
            remedy="Ask for a longer context, e.g. 8K.",
            field="context",
        )
    models = []
    for preset, architecture in architectures:
        limit = architecture.max_position_embeddings
        context = min(context_tokens, limit) if limit else context_tokens
        served = _served(architecture, system, count, context, (1, concurrency), calibration)
        alone = [fit for fit in served if fit.concurrency == 1]
        together = [fit for fit in served if fit.concurrency == concurrency and fit.fits]
        smallest = min(alone, key=lambda fit: fit.needed_bytes)
        best = next((fit for fit in alone if fit.fits), smallest)
        verdict = Verdict.DOES_NOT_FIT
        if best.fits:
            own = stored_format(system.accelerator, architecture.weight_format)
            verdict = Verdict.FITS if best.weight_format == own else Verdict.FITS_IF_CHANGED
        models.append(
            ModelFit(
                preset=preset,
                parameters=architecture.total_parameters,
                verdict=verdict,
                context_tokens=context,
                served=best,
                served_together=together[0] if together else None,
                trained=tuple(
                    _trained(architecture, method, precision, system, count, context, calibration)
                    for method in FineTuningMethod
                    if method is FineTuningMethod.FULL or takes_adapters(architecture, LORA_TARGETS)
                    if not system.accelerator.inference_only
                ),
            )
        )
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
        ),
    )


def serving_layouts(
    architecture: ModelArchitecture, system: System, count: int
) -> list[ParallelLayout]:
    """Return the ways to divide ``count`` cards among tensor, pipeline and data parallelism."""
    reach = max(system.node.accelerators, system.node.intra_domain)
    return [
        ParallelLayout(tensor=tensor, pipeline=pipeline, data=count // (tensor * pipeline))
        for tensor, pipeline in product(TENSOR_DEGREES, PIPELINE_DEGREES)
        if count % (tensor * pipeline) == 0
        and architecture.num_attention_heads % tensor == 0
        and tensor <= reach
        and pipeline <= architecture.num_hidden_layers
    ]


def _served(
    architecture: ModelArchitecture,
    system: System,
    count: int,
    context: int,
    concurrencies: Iterable[int],
    calibration: Calibration,
) -> list[ServedFit]:
    """Return each weight format, largest first, at each concurrency in its best layout."""
    layouts = serving_layouts(architecture, system, count)
    pairs = list(product(dict.fromkeys(concurrencies), layouts))
    arrays = _stack([layout for _, layout in pairs])
    output = min(OUTPUT_TOKENS, context // 2)
    load = ServingLoad(
        input_tokens=np.full(len(pairs), float(context - output)),
        output_tokens=np.full(len(pairs), float(output)),
        concurrency=np.array([float(number) for number, _ in pairs]),
    )
    kernels, measured = calibration.kernels_for(system.accelerator)
    widening = shape_widening(architecture)
    interval = calibration.interval(serving_quantity(architecture), measured=measured)
    assumed = architecture.evidence is Evidence.ASSUMED
    known = Evidence.ASSUMED if assumed else kernels.evidence
    own = WEIGHT_FORMATS[stored_format(system.accelerator, architecture.weight_format)]
    smaller = [
        WEIGHT_FORMATS[name]
        for name in LOW_PRECISION_WEIGHTS
        if WEIGHT_FORMATS[name].bytes_per_parameter < own.bytes_per_parameter
    ]
    found = []
    for weight_format in (own, *smaller):
        compute = compute_format(system.accelerator, weight_format)
        one = HardwareArrays.of(system.accelerator, system.node, kernels, compute=compute)
        hardware = one.take(np.zeros(len(pairs), dtype=np.intp))
        served = ServedModel.of(
            architecture,
            weight_format=weight_format,
            cache_bytes=KV_CACHE_FORMATS[stored_format(system.accelerator, "bf16")],
        )
        candidates = Candidates(layout=arrays, hardware=hardware)
        times = serving_times(served, load, candidates, calibration)
        memory = serving_memory(served, load, arrays, hardware.memory_bytes, calibration)
        for number in dict.fromkeys(number for number, _ in pairs):
            rows = [index for index, pair in enumerate(pairs) if pair[0] == number]
            row = min(rows, key=lambda index: _rank(times, index))
            fits = bool(times.feasible[row])
            speed = Range.around(
                1.0 / float(times.tpot_s[row]),
                low_factor=widening**-1 / interval.high,
                high_factor=widening / interval.low,
                evidence=interval.evidence.weakest(known),
            )
            found.append(
                ServedFit(
                    weight_format=weight_format.name,
                    concurrency=number,
                    layout=pairs[row][1],
                    fits=fits,
                    max_context_tokens=int(
                        min(times.capacity.max_context_tokens[row], LONGEST_CONTEXT_TOKENS)
                    ),
                    weights_bytes=float(memory.weights[row]),
                    kv_cache_bytes=float(memory.kv_cache[row]),
                    engine_bytes=float(memory.engine[row]),
                    needed_bytes=float(times.capacity.high_bytes[row]),
                    usable_bytes=float(times.capacity.usable_bytes[row]),
                    tokens_per_s=speed if fits else None,
                )
            )
    return found


def _rank(times: ServingTimes, row: int) -> tuple[bool, float]:
    """Sort key: fitting formats by speed, the others by needed memory."""
    fits = bool(times.feasible[row])
    return not fits, float((times.tpot_s if fits else times.capacity.high_bytes)[row])


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
        architecture,
        run,
        _stack(layouts * len(lengths)),
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
    """Return the longest sequence that fits in the usable memory.

    Parameters
    ----------
    lengths : ndarray, shape (n,)
        Rising sequence lengths. [tokens]
    needs : ndarray, shape (n, m)
        Memory of ``m`` configurations at each length. [bytes]
    usable_bytes : float
        Usable memory. [bytes]

    Returns
    -------
    ndarray, shape (m,)
        Whole tokens; 0 if the first length does not fit. [tokens]

    Notes
    -----
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


def _stack(layouts: Sequence[ParallelLayout]) -> LayoutArrays:
    singles = [LayoutArrays.of(layout) for layout in layouts]
    return LayoutArrays(
        **{
            name: np.concatenate([getattr(single, name) for single in singles])
            for name in LayoutArrays.__slots__
        }
    )
