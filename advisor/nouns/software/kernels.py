"""Efficiencies of kernels: the constants of a card's curves, and how they change with use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.names import Name, Text
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import by_identity
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.precision import FORMAT_BYTES, WeightFormat
from advisor.nouns.software.engines import (
    PROCESSOR,
    BackendFacts,
    Fraction,
    NonNegative,
    Positive,
    Seconds,
)

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


def integer_rate(accelerator: Accelerator) -> float:
    """Return the rate of 8-bit integers divided by that of the widest 16-bit format, at least 1.

    Without a 16-bit format the divisor is that of fp32.
    """
    peaks = accelerator.peak_flops_per_s
    wide = max(peaks.get("bf16", 0.0), peaks.get("fp16", 0.0)) or peaks.get("fp32")
    return max(1.0, peaks["int8"] / wide) if wide and "int8" in peaks else 1.0


UNLIKE_BALANCE: Final = 4.0
"""If a card's operations per byte differ from the measured cards' by more than this factor, its
kernels have another bottleneck. H20 has a fifth to an eighth of the arithmetic of H200 and H100 on
their memory, and decodes in 16 bits at less than half of its bandwidth (QwenLM/Qwen3, speed
benchmark). Assumed."""


class FitQuality(Noun):
    """How well a fitted curve matches its measurements, as absolute errors of the time."""

    rows: Annotated[int, Field(ge=1)]
    """Number of fitted measurements."""
    median_error: NonNegative
    p90_error: NonNegative
    held_out_median_error: NonNegative | None = None
    """Error on an accelerator left out of the fit; None if no other accelerator was measured."""
    held_out_p90_error: NonNegative | None = None
    at_bound: tuple[Name, ...] = ()
    """Constants that ended on a bound of the fit; they have no physical meaning."""
    left_out: tuple[Name, ...] = ()
    """Constants that are 0 because the measurements show no trace of their term."""

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Return the constants that the measured cards do not fix."""
        return self.at_bound + self.left_out


class MatmulEfficiency(Noun):
    """Curve of one matmul format: see ``equations.roofline.matmul_time_s``."""

    overhead_s: Seconds
    compute: Annotated[float, Field(gt=0, le=4)]
    """Share of the dense peak at large sizes; above 1 where an engine multiplies in fewer bits."""
    bandwidth: Fraction
    """Share of the memory bandwidth when bandwidth-bound."""
    half_tiles: NonNegative
    """Output tiles of 128 x 128 at which the rate is half of its limit."""
    half_depth: NonNegative
    """Inner dimension k at which the rate is half of its limit."""
    fit: FitQuality | None = None


class DepthwiseEfficiency(Noun):
    """Convolutions of each channel alone, in channels-last format."""

    overhead_s: Seconds
    bandwidth: Fraction
    forward: Fraction
    """Shares of the fp32 peak of the vector units, for each pass."""
    input_gradient: Fraction
    weight_gradient: Fraction
    wide_weight_gradient: Fraction
    """The same of kernels over 5 x 5."""
    fit: FitQuality | None = None


class AttentionEfficiency(Noun):
    """Flash attention: shares of the dense 16-bit peak. Only the causal half counts as work."""

    overhead_s: Seconds
    forward: Fraction
    backward: Fraction
    """Backward pass, for 2.5 times the forward FLOPs (the scores are recomputed)."""
    half_keys: NonNegative = 0.0
    """Keys per query at which the rate is half of its limit."""
    portable: Positive = 1.0
    """Rate of FlashAttention-2 relative to the measured kernels of serving engines."""
    scan: Fraction = 0.15
    """Rate of chunked recurrences relative to ``forward``."""
    cache_bandwidth: Fraction | None = None
    """Share of the memory bandwidth that decoding reaches when it reads the key-value cache. None
    takes ``elementwise_bandwidth``."""
    fit: FitQuality | None = None


