"""Efficiencies of kernels: the constants of a card's curves, and how they change with their use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from advisor.foundation.names import Name, Text
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence
from advisor.nouns.engines import BackendFacts, Fraction, NonNegative, Positive, Seconds
from advisor.nouns.generations import narrow_sums
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import FORMAT_BYTES, WeightFormat


class FitQuality(Noun):
    """How well a fitted curve matches the measurements: absolute errors of the time."""

    rows: Annotated[int, Field(ge=1)]
    """Measurements fitted."""
    median_error: NonNegative
    p90_error: NonNegative
    held_out_median_error: NonNegative | None = None
    """On an accelerator that the curve has not seen; None where there is no other to fit on."""
    held_out_p90_error: NonNegative | None = None
    at_bound: tuple[Name, ...] = ()
    """Constants that ran into a bound of the fit: not to be read physically."""
    left_out: tuple[Name, ...] = ()
    """Constants that are 0 because the measurements show no trace of their term."""

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Return the constants that the measured cards do not fix."""
        return self.at_bound + self.left_out


class MatmulEfficiency(Noun):
    """Curve of one matmul format: see ``equations.roofline.matmul_time_s``."""

    overhead_s: Seconds
    compute: Fraction
    """Share of the dense peak at large sizes."""
    bandwidth: Fraction
    """Share of the memory bandwidth when bandwidth-bound."""
    half_tiles: NonNegative
    """Output tiles of 128 x 128 at which the rate is half of its limit."""
    half_depth: NonNegative
    """Inner dimension k at which the rate is half of its limit."""
    fit: FitQuality | None = None


class AttentionEfficiency(Noun):
    """Flash attention: shares of the dense 16-bit peak, causal half counted once."""

    overhead_s: Seconds
    forward: Fraction
    backward: Fraction
    """On 2.5 times the forward FLOPs (the scores are recomputed)."""
    half_keys: NonNegative = 0.0
    """Keys per query at which the rate is half of its limit."""
    portable: Fraction = 1.0
    """Rate of FlashAttention-2 over that of the generation's own kernels, which were measured."""
    scan: Fraction = 0.15
    """Rate of chunked recurrences over ``forward``."""
    cache_bandwidth: Fraction | None = None
    """Share of the memory bandwidth at which decoding reads the key-value cache; None: as
    ``elementwise_bandwidth``."""
    fit: FitQuality | None = None


