"""Compiles a list of layers and the size of an input to the operator table."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from advisor.architecture.stack import layers as vocabulary
from advisor.architecture.stack import rows, sequence
from advisor.architecture.stack.build import MAX_STEPS, Build, Signal, fresh
from advisor.architecture.stack.layers import Label, Layer
from advisor.architecture.table.model import ModelArchitecture, SampleSize, Unit
from advisor.architecture.table.operators import Operator, OperatorKind, Part
from advisor.architecture.table.rows import COMPUTE, STREAM
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence

Side = Annotated[int, Field(ge=1, le=65_536)]


class StackInput(Noun):
    """An input of the network, with its default size."""

    width: Annotated[int, Field(ge=1, le=10_000_000)] = 1
    """Channels of an image, features of a vector; 1 for the numbers of tokens."""
    image: Side | None = None
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


class Stack(Noun):
    """A network as a list of layers."""

    unit: Unit
    input: StackInput
    others: dict[Label, StackInput] = Field(default_factory=dict)
    """Additional inputs, by the name that layers use for them."""
    layers: tuple[Layer, ...]
    blocks: Annotated[int, Field(ge=1)] | None = None
    """Number of layers as the publisher counts them; None counts the products."""
    hidden_size: Annotated[int, Field(ge=1)] | None = None
    """Width of the stream; None takes the width that the last product reads."""
    outputs: Annotated[int, Field(ge=1)] = 1
    """Number of classes or words that the loss compares; 1 if it compares tensors."""
    tied: bool = False
    guided: bool = False
    """Diffusion: whether it uses classifier-free guidance. Distilled networks do not."""
    other_towers: tuple[Label, ...] = ()
    """Sections besides the text tower that read images or sound."""
    notes: tuple[str, ...] = ()


def compile_stack(stack: Stack, sample: SampleSize | None = None) -> tuple[Operator, ...]:
    """Return the operator table of a list of layers, in the order of the forward pass.

    The stack's defaults replace missing sizes of the input. Names of rows are unique. Raises
    InputError if layers do not fit one another or the size of the input.
    """
    size = sample or SampleSize()
    build = Build(_signal(stack.input, size), whole=stack.unit is not Unit.TOKEN)
    build.largest = stack.input.largest
    build.saved = {name: _signal(other, size) for name, other in stack.others.items()}
    if stack.unit is Unit.IMAGE:
        # The input stays unchanged; the layers compute with a copy.
        build.memory_bound(
            "input",
            kind=OperatorKind.EMBEDDING,
            moved=0.0,
            launches=0,
            saved=build.keep(build.signal, STREAM),
        )
    run(stack.layers, build)
    return tuple(build.rows)


def sized(stack: Stack, sample: SampleSize | None) -> SampleSize | None:
    """Return the sizes for which a table is built; None if tokens pass one by one."""
    if stack.unit is Unit.TOKEN:
        return None
    given = sample or SampleSize()
    inputs = (stack.input, *stack.others.values())
    image = next((item.image for item in inputs if item.image and not item.resized), None)
    lengths = {item.follows: item.length for item in inputs if item.follows}
    return SampleSize(
        image_size=(given.image_size or image) if image else None,
        image_channels=(given.image_channels or stack.input.width) if stack.input.image else None,
        sequence_length=given.sequence_length or lengths.get("sequence_length"),
        decoder_sequence_length=given.decoder_sequence_length
        or lengths.get("decoder_sequence_length"),
    )


def stack_architecture(
    stack: Stack,
    *,
    sample: SampleSize | None = None,
    assumptions: tuple[str, ...] = (),
    max_position_embeddings: int | None = None,
    **facts: object,
) -> ModelArchitecture:
    """Return the architecture of a list of layers.

    Raises InputError if layers do not fit one another or the size of the input.

    ``sample``: size of one input. ``assumptions``, ``max_position_embeddings`` and ``**facts``:
    further fields of :class:`ModelArchitecture`, such as the name.
    """
    table = compile_stack(stack, sample)
    products = [op for op in table if op.out_features]
    heads = max((op.heads for op in table), default=0) or 1
    blocks = sum(op.layers for op in products if op.part is Part.BLOCK)
    built: dict[str, object] = {
        "evidence": Evidence.DERIVED,
        "assumptions": (*assumptions, *stack.notes),
        "hidden_size": stack.hidden_size
        or max((op.in_features for op in products[-1:]), default=1),
        "num_hidden_layers": stack.blocks or blocks or 1,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "vocab_size": stack.outputs,
        "max_position_embeddings": max_position_embeddings,
        "learned_positions": max_position_embeddings is not None,
        "tied_embeddings": stack.tied,
        "guided": stack.guided,
        "upcast_logits": False,
        "unit": stack.unit,
        "sample": sized(stack, sample),
        "other_towers": stack.other_towers,
        "operators": table,
    }
    return ModelArchitecture.model_validate({**built, **facts})


def _signal(source: StackInput, size: SampleSize) -> Signal:
    width, grid = source.width, tuple[int, ...]()
    if source.image is not None:
        side = source.image if source.resized else size.image_size or source.image
        padded = (
            ceil(long / source.multiple) * source.multiple for long in (side, side * source.aspect)
        )
        grid = tuple(max(1, pixels // source.divisor) for pixels in padded)
        if source.divisor == 1:
            width = size.image_channels or width
    elif source.length is not None:
        given = None if source.follows is None else getattr(size, source.follows)
        grid = (source.length if given is None else source.per_unit * given,)
    return Signal(width, grid, STREAM, gradient=False)


def run(items: tuple[Layer, ...], build: Build) -> None:
    """Append the rows of the layers in order."""
    for item in items:
        build.steps += 1
        if build.steps > MAX_STEPS:
            build.fail("the stack has too many layers", build.steps, f"{MAX_STEPS:,} steps")
        HANDLERS[type(item)](item, build)


def _holds(layers: tuple[Layer, ...], kind: type[Noun]) -> bool:
    """Whether these layers contain a layer of that kind, at any depth."""
    inside = (
        layer.body if isinstance(layer, vocabulary.Residual) else getattr(layer, "layers", ())
        for layer in layers
    )
    return any(isinstance(layer, kind) for layer in layers) or any(
        _holds(nested, kind) for nested in inside if nested
    )


def _opens_segment(layer: vocabulary.Residual | vocabulary.Repeat, build: Build) -> bool:
    """Whether recomputation treats this as one block.

    That is what the libraries' ``gradient_checkpointing`` wraps: one pass of the innermost
    repetition with residuals (a transformer layer), or a residual that neither repeats anything
    nor is repeated (a block of a U-Net).
    """
    if build.in_segment:
        return False
    if isinstance(layer, vocabulary.Residual):
        opens = not _holds(layer.body, vocabulary.Repeat)
    else:
        opens = _holds(layer.layers, vocabulary.Residual) and not _holds(
            layer.layers, vocabulary.Repeat
        )
    build.in_segment = opens
    return opens


def _residual(layer: vocabulary.Residual, build: Build) -> None:
    start, first = build.signal, len(build.rows)
    opens = _opens_segment(layer, build)
    run(layer.body, build)
    build.wait_beside(first, start)
    branch, build.signal = build.signal, start
    run(layer.shortcut, build)
    main = build.signal
    if (main.width, main.positions) != (branch.width, branch.positions):
        build.fail(
            "the two paths of a residual differ in size",
            f"{branch.width:,} x {branch.grid} beside {main.width:,} x {main.grid}",
            "equal sizes; give a shortcut",
        )
    form = STREAM if STREAM in (main.format, branch.format) else COMPUTE
    # After a norm, a compiler reads the other path in the same pass.
    fused = 1.0 if build.ends_in(rows.FUSING) else 3.0
    build.memory_bound("residual", moved=fused * main.elements, unfused=3.0 * main.elements)
    build.put(fresh(main, form=form))
    if opens:
        build.close_segment(first, start)


def _branch(layer: vocabulary.Branch, build: Build) -> None:
    start = build.signal
    run(layer.layers, build)
    build.saved[layer.name], build.signal = build.signal, start


def _repeat(layer: vocabulary.Repeat, build: Build) -> None:
    left, first = layer.times, len(build.rows)
    if layer.shared:
        width = build.signal.width
        run(layer.layers, build)
        if build.signal.width != width:
            build.fail("layers that share weights change the width", build.signal.width, f"{width}")
        first, left = len(build.rows), left - 1
    _repeat_rows(layer, left, build)
    if layer.shared:
        build.share_rows(first)


def _repeat_rows(layer: vocabulary.Repeat, left: int, build: Build) -> None:
    while left:
        before = replace(build.signal, kept=set(build.signal.kept))
        start = len(build.rows)
        opens = _opens_segment(layer, build)
        run(layer.layers, build)
        if opens:
            build.close_segment(start, before)
        if build.signal == before:
            # The layers that follow have the same rows.
            build.repeat_rows(start, left)
            return
        left -= 1


def _section(layer: vocabulary.Section, build: Build) -> None:
    part, path = build.part, build.path
    build.part, build.path = layer.part, (*path, layer.name)
    start = len(build.rows)
    run(layer.layers, build)
    build.part, build.path = part, path
    if layer.frozen:
        build.freeze_rows(start)


def _save(layer: vocabulary.Save, build: Build) -> None:
    build.saved[layer.name] = build.signal


def _take(layer: vocabulary.Take, build: Build) -> None:
    build.signal = build.saved_signal(layer.name)


# Each handler takes only its own kind of layer.
HANDLERS: Final[dict[type[Noun], Callable[[Any, Build], None]]] = {
    vocabulary.Convolution: rows.convolution,
    vocabulary.Linear: rows.linear,
    vocabulary.Normalization: rows.normalization,
    vocabulary.Activation: rows.activation,
    vocabulary.GatedProduct: rows.gated_product,
    vocabulary.Pool: rows.pool,
    vocabulary.Flatten: rows.flatten,
    vocabulary.Dropout: rows.dropout,
    vocabulary.Scale: rows.scale,
    vocabulary.Learned: rows.learned,
    vocabulary.ExtraTokens: rows.extra_tokens,
    vocabulary.SqueezeExcite: rows.squeeze_excite,
    vocabulary.Upsample: rows.upsample,
    vocabulary.Merge: rows.merge,
    vocabulary.Regions: rows.regions,
    vocabulary.FocalLoss: rows.focal_loss,
    vocabulary.CrossEntropy: rows.cross_entropy,
    vocabulary.Matching: rows.matching,
    vocabulary.Embedding: sequence.embedding,
    vocabulary.Recurrent: sequence.recurrent,
    vocabulary.Attention: sequence.attention,
    vocabulary.Condition: sequence.condition,
    vocabulary.Concatenate: sequence.concatenate,
    vocabulary.Residual: _residual,
    vocabulary.Branch: _branch,
    vocabulary.Repeat: _repeat,
    vocabulary.Section: _section,
    vocabulary.Save: _save,
    vocabulary.Take: _take,
}
