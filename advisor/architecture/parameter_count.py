"""A shape for a bare parameter count: the nearest published dense model, scaled to fit."""

from __future__ import annotations

from math import log, sqrt
from typing import Final, NamedTuple

from advisor.architecture.huggingface import assembled
from advisor.architecture.model import ModelArchitecture
from advisor.architecture.operators import Division, Operator, OperatorKind, Part
from advisor.architecture.pruning import pruned_transformer
from advisor.architecture.shapes import (
    AttentionShape,
    FeedForwardShape,
    Norm,
    NormKind,
    TransformerShape,
    WindowLayers,
)
from advisor.architecture.transformer import transformer_operators
from advisor.case import AssumedShape
from advisor.errors import InputError
from advisor.noun import Noun
from advisor.quantities import Evidence

MIN_PARAMETERS: Final = 1e6
MAX_PARAMETERS: Final = 1e14

WIDTH_STEP: Final = 16
"""Feed-forward widths are multiples of this: tensor cores take tiles of 16 and more."""
EMBEDDING_SHARE: Final = 0.4
"""Largest share of a small model given to embeddings; GPT-2 124M has 0.32."""

SAME_WIDTH: Final = 0.05
"""Up to this relative change the published width stays, and depth takes up the difference."""


class PublishedModel(Noun):
    """A dense model whose shape is published."""

    name: str
    parameters: float
    hidden_size: int
    layers: int
    heads: int
    key_value_heads: int
    width: int
    vocab_size: int
    positions: int
    gated: bool = True
    """False for GPT-3: plain GELU, LayerNorm, learned positions, tied head."""
    tied: bool = False


def _gpt3(name: str, parameters: float, hidden: int, layers: int, heads: int) -> PublishedModel:
    return PublishedModel(
        name=f"GPT-3 {name}",
        parameters=parameters,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        key_value_heads=heads,
        width=4 * hidden,
        vocab_size=50257,
        positions=2048,
        gated=False,
        tied=True,
    )


def _llama(
    name: str,
    parameters: float,
    hidden: int,
    layers: int,
    heads: int,
    groups: int,
    width: int,
    *,
    vocab: int = 128_256,
    positions: int = 131_072,
    tied: bool = False,
) -> PublishedModel:
    return PublishedModel(
        name=name,
        parameters=parameters,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        key_value_heads=groups,
        width=width,
        vocab_size=vocab,
        positions=positions,
        tied=tied,
    )


PUBLISHED: Final = (
    # Brown et al. 2020, arXiv:2005.14165, table 2.1.
    _gpt3("small", 125e6, 768, 12, 12),
    _gpt3("medium", 350e6, 1024, 24, 16),
    _gpt3("large", 760e6, 1536, 24, 16),
    _gpt3("175B", 175e9, 12288, 96, 96),
    # Touvron et al. 2023, arXiv:2302.13971, table 2, and arXiv:2307.09288, table 1.
    _llama("Llama 2 7B", 6.74e9, 4096, 32, 32, 32, 11008, vocab=32000, positions=4096),
    _llama("Llama 2 13B", 13.0e9, 5120, 40, 40, 40, 13824, vocab=32000, positions=4096),
    _llama("LLaMA 33B", 32.5e9, 6656, 60, 52, 52, 17920, vocab=32000, positions=2048),
    # Llama team 2024, arXiv:2407.21783, table 3; Llama 3.2 model cards.
    _llama("Llama 3.2 1B", 1.24e9, 2048, 16, 32, 8, 8192, tied=True),
    _llama("Llama 3.2 3B", 3.21e9, 3072, 28, 24, 8, 8192, tied=True),
    _llama("Llama 3.1 8B", 8.03e9, 4096, 32, 32, 8, 14336),
    _llama("Llama 3.1 70B", 70.6e9, 8192, 80, 64, 8, 28672),
    _llama("Llama 3.1 405B", 405.9e9, 16384, 126, 128, 8, 53248),
)
"""Published dense models, from which the nearest is scaled."""


