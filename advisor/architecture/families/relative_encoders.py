"""Text encoders with relative or rotary positions: DeBERTa and ModernBERT."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.architecture.config.decoder import FULL, SLIDING
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.encoder_blocks import (
    LAYER_NORM,
    BlockShape,
    feed_forward,
    function_named,
    head_count,
)
from advisor.architecture.families.encoders import (
    MOST_POSITIONS,
    encoder_stack,
    ends,
    label_count,
    post_norm_blocks,
    text_embedding,
    vocabulary_head,
)
from advisor.architecture.stack.compile import Stack
from advisor.architecture.stack.layers import (
    Activation,
    Attention,
    Dropout,
    Embedding,
    Layer,
    Learned,
    Linear,
    Normalization,
    Repeat,
    Residual,
)


def deberta(fields: ConfigFields, *, fused: bool) -> Stack:
    """DeBERTa: attention to contents and to distances.

    Version 1 fuses the projections of queries, keys and values. Versions 2 and 3 put distances in
    buckets, and version 3 shares their projections with the contents. The work leaves out the
    products with distances and counts only their projections.
    """
    shape, vocab = post_norm_blocks(fields), fields.count("vocab_size")
    hidden, tied = shape.hidden_size, fields.flag("tie_word_embeddings")
    narrow = fields.count("embedding_size", hidden)
    kinds = fields.text("pos_att_type", "") if fields.is_text("pos_att_type") else ""
    toward = fields.names("pos_att_type") or tuple(kinds.split("|"))
    relative = fields.flag("relative_attention")
    distances = _distances(fields, buckets=not fused) if relative else 0
    extra = 0
    if relative and (fused or not fields.flag("share_att_key")):
        square = hidden * hidden
        # In version 1, the projection for distances of keys has no bias.
        extra += ("c2p" in toward) * (square + (0 if fused else hidden))
        extra += ("p2c" in toward) * (square + hidden)
    if fused and fields.flag("talking_head"):
        extra += 2 * shape.heads**2
    block = _disentangled(shape, extra, fused=fused)
    after: tuple[Layer, ...] = ()
    kernel = 0 if fused else fields.count("conv_kernel_size", 0, minimum=0)
    groups = fields.count("conv_groups", 1)
    if kernel and groups > 1:
        fields.refuse("conv_groups", "is not supported", groups, "1")
    if kernel:
        # A convolution over the sequence after the first layer, with a matrix for each tap.
        taps = tuple(Linear(out=hidden, bias=tap == 0) for tap in range(kernel))
        after = (Residual(body=taps), LAYER_NORM)
    table = (Learned(elements=distances * hidden),) if distances else ()
    normed = "layer_norm" in fields.text("norm_rel_ebd", "none").lower() and not fused
    scale = (Learned(elements=2 * hidden),) if normed else ()
    head: tuple[Layer, ...] = ()
    predicts = ends(fields, "ForMaskedLM")
    if predicts and not fields.flag("legacy"):
        fields.refuse("legacy", "is not supported", False, "true")
    if predicts:
        head = (
            *(Linear(out=narrow), Activation(function=shape.function), LAYER_NORM),
            *vocabulary_head(vocab, tied=tied, twice=True),
        )
    elif ends(fields, "ForSequenceClassification", "ForMultipleChoice"):
        pooled = fields.count("pooler_hidden_size", hidden)
        labels = 1 if ends(fields, "ForMultipleChoice") else label_count(fields)
        head = (Linear(out=pooled), Linear(out=labels))
    elif ends(fields, "ForTokenClassification", "ForQuestionAnswering"):
        head = (Linear(out=label_count(fields)),)
    embedding = text_embedding(fields, narrow, vocab, tied=predicts and tied, wide=hidden)
    return encoder_stack(
        embedding, (*table, *scale, *block, *after), head, shape, vocab if predicts else None, tied
    )


def _distances(fields: ConfigFields, *, buckets: bool) -> int:
    """Return the rows of the distance table, for both directions."""
    most = int(fields.number("max_relative_positions", minimum=-1, maximum=MOST_POSITIONS))
    if most < 1:
        most = fields.count("max_position_embeddings", maximum=MOST_POSITIONS)
    if buckets:
        given = int(fields.number("position_buckets", -1, minimum=-1, maximum=MOST_POSITIONS))
        most = given if given > 0 else most
    return 2 * most


def _disentangled(shape: BlockShape, extra: int, *, fused: bool) -> tuple[Layer, ...]:
    attention = Attention(heads=shape.heads, key_bias=not fused, dropout=True, materialised=True)
    positions = (Learned(elements=extra),) if extra else ()
    inner: Sequence[Layer] = (
        Residual(body=(attention, *positions, Dropout())),
        LAYER_NORM,
        Residual(body=(*feed_forward(shape), Dropout())),
        LAYER_NORM,
    )
    return (Repeat(times=shape.layers, layers=tuple(inner)),)


def modernbert(fields: ConfigFields) -> Stack:
    """ModernBERT: pre-norm, gated, windows on two of three layers, no learned positions."""
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    layers, tied = fields.count("num_hidden_layers"), fields.flag("tie_word_embeddings")
    heads = head_count(fields, hidden)
    # A scale and a shift, or only a scale.
    norm = LAYER_NORM if fields.flag("norm_bias") else Normalization(kind="rms")
    shape = BlockShape(
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size"),
        gated=True,
        function=function_named(fields),
        bias=fields.flag("mlp_bias"),
    )
    period = fields.count("global_attn_every_n_layers", 3)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, SLIDING))
    if types is None:
        types = tuple(SLIDING if index % period else FULL for index in range(layers))
    window = fields.count("local_attention")
    bias = fields.flag("attention_bias")

    def blocks(kind: str, count: int, *, first: bool = False) -> tuple[Layer, ...]:
        attention = Attention(
            heads=heads,
            bias=bias,
            key_bias=bias,
            output_bias=bias,
            window=window if kind == SLIDING else None,
        )
        inner = (
            # The embedding's norm serves the first layer.
            Residual(body=(*(() if first else (norm,)), attention)),
            Residual(body=(norm, *feed_forward(shape))),
        )
        return (Repeat(times=count, layers=inner),) if count else ()

    encoder = (
        *blocks(types[0], 1, first=True),
        *(layer for kind in (FULL, SLIDING) for layer in blocks(kind, types[1:].count(kind))),
        norm,
    )
    predicts = ends(fields, "ForMaskedLM")
    middle = (Linear(out=hidden, bias=fields.flag("classifier_bias")), norm)
    head: tuple[Layer, ...] = ()
    if predicts:
        head = (*middle, Linear(out=vocab, bias=fields.flag("decoder_bias"), tied=tied))
    elif ends(
        fields, "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"
    ):
        head = (*middle, Linear(out=label_count(fields)))
    table = (Embedding(entries=vocab, width=hidden, tied=predicts and tied), norm)
    return encoder_stack(table, encoder, head, shape, vocab if predicts else None, tied)
