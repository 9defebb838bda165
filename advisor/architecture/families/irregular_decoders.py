"""Decoders that no row of settings describes: OPT, Falcon, DBRX, Llama 4, Step 3 and others."""

from typing import Final

from advisor.architecture.config import decoder as parts
from advisor.architecture.config.decoder import FULL, SLIDING, FeedForwards, layer_count
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.mixers.attention import AttentionShape, WindowLayers
from advisor.architecture.mixers.feed_forward import ExpertsShape, FeedForwardShape
from advisor.architecture.mixers.transformer import NormPlaces, TransformerShape
from advisor.architecture.table.rows import Norm, NormKind

OPT_POSITION_OFFSET: Final = 2
"""OPT's position table starts with two unused rows."""

IMAGE_ROWS: Final = 8
"""Rows for image tokens after Llama 3.2 Vision's vocabulary."""

HYBRID: Final = "hybrid"
CHUNKED: Final = "chunked_attention"


def opt(fields: ConfigFields) -> TransformerShape:
    """OPT: learned positions, ReLU, biases. The 350M model normalises after each sublayer."""
    bias = fields.flag("enable_bias")
    hidden = fields.count("hidden_size")
    embedding = fields.count("word_embed_proj_dim", hidden)
    before = fields.flag("do_layer_norm_before")
    scaled = fields.flag("layer_norm_elementwise_affine")
    return parts.decoder(
        fields,
        norm=parts.LAYER_NORM if scaled else Norm(kind=NormKind.LAYER, scale=False),
        dropout=fields.share("dropout") > 0,
        final_norm=before and not fields.flag("_remove_final_layer_norm"),
        positions=fields.count("max_position_embeddings") + OPT_POSITION_OFFSET,
        embedding_width=None if embedding == hidden else embedding,
        attention=[parts.attention_shape(fields, bias=bias, rotary=False)],
        feed_forward=[parts.feed_forward_shape(fields, gated=False, bias=bias)],
    )


def falcon(fields: ConfigFields) -> TransformerShape:
    """Falcon: parallel attention and feed-forward on one norm (7B) or two (40B, 180B)."""
    heads = fields.count("num_attention_heads")
    modern = fields.flag("new_decoder_architecture")
    if modern:
        groups = fields.count("num_key_value_heads", heads)
    else:
        groups = 1 if fields.flag("multi_query") else heads
    parallel = modern or fields.flag("parallel_attn")
    norms = fields.count("num_ln_in_parallel_attn", 2 if modern else 1, maximum=2)
    bias = fields.flag("bias")
    one_norm = parallel and norms == 1
    attention = parts.attention_shape(
        fields, bias=bias, fused_projection=True, rotary=not fields.flag("alibi")
    )
    return parts.decoder(
        fields,
        norm=parts.LAYER_NORM,
        places=parts.ONE_NORM if one_norm else NormPlaces(),
        parallel=one_norm,
        attention=[attention.changed(key_value_heads=groups)],
        feed_forward=[parts.feed_forward_shape(fields, times_hidden=4, gated=False, bias=bias)],
    )


def mllama(fields: ConfigFields) -> TransformerShape:
    """Llama 3.2 Vision: Llama 3.1 with additional layers that attend to the image.

    Text without an image skips these layers: they count with their parameters and one key.
    """
    layers = layer_count(fields)
    listed = fields.counts("cross_attention_layers", maximum=layers - 1)
    # The class's default list is for 40 layers.
    crossing = set(listed) if fields.has("cross_attention_layers") else set(range(3, layers, 5))
    attention = parts.attention_shape(fields, layers=layers - len(crossing))
    cross = parts.attention_shape(
        fields, windows=[1] * len(crossing), query_key_norm="head", rotary=False, gates=2
    )
    return parts.decoder(fields, attention=[attention, cross], extra_embeddings=IMAGE_ROWS)


