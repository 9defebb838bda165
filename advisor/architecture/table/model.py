"""A network: its shape in Hugging Face names, and its operator table."""

from abc import ABC, abstractmethod
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.foundation.names import HubId, Name, Text
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import by_identity


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


LATENT_CHANNELS = 4
"""Smallest number of channels in a latent image (Rombach et al. 2022, arXiv:2112.10752)."""


class ModelArchitecture(Noun):
    """A network, described by its operators.

    ``hidden_size`` and the other shape fields are for display and layout limits. Quantities are
    computed only from ``operators``.
    """

    name: Name
    family: Name
    """Model family in the publisher's words, for display only."""
    hub_id: HubId | None = None
    source: Name
    """``preset`` | ``config`` | ``weights`` | ``parameters``."""
    evidence: Evidence
    """``derived`` from a full description; ``assumed`` from a parameter count."""
    assumptions: tuple[Text, ...] = ()
    hidden_size: Annotated[int, Field(ge=1)]
    num_hidden_layers: Annotated[int, Field(ge=1)]
    num_attention_heads: Annotated[int, Field(ge=1)]
    num_key_value_heads: Annotated[int, Field(ge=1)]
    vocab_size: Annotated[int, Field(ge=1)]
    max_position_embeddings: int | None = None
    learned_positions: bool = False
    """Whether positions are rows of a table, so that none exists beyond the last."""
    num_experts: int = 1
    experts_per_token: int = 1
    weight_format: Name = "bf16"
    """Storage format of the published weights; key into ``precision.WEIGHT_FORMATS``."""
    tied_embeddings: bool = False
    prediction_layers: int = 0
    """Layers for multi-token prediction that the configuration states. The rows leave them out."""
    branches_per_layer: Annotated[int, Field(ge=1)] = 2
    """Residual branches per layer: attention and feed-forward, or one of them (Nemotron-H)."""
    guided: bool = False
    """Diffusion: whether pipelines use classifier-free guidance by default."""
    usual_steps: int | None = None
    """Diffusion: passes for one image, of networks that are distilled to few."""
    upcast_logits: bool = True
    """Whether the class casts logits to fp32 before the loss, as decoder-only models do."""
    unit: Unit = Unit.TOKEN
    """What the rows count as one token."""
    sample: SampleSize | None = None
    """Size of the input for which the rows were built, if they depend on it."""
    other_towers: tuple[Name, ...] = ()
    """Name prefixes of rows besides the text tower that read images or sound."""
    operators: tuple[Operator, ...]

    @property
    @by_identity(64)
    def total_parameters(self) -> int:
        """Exact number of parameters; tied ones count once."""
        return sum(op.layers * op.parameters for op in self.operators)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses, including the whole of an untied embedding table.

        That is the total without the experts that the token does not visit. Multi-token prediction
        heads and image towers do not count. Publishers differ on the vocabulary's matrices.
        """
        return sum(op.layers * op.active_parameters for op in self.operators)

    @property
    def active_without_embedding(self) -> int:
        """The same without tables from which a token only reads one row."""
        tables = (op for op in self.operators if op.kind is OperatorKind.EMBEDDING)
        return self.active_parameters - sum(op.layers * op.active_parameters for op in tables)

    @property
    def parameters_without_head(self) -> int:
        """Parameters without the matrix that computes logits, as in a library's base class."""
        heads = (
            op
            for op in self.operators
            if op.part is Part.HEAD
            and op.kind is OperatorKind.MATMUL
            and op.out_features == self.vocab_size
        )
        return self.total_parameters - sum(op.layers * op.parameters for op in heads)

    @property
    def text_tower_parameters(self) -> int:
        """Parameters of the text tower: the total without encoders of images and sound.

        For Whisper and CLIP these are ``WhisperForCausalLM`` and ``CLIPTextModelWithProjection``.
        Without other towers it is the total.
        """
        others = (op for op in self.operators if op.name.partition(".")[0] in self.other_towers)
        return self.total_parameters - sum(op.layers * op.parameters for op in others)

    @property
    def denoises(self) -> bool:
        """Whether the network generates images by denoising latents.

        Latents have at least four channels, unlike images, and the loss compares them, not classes.
        """
        channels = 0 if self.sample is None else self.sample.image_channels or 0
        return self.vocab_size == 1 and channels >= LATENT_CHANNELS

    @cached_property
    def detects(self) -> bool:
        """Whether it finds boxes, which its host matches between the passes."""
        return any(op.host_s for op in self.operators)

    @property
    @by_identity(64)
    def generates(self) -> bool:
        """Whether the network writes token after token, with a cache or a state."""
        return self.unit is Unit.TOKEN and any(
            op.cache_elements_per_token or op.state_elements_per_sequence for op in self.operators
        )

    @cached_property
    def attends_to_all(self) -> bool:
        """Whether every layer attends to all tokens before: no window, no state instead."""
        states = {OperatorKind.SCAN, OperatorKind.RECURRENCE}
        return all(op.window is None and op.kind not in states for op in self.operators)

    @property
    def branches(self) -> int:
        """Residual branches of the whole network. Tensor parallelism reduces once in each."""
        return self.branches_per_layer * self.num_hidden_layers

    @property
    def stream_positions(self) -> float:
        """Positions of the residual stream for each token: the mean over the products of blocks.

        Patches of an image or words of a text where a token is a whole sample, otherwise 1.
        """
        return _stream_positions(self)

    @property
    def pipeline_parts(self) -> int:
        """The parts between which a pipeline can be cut: each layer, the embedding, the head."""
        return self.num_hidden_layers + 2

    @property
    def expert_parameters(self) -> int:
        """Parameters in routed experts."""
        return sum(op.layers * op.parameters for op in self.operators if op.experts > 1)

    @property
    def cache_elements_per_token(self) -> float:
        """Elements that serving caches for one token in all layers, without regard to windows."""
        return sum(op.layers * op.cache_elements_per_token for op in self.operators)

    def matmuls(self) -> tuple[Operator, ...]:
        """Return the rows that are matrix products."""
        return tuple(op for op in self.operators if op.kind is OperatorKind.MATMUL)

    def in_part(self, part: Part) -> tuple[Operator, ...]:
        """Return the rows that sit on one pipeline part."""
        return tuple(op for op in self.operators if op.part is part)


@by_identity(64)
def _stream_positions(architecture: ModelArchitecture) -> float:
    products = [op for op in architecture.matmuls() if op.part is Part.BLOCK]
    positions = sum(op.layers * op.positions_per_token for op in products)
    return positions / sum(op.layers for op in products) if products else 1.0


class Network(Noun, ABC):
    """The description of a network as layers, from which its operator table follows."""

    @abstractmethod
    def architecture(self, *, sample: SampleSize | None = None, **facts: Any) -> ModelArchitecture:
        """Return the architecture for the size of one input.

        Raises InputError if layers do not fit one another or the size of the input.

        ``facts``: further fields of :class:`ModelArchitecture`, such as the name.
        """