class KernelEfficiency(Noun):
    """All kernels of one architecture generation."""

    matmul: dict[Name, MatmulEfficiency]
    """By compute format. ``default`` is for formats without their own entry."""
    experts: dict[Name, MatmulEfficiency] = Field(default_factory=dict)
    """Grouped products of routed experts by format of their weights; ``default`` means 16 bits.
    Formats without an entry use ``matmul``."""
    expert_format: Name = "default"
    """Weight format of the served experts."""
    depthwise: dict[Name, DepthwiseEfficiency] = Field(default_factory=dict)
    """Those of all generations: see `Calibration.depthwise`."""
    attention: AttentionEfficiency
    elementwise_bandwidth: Fraction
    """Share of the memory bandwidth that norms, activations and the optimizer reach."""
    sustained: Fraction = 1.0
    """Share of the matmul rate in 16 bits and more that a long run sustains. The power limit lowers
    its clocks, while kernels were measured in short bursts."""
    unaligned: NonNegative = 0.0
    """Time that a product takes longer, over its time, where its rows start at any element."""
    trained_convolutions: Fraction = 1.0
    """Rate of convolutions in training over that of matrix products of their size."""
    fresh_memory: Fraction = 1.0
    """Rate of memory-bound kernels in training relative to inference."""
    backend: BackendFacts | None = None
    """Kernels of an engine that brings its own; None for the measured kernels."""
    short_layers: bool = False
    """Whether a serving engine adds less to each layer than on other cards."""
    launch_s: Positive | None = None
    """Time of the measured machine's host to start the smallest operation. [s]"""
    grouped_half_rows: NonNegative = 0.0
    """As in the noun of such kernels; processors have those of cards."""
    weight_operations: NonNegative = 0.0
    """Vector operations to expand one stored weight, counted at the fp32 peak."""
    balance: tuple[NonNegative, NonNegative] | None = None
    """Lowest and highest number of 16-bit operations per memory byte of the fitted cards."""
    streamed: Positive | None = None
    """Largest memory bandwidth per fp32 vector operation of the fitted cards. It shows how many
    bytes their multiprocessors keep in flight. [bytes]"""
    fitted_on: tuple[Name, ...] = ()
    """Accelerators with measured kernels."""
    best_share: Positive | None = None
    """Best 16-bit matmul rate divided by the dense peak that belongs to these constants. Other
    cards' shares are compared with it."""
    evidence: Evidence
    source: Text

    def scaled(self, factor: float) -> KernelEfficiency:
        """Return these constants with all arithmetic rates times ``factor``, up to the peak."""
        matmul, experts = (
            {
                name: curve.changed(compute=min(1.0, curve.compute * factor))
                for name, curve in curves.items()
            }
            for curves in (self.matmul, self.experts)
        )
        attention = self.attention.changed(
            forward=min(1.0, self.attention.forward * factor),
            backward=min(1.0, self.attention.backward * factor),
        )
        return self.changed(matmul=matmul, experts=experts, attention=attention)

    def of_processor(self, share: float, half_rows: float) -> KernelEfficiency:
        """Return these constants under an engine without kernels for processors.

        ``share``: of the bandwidth at which it reads weights and cache. ``half_rows``: as in the
        noun.
        """
        matmul, experts = (
            {name: curve.changed(bandwidth=share) for name, curve in curves.items()}
            for curves in (self.matmul, self.experts)
        )
        attention = self.attention.changed(cache_bandwidth=share)
        return self.changed(
            matmul=matmul, experts=experts, attention=attention, grouped_half_rows=half_rows
        )

    def balanced_on(self, accelerator: Accelerator) -> bool:
        """Return whether arithmetic over bandwidth is about that of the measured cards."""
        peaks = accelerator.peak_flops_per_s
        sixteen = peaks.get("bf16", peaks.get("fp16"))
        if self.balance is None or sixteen is None:
            return True
        low, high = self.balance
        ratio = sixteen / accelerator.memory_bandwidth_bytes_per_s
        return low / UNLIKE_BALANCE <= ratio <= high * UNLIKE_BALANCE

    def streamed_share(self, accelerator: Accelerator) -> float:
        """Return the share of the bandwidth that the card's multiprocessors can request.

        By Little's law, the memory rate is the bytes in flight divided by the latency. Each
        multiprocessor keeps a fixed number of bytes in flight. Within a generation, the number of
        multiprocessors is proportional to the fp32 vector peak.
        """
        vector = accelerator.peak_flops_per_s.get("fp32")
        if self.streamed is None or vector is None:
            return 1.0
        return min(1.0, self.streamed * vector / accelerator.memory_bandwidth_bytes_per_s)

    def unpacking_as(
        self, before: KernelEfficiency, accelerator: Accelerator, compute: str
    ) -> KernelEfficiency:
        """Return these constants with products by the kernels of an earlier generation.

        Each multiprocessor computes and reads at its rates there. ``compute``: the format of the
        products, which are of narrower weights; those of 16-bit weights stay.
        """
        vector = accelerator.peak_flops_per_s.get("fp32")
        if before.balance is None or before.streamed is None or vector is None:
            return self
        peak = before.balance[0] * before.streamed * vector
        rate = peak / accelerator.peak_flops_per_s[compute]
        reading = before.streamed_share(accelerator)
        matmul, experts = (
            curve.changed(
                compute=min(1.0, curve.compute * rate), bandwidth=curve.bandwidth * reading
            )
            for curve in (before.matmul["default"], before.experts["default"])
        )
        return self.changed(
            matmul=self.matmul | {compute: matmul},
            experts=self.experts | {"default": experts},
            attention=self.attention.changed(portable=before.attention.portable),
        )

    def unlike(self, pool: KernelEfficiency, streamed: float) -> KernelEfficiency:
        """Return these constants for a card whose compute-to-memory ratio was never measured.

        Constants that the measured cards do not determine come from ``pool``, and memory reads
        reach the share ``streamed`` of the bandwidth.
        """
        curves = [
            {
                name: curve.changed(
                    **(
                        {
                            constant: getattr(other[name], constant)
                            for constant in (
                                curve.fit.undetermined if curve.fit and name in other else ()
                            )
                        }
                        | {"bandwidth": curve.bandwidth * streamed}
                    )
                )
                for name, curve in own.items()
            }
            for own, other in ((self.matmul, pool.matmul), (self.experts, pool.experts))
        ]
        cache = self.attention.cache_bandwidth or self.elementwise_bandwidth
        return self.changed(
            matmul=curves[0],
            experts=curves[1],
            attention=self.attention.changed(cache_bandwidth=cache * streamed),
            elementwise_bandwidth=self.elementwise_bandwidth * streamed,
        )

    def filled_at(self, half_tiles: float, overhead_s: float) -> KernelEfficiency:
        """Return these constants with products that reach half of their rate at ``half_tiles``.

        A kernel takes ``overhead_s`` in addition to its work.
        """
        own = {"half_tiles": half_tiles, "overhead_s": overhead_s}
        matmul = {name: curve.changed(**own) for name, curve in self.matmul.items()}
        return self.changed(matmul=matmul, experts={})

    def in_formats(
        self, formats: Iterable[str], compute: float, *, smaller: float = 1.0
    ) -> KernelEfficiency:
        """Return these constants with another share of the peak for products in ``formats``.

        A unit with ``smaller`` times the work needs that much less to be half filled.
        """
        plain = self.matmul["default"]
        changed = {
            "compute": compute,
            "half_tiles": plain.half_tiles * smaller,
            "half_depth": plain.half_depth * smaller,
        }
        found = {name: plain.changed(**changed) for name in formats}
        return self.changed(matmul=self.matmul | found)

    def attending(self, compute: float) -> KernelEfficiency:
        """Return these constants with attention limited to this share of the peak."""
        attention = self.attention.changed(
            forward=min(compute, self.attention.forward),
            backward=min(compute, self.attention.backward),
        )
        return self.changed(attention=attention)


