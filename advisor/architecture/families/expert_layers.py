"""Layers with routed experts in a decoder: every layer, every n-th, or after dense layers."""

from __future__ import annotations

from advisor.architecture.config.decoder import experts_shape, feed_forward_shape, layer_count
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.shapes import ExpertsShape, FeedForwardShape

FeedForwards = tuple[FeedForwardShape | ExpertsShape, ...]


def dense_then_routed(
    fields: ConfigFields,
    *,
    dense: int,
    routed: ExpertsShape | None,
    dense_width: int | None = None,
    bias: bool = False,
) -> FeedForwards:
    """Return first the dense feed-forward layers, then the routed ones; either may be absent."""
    layers: list[FeedForwardShape | ExpertsShape] = []
    if dense:
        layers.append(feed_forward_shape(fields, layers=dense, width=dense_width, bias=bias))
    if routed is not None:
        layers.append(routed)
    return tuple(layers)


def everywhere(fields: ConfigFields, *, width: str, shared_width: str | None) -> FeedForwards:
    """Return experts on every layer. ``width`` and ``shared_width`` name fields."""
    shared = fields.count(shared_width, 0, minimum=0) if shared_width else 0
    layers, wide = layer_count(fields), fields.count(width)
    return (experts_shape(fields, layers=layers, width=wide, shared_width=shared),)


def by_step(fields: ConfigFields, *, shared_width: str | None) -> FeedForwards:
    """Return experts on every ``decoder_sparse_step``-th layer, except those listed as dense.

    ``shared_width`` names the field with the width of a gated expert that every token visits.
    """
    layers = layer_count(fields)
    step = fields.count("decoder_sparse_step", 1)
    listed = set(fields.counts("mlp_only_layers", maximum=layers - 1))
    routed = sum(1 for i in range(layers) if i not in listed and (i + 1) % step == 0)
    if not routed:
        return dense_then_routed(fields, dense=layers, routed=None)
    experts = experts_shape(
        fields,
        layers=routed,
        width=fields.count("moe_intermediate_size"),
        shared_width=fields.count(shared_width) if shared_width else 0,
        shared_gate=shared_width is not None,
    )
    return dense_then_routed(fields, dense=layers - routed, routed=experts)


def after_dense(
    fields: ConfigFields, *, width: str = "moe_intermediate_size", bias: bool = False
) -> FeedForwards:
    """Return dense layers first, then experts on every ``moe_layer_freq``-th layer.

    ``width`` names the field with an expert's width. ``bias`` applies to dense and shared layers.
    """
    layers = layer_count(fields)
    dense = min(fields.count("first_k_dense_replace", 0, minimum=0), layers)
    period = fields.count("moe_layer_freq", 1)
    kinds = fields.texts("mlp_layer_types", length=layers, allowed=("dense", "sparse"))
    if kinds is not None:
        routed = kinds.count("sparse")
    else:
        routed = sum(1 for i in range(dense, layers) if i % period == 0)
    if not routed:
        return dense_then_routed(fields, dense=layers, routed=None, bias=bias)
    wide = fields.count(width)
    beside = fields.count("n_shared_experts", 0, minimum=0) * wide
    experts = experts_shape(
        fields, layers=routed, width=wide, shared_width=beside, shared_bias=bias
    )
    return dense_then_routed(fields, dense=layers - routed, routed=experts, bias=bias)
