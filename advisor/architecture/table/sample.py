"""What goes into a network that does not simply read tokens, and how large it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun


class Unit(StrEnum):
    """What the rows of an operator table count as one token."""

    TOKEN = "token"
    IMAGE = "image"
    """A whole image goes through at once: convolutional networks, vision transformers, diffusion
    models."""
    SAMPLE = "sample"
    """A whole sample: an encoder-decoder pair, a vector of features."""


class SampleSize(Noun):
    """Size of one input; what is None takes the default of the network.

    Image size and channels belong to the work, not to the architecture: the same network is built
    anew for each size.
    """

    image_size: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Side of a square image. For latent diffusion the image, not its latent. [pixels]"""
    image_channels: Annotated[int, Field(ge=1, le=4096)] | None = None
    sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Encoder-decoder pairs: what the encoder reads. [tokens]"""
    decoder_sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Encoder-decoder pairs: what the decoder writes. [tokens]"""
