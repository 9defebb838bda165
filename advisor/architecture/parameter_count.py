"""Finds a shape for a parameter count: a published dense model, scaled to fit."""

from bisect import bisect_right
from math import log, sqrt
from typing import Final, NamedTuple

from advisor.architecture.mixers.attention import AttentionShape, WindowLayers
from advisor.architecture.mixers.feed_forward import FeedForwardShape
from advisor.architecture.mixers.transformer import TransformerShape
from advisor.architecture.published_models import PublishedModel, nearest_published, published_named
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part
from advisor.architecture.table.rows import Norm, NormKind
from advisor.errors import refusal
from advisor.foundation.quantities import Evidence
from advisor.nouns.case import MAX_HIDDEN, MAX_INTERMEDIATE, MAX_LAYERS, AssumedShape

MIN_PARAMETERS: Final = 1e6
MAX_PARAMETERS: Final = 1e14

WIDTH_STEP: Final = 16
"""Feed-forward widths are multiples of this, because tensor cores use tiles of at least 16."""
EMBEDDING_SHARE: Final = 0.4
"""Largest share of a small model's parameters in embeddings; GPT-2 124M has 0.32."""

UNASSIGNED: Final = 0.01
"""A smaller share of the count outside the shape is rounding and not reported."""

WIDE_STEPS: Final = 64
"""Number of steps of the hidden size in the search for one that holds the count."""

SAME_WIDTH: Final = 0.05
"""For smaller relative changes, the published width stays and the depth makes up the rest."""


def architecture_from_parameters(
    parameters: float, known: AssumedShape | None = None, pruning: float = 0.0
) -> ModelArchitecture:
    """Return a dense architecture with exactly this many parameters and an assumed shape.

    ``total_parameters`` is ``parameters`` rounded to a whole number, before pruning. Raises
    InputError if the count is out of range or not a number, or the known fields do not fit it.

    The published model ``known.like``, or the nearest by ratio, is scaled: hidden size and depth
    by the cube root of the ratio. The feed-forward width then takes as much of the rest as fits;
    if the width is known, the depth does. The remainder is well under 1 % unless much of the
    shape is known. It becomes a row ``block.unassigned``, which takes memory and computes nothing.
    A completely known shape is not an assumption.

    ``parameters``: from 1e6 to 1e14. [elements] ``known``: known fields of the shape; the rest
    follows from them. ``pruning``: share of heads and inner widths to remove from that shape.
    """
    known = known or AssumedShape()
    count, published, shape = _shaped(parameters, known)
    rest = count - _size(shape)
    whole = rest <= UNASSIGNED * count and all(
        value is not None for name, value in known if name != "like"
    )
    notes: tuple[str, ...] = (_assumption(published, shape, known),)
    if rest > UNASSIGNED * count:
        held = f"this shape holds {_label(count - rest)} of {_label(count)}"
        notes += (f"{held}; the rest takes memory and computes nothing",)
    if pruning:
        from advisor.architecture.pruning import pruned

        shape, note = pruned(shape, pruning)
        notes += (note,)
    built = shape.architecture(
        name=_label(count),
        family="assumed dense transformer",
        source="parameters",
        evidence=Evidence.DERIVED if whole else Evidence.ASSUMED,
        assumptions=notes,
        max_position_embeddings=published.positions,
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
    return built.changed(operators=(*built.operators, row)) if rest else built


def whole_shape(parameters: float, known: AssumedShape | None = None) -> AssumedShape:
    """Return the complete shape that `architecture_from_parameters` uses.

    Its ``like`` names the published model that was scaled. Raises InputError as in
    `architecture_from_parameters`.
    """
    _, published, shape = _shaped(parameters, known or AssumedShape())
    attention = shape.attention[0]
    return AssumedShape(
        like=published.name,
        num_hidden_layers=shape.layers,
        hidden_size=shape.hidden_size,
        num_attention_heads=attention.heads,
        num_key_value_heads=attention.key_value_heads,
        intermediate_size=shape.feed_forward[0].width,
        vocab_size=shape.vocab_size,
    )


def _size(shape: TransformerShape) -> int:
    return sum(op.layers * op.parameters for op in shape.rows())


class _Frame(NamedTuple):
    """A shape without depth and feed-forward width."""

    published: PublishedModel
    hidden: int
    heads: int
    groups: int
    head_dim: int
    vocab: int

    def shape(self, layers: int, width: int) -> TransformerShape:
        """Return the complete shape."""
        plain = not self.published.gated
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
            tied=self.published.tied,
            positions=self.published.positions if plain else 0,
        )