@by_identity(2048)
def served_kernels(
    kernels: KernelEfficiency,
    accelerator: Accelerator,
    weight_format: WeightFormat,
    backend: BackendFacts | None,
    *,
    own: bool,
    short_layers: bool,
) -> KernelEfficiency:
    """Return the constants for serving a format, with the kernels of ``backend`` if there is one.

    ``own``: they were fitted on cards of this kind. ``short_layers``: as in the noun.
    """
    served: dict[str, object] = {"expert_format": weight_format.name, "short_layers": short_layers}
    if backend is None:
        return kernels.changed(**served)
    quantised = weight_format.bytes_per_parameter < FORMAT_BYTES["bf16"]
    rate = backend.compute * narrow_sums(accelerator) * (1.0 if quantised else backend.wide)
    most = integer_rate(accelerator) if quantised else 1.0
    curve, attention = kernels.matmul["default"], kernels.attention
    matmul = MatmulEfficiency(
        overhead_s=0.0,
        compute=min(most, curve.compute * rate),
        bandwidth=backend.bandwidth,
        half_tiles=0.0,
        half_depth=0.0,
    )
    return kernels.changed(
        **served,
        matmul={"default": matmul},
        experts={},
        attention=attention.changed(
            forward=min(1.0, attention.forward * backend.attention),
            cache_bandwidth=backend.cache_bandwidth,
        ),
        backend=backend,
        grouped_half_rows=backend.grouped_half_rows,
        weight_operations=backend.expansion if quantised else backend.expansion_16,
        evidence=Evidence.CALIBRATED if own else kernels.evidence,
    )
