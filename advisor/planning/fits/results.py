"""Which models a card can serve and train, with the memory to spare or short of."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from advisor.foundation.formatting import length_limit
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range
from advisor.foundation.units import GB
from advisor.nouns.layout import ParallelLayout, Sharding
from advisor.nouns.precision import formats_served
from advisor.nouns.training_choices import FineTuningMethod


class Verdict(StrEnum):
    """Whether a model can be served for one request of the asked context, best first."""

    FITS = "fits"
    """In weights that its software usually takes: the checkpoint's own format, or a GGUF or MLX
    file of four bits and more."""
    FITS_IF_CHANGED = "fits_if_changed"
    """With smaller weights."""
    FITS_WITH_HOST = "fits_with_host"
    """With layers or experts in the host's memory."""
    DOES_NOT_FIT = "does_not_fit"


VERDICT_TITLES: Final = {
    Verdict.FITS: "Fits",
    Verdict.FITS_IF_CHANGED: "Fits with smaller weights",
    Verdict.FITS_WITH_HOST: "Fits with layers in the host's memory",
    Verdict.DOES_NOT_FIT: "Does not fit",
}


class ServedFit(Noun):
    """One model served in one weight format at one concurrency."""

    weight_format: str
    kv_cache_format: str | None
    """Of keys and values."""
    software: str
    """Name of the tool that serves it."""
    software_title: str
    quality: str
    """Published loss of quality by the format, in words; empty if none is known."""
    concurrency: int
    """Sequences in flight at once."""
    layout: ParallelLayout
    fits: bool
    """The asked context fits, by the high end of the range."""
    max_context_tokens: int
    """Longest sequence for all of them at once; 0 if the weights do not fit. [tokens]"""
    weights_bytes: float
    kv_cache_bytes: float
    """At the asked context. [bytes]"""
    engine_bytes: float
    """Activations, graphs, logits and the driver's context, expected. [bytes]"""
    needed_bytes: float
    """High end of the total on the fullest card; it decides what fits. [bytes]"""
    usable_bytes: float
    """Part of the card's memory that a serving engine may fill. [bytes]"""
    host_bytes: float
    """Weights and cache in the host's memory, expected. [bytes]"""
    tokens_per_s: Range | None
    """Decode speed of one sequence; None where it does not fit. [tokens/s]"""

    @property
    def formats(self) -> str:
        """Weights, with the cache where it has fewer than 16 bits."""
        return formats_served(self.weight_format, self.kv_cache_format)

    @property
    def margin_bytes(self) -> float:
        """Usable less needed memory; negative where it does not fit. [bytes]"""
        return self.usable_bytes - self.needed_bytes


class TrainedFit(Noun):
    """One model fine-tuned by one method, one sequence per card at a time."""

    method: FineTuningMethod
    precision: str
    software: str
    """Name of the first tool that trains a sequence of the asked context; if none does, of the
    first. The longest sequences are those of any tool that a plan may use."""
    sharding: Sharding
    """Least sharding that reaches the longest sequence with full recomputation."""
    fits: bool
    """A sequence of the asked context fits, if necessary with recomputation."""
    longest_kept: int
    """Longest sequence with all activations kept; 0 where none fits. [tokens]"""
    longest_recomputed: int
    """Longest sequence with full recomputation. [tokens]"""
    longest_hosted: int
    """Longest sequence with full recomputation and states in the host's memory; 0 where no host
    has enough. [tokens]"""
    needed_bytes: float
    """What decides whether the asked context fits, with full recomputation. [bytes]"""
    usable_bytes: float
    """What the driver reports. [bytes]"""

    @property
    def trains(self) -> bool:
        """Whether any sequence fits, if necessary with the host's memory."""
        return max(self.longest_recomputed, self.longest_hosted) > 0

    @property
    def longest(self) -> str:
        """Longest sequence that a plan may have, marked (*) where the host makes it longer."""
        hosted = self.longest_hosted > self.longest_recomputed
        most = self.longest_hosted if hosted else self.longest_recomputed
        return length_limit(most) + "*" * hosted

    @property
    def lengths(self) -> str:
        """Longest sequences: all kept, recomputed, and with the host where that is longer."""
        if not self.longest_recomputed:
            return f"{length_limit(self.longest_hosted)} (host)"
        found = [self.longest_kept, self.longest_recomputed]
        if self.longest_hosted > self.longest_recomputed:
            found.append(self.longest_hosted)
        return " / ".join(map(length_limit, found))

    @property
    def margin_bytes(self) -> float:
        """Usable less needed memory; negative where it does not fit. [bytes]"""
        return self.usable_bytes - self.needed_bytes


class ModelFit(Noun):
    """One model on the asked hardware."""

    preset: str
    parameters: int
    verdict: Verdict
    context_tokens: int
    """The asked context, or the model's longest if it is shorter. [tokens]"""
    served: ServedFit
    """One sequence, as ``estimate`` answers it: in the largest weight format that fits; if none
    does, in the smallest."""
    served_together: ServedFit | None
    """The asked concurrency in the largest format that fits; None if none fits."""
    trained: tuple[TrainedFit, ...]
    """Full fine-tuning, LoRA and QLoRA; empty for cards that no software trains on."""

    @property
    def margin_bytes(self) -> float:
        """Margin of serving one sequence. [bytes]"""
        return self.served.margin_bytes

    @property
    def context_together(self) -> str:
        """Longest context of several sequences, and their weight format if it differs."""
        served = self.served_together
        if served is None:
            return "-"
        length = length_limit(served.max_context_tokens)
        own = served.weight_format == self.served.weight_format
        return length if own else f"{length} ({served.weight_format})"


class Fits(Noun):
    """What fits some cards of one kind."""

    accelerator: str
    accelerator_name: str
    count: int
    memory_bytes: float
    """What the driver reports for one card. [bytes]"""
    host_memory_bytes: float
    """Of a machine of these cards, for layers of served models. [bytes]"""
    context_tokens: int
    concurrency: int
    models: tuple[ModelFit, ...]
    """Best verdict first, then the larger model first."""
    assumptions: tuple[str, ...]

    @property
    def raised_bytes(self) -> float | None:
        """What servers fill of a raised limit; None if nothing needs that. [bytes]"""
        return raised_bytes(self.models, self.memory_bytes)

    def having(self, verdict: Verdict) -> tuple[ModelFit, ...]:
        """Return the models of one verdict."""
        return tuple(model for model in self.models if model.verdict is verdict)

    @property
    def served(self) -> str:
        """How many of the models can be served, and how many more with a sacrifice."""
        text = f"{len(self.having(Verdict.FITS))} of {len(self.models)} models can be served"
        if changed := self.having(Verdict.FITS_IF_CHANGED):
            text += f", {len(changed)} more with smaller weights"
        if hosted := self.having(Verdict.FITS_WITH_HOST):
            room = f"{self.host_memory_bytes / GB:.0f} GB of host memory"
            text += f", {len(hosted)} more with layers in {room}"
        return text


def raised_bytes(models: Iterable[ModelFit], whole_bytes: float) -> float | None:
    """Return what servers fill where models fit only with the system's limit raised. [bytes]"""
    served = (model.served for model in models)
    within = (
        each.usable_bytes for each in served if whole_bytes < each.needed_bytes <= each.usable_bytes
    )
    return max(within, default=None)
