"""Which tools are usual for a kind of work on a card: ``data/tool_choice.yaml`` explains it."""

from math import inf
from typing import Annotated, Final

from pydantic import Field, NonNegativeFloat, PositiveFloat

from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.inputs import Labelled

Words = Annotated[str, Field(min_length=1, max_length=600)]


class Duty(Labelled):
    """Kinds of work, by the tools that do them."""

    PRETRAIN = "pretrain", "pretraining of a language model"
    TUNE = "tune", "fine-tuning of a language model"
    TRAIN_SAMPLES = "train_samples", "training on images or samples"
    TRAIN_DIFFUSION = "train_diffusion", "training of a diffusion model"
    GENERATE = "generate", "text generation"
    RECUR = "recur", "serving of a recurrent network"
    ENCODE = "encode", "text encoding"
    TRANSCRIBE = "transcribe", "speech recognition"
    PAIR = "pair", "serving of an encoder-decoder pair"
    CLASSIFY = "classify", "serving of an image network"
    DENOISE = "denoise", "image generation"

    @property
    def trains(self) -> bool:
        """Whether it is training."""
        return self in TRAINING_DUTIES


TRAINING_DUTIES: Final = frozenset(
    {Duty.PRETRAIN, Duty.TUNE, Duty.TRAIN_SAMPLES, Duty.TRAIN_DIFFUSION}
)


class Backend(Noun):
    """What carries a tool's kernels to the cards of some vendors."""

    title: str
    vendors: tuple[str, ...] = ()
    """Empty: all."""
    architectures: tuple[str, ...] = ()
    """Empty: all of these vendors."""
    processors: bool = False
    """Whether it is for processors; otherwise it is for all other cards."""

    def reaches(self, vendor: str, architecture: str, *, processor: bool) -> bool:
        """Whether cards of a vendor and architecture belong to the backend."""
        return (
            self.processors is processor
            and (not self.vendors or vendor in self.vendors)
            and (not self.architectures or architecture in self.architectures)
        )


class Term(Noun):
    """A name that people ask about, but that no plan runs: CUDA, cuDNN, ONNX, MLflow."""

    title: str
    sentence: Words
    source: Words


Usual = dict[Duty, dict[str, tuple[str, ...]]]


class SizeClass(Noun):
    """Which tools are usual for models of some sizes, where they differ from all others'."""

    least: NonNegativeFloat = 0.0
    most: PositiveFloat = inf
    """Bounds of their parameters."""
    usual: Usual

    @property
    def label(self) -> str:
        """The sizes in words.

        >>> SizeClass(most=1e9, usual={}).label
        'up to 1,000,000,000 parameters'
        """
        if self.most < inf:
            return f"up to {self.most:,.0f} parameters"
        return f"{self.least:,.0f} parameters or more"


class FewUsers(Noun):
    """Cards on which few users of text or speech are served by other tools than many."""

    users: Annotated[int, Field(ge=1)]
    segments: tuple[Segment, ...]
    architectures: tuple[str, ...]
    any_number: tuple[str, ...] = ()
    tools: tuple[str, ...]

    def on(self, card: Accelerator) -> bool:
        """Whether a card is one of them."""
        return card.segment in self.segments or card.architecture in self.architectures


class FormatLadder(Noun):
    """Weight formats that a plan may choose under an engine, largest first."""

    own: bool = False
    usual: tuple[str, ...] = ()
    smaller: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    cache: str | None = None
    host: tuple[str, ...] = ()
    instead: dict[str, str] = Field(default_factory=dict)


class Speech(Noun):
    """A request to a network that recognises speech."""

    window_s: float
    """Sound of one request. [s]"""
    window_tokens: int
    """Tokens that people speak in it."""


class ToolChoice(Noun):
    """The whole of ``data/tool_choice.yaml``."""

    backends: dict[str, Backend]
    usual: Usual
    sizes: tuple[SizeClass, ...]
    smaller: tuple[str, ...]
    few: FewUsers
    formats: dict[str, FormatLadder]
    speech: dict[str, Speech]
    experts: dict[str, tuple[str, ...]]
    coarse: tuple[str, ...]
    terms: dict[str, Term]
