"""A network as a list of layers and the size of an input, from which its operator table follows."""

from math import ceil
from typing import Annotated, Any, Literal

from pydantic import Field

from advisor.architecture.stack.build import Build, Signal
from advisor.architecture.stack.layers import Label, Layers, run
from advisor.architecture.table.model import ModelArchitecture, Network, SampleSize, Unit
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.architecture.table.rows import STREAM
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence


class StackInput(Noun):
    """An input of the network, with its default size."""

    width: Annotated[int, Field(ge=1, le=10_000_000)] = 1
    """Channels of an image, features of a vector; 1 for the numbers of tokens."""
    image: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Side of the image. [pixels]"""
    resized: bool = False
    """Whether images of any size are first scaled to that side."""
    divisor: Annotated[int, Field(ge=1, le=1024)] = 1
    """Pixels per element along a side (latent diffusion)."""
    aspect: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Long side of the image divided by its short side, which ``image`` states."""
    largest: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Pixels of the largest image relative to the usual one. Memory must hold the largest."""
    multiple: Annotated[int, Field(ge=1, le=1024)] = 1
    """Both sides are padded to a multiple of this. [pixels]"""
    length: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Tokens or frames of a sequence that passes as a whole."""
    follows: Literal["sequence_length", "decoder_sequence_length"] | None = None
    """Workload field that sets the length."""
    per_unit: Annotated[int, Field(ge=1, le=1024)] = 1
    """Frames per unit of that field."""

    def signal(self, size: SampleSize) -> Signal:
        """Return the tensor that the first layer reads."""
        width, grid = self.width, tuple[int, ...]()
        if self.image is not None:
            side = self.image if self.resized else size.image_size or self.image
            padded = (
                ceil(long / self.multiple) * self.multiple for long in (side, side * self.aspect)
            )
            grid = tuple(max(1, pixels // self.divisor) for pixels in padded)
            if self.divisor == 1:
                width = size.image_channels or width
        elif self.length is not None:
            given = None if self.follows is None else getattr(size, self.follows)
            grid = (self.length if given is None else self.per_unit * given,)
        return Signal(width, grid, STREAM, gradient=False)


class Stack(Network):
    """A network as a list of layers."""

    unit: Unit
    input: StackInput
    others: dict[Label, StackInput] = Field(default_factory=dict)
    """Additional inputs, by the name that layers use for them."""
    layers: Layers
    blocks: Annotated[int, Field(ge=1)] | None = None
    """Number of layers as the publisher counts them; None counts the products."""
    hidden_size: Annotated[int, Field(ge=1)] | None = None
    """Width of the stream; None takes the width that the last product reads."""
    outputs: Annotated[int, Field(ge=1)] = 1
    """Number of classes or words that the loss compares; 1 if it compares tensors."""
    tied: bool = False
    guided: bool = False
    """Diffusion: whether it uses classifier-free guidance. Distilled networks do not."""
    usual_steps: Annotated[int, Field(ge=1)] | None = None
    """Diffusion: passes for one image, of networks that are distilled to few."""
    other_towers: tuple[Label, ...] = ()
    """Sections besides the text tower that read images or sound."""
    notes: tuple[str, ...] = ()

    def rows(self, sample: SampleSize | None = None) -> tuple[Operator, ...]:
        """Return the operator table, in the order of the forward pass, names unique.

        The stack's defaults replace missing sizes of the input. Raises InputError if layers do not
        fit one another or the size of the input.
        """
        size = sample or SampleSize()
        build = Build(self.input.signal(size), whole=self.unit is not Unit.TOKEN)
        build.largest = self.input.largest
        build.saved = {name: other.signal(size) for name, other in self.others.items()}
        if self.unit is Unit.IMAGE:
            # The input stays unchanged; the layers compute with a copy.
            build.memory_bound(
                "input",
                kind=OperatorKind.EMBEDDING,
                moved=0.0,
                launches=0,
                saved=build.keep(build.signal, STREAM),
            )
        run(self.layers, build)
        return tuple(build.rows)

    def sized(self, sample: SampleSize | None) -> SampleSize | None:
        """Return the sizes for which a table is built; None if tokens pass one by one."""
        if self.unit is Unit.TOKEN:
            return None
        given = sample or SampleSize()
        inputs = (self.input, *self.others.values())
        image = next((item.image for item in inputs if item.image and not item.resized), None)
        lengths = {item.follows: item.length for item in inputs if item.follows}
        channels = given.image_channels or self.input.width
        return SampleSize(
            image_size=(given.image_size or image) if image else None,
            image_channels=channels if self.input.image else None,
            sequence_length=given.sequence_length or lengths.get("sequence_length"),
            decoder_sequence_length=given.decoder_sequence_length
            or lengths.get("decoder_sequence_length"),
        )

    def architecture(
        self,
        *,
        sample: SampleSize | None = None,
        assumptions: tuple[str, ...] = (),
        max_position_embeddings: int | None = None,
        **facts: Any,
    ) -> ModelArchitecture:
        """Return the architecture for the size of one input."""
        table = self.rows(sample)
        products = [op for op in table if op.out_features]
        heads = max((op.heads for op in table), default=0) or 1
        blocks = sum(op.layers for op in products if op.part is Part.BLOCK)
        built: dict[str, object] = {
            "evidence": Evidence.DERIVED,
            "assumptions": (*assumptions, *self.notes),
            "hidden_size": self.hidden_size
            or max((op.in_features for op in products[-1:]), default=1),
            "num_hidden_layers": self.blocks or blocks or 1,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "vocab_size": self.outputs,
            "max_position_embeddings": max_position_embeddings,
            "learned_positions": max_position_embeddings is not None,
            "tied_embeddings": self.tied,
            "guided": self.guided,
            "usual_steps": self.usual_steps,
            "upcast_logits": False,
            "unit": self.unit,
            "sample": self.sized(sample),
            "other_towers": self.other_towers,
            "operators": table,
        }
        return ModelArchitecture.model_validate({**built, **facts})
