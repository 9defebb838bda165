"""Kind and size of a network's input, if it is not simply tokens."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun


class Unit(StrEnum):
    """The unit that the rows of an operator table count as one token."""

    TOKEN = "token"
    IMAGE = "image"
    """A whole image passes at once: convolutional networks, vision transformers, diffusion
    models."""
    SAMPLE = "sample"
    """A whole sample: an encoder-decoder pair, a vector of features."""


class SampleSize(Noun):
    """Size of one input. A field that is None takes the network's default.

    Image size and channels belong to the work, not to the architecture: the table of a network is
    built again for each size.
    """

    image_size: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Side of a square image; for latent diffusion, of the image, not of its latent. [pixels]"""
    image_channels: Annotated[int, Field(ge=1, le=4096)] | None = None
    sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Encoder-decoder pairs: length that the encoder reads. [tokens]"""
    decoder_sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Encoder-decoder pairs: length that the decoder writes. [tokens]"""