def dbrx(fields: ConfigFields) -> TransformerShape:
    """DBRX: sixteen gated experts on every layer, LayerNorm without biases."""
    attended = ConfigFields(fields.mapping("attn_config") or {})
    routed = ConfigFields(fields.mapping("ffn_config") or {})
    attention = parts.attention_shape(
        fields, key_value_heads=attended.count("kv_n_heads", 1), fused_projection=True
    )
    experts = ExpertsShape(
        layers=layer_count(fields),
        experts=routed.count("num_experts", 4, minimum=2),
        active=routed.count("num_experts_per_tok", 1),
        width=routed.count("intermediate_size", 3584),
    )
    norm = parts.LAYER_NORM_NO_BIAS
    return parts.decoder(fields, norm=norm, attention=[attention], feed_forward=[experts])


def ernie_moe(fields: ConfigFields) -> TransformerShape:
    """ERNIE 4.5 with routed experts on a range of layers, and shared experts."""
    layers = layer_count(fields)
    bias = fields.flag("use_bias")
    first = fields.count("moe_layer_start_index", minimum=0)
    last = fields.count("moe_layer_end_index", layers - 1, minimum=-1)
    last = layers - 1 if last == -1 else min(last, layers - 1)
    period = fields.count("moe_layer_interval")
    routed = sum(1 for i in range(first, last + 1) if (i + 1) % period == 0)
    shared = fields.count("moe_num_shared_experts", minimum=0)
    layered = parts.mixed_layers(
        fields, routed=routed, shared_experts=shared, bias=bias, shared_bias=bias
    )
    return parts.decoder(
        fields,
        head_bias=bias,
        attention=[parts.attention_shape(fields, bias=bias)],
        # Only in this family, the correction of the choice is a parameter.
        feed_forward=[
            item.changed(router_scales=item.experts) if isinstance(item, ExpertsShape) else item
            for item in layered
        ],
    )


def arctic(fields: ConfigFields) -> TransformerShape:
    """Arctic: routed experts beside a dense layer as wide as the residual stream."""
    layers = layer_count(fields)
    step = fields.count("moe_layer_frequency", maximum=layers)
    routed = layers // step
    beside = fields.flag("parallel_attn_mlp_res")
    if beside and routed < layers:
        fields.refuse("moe_layer_frequency", "is not supported beside a dense layer", step, "1")
    shared = fields.count("hidden_size") if beside else 0
    layered = parts.mixed_layers(
        fields, routed=routed, width="intermediate_size", shared_width=shared
    )
    return parts.decoder(fields, feed_forward=layered, extra_norms=int(beside))


def llama4(fields: ConfigFields) -> TransformerShape:
    """Llama 4: chunked attention on three layers of four, one routed and one shared expert.

    A chunk counts as a window of the same length. The cache is the same, and a window reads at most
    twice the keys. Norms of queries and keys have no parameters.
    """
    layers = layer_count(fields)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, CHUNKED))
    if types is None:
        period = fields.count("no_rope_layer_interval")
        listed = fields.counts("no_rope_layers", maximum=1)
        rotated = [bool(flag) for flag in listed] or [(i + 1) % period != 0 for i in range(layers)]
        types = tuple(CHUNKED if flag else FULL for flag in rotated)
    fields.must_match("no_rope_layers", len(types), layers)
    chunk = fields.count("attention_chunk_size")
    windows = [chunk if kind == CHUNKED else None for kind in types]
    attention = parts.attention_shape(fields, windows=windows, bias=fields.flag("attention_bias"))
    return parts.decoder(fields, attention=[attention], feed_forward=_llama4_feed_forward(fields))


def _llama4_feed_forward(fields: ConfigFields) -> FeedForwards:
    layers = layer_count(fields)
    routed = layers // fields.count("interleave_moe_layer_step")
    if fields.has("moe_layers"):
        routed = len(set(fields.counts("moe_layers", maximum=layers - 1)))
    return parts.mixed_layers(
        fields,
        routed=routed,
        width="intermediate_size",
        shared_experts=1,
        dense_width=fields.count("intermediate_size_mlp"),
    )


