"""The noun for a network: its shape in Hugging Face names and its operator table."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.architecture.table.sample import SampleSize, Unit
from advisor.foundation.names import HubId, Name, Text
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence

LATENT_CHANNELS = 4
"""Fewest channels of a latent image (Rombach et al. 2022, arXiv:2112.10752)."""


class ModelArchitecture(Noun):
    """A network, known by its operators.

    ``hidden_size`` and the other shape fields are for display and layout limits; quantities are
    computed from ``operators`` alone.
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
    """Positions are rows of a table: there is nothing beyond the last."""
    num_experts: int = 1
    experts_per_token: int = 1
    weight_format: Name = "bf16"
    """Storage format of the published weights; key into ``precision.WEIGHT_FORMATS``."""
    tied_embeddings: bool = False
    branches_per_layer: Annotated[int, Field(ge=1)] = 2
    """Residual branches of a layer: attention and feed-forward, or one of them (Nemotron-H)."""
    guided: bool = False
    """Diffusion: pipelines run it with classifier-free guidance unless told otherwise."""
    upcast_logits: bool = True
    """The class casts logits to fp32 before the loss, as those of decoder-only models do."""
    unit: Unit = Unit.TOKEN
    """What one token of the rows is."""
    sample: SampleSize | None = None
    """Size of the input that the rows were built for, where they depend on one."""
    other_towers: tuple[Name, ...] = ()
    """First parts of the names of rows that read images or sound beside a text tower."""
    operators: tuple[Operator, ...]

    @property
    def total_parameters(self) -> int:
        """Exact number of parameters, tied ones once."""
        return sum(op.layers * op.parameters for op in self.operators)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses, the whole of an untied embedding table among them.

        That is the total less the experts that the token does not visit; prediction heads beyond
        the last layer and image towers are apart. Publishers differ by the vocabulary's matrices.
        """
        return sum(op.layers * op.active_parameters for op in self.operators)

    @property
    def active_without_embedding(self) -> int:
        """The same without tables of which one token only looks a row up."""
        tables = (op for op in self.operators if op.kind is OperatorKind.EMBEDDING)
        return self.active_parameters - sum(op.layers * op.active_parameters for op in tables)

    @property
    def parameters_without_head(self) -> int:
        """Parameters less the matrix that makes logits, as a library's base class has them."""
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
        """Parameters of what reads and writes text: the total less encoders of images and sound.

        Of Whisper and CLIP that is ``WhisperForCausalLM`` and ``CLIPTextModelWithProjection``;
        the total where no other tower is built.
        """
        others = (op for op in self.operators if op.name.partition(".")[0] in self.other_towers)
        return self.total_parameters - sum(op.layers * op.parameters for op in others)

    @property
    def denoises(self) -> bool:
        """Whether it makes images by denoising latents.

        Those have four channels and more, unlike images, and the loss compares them, not classes.
        """
        channels = 0 if self.sample is None else self.sample.image_channels or 0
        return self.vocab_size == 1 and channels >= LATENT_CHANNELS

    @property
    def branches(self) -> int:
        """Residual branches of the whole network; tensor parallelism reduces once in each."""
        return self.branches_per_layer * self.num_hidden_layers

    @property
    def pipeline_parts(self) -> int:
        """What pipelines are cut between: each layer, the embedding and the head."""
        return self.num_hidden_layers + 2

    @property
    def expert_parameters(self) -> int:
        """Parameters in routed experts."""
        return sum(op.layers * op.parameters for op in self.operators if op.experts > 1)

    @property
    def cache_elements_per_token(self) -> float:
        """Elements that serving caches for one token over all layers, windows ignored."""
        return sum(op.layers * op.cache_elements_per_token for op in self.operators)

    def matmuls(self) -> tuple[Operator, ...]:
        """Return the rows that are matrix products."""
        return tuple(op for op in self.operators if op.kind is OperatorKind.MATMUL)

    def in_part(self, part: Part) -> tuple[Operator, ...]:
        """Return the rows that sit on one pipeline part."""
        return tuple(op for op in self.operators if op.part is part)
