"""The calibrated constants: the share of the data sheet that kernels, links and software reach.

``data/calibration.yaml`` holds the fitted values, each with the data behind it, and
``data/calibration_facts.yaml`` those written by hand. An accelerator finds its constants by its
architecture generation. A generation without measurements takes the constants of a relative; its
evidence is then ``assumed`` and its range wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import log, sqrt
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence, Range
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.delivery import Delivery, Reliability
from advisor.nouns.software.engines import (
    DIRECT,
    OTHERS,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Seconds,
    ServingFacts,
    is_mappings,
    joined_engines,
)
from advisor.nouns.software.kernels import (
    DepthwiseEfficiency,
    KernelEfficiency,
    generations,
    peak_generation,
    served_kernels,
    tile_formats,
)
from advisor.nouns.software.links_and_memory import MemoryFacts, NetworkEfficiency, PipelineFacts
from advisor.nouns.software.stacks import ENOUGH_GROUPS, SoftwareFacts

VECTOR_WORK: Final = 1.0 / 8.0
"""Largest ratio of the vector units' fp32 rate to the 16-bit rate of the measured matrix units:
15.7 of 125 TFLOP/s on V100, 8.1 of 65 on T4. A card without matrix units fills in the same way."""


WIDENING_RANKS: Final = 8.0
"""Accelerators of one machine, beyond which the range of a step widens."""
MOST_DERIVED: Final = 1024
"""Cards whose derived constants are kept."""
UNMEASURED: Final = "_unmeasured"
"""Suffix of the intervals for generations without measured kernels."""


class Interval(Noun):
    """Multiplicative bounds of an 80 % interval around an expected value."""

    low: Annotated[float, Field(gt=0, le=1)]
    high: Annotated[Positive, Field(ge=1)]
    evidence: Evidence
    source: str
    groups: Annotated[int, Field(ge=0)] | None = None
    """Groups of independent runs that the bounds rest on; None where they are stated."""
    usual: Annotated[float | None, Field(ge=1, exclude_if=lambda value: value is None)] = None
    """Factor below which nine of ten known groups stay, if it decides what fits."""

    def around(
        self, value: float, *, widening: float = 1.0, known: Evidence = Evidence.DERIVED
    ) -> Range:
        """Return the range of a value: wider for an assumed shape, no surer than what is known."""
        return Range.around(
            value,
            low_factor=self.low / widening,
            high_factor=self.high * widening,
            evidence=self.evidence.weakest(known),
        )

    @property
    def most(self) -> float:
        """Factor that decides what fits."""
        return self.high if self.usual is None else self.usual

    @property
    def caution(self) -> tuple[str, ...]:
        """Return a sentence where too few independent runs are behind the bounds."""
        if self.groups is None or self.groups >= ENOUGH_GROUPS:
            return ()
        runs = "one published run" if self.groups == 1 else f"{self.groups} published runs"
        return (f"The range rests on {runs} of such work: treat it as a guess.",)


class Trained(Noun):
    """The published training runs on one generation that scored the constants."""

    formats: tuple[str, ...]
    """Formats of the runs' matrix products."""
    accelerators: Count
    """Number of accelerators in the largest run."""