def mimo_v2(fields: ConfigFields) -> TransformerShape:
    """MiMo-V2-Flash: windows with sinks on five of six layers; each kind has its own heads."""
    layers = layer_count(fields)
    pattern = fields.counts("hybrid_layer_pattern", maximum=1) or [
        0 if i == 0 or (i + 1) % 6 == 0 else 1 for i in range(layers)
    ]
    types = fields.texts("layer_types", length=layers, allowed=(FULL, SLIDING)) or tuple(
        SLIDING if flag else FULL for flag in pattern
    )
    listed = fields.counts("moe_layer_freq", maximum=1)
    routed = parts.sparse_layers(fields, sum(listed) if listed else layers - 1)
    for name, found in (("hybrid_layer_pattern", len(types)), ("moe_layer_freq", len(listed))):
        fields.must_match(name, found or layers, layers)
    attention = [
        _mimo_attention(fields, kind, types.count(kind))
        for kind in (FULL, SLIDING)
        if types.count(kind)
    ]
    layered = parts.mixed_layers(fields, routed=routed)
    return parts.decoder(fields, attention=attention, feed_forward=layered)


def _mimo_attention(fields: ConfigFields, kind: str, layers: int) -> AttentionShape:
    shape = parts.attention_shape(
        fields,
        layers=layers,
        input_bias=fields.flag("attention_bias"),
        value_head_dim=fields.count("v_head_dim"),
        sinks=fields.flag("add_full_attention_sink_bias"),
    )
    if kind == FULL:
        return shape
    heads = fields.count("swa_num_attention_heads", shape.heads)
    groups = fields.count("swa_num_key_value_heads", 2 * shape.key_value_heads, maximum=heads)
    fields.must_divide("swa_num_key_value_heads", groups, heads)
    window = fields.count("sliding_window")
    return shape.changed(
        windows=(WindowLayers(layers=layers, window=window),),
        heads=heads,
        key_value_heads=groups,
        head_dim=fields.count("swa_head_dim", shape.head_dim),
        value_head_dim=fields.count("swa_v_head_dim", shape.value_head_dim),
        sinks=fields.flag("add_swa_attention_sink_bias", True),
    )


def inkling(fields: ConfigFields) -> TransformerShape:
    """Inkling: scores by distance, convolutions after projections; other heads in windows."""
    layers = layer_count(fields)
    listed = fields.counts("local_layer_ids", maximum=layers - 1)
    local = set(listed or (index for index in range(layers) if (index + 1) % 6))
    types = fields.texts("layer_types", length=layers, allowed=(HYBRID, f"{HYBRID}_sliding"))
    full = types.count(HYBRID) if types else layers - len(local)
    width, window = fields.count("d_rel"), fields.count("sliding_window_size")
    heads = fields.count("swa_num_attention_heads")
    groups = fields.count("swa_num_key_value_heads")
    fields.must_divide("swa_num_key_value_heads", groups, heads)
    dim = fields.count("swa_head_dim")
    whole = parts.attention_shape(
        fields,
        layers=full,
        query_key_norm="head",
        rotary=False,
        relative=(width, fields.count("rel_extent")),
    )
    windowed = whole.changed(
        windows=parts.grouped([window] * (layers - full)),
        heads=heads,
        key_value_heads=groups,
        head_dim=dim,
        value_head_dim=dim,
        relative=(width, window),
    )
    dense = min(fields.count("dense_mlp_idx", 0, minimum=0), layers)
    wide = fields.optional_count("dense_intermediate_size")
    shared, sink = fields.count("n_shared_experts"), fields.flag("shared_expert_sink")
    layered = parts.mixed_layers(
        fields,
        routed=parts.sparse_layers(fields, layers - dense),
        # With a separate width for dense layers, the usual one is that of experts.
        width="intermediate_size" if wide else "moe_intermediate_size",
        dense_width=wide,
        shared_experts=shared,
        # The router also weights the shared experts, and scales the sum.
        router_scales=sink * shared * fields.count("hidden_size") + 1,
    )
    return parts.decoder(
        fields,
        embedding_norm=True,
        kernel=fields.count("conv_kernel_size"),
        attention=[whole, windowed],
        feed_forward=[
            layer.changed(scales=1) if isinstance(layer, FeedForwardShape) else layer
            for layer in layered
        ],
    )


