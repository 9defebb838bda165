"""Model families that mix tokens by recurrences: state-space models and hybrids.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from typing import Final

from advisor.architecture.config.decoder import (
    FP32_SCALED_NORM,
    FULL,
    POST_NORMS,
    activation,
    attention_shape,
    decoder,
    experts_shape,
    feed_forward_shape,
    layer_count,
)
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.routed import FeedForwards, qwen_feed_forward
from advisor.architecture.mixers.shapes import (
    AttentionShape,
    ExpertsShape,
    FeedForwardShape,
    TransformerShape,
)
from advisor.architecture.mixers.shapes_of_mixers import (
    GatedDelta,
    SelectiveScan,
    StateSpaceDuality,
)

LINEAR: Final = "linear_attention"

STATE_BYTES: Final = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "auto": 2.0}
"""Formats of recurrent states by their name in published configurations. [bytes]"""

PATTERN: Final = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}
"""Letters of ``hybrid_override_pattern``."""

OLD_TYPES: Final = {"mamba": LINEAR, "attention": FULL, "mlp": "mlp", "moe": "moe"}
"""Older names of layer types in ``layers_block_type``."""


def _state_bytes(fields: ConfigFields, name: str, default: str) -> float:
    chosen = fields.text(name, default)
    if chosen not in STATE_BYTES:
        fields.fail(
            f"config field {name} is not a known format", name, chosen, ", ".join(STATE_BYTES)
        )
    return STATE_BYTES[chosen]


def _gated_delta(
    fields: ConfigFields,
    layers: int,
    *,
    heads: tuple[int, int] = (16, 32),
    dims: tuple[int, int] = (128, 128),
) -> GatedDelta:
    """Return the layers; ``heads`` and ``dims`` are defaults of keys and of values."""
    most = LIMITS["num_attention_heads"]
    key_heads = fields.count("linear_num_key_heads", heads[0], maximum=most)
    value_heads = fields.count("linear_num_value_heads", heads[1], maximum=most)
    if value_heads % key_heads:
        fields.fail(
            "config field linear_num_key_heads does not divide linear_num_value_heads",
            "linear_num_key_heads",
            key_heads,
            f"a divisor of {value_heads}",
        )
    return GatedDelta(
        layers=layers,
        key_heads=key_heads,
        value_heads=value_heads,
        key_head_dim=fields.count("linear_key_head_dim", dims[0], maximum=LIMITS["head_dim"]),
        value_head_dim=fields.count("linear_value_head_dim", dims[1], maximum=LIMITS["head_dim"]),
        kernel=fields.count("linear_conv_kernel_dim", 4, maximum=LIMITS["head_dim"]),
        state_bytes_per_element=_state_bytes(fields, "mamba_ssm_dtype", "auto"),
    )


def _gated_hybrid(fields: ConfigFields, feed_forward: FeedForwards) -> TransformerShape:
    """Gated delta layers, every fourth one gated attention instead."""
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, LINEAR))
    if types is None:
        period = fields.count("full_attention_interval", 4)
        types = tuple(LINEAR if (i + 1) % period else FULL for i in range(layers))
    full = types.count(FULL)
    attention, recurrent = [], []
    if full:
        bias = fields.flag("attention_bias", False)
        shape = attention_shape(
            fields,
            head_dim=256,
            windows=[None] * full,
            input_bias=bias,
            output_bias=bias,
            query_key_norm="head",
        )
        attention.append(shape.model_copy(update={"output_gate": "element"}))
    if full < layers:
        recurrent.append(_gated_delta(fields, layers - full))
    return decoder(
        fields,
        norm=FP32_SCALED_NORM,
        attention=attention,
        other_mixers=recurrent,
        feed_forward=feed_forward,
    )


def olmo_hybrid(fields: ConfigFields) -> TransformerShape:
    """OLMo Hybrid: OLMo 3 with gated delta layers, every fourth one full attention."""
    layers, hidden = layer_count(fields), fields.count("hidden_size")
    types = fields.texts("layer_types", length=layers, allowed=(FULL, LINEAR))
    if types is None:
        # The last layer attends where there are fewer than four.
        last = layers - 1 if layers < 4 else layers
        types = tuple(LINEAR if (i + 1) % 4 and i != last else FULL for i in range(layers))
    heads = fields.count("num_attention_heads")
    keys = fields.count("linear_num_key_heads", heads, maximum=LIMITS["num_attention_heads"])
    dim = fields.count(
        "linear_key_head_dim", max(3 * hidden // (4 * keys), 1), maximum=LIMITS["head_dim"]
    )
    recurrent = _gated_delta(
        fields, max(types.count(LINEAR), 1), heads=(keys, heads), dims=(dim, 2 * dim)
    )
    bias = fields.flag("attention_bias", False)
    attention = attention_shape(
        fields,
        windows=[None] * types.count(FULL),
        input_bias=bias,
        output_bias=bias,
        query_key_norm="width",
    )
    return decoder(
        fields,
        places=POST_NORMS,
        attention=[attention] if FULL in types else [],
        other_mixers=[recurrent] if LINEAR in types else [],
    )


def qwen3_5(fields: ConfigFields) -> TransformerShape:
    """Qwen 3.5 and 3.6, dense: gated delta layers and gated attention."""
    return _gated_hybrid(fields, (feed_forward_shape(fields),))


def qwen3_next(fields: ConfigFields) -> TransformerShape:
    """Qwen3-Next and Qwen 3.5 MoE: gated delta layers, gated attention, routed experts."""
    return _gated_hybrid(fields, qwen_feed_forward(fields, shared=True))


def _layer_kinds(fields: ConfigFields) -> tuple[str, ...]:
    """Kinds of the layers, by list or by pattern of letters."""
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


def nemotron_h(fields: ConfigFields) -> TransformerShape:
    """Nemotron-H and Nemotron 3: Mamba-2, attention and feed-forward layers, one to a layer."""
    kinds = _layer_kinds(fields)
    attention, recurrent = [], []
    if kinds.count(FULL):
        attention.append(_plain_attention(fields, kinds.count(FULL)))
    if kinds.count(LINEAR):
        heads = fields.count("mamba_num_heads", 128, maximum=LIMITS["num_attention_heads"])
        recurrent.append(
            _state_space_duality(
                fields,
                layers=kinds.count(LINEAR),
                heads=heads,
                head_dim=fields.count("mamba_head_dim", 64, maximum=LIMITS["head_dim"]),
                state=fields.count("ssm_state_size", 128, maximum=LIMITS["head_dim"]),
                chunk=fields.count("chunk_size", 128, maximum=LIMITS["head_dim"]),
                state_bytes=_state_bytes(fields, "mamba_ssm_cache_dtype", "float32"),
            )
        )
    if not attention and not recurrent:
        fields.fail(
            "config field hybrid_override_pattern has no layer that mixes tokens",
            "hybrid_override_pattern",
            "feed-forward layers only",
            "at least one M or *",
        )
    return decoder(
        fields,
        attention=attention,
        other_mixers=recurrent,
        feed_forward=_nemotron_feed_forward(fields, kinds),
        single_branch=True,
        # The class has two matrices whatever tie_word_embeddings says.
    ).model_copy(update={"tied": False})


def _plain_attention(fields: ConfigFields, layers: int) -> AttentionShape:
    """Attention without rotation; the class ignores ``attention_bias``."""
    return attention_shape(
        fields,
        heads=32,
        key_value_heads=8,
        head_dim=128,
        windows=[None] * layers,
        rotary=False,
    )


def _nemotron_feed_forward(fields: ConfigFields, kinds: tuple[str, ...]) -> FeedForwards:
    act = activation(fields, "relu2", name="mlp_hidden_act")
    bias = fields.flag("mlp_bias", False)
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
            # The class builds it whatever n_shared_experts says.
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
    groups = fields.count("n_groups", 8, maximum=LIMITS["num_attention_heads"])
    if heads % groups:
        fields.fail(
            "config field n_groups does not divide the heads",
            "n_groups",
            groups,
            f"a divisor of {heads}",
        )
    bias = fields.flag("use_bias", False)
    return StateSpaceDuality(
        layers=layers,
        heads=heads,
        head_dim=head_dim,
        state_size=state,
        groups=groups,
        kernel=fields.count("conv_kernel", 4, maximum=LIMITS["head_dim"]),
        chunk=chunk,
        bias=bias,
        output_bias=bias,
        kernel_bias=fields.flag("use_conv_bias", True),
        state_bytes_per_element=state_bytes,
    )


def mamba(fields: ConfigFields) -> TransformerShape:
    """Mamba: selective state-space layers and nothing else, tied head."""
    hidden = fields.count("hidden_size")
    # The older "auto" is a sixteenth of the width, rounded up.
    automatic = fields.is_text("time_step_rank") or not fields.has("time_step_rank")
    rank = -(-hidden // 16) if automatic else fields.count("time_step_rank")
    mixer = SelectiveScan(
        layers=layer_count(fields),
        channels=fields.count("intermediate_size", hidden * fields.count("expand", 2, maximum=64)),
        state_size=fields.count("state_size", 16, maximum=LIMITS["head_dim"]),
        rank=rank,
        kernel=fields.count("conv_kernel", 4, maximum=LIMITS["head_dim"]),
        bias=fields.flag("use_bias", False),
        kernel_bias=fields.flag("use_conv_bias", True),
    )
    return decoder(
        fields, tied=True, attention=(), other_mixers=[mixer], feed_forward=(), single_branch=True
    )


def mamba2(fields: ConfigFields) -> TransformerShape:
    """Mamba-2: state-space duality layers and nothing else."""
    heads = fields.count("num_heads", 128, maximum=LIMITS["num_attention_heads"])
    mixer = _state_space_duality(
        fields,
        layers=layer_count(fields),
        heads=heads,
        head_dim=fields.count("head_dim", 64),
        state=fields.count("state_size", 128, maximum=LIMITS["head_dim"]),
        chunk=fields.count("chunk_size", 256, maximum=LIMITS["head_dim"]),
        state_bytes=2.0,
    )
    return decoder(fields, attention=(), other_mixers=[mixer], feed_forward=(), single_branch=True)