def _shaped(parameters: float, known: AssumedShape) -> tuple[int, PublishedModel, TransformerShape]:
    """Return the whole number of parameters, the scaled published model, and the shape."""
    if not MIN_PARAMETERS <= parameters <= MAX_PARAMETERS:
        raise refusal("parameters_out_of_range", value=parameters)
    count = round(parameters)
    published = published_named(known.like) if known.like else nearest_published(count, 1)[0]
    return count, published, _scaled(published, count, known)


def _label(count: int) -> str:
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if count >= size:
            return f"{count / size:.4g}{unit} parameters"
    return f"{count} parameters"


def _assumption(published: PublishedModel, shape: TransformerShape, known: AssumedShape) -> str:
    attention, feed_forward = shape.attention[0], shape.feed_forward[0]
    given = ", ".join(name for name, value in known if value is not None and name != "like")
    kept = f" with the given {given}" if given else ""
    return (
        f"shape assumed from {published.name}, scaled{kept}: {shape.layers} layers, hidden size "
        f"{shape.hidden_size:,}, {attention.heads} heads ({attention.key_value_heads} for keys "
        f"and values), feed-forward width {feed_forward.width:,}, vocabulary "
        f"{shape.vocab_size:,}"
    )


def _scaled(published: PublishedModel, count: int, known: AssumedShape) -> TransformerShape:
    """Return a shape with at most ``count`` parameters, as close as the width's step allows."""
    scale = (count / published.parameters) ** (1 / 3)
    layers, width = known.num_hidden_layers, known.intermediate_size
    # With a given depth, the hidden size must hold the count.
    wide = sqrt(scale**3 * published.layers / layers) if layers else scale
    if layers and width and not known.hidden_size:
        wide *= _widest(published, count, wide, known)
    frame = _framed(published, count, wide, known)
    if width:
        one, two = (_size(frame.shape(n, width)) for n in (1, 2))
        shape = frame.shape(layers or max(1, 1 + (count - one) // (two - one)), width)
    else:
        shape = _filled(frame, count, scale, known)
    if (held := _size(shape)) > count and known != AssumedShape(like=known.like):
        raise refusal("shape_above_parameters", value=count, held=_label(held))
    _bounded("layers", shape.layers, MAX_LAYERS, count)
    _bounded("of hidden size", shape.hidden_size, MAX_HIDDEN, count)
    _bounded("of feed-forward width", shape.feed_forward[0].width, MAX_INTERMEDIATE, count)
    return shape


def _bounded(name: str, value: float, most: int, count: int) -> None:
    """Refuse an impossible shape: the given fields push the whole count into one dimension."""
    if value > most:
        raise refusal(
            "shape_too_small",
            value=count,
            count=_label(count),
            dimension=value,
            name=name,
            most=most,
        )


def _widest(published: PublishedModel, count: int, wide: float, known: AssumedShape) -> float:
    """Return the factor on the hidden size with which depth and given width hold the count."""
    layers, width = known.num_hidden_layers, known.intermediate_size
    steps = range(1, 50 * WIDE_STEPS)

    def held(step: int) -> int:
        frame = _framed(published, count, wide * step / WIDE_STEPS, known)
        return _size(frame.shape(layers or 1, width or 1))

    return max(1, bisect_right(steps, count, key=held)) / WIDE_STEPS


def _framed(published: PublishedModel, count: int, wide: float, known: AssumedShape) -> _Frame:
    """Return the frame of a shape, with the hidden size scaled by ``wide``."""
    heads, groups, head_dim = _grouping(published, wide, known)
    hidden = known.hidden_size or heads * head_dim
    tables = 1 if published.tied else 2
    room = max(256, int(EMBEDDING_SHARE * count / (tables * hidden)))
    vocab = known.vocab_size or min(published.vocab_size, room)
    return _Frame(published, hidden, heads, groups, head_dim, vocab)


def _filled(frame: _Frame, count: int, scale: float, known: AssumedShape) -> TransformerShape:
    """Return the shape whose feed-forward width holds the count, with the best depth."""
    published = frame.published
    one, two = (_size(frame.shape(layers, WIDTH_STEP)) for layers in (1, 2))
    per_layer, ends = two - one, 2 * one - two
    wider = _size(frame.shape(1, 2 * WIDTH_STEP)) - one
    depth = scale * published.layers
    if known.hidden_size:
        depth = published.layers * scale**3 * (published.hidden_size / frame.hidden) ** 2
    wanted = published.width / published.hidden_size * frame.hidden

    def width(layers: int) -> int:
        room = count - ends - per_layer * layers
        return WIDTH_STEP * (1 + room // (wider * layers))

    step = 4 if depth >= 16 else 2 if depth >= 4 else 1
    if not known.num_hidden_layers:
        _bounded("layers", depth, MAX_LAYERS, count)
    start = max(step, int(min(depth, MAX_LAYERS) * 0.5) // step * step)
    deepest = min(int(depth * 2) + step, MAX_LAYERS)
    candidates = {published.layers, *range(start, deepest + 1, step)}
    if known.num_hidden_layers:
        candidates = {known.num_hidden_layers}
    depths = sorted(n for n in candidates if width(n) > 0)
    layers = min(depths or candidates, key=lambda n: abs(log(max(width(n), 1) / wanted)))
    return frame.shape(layers, max(width(layers), WIDTH_STEP))


def _grouping(published: PublishedModel, scale: float, known: AssumedShape) -> tuple[int, int, int]:
    """Return the query heads, the key-value heads, and the width of one head."""
    grouped = published.key_value_heads < published.heads
    shared = known.num_key_value_heads or (published.key_value_heads if grouped else 1)
    head_dim = published.hidden_size // published.heads
    if known.num_attention_heads:
        heads = known.num_attention_heads
    elif known.hidden_size:
        heads = max(shared, round(known.hidden_size / head_dim / shared) * shared)
    elif abs(scale - 1) > SAME_WIDTH:
        heads = _heads(scale * published.heads, shared)
    else:
        heads = max(shared, published.heads // shared * shared)
    groups = known.num_key_value_heads or (published.key_value_heads if grouped else heads)
    if heads % groups:
        if known.num_key_value_heads:
            raise refusal("kv_heads_uneven", value=groups, heads=heads)
        groups = heads
    if known.hidden_size and known.num_attention_heads:
        if known.hidden_size % heads:
            raise refusal("heads_uneven", value=heads, known=known)
        head_dim = known.hidden_size // heads
    elif not known.hidden_size and (
        known.num_attention_heads
        or scale * published.heads < 1
        or (known.num_hidden_layers and known.intermediate_size)
    ):
        # If the number of heads cannot follow the scale closely enough, the heads' width does.
        head_dim = max(8, round(scale * published.hidden_size / heads / 8) * 8)
    return heads, groups, head_dim


def _heads(wanted: float, groups: int) -> int:
    """Return a number of heads that tensor parallelism and the query groups divide well."""
    step = groups * -(-(8 if wanted >= 24 else 4 if wanted >= 8 else 1) // groups)
    return max(step, round(wanted / step) * step)
