"""How much of a model each of several unlike cards holds, and how fast they are together."""

from collections.abc import Mapping, Sequence

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.equations.serving.engine import rate_in_turn
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.serving.cache import cached_bytes_per_sequence
from advisor.estimate.serving.demand import served_on
from advisor.estimate.serving.stored_bytes import mean_bytes_per_parameter
from advisor.foundation.formatting import percent
from advisor.foundation.units import GIB
from advisor.nouns.hardware import Accelerator, UnlikeCards
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import BackendFacts
from advisor.nouns.software.kernels import KernelEfficiency
from advisor.nouns.workload import Serving


def bytes_by_card(
    card: UnlikeCards, architecture: ModelArchitecture, workload: Serving, form: WeightFormat
) -> tuple[float, ...]:
    """Return layers and cache on each card; the fastest memory is filled first. [bytes]"""
    served = served_on(card, architecture, workload, form)
    tokens = np.array([float(workload.input_tokens + workload.output_tokens)])
    each = cached_bytes_per_sequence(served, LayoutArrays.of(ParallelLayout()), tokens)
    weights = architecture.total_parameters * mean_bytes_per_parameter(architecture, form)
    need = weights + workload.concurrency * float(each[0])
    rooms = np.array([card.usable_share * part.memory_reported_bytes for part in card.parts])
    filled = np.clip(need - (np.cumsum(rooms) - rooms), 0.0, rooms)
    return tuple(filled.tolist())


def working_card(
    card: Accelerator,
    architecture: ModelArchitecture,
    workload: Serving,
    form: WeightFormat,
    calibration: Calibration,
) -> tuple[Accelerator, KernelEfficiency, bool]:
    """Return a card and its kernels as it serves a model, and whether its kind was measured.

    Unlike cards take their times from the constants of each card, for the layers that it holds.
    """
    if not isinstance(card, UnlikeCards):
        return card, *calibration.served_kernels(card, form)
    shares = bytes_by_card(card, architecture, workload, form)
    used = [(part, held) for part, held in zip(card.parts, shares, strict=True) if held > 0.0]
    parts, held = [part for part, _ in used], [amount for _, amount in used]
    known = [calibration.served_kernels(part, form) for part in parts]
    kernels = [own for own, _ in known]
    compute = compute_format(card, form)
    bandwidths = [part.memory_bandwidth_bytes_per_s for part in parts]
    peaks = {
        name: rate_in_turn(held, [part.peak_flops_per_s[name] for part in parts])
        for name in card.peak_flops_per_s
    }
    # Each card multiplies in its own format: a card with 16-bit units beside one without.
    formats = [compute_format(part, form) for part in parts]
    products = [
        part.peak_flops_per_s.get(name, 0.0) for part, name in zip(parts, formats, strict=True)
    ]
    peaks[compute] = rate_in_turn(held, products)
    joined = card.changed(
        memory_bandwidth_bytes_per_s=rate_in_turn(held, bandwidths), peak_flops_per_s=peaks
    )
    return joined, _in_turn(held, kernels, formats, parts, peaks), all(sure for _, sure in known)


def _in_turn(
    held: Sequence[float],
    kernels: Sequence[KernelEfficiency],
    formats: Sequence[str],
    parts: Sequence[Accelerator],
    peaks: Mapping[str, float],
) -> KernelEfficiency:
    """Return constants with which the joined rates take the time of all parts, one after another.

    ``peaks``: joined rates by format. [FLOPs/s]
    """

    def share(rates: Sequence[float], own: Sequence[float]) -> float:
        reached = [rate * each for rate, each in zip(rates, own, strict=True)]
        return rate_in_turn(held, reached) / rate_in_turn(held, rates)

    def mean(values: Sequence[float]) -> float:
        return float(np.average(values, weights=held))

    reads = [part.memory_bandwidth_bytes_per_s for part in parts]
    products = [
        part.peak_flops_per_s.get(name, 0.0) for part, name in zip(parts, formats, strict=True)
    ]
    vectors = [part.peak_flops_per_s["fp32"] for part in parts]
    curves = [
        own.matmul.get(name, own.matmul["default"])
        for own, name in zip(kernels, formats, strict=True)
    ]
    caches = [own.attention.cache_bandwidth or own.elementwise_bandwidth for own in kernels]
    backends = [own.backend for own in kernels if own.backend is not None]
    first = kernels[0]
    launches = {
        name: mean([getattr(backend, name) for backend in backends])
        for name in BackendFacts.model_fields
        if name.endswith("overhead_s") and len(backends) == len(held)
    }
    operations = [own.weight_operations / rate for own, rate in zip(kernels, vectors, strict=True)]
    curve = curves[0].changed(
        compute=share(products, [own.compute for own in curves]),
        bandwidth=share(reads, [own.bandwidth for own in curves]),
    )
    return first.changed(
        matmul={"default": curve},
        attention=first.attention.changed(
            forward=share(products, [own.attention.forward for own in kernels]),
            cache_bandwidth=share(reads, caches),
        ),
        elementwise_bandwidth=share(reads, [own.elementwise_bandwidth for own in kernels]),
        backend=first.backend.changed(**launches) if first.backend else None,
        weight_operations=mean(operations) * peaks["fp32"],
        evidence=first.evidence.weakest(*(own.evidence for own in kernels[1:])),
    )


def split_note(
    card: UnlikeCards, architecture: ModelArchitecture, workload: Serving, form: WeightFormat
) -> str:
    """Return what each card holds, as a sentence."""
    held = bytes_by_card(card, architecture, workload, form)
    whole = sum(held)
    parts = (
        f"{part.name} {percent(amount / whole)} ({amount / GIB:.1f} of "
        f"{part.memory_reported_bytes / GIB:.1f} GiB)"
        for part, amount in zip(card.parts, held, strict=True)
    )
    if sum(amount > 0 for amount in held) == 1:
        holder = card.parts[held.index(whole)]
        return f"{holder.name} holds the whole model; the other cards are idle"
    return (
        f"layers and their cache by card (--tensor-split): {', '.join(parts)}; one card works at a "
        "time, so their times add up"
    )
