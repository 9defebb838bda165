"""What share of the data sheet real kernels, links and software reach: the fitted constants.

The fitted values live in ``data/calibration.yaml``, each with the data it was fitted on, the
stated ones in ``data/calibration_facts.yaml``. An accelerator finds its constants by
architecture generation; one without measurements inherits from its relatives, its evidence is
``assumed`` and its range wider.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence
from advisor.nouns.engines import (
    OTHERS,
    Bytes,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Seconds,
    ServingFacts,
    is_mappings,
    joined_engines,
)
from advisor.nouns.generations import generations, tile_formats
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.kernels import FitQuality, KernelEfficiency
from advisor.nouns.precision import WeightFormat
from advisor.nouns.stacks import ENOUGH_GROUPS, SoftwareFacts

VECTOR_WORK: Final = 1.0 / 8.0
"""fp32 rate of vector units over the 16-bit rate of the matrix units that curves were measured on,
at most: 15.7 of 125 TFLOP/s on V100, 8.1 of 65 on T4. A card without matrix units is filled
alike."""

GGUF_ENGINE: Final = "llama_cpp"
"""Section of ``engines`` that serves GGUF files."""


class NetworkEfficiency(Noun):
    """Collectives: share of the wire rate and latency per ring step."""

    intra_bandwidth: Fraction
    pcie_bandwidth: Fraction | None = None
    """Inside a node without fast links; None: as ``intra_bandwidth``."""
    inter_bandwidth: Fraction
    intra_latency_s: Seconds
    inter_latency_s: Seconds
    overlap: Fraction
    """Share of the backward (and forward) pass that data-parallel traffic can hide behind."""
    host_bytes_per_s: Annotated[Bytes, Field(gt=0)] = 100e9
    """What the memory of a machine's host sustains; assumed: half of eight channels of
    DDR4-3200. [bytes/s]"""
    source: str
    """Of what happens inside a node."""
    inter_source: str = ""
    """Of the network between nodes and of the overlap."""
    fit: FitQuality | None = None


def _rising(values: dict[str, float]) -> dict[str, float]:
    """Return the three values of a range, if they are its three and in order."""
    if set(values) != {"low", "expected", "high"}:
        msg = "give low, expected and high"
        raise ValueError(msg)
    if not values["low"] <= values["expected"] <= values["high"]:
        msg = "order the three: low, expected, high"
        raise ValueError(msg)
    return values


class MemoryFacts(Noun):
    """What a process holds besides tensors."""

    context_bytes: Annotated[dict[str, Bytes], AfterValidator(_rising)]
    """Driver context and loaded kernels: low, expected, high. [bytes]"""
    workspace_bytes: Bytes
    """Matmul library workspaces. [bytes]"""
    minimal_filter_workspace: NonNegative
    """Workspace of a convolution by minimal filtering in fp32, over its input and output."""
    communication_bytes: Bytes
    """Collective library buffers, for each way of parallelism in use. [bytes]"""
    fragmentation: Annotated[dict[str, NonNegative], AfterValidator(_rising)]
    """Reserved over allocated, minus one: low, expected, high. [fraction]"""
    source: str


UNMEASURED: Final = "_unmeasured"
"""End of the names of intervals for generations whose kernels nobody measured."""


class Interval(Noun):
    """Multiplicative bounds of an 80 % interval around an expected value."""

    low: Annotated[float, Field(gt=0, le=1)]
    high: Annotated[Positive, Field(ge=1)]
    evidence: Evidence
    source: str
    groups: Annotated[int, Field(ge=0)] | None = None
    """Groups of independent runs that the bounds rest on; None where they are stated."""

    @property
    def caution(self) -> tuple[str, ...]:
        """Return a sentence where too few independent runs are behind the bounds."""
        if self.groups is None or self.groups >= ENOUGH_GROUPS:
            return ()
        runs = "one published run" if self.groups == 1 else f"{self.groups} published runs"
        return (f"The range rests on {runs} of such work: treat it as a guess.",)


class Trained(Noun):
    """Published training runs that the constants were scored on, of one generation."""

    formats: tuple[str, ...]
    """Formats of their matrix products."""
    accelerators: Count
    """Of the largest run."""


class Reliability(Noun):
    """What interrupts a long run."""

    interruptions_per_accelerator_hour: NonNegative
    checkpoint_s: Seconds
    restart_s: Seconds
    startup_s: Seconds
    """From renting to the first step: boot, image, weights and data, compilation."""
    source: str


class Calibration(Noun):
    """Everything in ``data/calibration.yaml`` and ``data/calibration_facts.yaml``."""

    kernels: dict[str, KernelEfficiency]
    """By architecture generation of the catalog, or by generation and compute capability
    (``Blackwell 12.0``) where one generation has unlike chips; ``default`` is for unmeasured
    ones."""
    relatives: dict[str, str]
    """Unmeasured generation -> measured generation it inherits from; keys as of ``kernels``."""
    sustained: dict[str, Fraction] = Field(default_factory=dict)
    """Share of the matmul rate of matrix units in 16 bits and more that remains in a long run, by
    accelerator or generation."""
    best_shares: dict[str, Positive] = Field(default_factory=dict)
    """Best measured 16-bit matmul rate over the dense peak, by accelerator or by the narrowest
    name of a generation (``Ampere half-rate``: its GeForce cards); above 1 where clocks exceed
    the data sheet's. Scales the constants of the generation."""
    processor_half_tiles: NonNegative
    """``half_tiles`` of processors, whose few cores a small product fills."""
    vector_compute: Fraction
    """Share of the peak that fp32 products reach on vector units, where no matrix unit takes
    them."""
    processor_tile_compute: Fraction
    """Share of the peak that products in 16 bits and less reach on the tile units of processors
    (AMX), whose peak the cores cannot feed."""
    processor_overhead_s: Seconds
    """Fixed cost of a kernel of a processor. [s]"""
    processor_sustained: Fraction
    """Share of the rate of 16-bit products that remains in a training run on a processor."""
    processor_fresh_memory: Fraction
    """Rate of memory-bound kernels of processors in training, whose results stay, over that of
    inference."""
    machines: dict[str, KernelEfficiency] = Field(default_factory=dict)
    """Constants that the probe measured on a machine of the user, by accelerator."""
    network: NetworkEfficiency
    software: dict[str, SoftwareFacts]
    """By name: rows of ``data/software.yaml`` with what is fitted of them."""
    serving: ServingFacts
    """Of the engine that estimates are for, where the weights' format does not name another."""
    engines: dict[str, ServingFacts] = Field(default_factory=dict)
    """Of other engines; what a section leaves out is as in ``serving``."""
    memory: MemoryFacts
    intervals: dict[str, Interval]
    """By quantity: training_time, serving_time (both also with ``_routed``, for mixtures of
    experts; the former also with ``_adapters``, ``_samples`` and ``_encoder``),
    serving_first_token, serving_memory; each also with ``_unmeasured``, for generations without
    measurements; training_memory, which does not depend on the card, also with ``_4bit``
    and ``_guessed``."""
    reliability: Reliability
    trained: dict[str, Trained] = Field(default_factory=dict)
    """By architecture generation of the catalog."""

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        serving, engines = data.get("serving"), data.get("engines")
        if not isinstance(serving, dict) or not is_mappings(engines):
            return data  # the fields tell what is wrong
        if not all(is_mappings(own.get("backends", {})) for own in engines.values()):
            return data
        return {**data, "engines": joined_engines(serving, engines)}

    @model_validator(mode="after")
    def _closed(self) -> Calibration:
        if "default" not in self.kernels:
            msg = "kernels has no 'default'; add one for generations without measurements"
            raise ValueError(msg)
        for name, kernels in self.kernels.items():
            if "default" not in kernels.matmul:
                msg = f"kernels.{name}.matmul has no 'default'; add the 16-bit curve"
                raise ValueError(msg)
        for name in self.trained:
            if name not in self.kernels and name not in self.relatives:
                msg = f"kernels.{name} is missing: training runs on that generation were scored"
                raise ValueError(msg)
        for name, relative in self.relatives.items():
            if name in self.kernels:
                msg = f"relatives.{name}: the generation has kernels of its own; remove one"
                raise ValueError(msg)
            if relative not in self.kernels:
                msg = f"relatives.{name}: no kernels for {relative!r}"
                raise ValueError(msg)
        return self

    def kernels_for(self, accelerator: Accelerator) -> tuple[KernelEfficiency, bool]:
        """Return the constants for ``accelerator`` and whether they were measured on its kind."""
        if accelerator.key in self.machines:
            found = self.machines[accelerator.key]
            return (self._training(found) if accelerator.segment is Segment.CPU else found), True
        names = generations(accelerator)
        found, measured = self._generation(names)
        if accelerator.segment is Segment.CPU:
            found = found.filled_at(self.processor_half_tiles, self.processor_overhead_s)
            found = found.model_copy(update={"sustained": self.processor_sustained})
            if tiled := tile_formats(accelerator):
                share = self.processor_tile_compute
                found = found.in_formats(tiled, share).attending(share)
            found = self._training(found)
        elif accelerator.key not in found.fitted_on and found.best_share is not None:
            best = self.best_shares.get(accelerator.key, self.best_shares.get(names[0]))
            found = found if best is None else found.scaled(best / found.best_share)
        lasting = self.sustained.get(accelerator.key, self.sustained.get(accelerator.architecture))
        if lasting is not None:
            found = found.model_copy(update={"sustained": lasting})
        if measured and not _balanced(found, accelerator):
            found = found.unlike(self.kernels[OTHERS], _streamed_share(found, accelerator))
            measured = False
        return self._on_vectors(found, accelerator), measured

    def _training(self, processor: KernelEfficiency) -> KernelEfficiency:
        """Return a processor's constants with what training leaves of its memory-bound kernels."""
        return processor.model_copy(update={"fresh_memory": self.processor_fresh_memory})

    def _on_vectors(self, kernels: KernelEfficiency, accelerator: Accelerator) -> KernelEfficiency:
        """Return the constants with products on vector units where no matrix unit takes them."""
        peaks = accelerator.peak_flops_per_s
        if "tf32" in peaks or "fp32" not in peaks:
            return kernels
        wider = peaks.get("bf16", peaks.get("fp16", peaks["fp32"])) / peaks["fp32"]
        if accelerator.segment is Segment.CPU:
            return kernels.in_formats(("fp32",), self.vector_compute, smaller=1.0 / wider)
        work = min(1.0 / wider, VECTOR_WORK)
        found = kernels.in_formats(("fp32",), self.vector_compute, smaller=work)
        if wider > 1.0:
            return found
        # Nor in 16 bits does a matrix unit take them.
        return found.in_formats(("default",), kernels.matmul["default"].compute, smaller=work)

    def engine_for(self, weight_format: WeightFormat) -> ServingFacts:
        """Return the engine that serves ``weight_format``: GGUF files are llama.cpp's."""
        if weight_format.mixture and GGUF_ENGINE in self.engines:
            return self.engines[GGUF_ENGINE]
        return self.serving

    def served_kernels(
        self,
        accelerator: Accelerator,
        weight_format: WeightFormat,
        engine: ServingFacts | None = None,
    ) -> tuple[KernelEfficiency, bool]:
        """Return :meth:`kernels_for` under a serving engine.

        Parameters
        ----------
        weight_format : WeightFormat
            Of the served weights.
        engine : ServingFacts, optional
            By default the one that serves ``weight_format``.
        """
        found, measured = self.kernels_for(accelerator)
        found = found.model_copy(update={"expert_format": weight_format.name})
        engine = engine or self.engine_for(weight_format)
        backend = engine.backend(generations(accelerator))
        # Engines' own kernels were fitted on accelerators; processors decode as fast as they read.
        if backend is None or accelerator.segment is Segment.CPU:
            return found, measured
        return found.under(backend, accelerator, weight_format), measured

    def _generation(self, names: tuple[str, ...]) -> tuple[KernelEfficiency, bool]:
        for name in names:
            if name in self.kernels:
                found = self.kernels[name]
                return found, found.evidence is not Evidence.ASSUMED
            if name in self.relatives:
                return self.kernels[self.relatives[name]], False
        return self.kernels[OTHERS], False

    def interval(self, quantity: str, *, measured: bool) -> Interval:
        """Return the interval of ``quantity``, the wider one where hardware is unmeasured."""
        return self.intervals[quantity if measured else f"{quantity}{UNMEASURED}"]

    def training_interval(
        self, quantity: str, accelerator: Accelerator, *, measured: bool, compute: str, count: int
    ) -> Interval:
        """Return the interval of a training time: the wider one beyond what was scored.

        ``measured`` tells whether kernels of the accelerator were (:meth:`kernels_for`).
        """
        beyond = self.beyond_training(accelerator, compute=compute, count=count)
        return self.interval(quantity, measured=measured and not beyond)

    def beyond_training(
        self, accelerator: Accelerator, *, compute: str, count: int
    ) -> tuple[str, ...]:
        """Sentences on what no published training run that was scored covers."""
        generation = accelerator.architecture
        seen = self.trained.get(generation)
        wider = "the range of the time is wider"
        if seen is None:
            return (f"no training run on {generation} was scored: {wider}",)
        found = []
        if compute not in seen.formats:
            found.append(f"no training run in {compute} on {generation} was scored: {wider}")
        if count > seen.accelerators:
            found.append(
                f"the largest training run on {generation} that was scored had "
                f"{seen.accelerators:,} accelerators: {wider}"
            )
        return tuple(found)


