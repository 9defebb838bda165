"""Published weights in fewer bits than a model's own (``data/published_weights.yaml``)."""

from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun, shipped

Text = Annotated[str, Field(min_length=1)]


class PublishedWeights(Noun):
    """The whole of the file."""

    source: Text
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    makers: dict[str, Text]
    """Format -> programs that make weights in it."""
    names: dict[str, dict[str, Text]]
    """Hub id of a model -> format -> hub id of the weights; of GGUF files, with the format."""
    parts: dict[str, dict[str, object]] = Field(default_factory=dict)
    """Hub id of weights -> what their quantization block says, where some blocks stay wider."""


listed_weights = shipped("published_weights.yaml", PublishedWeights)