def laguna(fields: ConfigFields) -> TransformerShape:
    """Laguna: gated attention; windowed layers may have other numbers of heads."""
    layers = layer_count(fields)
    windows = parts.typed_windows(
        fields, window=fields.optional_count("sliding_window"), default=[FULL] * layers
    )
    heads = fields.counts("num_attention_heads_per_layer", maximum=LIMITS["num_attention_heads"])
    heads = heads or (fields.count("num_attention_heads"),) * layers
    fields.must_match("num_attention_heads_per_layer", len(heads), layers)
    by_head = not fields.is_text("gating") or fields.text("gating") == "per-head"
    shape = parts.attention_shape(
        fields,
        input_bias=fields.flag("attention_bias"),
        output_bias=fields.flag("attention_bias"),
        query_key_norm="head",
        output_gate="head" if by_head else "element",
    )
    attention = []
    for count in sorted(set(heads)):
        fields.must_divide("num_key_value_heads", shape.key_value_heads, count)
        own = [window for window, found in zip(windows, heads, strict=True) if found == count]
        attention.append(shape.changed(heads=count, windows=parts.grouped(own)))
    routed = parts.sparse_layers(fields, layers - 1)
    shared = "shared_expert_intermediate_size"
    layered = parts.mixed_layers(fields, routed=routed, shared_width=shared, router_bias=True)
    return parts.decoder(fields, attention=attention, feed_forward=layered)


def step3(fields: ConfigFields) -> TransformerShape:
    """Step 3.5 and 3.7 Flash: windows on three of four layers, one gate per attention head."""
    layers = layer_count(fields)
    window = fields.optional_count("sliding_window")
    predicted = fields.count("num_nextn_predict_layers", 0, minimum=0, maximum=64)
    windows = parts.typed_windows(
        fields, window=window, default=[FULL] * layers, trailing=predicted
    )
    shape = parts.attention_shape(
        fields, windows=windows, query_key_norm="head", output_gate="head"
    )
    dense = min(fields.count("first_k_dense_replace", 3, minimum=0), layers)
    if fields.is_text("moe_layers_enum"):
        listed = {item.strip() for item in fields.text("moe_layers_enum", "").split(",")}
        dense = sum(str(index) not in listed for index in range(layers))
    routed = parts.sparse_layers(fields, layers - dense)
    return parts.decoder(
        fields,
        norm=parts.FP32_SCALED_NORM,
        attention=_step_attention(fields, shape),
        feed_forward=parts.mixed_layers(fields, routed=routed, shared_width="share_expert_dim"),
    )


def _step_attention(fields: ConfigFields, shape: AttentionShape) -> list[AttentionShape]:
    """Return full and windowed layers separately if their numbers of heads differ."""
    other = ConfigFields(fields.mapping("attention_other_setting") or {})
    heads = other.count("num_attention_heads", shape.heads)
    heads = fields.count("num_sliding_attention_heads", heads)
    if heads == shape.heads:
        return [shape]
    if heads % shape.key_value_heads:
        what = "is not a multiple of the key-value heads"
        wanted = f"a multiple of {shape.key_value_heads}"
        fields.refuse("num_sliding_attention_heads", what, heads, wanted)
    full = tuple(item for item in shape.windows if item.window is None)
    windowed = tuple(item for item in shape.windows if item.window is not None)
    return [shape.changed(windows=full), shape.changed(windows=windowed, heads=heads)]