def nearest_published(parameters: float, count: int = 3) -> tuple[PublishedModel, ...]:
    """Published dense models by how near their size is, as a ratio.

    Parameters
    ----------
    parameters : float
        [elements]
    count : int

    Returns
    -------
    tuple of PublishedModel
        The nearest first.
    """
    ranked = sorted(PUBLISHED, key=lambda model: abs(log(parameters / model.parameters)))
    return tuple(ranked[:count])


def architecture_from_parameters(
    parameters: float, known: AssumedShape | None = None, pruning: float = 0.0
) -> ModelArchitecture:
    """Dense architecture with exactly this many parameters; its shape is assumed.

    Parameters
    ----------
    parameters : float
        From 1e6 to 1e14. [elements]
    known : AssumedShape, optional
        Fields of the shape that are known; the rest follows from them.
    pruning : float
        Share of heads and inner widths that is left out of that shape.

    Returns
    -------
    ModelArchitecture
        ``total_parameters`` is ``parameters`` rounded to a whole number, before pruning.

    Raises
    ------
    InputError
        If the count is out of range or not a number, or the known fields do not fit it.

    Notes
    -----
    The nearest published model by ratio is scaled: hidden size and depth by the cube root of the
    ratio, then the feed-forward width takes up what is left, from below. The remainder, well
    under 1 %, is a row ``block.unassigned`` that holds memory and computes nothing.
    """
    if not MIN_PARAMETERS <= parameters <= MAX_PARAMETERS:
        raise InputError(
            "model.parameters is out of range",
            value=parameters,
            allowed="1e6 to 1e14 parameters",
            remedy="Give the number of parameters, e.g. 7e9 for seven billion.",
            field="model.parameters",
        )
    count = round(parameters)
    nearest = nearest_published(count, 1)[0]
    known = known or AssumedShape()
    shape = _scaled(nearest, count, known)
    rest = count - _size(shape)
    notes: tuple[str, ...] = (_assumption(nearest, shape, known),)
    if pruning:
        shape, note = pruned_transformer(shape, pruning)
        notes += (note,)
    built = assembled(
        shape,
        name=_label(count),
        family="assumed dense transformer",
        source="parameters",
        evidence=Evidence.ASSUMED,
        assumptions=notes,
        max_position_embeddings=nearest.positions,
    )
    row = Operator(
        name="block.unassigned",
        kind=OperatorKind.ELEMENTWISE,
        part=Part.BLOCK,
        layers=1,
        division=Division.TENSOR,
        parameters=rest,
        active_parameters=rest,
        launches=0,
    )
    return built.model_copy(update={"operators": (*built.operators, row)}) if rest else built


def _label(count: int) -> str:
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if count >= size:
            return f"{count / size:.4g}{unit} parameters"
    return f"{count} parameters"


def _assumption(nearest: PublishedModel, shape: TransformerShape, known: AssumedShape) -> str:
    attention, feed_forward = shape.attention[0], shape.feed_forward[0]
    given = ", ".join(name for name, value in known if value is not None)
    kept = f" with the given {given}" if given else ""
    return (
        f"shape assumed from {nearest.name}, scaled{kept}: {shape.layers} layers, hidden size "
        f"{shape.hidden_size:,}, {attention.heads} heads ({attention.key_value_heads} for keys "
        f"and values), feed-forward width {feed_forward.width:,}, vocabulary "
        f"{shape.vocab_size:,}"
    )


