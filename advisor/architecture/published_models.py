"""Published dense models, to scale a shape for a parameter count."""

from functools import cache
from math import log
from typing import Annotated

from pydantic import Field

from advisor.errors import refusal
from advisor.foundation.noun import Noun, read_table
from advisor.foundation.resources import data_path
from advisor.nouns.case import AssumedShape

Name = Annotated[str, Field(min_length=1, max_length=80)]
Size = Annotated[int, Field(gt=0, lt=10_000_000)]


class PublishedModel(Noun):
    """A dense model whose shape is published."""

    name: Name
    parameters: Annotated[float, Field(gt=0, lt=1e15)]
    hidden_size: Size
    layers: Size
    heads: Size
    key_value_heads: Size
    width: Size
    """Of the feed-forward layers."""
    vocab_size: Size
    positions: Size
    gated: bool
    """False for GPT-3: plain GELU, LayerNorm, learned positions."""
    tied: bool
    """Whether the head shares the embedding's weights."""
    source: str

    @property
    def shape(self) -> AssumedShape:
        """Its shape in the fields of a case."""
        return AssumedShape(
            like=self.name,
            num_hidden_layers=self.layers,
            hidden_size=self.hidden_size,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
            intermediate_size=self.width,
            vocab_size=self.vocab_size,
        )


@cache
def published_models() -> tuple[PublishedModel, ...]:
    """Return the models of ``data/published_shapes.csv``.

    Raises CatalogError if the table is damaged.
    """
    return tuple(read_table(data_path("published_shapes.csv"), PublishedModel, key=("name",)))


def nearest_published(parameters: float, count: int | None = 3) -> tuple[PublishedModel, ...]:
    """Return the ``count`` published dense models nearest in size, by ratio, the nearest first.

    None: all of them.
    """
    ranked = sorted(published_models(), key=lambda model: abs(log(parameters / model.parameters)))
    return tuple(ranked[:count])


def published_named(name: str) -> PublishedModel:
    """Return the published model of a name; case, blanks and dashes do not matter.

    Raises InputError if no model has this name.

    >>> published_named("llama-3.1-8b").hidden_size
    4096
    """

    def bare(text: str) -> str:
        return text.lower().replace(" ", "").replace("-", "")

    for model in published_models():
        if bare(model.name) == bare(name):
            return model
    raise refusal(
        "unknown_published_model", value=name, allowed=[model.name for model in published_models()]
    )