UNLIKE_BALANCE: Final = 4.0
"""Beyond this factor between operations for each byte, kernels are bound elsewhere than where they
were measured: H20 has a fifth to an eighth of the arithmetic of H200 and H100 on their memory, and
decodes in 16 bits at less than half of its bandwidth (QwenLM/Qwen3, speed benchmark). Assumed."""


def _balanced(kernels: KernelEfficiency, accelerator: Accelerator) -> bool:
    """Return whether arithmetic and bandwidth stand in about the ratio of the measured cards."""
    peaks = accelerator.peak_flops_per_s
    sixteen = peaks.get("bf16", peaks.get("fp16"))
    if kernels.balance is None or sixteen is None:
        return True
    low, high = kernels.balance
    ratio = sixteen / accelerator.memory_bandwidth_bytes_per_s
    return low / UNLIKE_BALANCE <= ratio <= high * UNLIKE_BALANCE


def _streamed_share(kernels: KernelEfficiency, accelerator: Accelerator) -> float:
    """Return the share of the bandwidth that as many multiprocessors were seen to ask for.

    The rate of memory is what is in flight over its latency (Little's law), and each multiprocessor
    keeps so much in flight; their number goes with the fp32 vector peak within a generation.
    """
    vector = accelerator.peak_flops_per_s.get("fp32")
    if kernels.streamed is None or vector is None:
        return 1.0
    return min(1.0, kernels.streamed * vector / accelerator.memory_bandwidth_bytes_per_s)
