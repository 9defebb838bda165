"""Structured pruning: removes a share of the heads and inner widths, in whole steps.

Tensors that join the residual stream keep their width, so every layer still fits the next.
"""

from collections.abc import Iterator
from typing import Final

from advisor.architecture.mixers.shapes import (
    AttentionShape,
    ExpertsShape,
    FeedForwardShape,
    TransformerShape,
)
from advisor.architecture.stack import layers as nn
from advisor.architecture.stack.compile import Stack
from advisor.errors import InputError
from advisor.foundation.formatting import percent

WIDTH_STEP: Final = 16
"""Inner widths stay multiples of this, because tensor cores use tiles of at least 16."""
CHANNEL_STEP: Final = 8


def pruned(network: TransformerShape | Stack, share: float) -> tuple[TransformerShape | Stack, str]:
    """Return a network without a share of its heads and inner widths, and a note on the change.

    Raises InputError if the share removes nothing from the network.
    """
    if isinstance(network, TransformerShape):
        return pruned_transformer(network, share)
    return pruned_stack(network, share)


def pruned_stack(stack: Stack, share: float) -> tuple[Stack, str]:
    """Return a network of layers without a share of its heads and inner widths.

    It works like :func:`pruned_transformer`. Channels inside residual blocks stay multiples of 8,
    and grouped convolutions lose whole groups. If no sum joins channels (VGG, U-Net, DenseNet),
    all convolutions except the last are narrowed. Recurrences stay unchanged.
    """
    layers = _layers(stack.layers, share)
    flat = [*_flat(stack.layers)]
    convolutions = [layer for layer in flat if isinstance(layer, nn.Convolution)]
    # Sums join channels, whose widths must then agree.
    if convolutions and not any(isinstance(layer, nn.Residual) for layer in flat):
        ends = any(isinstance(layer, nn.Linear) for layer in flat)
        layers = _chained(layers, share, last=None if ends else convolutions[-1])
    smaller = stack.changed(layers=layers)
    return smaller, _note(share, changed=smaller != stack)


def pruned_transformer(shape: TransformerShape, share: float) -> tuple[TransformerShape, str]:
    """Return a shape without a share of its heads and inner widths, and what has changed.

    Feed-forward widths, also of experts, are multiples of 16; heads go in whole groups that share
    keys; state-space layers stay. Raises InputError if the share removes nothing.

    ``share``: share to remove, from 0 to 0.9.
    """
    smaller = shape.changed(
        attention=tuple(_attention(item, share) for item in shape.attention),
        feed_forward=tuple(_feed_forward(item, share) for item in shape.feed_forward),
    )
    return smaller, _note(share, changed=smaller != shape)


def _note(share: float, *, changed: bool) -> str:
    if not changed:
        raise InputError(
            "this network has no heads or inner widths that this share removes",
            value=share,
            allowed="a larger share, up to 0.9, of a network with attention, feed-forward or "
            "residual layers; recurrent layers are not pruned",
            remedy="Leave model.pruning out.",
            field="model.pruning",
        )
    return f"structured pruning removed {percent(share)} of heads and inner widths, in whole steps"


def _left(size: int, share: float, step: int = 1) -> int:
    """Return the remaining width as the nearest multiple of ``step``, from one step to all."""
    return min(size, max(step, round(size * (1 - share) / step) * step))


def _attention(shape: AttentionShape, share: float) -> AttentionShape:
    groups = shape.key_value_heads
    if groups == 1:
        return shape.changed(heads=_left(shape.heads, share))
    left = _left(groups, share)
    heads = left * (shape.heads // groups)
    return shape.changed(heads=heads, key_value_heads=left)


def _feed_forward(
    shape: FeedForwardShape | ExpertsShape, share: float
) -> FeedForwardShape | ExpertsShape:
    width = _left(shape.width, share, WIDTH_STEP)
    if isinstance(shape, FeedForwardShape):
        return shape.changed(width=width)
    shared = _left(shape.shared_width, share, WIDTH_STEP) if shape.shared_width else 0
    return shape.changed(width=width, shared_width=shared)


def _layers(layers: tuple[nn.Layer, ...], share: float) -> tuple[nn.Layer, ...]:
    inner = _inner_matrices(layers)
    return tuple(
        layer.changed(out=_left(layer.out, share, 2 * WIDTH_STEP))
        if isinstance(layer, nn.Linear) and index in inner
        else _layer(layer, share)
        for index, layer in enumerate(layers)
    )


def _inner_matrices(layers: tuple[nn.Layer, ...]) -> set[int]:
    """Return the matrices that are followed by an activation and another matrix."""
    matrices = [index for index, layer in enumerate(layers) if isinstance(layer, nn.Linear)]
    return {
        index
        for index in matrices[:-1]
        if isinstance(layers[index + 1], nn.Activation | nn.GatedProduct)
    }


def _layer(layer: nn.Layer, share: float) -> nn.Layer:
    if isinstance(layer, nn.Attention):
        return layer.changed(kept_heads=_left(layer.heads, share))
    if isinstance(layer, nn.Repeat | nn.Section | nn.Branch):
        return layer.changed(layers=_layers(layer.layers, share))
    if isinstance(layer, nn.Residual):
        return layer.changed(body=_narrowed(_layers(layer.body, share), share))
    return layer


def _flat(layers: tuple[nn.Layer, ...]) -> Iterator[nn.Layer]:
    """Yield the layers, including those inside other layers."""
    for layer in layers:
        yield layer
        if isinstance(layer, nn.Repeat | nn.Section | nn.Branch):
            yield from _flat(layer.layers)
        if isinstance(layer, nn.Residual):
            yield from _flat((*layer.body, *layer.shortcut))


def _chained(
    layers: tuple[nn.Layer, ...], share: float, *, last: nn.Convolution | None
) -> tuple[nn.Layer, ...]:
    """Narrow every convolution except the last. Their readers adapt to the width."""
    narrowed: list[nn.Layer] = []
    for layer in layers:
        if isinstance(layer, nn.Repeat | nn.Section | nn.Branch):
            inner = _chained(layer.layers, share, last=last)
            narrowed.append(layer.changed(layers=inner))
        elif isinstance(layer, nn.Convolution) and layer.out and layer is not last:
            out = _left(layer.out, share, CHANNEL_STEP)
            narrowed.append(layer.changed(out=out))
        else:
            narrowed.append(layer)
    return tuple(narrowed)


def _narrowed(body: tuple[nn.Layer, ...], share: float) -> tuple[nn.Layer, ...]:
    """Remove channels of the convolutions in a residual block, except the last one's."""
    places = [
        index
        for index, layer in enumerate(body)
        if isinstance(layer, nn.Convolution) and layer.out is not None
    ]
    groups = next(
        (
            layer.groups
            for layer in body
            if isinstance(layer, nn.Convolution)
            and isinstance(layer.groups, int)
            and layer.groups > 1
        ),
        1,
    )
    kept = _left(groups, share)
    narrowed = list(body)
    for index in places[:-1]:
        layer = body[index]
        if not isinstance(layer, nn.Convolution) or layer.out is None:
            continue
        out = _left(layer.out, share, CHANNEL_STEP)
        if groups > 1:
            # Whole groups are removed, with the channels that they read.
            out = layer.out // groups * kept
        grouped = layer.groups == groups > 1
        update = {"out": out, "groups": kept if grouped else layer.groups}
        narrowed[index] = layer.changed(**update)
    return tuple(narrowed)