class Calibration(Noun):
    """Everything in ``data/calibration.yaml`` and ``data/calibration_facts.yaml``."""

    kernels: dict[str, KernelEfficiency]
    """By the catalog's architecture generation, or by generation and compute capability
    (``Blackwell 12.0``) if the chips of one generation differ. ``default`` is for generations
    without measurements."""
    depthwise: dict[str, DepthwiseEfficiency]
    """Depthwise convolutions on all cards, by compute format; ``default`` in 16 bits."""
    relatives: dict[str, str]
    """Unmeasured generation -> measured generation whose constants it takes. Keys as in
    ``kernels``."""
    unpacked: dict[str, str] = Field(default_factory=dict)
    """Generation -> the one whose kernels unpack narrow weights for 16-bit products on it."""
    sustained: dict[str, Fraction] = Field(default_factory=dict)
    """Share of the matrix units' matmul rate in 16 bits and more that a long run sustains, by
    accelerator or generation."""
    best_shares: dict[str, Positive] = Field(default_factory=dict)
    """Best measured 16-bit matmul rate divided by the dense peak, by accelerator or by the
    narrowest name of a generation (``Ampere half-rate`` means its GeForce cards). Above 1 if
    clocks exceed the data sheet's. It scales the generation's constants."""
    measured_apart: dict[str, dict[str, NonNegative]]
    """Fields of the kernels that other measurements tell, by generation or its narrower name."""
    processor_half_tiles: NonNegative
    """``half_tiles`` of processors: a small product fills their few cores."""
    vector_compute: Fraction
    """Share of the peak that fp32 products reach on vector units, for cards whose matrix units
    do not support fp32."""
    processor_tile_compute: Fraction
    """Share of the peak that products in 16 bits and less reach on the tile units of processors
    (AMX): the cores cannot feed the full peak."""
    processor_overhead_s: Seconds
    """Fixed cost of one kernel on a processor. [s]"""
    processor_sustained: Fraction
    """Share of the 16-bit product rate that a training run on a processor sustains."""
    processor_fresh_memory: Fraction
    """Rate of a processor's memory-bound kernels in training, which keep their results, divided
    by the rate in inference."""
    machines: dict[str, KernelEfficiency] = Field(default_factory=dict)
    """Constants that the probe measured on the user's machine, by accelerator."""
    network: NetworkEfficiency
    software: dict[str, SoftwareFacts]
    """By name: rows of ``data/software.yaml`` with what is fitted of them."""
    serving: ServingFacts
    """Constants of the default engine; some weight formats use another engine."""
    engines: dict[str, ServingFacts] = Field(default_factory=dict)
    """Constants of other engines. A missing field takes its value from ``serving``."""
    memory: MemoryFacts
    pipeline: PipelineFacts
    intervals: dict[str, Interval]
    """By quantity: training_time, serving_time, serving_first_token, serving_memory,
    training_memory. Suffixes name special cases: ``_routed`` (mixture of experts, for both
    times), ``_samples`` (training), ``_adapters`` and ``_encoder`` (training_time),
    ``_unmeasured`` (generations without measurements; not for training_memory, which does not
    depend on the card), ``_4bit`` and ``_guessed`` (training_memory)."""
    reliability: Reliability
    delivery: Delivery
    trained: dict[str, Trained] = Field(default_factory=dict)
    """By the catalog's architecture generation."""

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        serving, engines = data.get("serving"), data.get("engines")
        if not isinstance(serving, dict) or not is_mappings(engines):
            return data  # the fields' own checks report the error
        if not all(is_mappings(own.get("backends", {})) for own in engines.values()):
            return data
        return {**data, "engines": joined_engines(serving, engines)}

    @model_validator(mode="after")
    def _closed(self) -> Calibration:
        if "default" not in self.kernels:
            raise ValueError(
                "kernels has no 'default'; add one for generations without measurements"
            )
        for name, kernels in self.kernels.items():
            if "default" not in kernels.matmul:
                raise ValueError(f"kernels.{name}.matmul has no 'default'; add the 16-bit curve")
        for name in self.trained:
            if name not in self.kernels and name not in self.relatives:
                raise ValueError(
                    f"kernels.{name} is missing: training runs on that generation were scored"
                )
        for name, relative in self.relatives.items():
            if name in self.kernels:
                raise ValueError(
                    f"relatives.{name}: the generation has kernels of its own; remove one"
                )
            if relative not in self.kernels:
                raise ValueError(f"relatives.{name}: no kernels for {relative!r}")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; constants of cards are derived anew if what they rest on changed."""
        found = super().model_copy(update=update, deep=deep)
        if set(update or ()) - {"serving"}:
            found.__dict__.pop("_derived", None)
        return found

    @property
    def alike(self) -> tuple[int, ...]:
        """The identity of all its constants."""
        return tuple(id(getattr(self, name)) for name in type(self).model_fields)

    @cached_property
    def _derived(self) -> dict[int, tuple[Accelerator, tuple[KernelEfficiency, bool]]]:
        """Constants of the cards that were asked for, by the identity of the card."""
        return {}

    def kernels_for(self, accelerator: Accelerator) -> tuple[KernelEfficiency, bool]:
        """Return the constants for ``accelerator``, and whether they were measured on its kind."""
        card, found = self._derived.get(id(accelerator), (None, None))
        if card is not accelerator or found is None:
            kernels, measured = self._derive(accelerator)
            found = kernels.changed(depthwise=self.depthwise), measured
            if len(self._derived) >= MOST_DERIVED:
                self._derived.clear()
            self._derived[id(accelerator)] = accelerator, found
        return found

    def _derive(self, accelerator: Accelerator) -> tuple[KernelEfficiency, bool]:
        if accelerator.key in self.machines:
            found = self.machines[accelerator.key]
            return (self._training(found) if accelerator.segment is Segment.CPU else found), True
        names = generations(accelerator)
        found, measured = self._generation(names)
        if accelerator.segment is Segment.CPU:
            found = found.filled_at(self.processor_half_tiles, self.processor_overhead_s)
            found = found.changed(sustained=self.processor_sustained)
            if tiled := tile_formats(accelerator):
                share = self.processor_tile_compute
                found = found.in_formats(tiled, share).attending(share)
            found = self._training(found)
        elif accelerator.key not in found.fitted_on and found.best_share is not None:
            kin = self.best_shares.get(peak_generation(accelerator))
            best = self.best_shares.get(accelerator.key, kin)
            found = found if best is None else found.scaled(best / found.best_share)
        lasting = self.sustained.get(accelerator.key, self.sustained.get(accelerator.architecture))
        if lasting is not None:
            found = found.changed(sustained=lasting)
        for name in reversed(names):
            found = found.changed(**self.measured_apart.get(name, {}))
        if measured and not found.balanced_on(accelerator):
            found = found.unlike(self.kernels[OTHERS], found.streamed_share(accelerator))
            measured = False
        return self._on_vectors(found, accelerator), measured

    def _training(self, processor: KernelEfficiency) -> KernelEfficiency:
        """Return a processor's constants with the slower memory-bound kernels of training."""
        return processor.changed(fresh_memory=self.processor_fresh_memory)

    def _on_vectors(self, kernels: KernelEfficiency, accelerator: Accelerator) -> KernelEfficiency:
        """Return the constants with vector units for products that matrix units do not support."""
        peaks = accelerator.peak_flops_per_s
        if "fp32" not in peaks:
            return kernels
        wider = peaks.get("bf16", peaks.get("fp16", peaks["fp32"])) / peaks["fp32"]
        if accelerator.segment is Segment.CPU:
            return kernels.in_formats(("fp32",), self.vector_compute, smaller=1.0 / wider)
        work = min(1.0 / wider, VECTOR_WORK)
        found = kernels.in_formats(("fp32",), self.vector_compute, smaller=work)
        if wider > 1.0:
            return found
        # The matrix units do not support 16-bit products either.
        return found.in_formats(("default",), kernels.matmul["default"].compute, smaller=work)

    def engine_for(self, weight_format: WeightFormat) -> ServingFacts:
        """Return the engine that serves ``weight_format``: llama.cpp, or its like, for GGUF."""
        kin = self.serving.like == weight_format.engine
        return self.serving if kin else self.engines.get(weight_format.engine, self.serving)

    def under(self, engine: str | None) -> Calibration:
        """Return the constants with those of another engine as the default ones.

        An engine without fitted constants takes those of the default engine.
        """
        if engine is None or engine not in self.engines:
            return self
        return self.changed(serving=self.engines[engine])

    def served_kernels(
        self,
        accelerator: Accelerator,
        weight_format: WeightFormat,
        engine: ServingFacts | None = None,
        interface: str = "",
    ) -> tuple[KernelEfficiency, bool]:
        """Return :meth:`kernels_for` under a serving engine, by default that of the weight format.

        ``interface`` is as for :meth:`ServingFacts.backend`.
        """
        found, measured = self.kernels_for(accelerator)
        engine = engine or self.engine_for(weight_format)
        names = generations(accelerator)
        backend = engine.backend(names, interface)
        others = engine.backends.get(OTHERS)
        before = next((self.unpacked[name] for name in names if name in self.unpacked), "")
        if before and backend is None and weight_format.unpacked:
            found = found.unpacking_as(self.kernels[before], accelerator, weight_format.compute)
        if backend is None and others and engine.host:
            # A processor reads as it reads the layers that a card leaves to it.
            found = found.of_processor(engine.host.bandwidth, others.grouped_half_rows)
        served = served_kernels(
            found,
            accelerator,
            weight_format,
            backend,
            own=backend is not others,
            short_layers=engine.short_layers(names),
        )
        return served, measured

    def _generation(self, names: tuple[str, ...]) -> tuple[KernelEfficiency, bool]:
        for name in names:
            if name in self.kernels:
                found = self.kernels[name]
                return found, found.evidence is not Evidence.ASSUMED
            if name in self.relatives:
                return self.kernels[self.relatives[name]], False
        return self.kernels[OTHERS], False

    def interval(self, quantity: str, *, measured: bool) -> Interval:
        """Return the interval of ``quantity``: the wider one for unmeasured hardware."""
        return self.intervals[quantity if measured else f"{quantity}{UNMEASURED}"]

    def served_interval(
        self, quantity: str, weight_format: WeightFormat, *, measured: bool
    ) -> Interval:
        """Return the interval of a served time: the engine's own if it has one."""
        name = weight_format.engine
        if quantity in DIRECT:
            facts = self.engine_for(weight_format)
            name = next((key for key, each in self.engines.items() if each is facts), name)
        return self.engine_interval(quantity, name, measured=measured)

    def engine_interval(self, quantity: str, engine: str, *, measured: bool) -> Interval:
        """Return the engine's own interval if it has one, and a server's only on measured cards."""
        own = self.intervals.get(f"{quantity}_{engine}")
        if own and (measured or quantity in DIRECT):
            return own
        return self.interval(quantity, measured=measured)

    def training_interval(
        self,
        quantity: str,
        accelerator: Accelerator,
        software: str,
        *,
        adapters: bool,
        measured: bool,
        compute: str,
        count: int,
    ) -> Interval:
        """Return the interval of a training time: the wider one outside the scored runs.

        ``software``: the stack; runs of some lie farther from their predictions.
        ``measured`` is True if the accelerator's kernels were measured (:meth:`kernels_for`). The
        wait for the slowest of more than ``WIDENING_RANKS`` accelerators, in steps of a second, may
        be nothing or twice as long (:func:`advisor.equations.training.traffic.slowest_s`).
        """
        beyond = self.beyond_training(accelerator, compute=compute, count=count)
        found = self.interval(quantity, measured=measured and not beyond)
        facts = self.software[software]
        wider = facts.adapter_spread if adapters else facts.spread
        found = found.changed(low=found.low**wider, high=found.high**wider)
        if count <= WIDENING_RANKS:
            return found
        wait = self.network.jitter * sqrt(2.0 * log(count / WIDENING_RANKS))
        return found.changed(low=found.low / (1.0 + wait), high=found.high * (1.0 + wait))

    def beyond_training(
        self, accelerator: Accelerator, *, compute: str, count: int
    ) -> tuple[str, ...]:
        """Return sentences on the parts of a question that no scored training run covers."""
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
                f"{seen.accelerators:,} accelerator{'s' * (seen.accelerators > 1)}: {wider}"
            )
        return tuple(found)
