"""How programs that train name the models that they build, from ``data/launch_models.yaml``."""

from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.catalog.records import IsoDay
from advisor.errors import MAX_PART
from advisor.foundation.noun import Noun, shipped

Text = Annotated[str, Field(min_length=1)]
Said = Annotated[str, Field(min_length=1, max_length=MAX_PART)]
"""What a message says whole."""


class Rotary(Noun):
    """Base and scaling of rotary positions."""

    pattern: Text
    base: Annotated[int, Field(ge=1)]
    factor: Annotated[float, Field(gt=0)] | None = None
    source: Text


class TunedModel(Noun):
    """A model that torchtune builds."""

    pattern: Text
    module: str
    name: str
    tokenizer: str
    files: Annotated[int, Field(ge=1)]
    type: str
    qlora: bool


class ModelNames(Noun):
    """A program's names of models, by part of their hub ids."""

    source: Text
    date: IsoDay
    names: Annotated[dict[str, str], Field(min_length=1)]

    def of(self, hub_id: str | None) -> str | None:
        """Return the name with the longest part that a hub id holds; None if it holds none."""
        held = [part for part in self.names if part in (hub_id or "")]
        return self.names[max(held, key=len)] if held else None


class Kernels(Noun):
    """Packages whose kernels transformers runs in a family's layers."""

    source: Text
    date: IsoDay
    packages: dict[str, tuple[Text, ...]]


class Projections(Noun):
    """Names of adapted matrices in transformers."""

    source: Text
    date: IsoDay
    plain: dict[str, Text]
    maxtext: dict[str, Text]
    latent: dict[str, tuple[Text, ...]]
    whole_query: Text
    fused: dict[str, dict[Text, tuple[str, ...]]]


class Usual(Noun):
    """What training files set and no estimate depends on."""

    source: Text
    date: IsoDay
    rates: dict[str, tuple[Text, Text]]
    pretraining_rate: Text
    large_rate: Text
    large: float
    warm_up: float
    most_warm_up: int
    alone: dict[Literal["chat", "text"], Text]
    pairs: dict[Literal["chat", "text"], Text]
    unsloth: tuple[Text, ...]


class LaunchModels(Noun):
    """The whole of ``launch_models.yaml``."""

    torchtitan: ModelNames
    maxtext: ModelNames
    megatron_bridge: ModelNames
    llama_factory: ModelNames
    timm: ModelNames
    simpletuner: ModelNames
    diffusers: ModelNames
    gated: ModelNames
    own_code: ModelNames
    parsers: dict[str, ModelNames]
    whisper: ModelNames
    attention: ModelNames
    kernels: Kernels
    projections: Projections
    torchtune: Annotated[tuple[TunedModel, ...], Field(min_length=1)]
    rotary: Annotated[tuple[Rotary, ...], Field(min_length=1)]
    usual: Usual
    elsewhere: dict[str, Said]


ORIGINAL: Final = Rotary(pattern="*", base=10_000, source="Su et al. 2021, arXiv:2104.09864")
"""For a model of one's own, trained from scratch."""

launch_models = shipped("launch_models.yaml", LaunchModels)


def rotary_of(hub_id: str | None) -> Rotary:
    """Return the rotary positions of a published model, or the original ones.

    >>> rotary_of("meta-llama/Llama-3.2-1B").factor
    32.0
    >>> rotary_of(None).base
    10000
    """
    return next((row for row in launch_models().rotary if row.pattern in (hub_id or "")), ORIGINAL)
