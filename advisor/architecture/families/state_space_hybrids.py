"""State-space models, pure and mixed with attention: Mamba, Jamba, Nemotron-H."""

from typing import Final

from advisor.architecture.config import decoder as parts
from advisor.architecture.config.decoder import FULL, LINEAR, FeedForwards, layer_count
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.mixers.feed_forward import ExpertsShape, FeedForwardShape
from advisor.architecture.mixers.recurrences import SelectiveScan, StateSpaceDuality
from advisor.architecture.mixers.transformer import TransformerShape

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


def _pure(fields: ConfigFields, mixer: SelectiveScan | StateSpaceDuality) -> TransformerShape:
    """Return a model of equal state-space layers, without feed-forward layers."""
    return parts.decoder(
        fields, attention=(), other_mixers=[mixer], feed_forward=(), single_branch=True
    )


def _scan(fields: ConfigFields, layers: int, **settings: object) -> SelectiveScan:
    """Return Mamba layers. Older files say "auto" for the rank: a sixteenth of the width."""
    hidden, rank = fields.count("hidden_size"), "mamba_dt_rank"
    stated = fields.has(rank) and not fields.is_text(rank)
    shape: dict[str, object] = {
        "layers": layers,
        "channels": hidden * fields.count("mamba_expand"),
        "state_size": fields.count("mamba_d_state"),
        "rank": fields.count(rank) if stated else -(-hidden // 16),
        "kernel": fields.count("mamba_d_conv"),
        "bias": fields.flag("mamba_proj_bias"),
        "kernel_bias": fields.flag("mamba_conv_bias"),
    }
    return SelectiveScan.model_validate({**shape, **settings})


def mamba(fields: ConfigFields) -> TransformerShape:
    """Mamba: only selective state-space layers, tied head."""
    mixer = _scan(fields, layer_count(fields))
    return _pure(fields, mixer.changed(channels=fields.count("intermediate_size", mixer.channels)))


def mamba2(fields: ConfigFields) -> TransformerShape:
    """Mamba-2: only state-space duality layers."""
    return _pure(fields, _duality(fields, layer_count(fields)))


def nemotron_h(fields: ConfigFields) -> TransformerShape:
    """Nemotron-H and Nemotron 3: each layer is either Mamba-2, attention or feed-forward."""
    kinds = _pattern_kinds(fields)
    # The class ignores attention_bias.
    attention = parts.attention_shape(fields, layers=kinds.count(FULL), rotary=False)
    size = state_bytes(fields, "mamba_ssm_cache_dtype", "float32")
    recurrent = _duality(fields, kinds.count(LINEAR), state_bytes_per_element=size)
    if not attention.layers and not recurrent.layers:
        what = "has no layer that mixes tokens"
        found = "feed-forward layers only"
        fields.refuse("hybrid_override_pattern", what, found, "at least one M or *")
    return parts.decoder(
        fields,
        attention=[attention],
        other_mixers=[recurrent],
        feed_forward=_nemotron_feed_forward(fields, kinds),
        single_branch=True,
        # The class has two matrices and ignores tie_word_embeddings.
        tied=False,
    )


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
        wanted = f"1 to {limit:,} letters out of {' '.join(PATTERN)}"
        fields.refuse("hybrid_override_pattern", "is not usable", pattern[:40], wanted)
    return tuple(PATTERN[letter] for letter in pattern)


def _nemotron_feed_forward(fields: ConfigFields, kinds: tuple[str, ...]) -> FeedForwards:
    act = parts.activation(fields, "relu2", name="mlp_hidden_act")
    bias = fields.flag("mlp_bias")
    layers: list[FeedForwardShape | ExpertsShape] = []
    if kinds.count("mlp"):
        count, width = kinds.count("mlp"), fields.count("intermediate_size")
        layers.append(
            FeedForwardShape(layers=count, width=width, gated=False, activation=act, bias=bias)
        )
    if kinds.count("moe"):
        experts = parts.experts_shape(
            fields,
            layers=kinds.count("moe"),
            width=fields.count("moe_intermediate_size"),
            # The class builds it and ignores n_shared_experts.
            shared_width=fields.count("moe_shared_expert_intermediate_size"),
            gated=False,
            activation=act,
            latent_size=fields.optional_count("moe_latent_size"),
            shared_bias=bias,
        )
        layers.append(experts)
    return tuple(layers)


def _duality(fields: ConfigFields, layers: int, **settings: object) -> StateSpaceDuality:
    """Return Mamba-2 layers; their heads have a stated width, or divide the inner one."""
    heads, groups = fields.count("mamba_n_heads"), fields.count("mamba_n_groups")
    fields.must_divide("mamba_n_groups", groups, heads)
    width = fields.optional_count("mamba_head_dim")
    if width is None:
        channels = fields.count("mamba_expand") * fields.count("hidden_size")
        channels = fields.count("mamba_d_ssm", channels)
        fields.must_divide("mamba_n_heads", heads, channels, "the inner width")
        width = channels // heads
    bias = fields.flag("mamba_proj_bias")
    shape: dict[str, object] = {
        "layers": layers,
        "heads": heads,
        "head_dim": width,
        "state_size": fields.count("mamba_d_state"),
        "groups": groups,
        "kernel": fields.count("mamba_d_conv"),
        "chunk": fields.count("mamba_chunk_size"),
        "bias": bias,
        "output_bias": bias,
        "kernel_bias": fields.flag("mamba_conv_bias"),
    }
    return StateSpaceDuality.model_validate({**shape, **settings})


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
    layers = layer_count(fields)
    full = _periodic(fields, "attn_layer")
    routed = _periodic(fields, "expert_layer")
    if fields.count("num_experts") == 1:
        routed = 0
    scan = _scan(fields, layers - full, inner_norms=True)
    return parts.decoder(
        fields,
        attention=[parts.attention_shape(fields, layers=full, rotary=False)],
        other_mixers=[scan],
        feed_forward=parts.mixed_layers(fields, routed=routed, width="intermediate_size"),
    )


def _periodic(fields: ConfigFields, name: str) -> int:
    """Return the number of layers of a kind that recurs with a period, from an offset on."""
    period = fields.count(f"{name}_period")
    offset = fields.count(f"{name}_offset", minimum=0)
    return sum(1 for i in range(layer_count(fields)) if i % period == offset)


def falcon_h1(fields: ConfigFields) -> TransformerShape:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    scan = _duality(fields, layer_count(fields))
    update = {"norm": fields.flag("mamba_rms_norm"), "output_bias": fields.flag("projectors_bias")}
    return parts.decoder(
        fields,
        attention=[parts.attention_shape(fields, bias=fields.flag("attention_bias"))],
        other_mixers=[scan.changed(**update)],
        parallel_mixers=True,
        feed_forward=[parts.feed_forward_shape(fields, bias=fields.flag("mlp_bias"))],
    )


def bamba(fields: ConfigFields) -> TransformerShape:
    """Bamba: Mamba-2 layers and a few attention layers."""
    layers = layer_count(fields)
    full = len(set(fields.counts("attn_layer_indices", maximum=layers - 1)))
    bias = fields.flag("attention_bias")
    return parts.decoder(
        fields,
        attention=[parts.attention_shape(fields, layers=full, bias=bias)],
        other_mixers=[_duality(fields, layers - full)],
        feed_forward=[parts.feed_forward_shape(fields, bias=fields.flag("mlp_bias"))],
    )


def granite_hybrid(fields: ConfigFields) -> TransformerShape:
    """Granite 4: Mamba-2 layers, a few attention layers, and a shared expert, some with routing."""
    layers = layer_count(fields)
    full = layer_kinds(fields, [LINEAR] * layers).count(FULL)
    attention = parts.attention_shape(
        fields,
        layers=full,
        bias=fields.flag("attention_bias"),
        rotary=fields.text("position_embedding_type", "rope") == "rope",
    )
    shared = fields.count("shared_intermediate_size")
    feed_forward: FeedForwardShape | ExpertsShape
    if fields.count("num_experts", minimum=0):
        width = fields.count("intermediate_size")
        feed_forward = parts.experts_shape(fields, layers=layers, width=width, shared_width=shared)
    else:
        feed_forward = parts.feed_forward_shape(fields, width=shared, fused_gate=True)
    return parts.decoder(
        fields,
        attention=[attention],
        other_mixers=[_duality(fields, layers - full)],
        feed_forward=[feed_forward],
    )


def state_bytes(fields: ConfigFields, name: str, default: str) -> float:
    """Return the bytes per element of the recurrent state, from a field. [bytes]"""
    chosen = fields.text(name, default)
    if chosen not in STATE_BYTES:
        fields.refuse(name, "is not a known format", chosen, ", ".join(STATE_BYTES))
    return STATE_BYTES[chosen]
