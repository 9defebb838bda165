"""State-space models, pure and mixed with attention: Mamba, Jamba, Nemotron-H."""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.checks import check_divides
from advisor.architecture.config.decoder import (
    FULL,
    LINEAR,
    activation,
    attention_shape,
    decoder,
    experts_shape,
    feed_forward_shape,
    layer_count,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.expert_layers import FeedForwards
from advisor.architecture.mixers.shapes import ExpertsShape, FeedForwardShape, TransformerShape
from advisor.architecture.mixers.shapes_of_mixers import SelectiveScan, StateSpaceDuality

STATE_BYTES: Final = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "auto": 2.0}
"""Bytes per element of recurrent states, by the format's name in configurations. [bytes]"""

LAYER_KINDS: Final = {
    FULL: FULL,
    "attention": FULL,
    LINEAR: LINEAR,
    "mamba": LINEAR,
    "conv": LINEAR,
}
"""Names of layer types, old and new."""

PATTERN: Final = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}
"""Letters of ``hybrid_override_pattern``."""

OLD_TYPES: Final = {"mamba": LINEAR, "attention": FULL, "mlp": "mlp", "moe": "moe"}
"""Older names of layer types in ``layers_block_type``."""

HEADS: Final = LIMITS["num_attention_heads"]

DIM: Final = LIMITS["head_dim"]