def _scaled(nearest: PublishedModel, count: int, known: AssumedShape) -> TransformerShape:
    """Shape with at most ``count`` parameters and as near to it as the width's step allows."""
    scale = (count / nearest.parameters) ** (1 / 3)
    wide = scale
    if known.num_hidden_layers:
        # A given depth leaves the width to take up the size.
        wide = sqrt(scale**3 * nearest.layers / known.num_hidden_layers)
    heads, groups, head_dim = _grouping(nearest, wide, known)
    hidden = known.hidden_size or heads * head_dim
    tables = 1 if nearest.tied else 2
    room = max(256, int(EMBEDDING_SHARE * count / (tables * hidden)))
    vocab = known.vocab_size or min(nearest.vocab_size, room)
    narrow = _Frame(nearest, hidden, heads, groups, head_dim, vocab)
    one, two = (_size(narrow.shape(layers, WIDTH_STEP)) for layers in (1, 2))
    per_layer, ends = two - one, 2 * one - two
    wider = _size(narrow.shape(1, 2 * WIDTH_STEP)) - one
    depth = scale * nearest.layers
    if known.hidden_size:
        depth = nearest.layers * scale**3 * (nearest.hidden_size / hidden) ** 2
    wanted = nearest.width / nearest.hidden_size * hidden

    def width(layers: int) -> int:
        room = count - ends - per_layer * layers
        return WIDTH_STEP * (1 + room // (wider * layers))

    step = 4 if depth >= 16 else 2 if depth >= 4 else 1
    start = max(step, int(depth * 0.5) // step * step)
    candidates = {nearest.layers, *range(start, int(depth * 2) + step + 1, step)}
    if known.num_hidden_layers:
        candidates = {known.num_hidden_layers}
    depths = sorted(n for n in candidates if width(n) > 0)
    if not depths and known != AssumedShape():
        raise InputError(
            "model.shape alone holds more than model.parameters",
            value=count,
            allowed="a shape that leaves room for feed-forward layers",
            remedy="Make the shape smaller, or leave a field of it out.",
            field="model.shape",
        )
    layers = min(depths or [1], key=lambda n: abs(log(max(width(n), 1) / wanted)))
    return narrow.shape(layers, max(width(layers), WIDTH_STEP))


def _grouping(nearest: PublishedModel, scale: float, known: AssumedShape) -> tuple[int, int, int]:
    """Heads, heads of keys and values, and the width of one."""
    grouped = nearest.key_value_heads < nearest.heads
    shared = known.num_key_value_heads or (nearest.key_value_heads if grouped else 1)
    head_dim = nearest.hidden_size // nearest.heads
    if known.num_attention_heads:
        heads = known.num_attention_heads
    elif known.hidden_size:
        heads = max(shared, round(known.hidden_size / head_dim / shared) * shared)
    elif abs(scale - 1) > SAME_WIDTH:
        heads = _heads(scale * nearest.heads, shared)
    else:
        heads = max(shared, nearest.heads // shared * shared)
    groups = known.num_key_value_heads or (nearest.key_value_heads if grouped else heads)
    if heads % groups:
        if known.num_key_value_heads:
            raise InputError(
                "model.shape.num_key_value_heads does not divide the attention heads",
                value=groups,
                allowed=f"a divisor of {heads}",
                remedy="Correct it, or leave it out.",
                field="model.shape.num_key_value_heads",
            )
        groups = heads
    if known.hidden_size and known.num_attention_heads:
        head_dim = max(1, known.hidden_size // heads)
    elif not known.hidden_size and scale * nearest.heads < 1:
        head_dim = max(8, round(scale * nearest.hidden_size / 8) * 8)
    return heads, groups, head_dim


def _heads(wanted: float, groups: int) -> int:
    """Whole number of heads that tensor parallelism divides well, and the groups divide."""
    step = max(groups, 8 if wanted >= 24 else 4 if wanted >= 8 else 1)
    return max(step, round(wanted / step) * step)


def _size(shape: TransformerShape) -> int:
    return sum(op.layers * op.parameters for op in transformer_operators(shape))


class _Frame(NamedTuple):
    """A shape but for depth and feed-forward width."""

    nearest: PublishedModel
    hidden: int
    heads: int
    groups: int
    head_dim: int
    vocab: int

    def shape(self, layers: int, width: int) -> TransformerShape:
        """Return the whole shape."""
        plain = not self.nearest.gated
        attention = AttentionShape(
            windows=(WindowLayers(layers=layers),),
            heads=self.heads,
            key_value_heads=self.groups,
            head_dim=self.head_dim,
            value_head_dim=self.head_dim,
            input_bias=plain,
            output_bias=plain,
            rotary=not plain,
        )
        feed_forward = FeedForwardShape(
            layers=layers,
            width=width,
            gated=not plain,
            activation="gelu" if plain else "silu",
            bias=plain,
        )
        return TransformerShape(
            hidden_size=self.hidden,
            vocab_size=self.vocab,
            attention=(attention,),
            feed_forward=(feed_forward,),
            norm=Norm(kind=NormKind.LAYER, bias=True) if plain else Norm(),
            tied=self.nearest.tied,
            positions=self.nearest.positions if plain else 0,
        )
