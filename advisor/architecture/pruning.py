"""Structured pruning: removes a share of the heads and inner widths, in whole steps.

Tensors that join the residual stream keep their width, so every layer still fits the next.
"""

from typing import Final, TypeVar

from advisor.architecture import stack as nn
from advisor.architecture.mixers.attention import AttentionShape
from advisor.architecture.mixers.feed_forward import ExpertsShape, FeedForwardShape
from advisor.architecture.mixers.transformer import TransformerShape
from advisor.architecture.table.model import Network
from advisor.errors import refusal
from advisor.foundation.formatting import percent

WIDTH_STEP: Final = 16
"""Inner widths stay multiples of this, because tensor cores use tiles of at least 16."""
CHANNEL_STEP: Final = 8

N = TypeVar("N", bound=Network)


def pruned(network: N, share: float) -> tuple[N, str]:
    """Return a network without a share of its heads and inner widths, and a note on the change.

    Feed-forward widths, also of experts, are multiples of 16; heads go in whole groups that share
    keys; state-space layers and recurrences stay. Channels inside residual blocks stay multiples of
    8, and grouped convolutions lose whole groups. If no sum joins channels (VGG, U-Net, DenseNet),
    all convolutions except the last are narrowed. Raises InputError if the share removes nothing
    from the network.

    ``share``: share to remove, from 0 to 0.9.
    """
    smaller = network.changed(**_narrower(network, share))
    if smaller == network:
        raise refusal("nothing_to_prune", value=share)
    note = f"structured pruning removed {percent(share)} of heads and inner widths, in whole steps"
    return smaller, note


def _narrower(network: Network, share: float) -> dict[str, object]:
    if isinstance(network, TransformerShape):
        return {
            "attention": tuple(_attention(item, share) for item in network.attention),
            "feed_forward": tuple(_feed_forward(item, share) for item in network.feed_forward),
        }
    assert isinstance(network, nn.Stack)
    flat, layers = [*nn.flat(network.layers)], _layers(network.layers, share)
    convolutions = [layer for layer in flat if isinstance(layer, nn.Convolution)]
    # Sums join channels, whose widths must then agree.
    if convolutions and not any(isinstance(layer, nn.Residual) for layer in flat):
        ends = any(isinstance(layer, nn.Linear) for layer in flat)
        layers = _chained(layers, share, last=None if ends else convolutions[-1])
    return {"layers": layers}


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


def _layers(layers: nn.Layers, share: float) -> nn.Layers:
    inner = _inner_matrices(layers)
    return tuple(
        layer.changed(out=_left(layer.out, share, 2 * WIDTH_STEP))
        if isinstance(layer, nn.Linear) and index in inner
        else _layer(layer, share)
        for index, layer in enumerate(layers)
    )


def _inner_matrices(layers: nn.Layers) -> set[int]:
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
    if isinstance(layer, nn.Residual):
        return layer.changed(body=_narrowed(_layers(layer.body, share), share))
    return layer.changed(**{name: _layers(getattr(layer, name), share) for name in layer.inner})


def _chained(layers: nn.Layers, share: float, *, last: nn.Convolution | None) -> nn.Layers:
    """Narrow every convolution except the last. Their readers adapt to the width."""

    def narrowed(layer: nn.Layer) -> nn.Layer:
        if isinstance(layer, nn.Convolution) and layer.out and layer is not last:
            return layer.changed(out=_left(layer.out, share, CHANNEL_STEP))
        inner = {name: _chained(getattr(layer, name), share, last=last) for name in layer.inner}
        return layer.changed(**inner)

    return tuple(map(narrowed, layers))


def _narrowed(body: nn.Layers, share: float) -> nn.Layers:
    """Remove channels of the convolutions in a residual block, except the last one's."""
    convolutions = [
        (index, layer) for index, layer in enumerate(body) if isinstance(layer, nn.Convolution)
    ]
    grouped = (layer.groups for _, layer in convolutions if isinstance(layer.groups, int))
    groups = next((number for number in grouped if number > 1), 1)
    kept = _left(groups, share)
    narrowed = list(body)
    for index, layer in [item for item in convolutions if item[1].out is not None][:-1]:
        out = layer.out or 1
        if groups == 1:
            narrowed[index] = layer.changed(out=_left(out, share, CHANNEL_STEP))
        else:
            # Whole groups are removed, with the channels that they read.
            own = kept if layer.groups == groups else layer.groups
            narrowed[index] = layer.changed(out=out // groups * kept, groups=own)
    return tuple(narrowed)
