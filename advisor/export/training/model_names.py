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
    """Part of the hub ids that it holds for."""
    base: Annotated[int, Field(ge=1)]
    factor: Annotated[float, Field(gt=0)] | None = None
    """Of Llama 3.1's scaling; None without scaling."""
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
    """By family; keys of ``launch_versions.yaml``."""


class Projections(Noun):
    """Names of adapted matrices in transformers."""

    source: Text
    date: IsoDay
    plain: dict[str, Text]
    """By name of the projection."""
    maxtext: dict[str, Text]
    """The same in MaxText."""
    latent: dict[str, tuple[Text, ...]]
    """The same where keys and values are expanded from a latent vector."""
    whole_query: Text
    """Of latent attention whose query is not compressed."""
    fused: dict[str, dict[Text, tuple[str, ...]]]
    """By family: matrices that hold several projections."""


class Usual(Noun):
    """What training files set and no estimate depends on."""

    source: Text
    date: IsoDay
    rates: dict[str, tuple[Text, Text]]
    """Kind of answers -> learning rates of all weights and of adapters."""
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
    """What the publisher asks to accept before the hub gives the weights."""
    own_code: ModelNames
    """What comes as code of the repository, which programs run only when told to."""
    parsers: dict[str, ModelNames]
    """How servers read calls of tools (``vllm-tools``) and thoughts (``vllm-thoughts``)."""
    whisper: ModelNames
    attention: ModelNames
    """Attention of transformers' families that take no ``sdpa``."""
    kernels: Kernels
    projections: Projections
    torchtune: Annotated[tuple[TunedModel, ...], Field(min_length=1)]
    rotary: Annotated[tuple[Rotary, ...], Field(min_length=1)]
    usual: Usual
    elsewhere: dict[str, Said]
    """What trains a network that no file starts, by vendor and kind of network."""


ORIGINAL: Final = Rotary(pattern="*", base=10_000, source="Su et al. 2021, arXiv:2104.09864")
"""For a model of one's own, trained from scratch."""

launch_models = shipped("launch_models.yaml", LaunchModels)
"""Returns the models that programs build."""


def rotary_of(hub_id: str | None) -> Rotary:
    """Return the rotary positions of a published model, or the original ones.

    >>> rotary_of("meta-llama/Llama-3.2-1B").factor
    32.0
    >>> rotary_of(None).base
    10000
    """
    return next((row for row in launch_models().rotary if row.pattern in (hub_id or "")), ORIGINAL)