def mamba(fields: ConfigFields) -> TransformerShape:
    """Mamba: only selective state-space layers, tied head."""
    hidden = fields.count("hidden_size")
    # The older value "auto" means a sixteenth of the width, rounded up.
    automatic = fields.is_text("time_step_rank") or not fields.has("time_step_rank")
    rank = -(-hidden // 16) if automatic else fields.count("time_step_rank")
    mixer = SelectiveScan(
        layers=layer_count(fields),
        channels=fields.count("intermediate_size", hidden * fields.count("expand", maximum=64)),
        state_size=fields.count("state_size", maximum=LIMITS["head_dim"]),
        rank=rank,
        kernel=fields.count("conv_kernel", maximum=LIMITS["head_dim"]),
        bias=fields.flag("use_bias"),
        kernel_bias=fields.flag("use_conv_bias"),
    )
    return decoder(fields, attention=(), other_mixers=[mixer], feed_forward=(), single_branch=True)


def mamba2(fields: ConfigFields) -> TransformerShape:
    """Mamba-2: only state-space duality layers."""
    heads = fields.count("num_heads", maximum=LIMITS["num_attention_heads"])
    mixer = _state_space_duality(
        fields,
        layers=layer_count(fields),
        heads=heads,
        head_dim=fields.count("head_dim"),
        state=fields.count("state_size", maximum=LIMITS["head_dim"]),
        chunk=fields.count("chunk_size", maximum=LIMITS["head_dim"]),
        state_bytes=2.0,
    )
    return decoder(fields, attention=(), other_mixers=[mixer], feed_forward=(), single_branch=True)


def nemotron_h(fields: ConfigFields) -> TransformerShape:
    """Nemotron-H and Nemotron 3: each layer is either Mamba-2, attention or feed-forward."""
    kinds = _pattern_kinds(fields)
    # The class ignores attention_bias.
    attention = attention_shape(fields, windows=[None] * kinds.count(FULL), rotary=False)
    recurrent = []
    if kinds.count(LINEAR):
        heads = fields.count("mamba_num_heads", maximum=LIMITS["num_attention_heads"])
        recurrent.append(
            _state_space_duality(
                fields,
                layers=kinds.count(LINEAR),
                heads=heads,
                head_dim=fields.count("mamba_head_dim", maximum=LIMITS["head_dim"]),
                state=fields.count("ssm_state_size", maximum=LIMITS["head_dim"]),
                chunk=fields.count("chunk_size", maximum=LIMITS["head_dim"]),
                state_bytes=state_bytes(fields, "mamba_ssm_cache_dtype", "float32"),
            )
        )
    if not attention.layers and not recurrent:
        fields.fail(
            "config field hybrid_override_pattern has no layer that mixes tokens",
            "hybrid_override_pattern",
            "feed-forward layers only",
            "at least one M or *",
        )
    return decoder(
        fields,
        attention=[attention],
        other_mixers=recurrent,
        feed_forward=_nemotron_feed_forward(fields, kinds),
        single_branch=True,
        # The class has two matrices and ignores tie_word_embeddings.
    ).model_copy(update={"tied": False})


def _pattern_kinds(fields: ConfigFields) -> tuple[str, ...]:
    """Return the kinds of the layers, from a list or a pattern of letters."""
    limit = LIMITS["num_hidden_layers"]
    allowed = {*OLD_TYPES, *OLD_TYPES.values()}
    for name in ("layers_block_type", "layer_types"):
        length = fields.length(name)
        if length is not None:
            listed = fields.texts(name, length=min(length, limit), allowed=sorted(allowed)) or ()
            return tuple(OLD_TYPES.get(kind, kind) for kind in listed)
    pattern = fields.text("hybrid_override_pattern", "")
    if not 0 < len(pattern) <= limit or set(pattern) - set(PATTERN):
        fields.fail(
            "config field hybrid_override_pattern is not usable",
            "hybrid_override_pattern",
            pattern[:40],
            f"1 to {limit:,} letters out of {' '.join(PATTERN)}",
        )
    return tuple(PATTERN[letter] for letter in pattern)


def _nemotron_feed_forward(fields: ConfigFields, kinds: tuple[str, ...]) -> FeedForwards:
    act = activation(fields, "relu2", name="mlp_hidden_act")
    bias = fields.flag("mlp_bias")
    layers: list[FeedForwardShape | ExpertsShape] = []
    if kinds.count("mlp"):
        layers.append(
            FeedForwardShape(
                layers=kinds.count("mlp"),
                width=fields.count("intermediate_size"),
                gated=False,
                activation=act,
                bias=bias,
            )
        )
    if kinds.count("moe"):
        experts = experts_shape(
            fields,
            layers=kinds.count("moe"),
            width=fields.count("moe_intermediate_size"),
            # The class builds it and ignores n_shared_experts.
            shared_width=fields.count("moe_shared_expert_intermediate_size"),
        )
        latent = fields.optional_count("moe_latent_size")
        layers.append(
            experts.model_copy(
                update={
                    "gated": False,
                    "activation": act,
                    "latent_size": latent,
                    "shared_bias": bias,
                }
            )
        )
    return tuple(layers)


def _state_space_duality(
    fields: ConfigFields,
    *,
    layers: int,
    heads: int,
    head_dim: int,
    state: int,
    chunk: int,
    state_bytes: float,
) -> StateSpaceDuality:
    groups = fields.count("n_groups", maximum=LIMITS["num_attention_heads"])
    check_divides(fields, "n_groups", groups, heads)
    bias = fields.flag("use_bias")
    return StateSpaceDuality(
        layers=layers,
        heads=heads,
        head_dim=head_dim,
        state_size=state,
        groups=groups,
        kernel=fields.count("conv_kernel", maximum=LIMITS["head_dim"]),
        chunk=chunk,
        bias=bias,
        output_bias=bias,
        kernel_bias=fields.flag("use_conv_bias"),
        state_bytes_per_element=state_bytes,
    )


def layer_kinds(fields: ConfigFields, default: list[str]) -> list[str]:
    """Return the kinds of the layers, from a list or the family's pattern."""
    layers = layer_count(fields)
    for name in ("layer_types", "layers_block_type"):
        listed = fields.texts(name, length=layers, allowed=LAYER_KINDS)
        if listed is not None:
            return [LAYER_KINDS[kind] for kind in listed]
    return default


def jamba(fields: ConfigFields) -> TransformerShape:
    """Jamba: seven Mamba layers per attention layer, experts on every other layer."""
    layers, hidden = layer_count(fields), fields.count("hidden_size")
    period = fields.count("attn_layer_period")
    offset = fields.count("attn_layer_offset", minimum=0)
    full = sum(1 for i in range(layers) if i % period == offset)
    routed_period = fields.count("expert_layer_period")
    routed_offset = fields.count("expert_layer_offset", minimum=0)
    routed = sum(1 for i in range(layers) if i % routed_period == routed_offset)
    width = fields.count("intermediate_size")
    if fields.count("num_experts") == 1:
        routed = 0
    feed_forward: list[FeedForwardShape | ExpertsShape] = []
    if routed < layers:
        feed_forward.append(feed_forward_shape(fields, layers=layers - routed))
    if routed:
        feed_forward.append(experts_shape(fields, layers=routed, width=width))
    automatic = fields.is_text("mamba_dt_rank") or not fields.has("mamba_dt_rank")
    scan = None
    if full < layers:
        scan = SelectiveScan(
            layers=layers - full,
            channels=hidden * fields.count("mamba_expand", maximum=64),
            state_size=fields.count("mamba_d_state", maximum=DIM),
            rank=-(-hidden // 16) if automatic else fields.count("mamba_dt_rank"),
            kernel=fields.count("mamba_d_conv", maximum=DIM),
            bias=fields.flag("mamba_proj_bias"),
            kernel_bias=fields.flag("mamba_conv_bias"),
            inner_norms=True,
        )
    attention = attention_shape(fields, windows=[None] * full, rotary=False)
    return decoder(
        fields,
        attention=[attention],
        other_mixers=[scan] if scan else [],
        feed_forward=feed_forward,
    )


def _duality(fields: ConfigFields, *, layers: int, norm: bool = True) -> StateSpaceDuality:
    """Return Mamba-2 layers from the fields of Bamba, Granite 4 and Falcon-H1."""
    heads = fields.count("mamba_n_heads", maximum=HEADS)
    channels = fields.count("mamba_expand", maximum=64) * fields.count("hidden_size")
    if fields.has("mamba_d_ssm"):
        channels = fields.count("mamba_d_ssm")
    check_divides(fields, "mamba_n_heads", heads, channels, "the inner width")
    bias = fields.flag("mamba_proj_bias")
    return StateSpaceDuality(
        layers=layers,
        heads=heads,
        head_dim=channels // heads,
        state_size=fields.count("mamba_d_state", maximum=DIM),
        groups=fields.count("mamba_n_groups", maximum=HEADS),
        kernel=fields.count("mamba_d_conv", maximum=DIM),
        chunk=fields.count("mamba_chunk_size", maximum=DIM),
        bias=bias,
        output_bias=bias,
        kernel_bias=fields.flag("mamba_conv_bias"),
        norm=norm,
    )


def falcon_h1(fields: ConfigFields) -> TransformerShape:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    layers = layer_count(fields)
    scan = _duality(fields, layers=layers, norm=fields.flag("mamba_rms_norm")).model_copy(
        update={"output_bias": fields.flag("projectors_bias")}
    )
    return decoder(
        fields,
        attention=[attention_shape(fields, bias=fields.flag("attention_bias"))],
        other_mixers=[scan],
        parallel_mixers=True,
        feed_forward=[feed_forward_shape(fields, bias=fields.flag("mlp_bias"))],
    )


def bamba(fields: ConfigFields) -> TransformerShape:
    """Bamba: Mamba-2 layers and a few attention layers."""
    layers = layer_count(fields)
    full = len(set(fields.counts("attn_layer_indices", maximum=layers - 1)))
    attention = attention_shape(fields, windows=[None] * full, bias=fields.flag("attention_bias"))
    return decoder(
        fields,
        attention=[attention],
        other_mixers=[_duality(fields, layers=layers - full)] if full < layers else [],
        feed_forward=[feed_forward_shape(fields, bias=fields.flag("mlp_bias"))],
    )


def granite_hybrid(fields: ConfigFields) -> TransformerShape:
    """Granite 4: Mamba-2 layers, a few attention layers, and a shared expert, some with routing."""
    layers = layer_count(fields)
    kinds = layer_kinds(fields, [LINEAR] * layers)
    full = kinds.count(FULL)
    attention = attention_shape(
        fields,
        windows=[None] * full,
        bias=fields.flag("attention_bias"),
        rotary=fields.text("position_embedding_type", "rope") == "rope",
    )
    shared = fields.count("shared_intermediate_size")
    feed_forward: FeedForwardShape | ExpertsShape
    if fields.count("num_experts", minimum=0):
        feed_forward = experts_shape(
            fields, layers=layers, width=fields.count("intermediate_size"), shared_width=shared
        )
    else:
        feed_forward = feed_forward_shape(fields, width=shared, fused_gate=True)
    return decoder(
        fields,
        attention=[attention],
        other_mixers=[_duality(fields, layers=layers - full)] if full < layers else [],
        feed_forward=[feed_forward],
    )


def state_bytes(fields: ConfigFields, name: str, default: str) -> float:
    """Return the bytes per element of the recurrent state, from a field. [bytes]"""
    chosen = fields.text(name, default)
    if chosen not in STATE_BYTES:
        fields.fail(
            f"config field {name} is not a known format", name, chosen, ", ".join(STATE_BYTES)
        )
    return STATE_BYTES[chosen]
