"""Names of architecture generations, and which units of a card multiply what."""

from __future__ import annotations

from advisor.nouns.hardware import Accelerator

HALF_RATE = 1.5
"""fp16 with fp16 accumulation over fp32 accumulation, above which a card halves the latter:
the ratio is 2 on GeForce cards and 1 on all others."""


TILE_UNITS = 4.0
"""16-bit rate over fp32 above which a processor has tile units: vectors of 16-bit pairs double the
rate (AVX-512 BF16), tiles multiply it by 16 (AMX)."""


def tile_formats(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the formats that a processor multiplies on tile units; none where it has no such."""
    peaks = accelerator.peak_flops_per_s
    widest = max((peaks[name] for name in ("bf16", "fp16") if name in peaks), default=0.0)
    if widest <= TILE_UNITS * peaks.get("fp32", widest):
        return ()
    return tuple(name for name in ("bf16", "fp16", "int8") if name in peaks)


def generations(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the names under which constants for ``accelerator`` may stand, narrowest first."""
    generation, capability = accelerator.architecture, accelerator.compute_capability
    names = (f"{generation} {capability}", generation) if capability else (generation,)
    if narrow_sums(accelerator) > HALF_RATE:
        return (f"{generation} half-rate", *names)
    return names


def narrow_sums(accelerator: Accelerator) -> float:
    """Return the fp16 rate with fp16 sums over that with fp32 sums, at least 1."""
    wide = accelerator.peak_flops_per_s.get("fp16")
    narrow = accelerator.peak_flops_per_s_fp16_accumulate.get("fp16")
    return max(1.0, narrow / wide) if narrow and wide else 1.0