class KernelEfficiency(Noun):
    """All kernels of one architecture generation."""

    matmul: dict[Name, MatmulEfficiency]
    """By compute format; ``default`` serves formats without an entry of their own."""
    experts: dict[Name, MatmulEfficiency] = Field(default_factory=dict)
    """Grouped products of routed experts by format of their weights, ``default`` in 16 bits; those
    without an entry run as ``matmul``."""
    expert_format: Name = "default"
    """Format of the experts that are served."""
    attention: AttentionEfficiency
    elementwise_bandwidth: Fraction
    """Share of the memory bandwidth that norms, activations and the optimizer reach."""
    sustained: Fraction = 1.0
    """Share of the matmul rate that remains in a long run in 16 bits and more, where the power
    limit lowers the clocks; kernels were measured in short bursts."""
    fresh_memory: Fraction = 1.0
    """Rate of memory-bound kernels in training over that of inference."""
    backend: BackendFacts | None = None
    """What an engine with kernels of its own makes of the card; None for the measured kernels."""
    weight_operations: NonNegative = 0.0
    """Vector operations to expand one stored weight, counted at the fp32 peak."""
    balance: tuple[NonNegative, NonNegative] | None = None
    """Least and most 16-bit operations for each byte of the memory of the cards fitted on."""
    streamed: Positive | None = None
    """Most memory bandwidth for each fp32 vector operation of the cards fitted on: what their
    multiprocessors were seen to keep in flight. [bytes]"""
    fitted_on: tuple[Name, ...] = ()
    """Accelerators whose kernels were measured."""
    best_share: Positive | None = None
    """Best 16-bit matmul rate over the dense peak that goes with these constants: what the
    shares of other cards are compared with."""
    evidence: Evidence
    source: Text

    def scaled(self, factor: float) -> KernelEfficiency:
        """Return these constants with all arithmetic rates times ``factor``, at most the peak."""
        matmul, experts = (
            {
                name: curve.model_copy(update={"compute": min(1.0, curve.compute * factor)})
                for name, curve in curves.items()
            }
            for curves in (self.matmul, self.experts)
        )
        attention = self.attention.model_copy(
            update={
                "forward": min(1.0, self.attention.forward * factor),
                "backward": min(1.0, self.attention.backward * factor),
            }
        )
        return self.model_copy(
            update={"matmul": matmul, "experts": experts, "attention": attention}
        )

    def under(
        self, backend: BackendFacts, accelerator: Accelerator, weight_format: WeightFormat
    ) -> KernelEfficiency:
        """Return these constants with ``backend``'s kernels in their place."""
        quantised = weight_format.bytes_per_parameter < FORMAT_BYTES["bf16"]
        rate = backend.compute * narrow_sums(accelerator) * (1.0 if quantised else backend.wide)
        curve = self.matmul["default"]
        own = MatmulEfficiency(
            overhead_s=0.0,
            compute=min(1.0, curve.compute * rate),
            bandwidth=backend.bandwidth,
            half_tiles=0.0,
            half_depth=0.0,
        )
        attention = self.attention.model_copy(
            update={
                "forward": min(1.0, self.attention.forward * backend.attention),
                "cache_bandwidth": backend.cache_bandwidth,
            }
        )
        return self.model_copy(
            update={
                "matmul": {"default": own},
                "experts": {},
                "attention": attention,
                "backend": backend,
                "weight_operations": backend.expansion if quantised else backend.expansion_16,
            }
        )

    def unlike(self, pool: KernelEfficiency, streamed: float) -> KernelEfficiency:
        """Return these constants for a card in whose balance no kernel was measured.

        Constants that the measured cards do not fix are those of ``pool``, and memory is read at
        the share ``streamed`` of the rate.
        """
        curves = [
            {
                name: curve.model_copy(
                    update={
                        constant: getattr(other[name], constant)
                        for constant in (
                            curve.fit.undetermined if curve.fit and name in other else ()
                        )
                    }
                    | {"bandwidth": curve.bandwidth * streamed}
                )
                for name, curve in own.items()
            }
            for own, other in ((self.matmul, pool.matmul), (self.experts, pool.experts))
        ]
        cache = self.attention.cache_bandwidth or self.elementwise_bandwidth
        return self.model_copy(
            update={
                "matmul": curves[0],
                "experts": curves[1],
                "attention": self.attention.model_copy(
                    update={"cache_bandwidth": cache * streamed}
                ),
                "elementwise_bandwidth": self.elementwise_bandwidth * streamed,
            }
        )

    def filled_at(self, half_tiles: float, overhead_s: float) -> KernelEfficiency:
        """Return these constants with products that reach half of their rate at ``half_tiles``.

        A kernel costs ``overhead_s`` beside its work.
        """
        own = {"half_tiles": half_tiles, "overhead_s": overhead_s}
        matmul = {name: curve.model_copy(update=own) for name, curve in self.matmul.items()}
        return self.model_copy(update={"matmul": matmul, "experts": {}})

    def in_formats(
        self, formats: Iterable[str], compute: float, *, smaller: float = 1.0
    ) -> KernelEfficiency:
        """Return these constants with products in ``formats`` at a share of the peak of their own.

        A unit that does ``smaller`` times the work is half filled by as much less.
        """
        plain = self.matmul["default"]
        changed = {
            "compute": compute,
            "half_tiles": plain.half_tiles * smaller,
            "half_depth": plain.half_depth * smaller,
        }
        found = {name: plain.model_copy(update=changed) for name in formats}
        return self.model_copy(update={"matmul": self.matmul | found})

    def attending(self, compute: float) -> KernelEfficiency:
        """Return these constants with attention at this share of the peak at most."""
        attention = self.attention.model_copy(
            update={
                "forward": min(compute, self.attention.forward),
                "backward": min(compute, self.attention.backward),
            }
        )
        return self.model_copy(update={"attention": attention})
