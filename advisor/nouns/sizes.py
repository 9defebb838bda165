"""Sizes of a workload: amounts of data, lengths, and the size of one input."""

from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun
from advisor.nouns.inputs import IMAGES, Reads, asked

MOST_AMOUNT = 1e15
Amount = Annotated[float, Field(ge=1, le=MOST_AMOUNT, allow_inf_nan=False)]
"""Of data: a hundred times all text that was ever published, at most."""
Times = Annotated[float, Field(ge=0.01, le=1e6, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(ge=1, le=10**9)]
Length = Annotated[int, Field(ge=1, le=10_000_000), Reads.LENGTH]
"""Of one sequence. [tokens]"""


class Sized(Noun):
    """Size of one input; applies to networks that take images or whole samples."""

    image_size: Annotated[int, Field(ge=1, le=65_536)] | None = asked(
        "side of a square image",
        label="Image size",
        unit="pixels",
        metavar="PX",
        networks=IMAGES,
        blank="Usual",
    )
    """None takes the network's default. [pixels]"""
    image_channels: Annotated[int, Field(ge=1, le=4096)] | None = asked("channels of an image")
    decoder_sequence_length: Length | None = asked(
        "tokens that the decoder of an encoder-decoder pair writes",
        "--decoder-sequence",
    )
