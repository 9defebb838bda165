"""How much of a model each of several unlike cards holds, and how fast they are together."""

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.equations.serving.engine import filled_in_order, rate_in_turn
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.hardware.card_formats import cache_format
from advisor.estimate.serving.demand import (
    ServedModel,
    cached_bytes_per_sequence,
    mean_bytes_per_parameter,
)
from advisor.foundation.formatting import percent
from advisor.foundation.units import GIB
from advisor.nouns.hardware import Accelerator, UnlikeCards
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import KV_CACHE_FORMATS, WeightFormat
from advisor.nouns.workload import Serving


def bytes_by_card(
    card: UnlikeCards, architecture: ModelArchitecture, workload: Serving, form: WeightFormat
) -> tuple[float, ...]:
    """Return layers and cache on each card; the fastest memory is filled first. [bytes]"""
    served = ServedModel.of(
        architecture, weight_format=form, cache_bytes=KV_CACHE_FORMATS[cache_format(workload, card)]
    )
    tokens = np.array([float(workload.input_tokens + workload.output_tokens)])
    each = cached_bytes_per_sequence(served, LayoutArrays.of(ParallelLayout()), tokens)
    weights = architecture.total_parameters * mean_bytes_per_parameter(architecture, form)
    return filled_in_order(
        weights + workload.concurrency * float(each[0]),
        [card.usable_share * part.memory_reported_bytes for part in card.parts],
    )


def working_card(
    card: Accelerator, architecture: ModelArchitecture, workload: Serving, form: WeightFormat
) -> Accelerator:
    """Return a card with the rates at which it serves a model; only unlike cards have others."""
    if not isinstance(card, UnlikeCards):
        return card
    held = bytes_by_card(card, architecture, workload, form)
    bandwidths = [part.memory_bandwidth_bytes_per_s for part in card.parts]
    peaks = {
        name: rate_in_turn(held, [part.peak_flops_per_s[name] for part in card.parts])
        for name in card.peak_flops_per_s
    }
    rates = {
        "memory_bandwidth_bytes_per_s": rate_in_turn(held, bandwidths),
        "peak_flops_per_s": peaks,
    }
    return card.changed(**rates)


def split_note(
    card: UnlikeCards, architecture: ModelArchitecture, workload: Serving, form: WeightFormat
) -> str:
    """Return what each card holds, as a sentence."""
    held = bytes_by_card(card, architecture, workload, form)
    whole = sum(held)
    parts = (
        f"{part.name} {percent(amount / whole)} ({amount / GIB:.1f} GiB)"
        for part, amount in zip(card.parts, held, strict=True)
    )
    if sum(amount > 0 for amount in held) == 1:
        holder = card.parts[held.index(whole)]
        return f"{holder.name} holds the whole model; the other cards are idle"
    return (
        f"layers and their cache by card (--tensor-split): {', '.join(parts)}; one card works at a "
        "time, so their times add up"
    )
