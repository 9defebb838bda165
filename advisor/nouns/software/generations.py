"""Names of architecture generations, and the units of a card that multiply each format."""

from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.software.engines import PROCESSOR

HALF_RATE = 1.5
"""If the fp16 rate with fp16 accumulation exceeds that with fp32 accumulation by more than this
factor, the card halves the latter: the ratio is 2 on GeForce cards and 1 on all others."""


TILE_UNITS = 4.0
"""A processor whose 16-bit rate exceeds its fp32 rate by more than this factor has tile units:
vectors of 16-bit pairs double the rate (AVX-512 BF16), tiles multiply it by 16 (AMX)."""


def tile_formats(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the formats that a processor multiplies on tile units; empty if it has none."""
    peaks = accelerator.peak_flops_per_s
    widest = max((peaks[name] for name in ("bf16", "fp16") if name in peaks), default=0.0)
    if widest <= TILE_UNITS * peaks.get("fp32", widest):
        return ()
    return tuple(name for name in ("bf16", "fp16", "int8") if name in peaks)


def generations(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the names to look up constants for ``accelerator``, narrowest first."""
    generation, capability = accelerator.architecture, accelerator.compute_capability
    names = (f"{generation} {capability}", generation) if capability else (generation,)
    if narrow_sums(accelerator) > HALF_RATE:
        return (f"{generation} half-rate", *names)
    return (*names, PROCESSOR) if accelerator.segment is Segment.CPU else names


def peak_generation(accelerator: Accelerator) -> str:
    """Return the name for shares of the peak: the narrowest; Apple's families share one."""
    names = generations(accelerator)
    return names[-1] if accelerator.vendor == "Apple" else names[0]


def narrow_sums(accelerator: Accelerator) -> float:
    """Return the fp16 rate with fp16 sums divided by that with fp32 sums, at least 1."""
    wide = accelerator.peak_flops_per_s.get("fp16")
    narrow = accelerator.peak_flops_per_s_fp16_accumulate.get("fp16")
    return max(1.0, narrow / wide) if narrow and wide else 1.0
