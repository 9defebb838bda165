"""Text encoders: BERT, DistilBERT, MPNet, ELECTRA, ALBERT, DeBERTa and ModernBERT."""

from collections import Counter
from typing import Any, Final

from advisor.architecture import stack as nn
from advisor.architecture.config.decoder import FULL, SLIDING, refuse_cross_attention
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.encoder_blocks import (
    LAYER_NORM,
    BlockShape,
    block_shape,
    ends,
    feed_forward,
    transformer_blocks,
)

MOST_POSITIONS: Final = 10_000_000


def label_count(fields: ConfigFields) -> int:
    """Return the number of labels of a head; two by default, as in the classes."""
    labels = fields.mapping("id2label")
    return len(labels) if labels else fields.count("num_labels", 2)


def vocabulary_head(fields: ConfigFields, width: int, function: nn.Function) -> nn.Layers:
    """Return the layers that predict tokens. Untied classes store the last bias twice."""
    vocab, tied = fields.count("vocab_size"), fields.flag("tie_word_embeddings")
    second = () if tied else (nn.Learned(elements=vocab),)
    start = (nn.Linear(out=width), nn.Activation(function=function), LAYER_NORM)
    return (*start, nn.Linear(out=vocab, tied=tied), *second)


def task_head(fields: ConfigFields, pooled: nn.Layers, *whole: str) -> nn.Layers:
    """Return the head of a class that labels each token, or as ``whole`` ends, the pooled text."""
    if ends(fields, "ForTokenClassification", "ForQuestionAnswering"):
        return (nn.Linear(out=label_count(fields)),)
    return (*pooled, nn.Linear(out=label_count(fields))) if ends(fields, *whole) else ()


def bert(
    fields: ConfigFields,
    *,
    pooler: bool = True,
    typed: bool = True,
    placed: bool = True,
    distances: bool = False,
    pre_norm: bool = False,
    **blocks: Any,
) -> nn.Stack:
    """BERT, RoBERTa and XLM-RoBERTa: post-norm encoder; the class decides pooler and head.

    DistilBERT has no pooler; ``typed``: whether there are token types (not in DistilBERT and
    MPNet); ``placed``: whether there is a table of positions; ``distances``: whether all layers
    share a table of distances (MPNet); ``pre_norm``: whether the norms precede the branches, and
    follow the last one instead of the embedding (XLM-RoBERTa XL); ``blocks``: fields of
    :class:`BlockShape`.
    """
    refuse_cross_attention(fields)
    shape = block_shape(fields, post_norm=not pre_norm, dropout=True, **blocks)
    hidden = nn.Linear(out=shape.hidden_size)
    predicts = ends(fields, "ForMaskedLM", "ForPreTraining", "LMHeadModel", "ForCausalLM")
    head = task_head(fields, (hidden,), "ForSequenceClassification")
    if not head and predicts:
        head = vocabulary_head(fields, shape.hidden_size, shape.function)
        # DistilBERT stores the last bias once.
        head = head if pooler else head[:4]
    elif not head and pooler:
        head = (hidden,)
    if ends(fields, "ForPreTraining"):
        head = (nn.branch("next_sentence", hidden, nn.Linear(out=2)), *head)
    embedding = text_embedding(
        fields, shape.hidden_size, predicts=predicts, placed=placed, typed=typed
    )
    encoder = transformer_blocks(shape)
    if pre_norm:
        embedding = tuple(layer for layer in embedding if layer is not LAYER_NORM)
        encoder += (LAYER_NORM,)
    if fields.flag("use_task_id"):
        tasks = fields.count("task_type_vocab_size")
        embedding += (nn.Learned(elements=tasks * shape.hidden_size),)
    if distances:
        buckets = fields.count("relative_attention_num_buckets")
        embedding += (nn.Learned(elements=buckets * shape.heads),)
    return encoder_stack(fields, shape, embedding, encoder, head, predicts)


def electra(fields: ConfigFields) -> nn.Stack:
    """ELECTRA: BERT with a narrower embedding, as generator, discriminator or classifier."""
    shape, narrow = post_norm_blocks(fields), fields.count("embedding_size")
    hidden, gelu = nn.Linear(out=shape.hidden_size), nn.Activation(function="gelu")
    predicts = ends(fields, "ForMaskedLM", "ForCausalLM")
    head = task_head(fields, (hidden,), "ForSequenceClassification")
    if predicts:
        head = vocabulary_head(fields, narrow, "gelu")[:4]
    elif ends(fields, "ForPreTraining"):
        head = (hidden, gelu, nn.Linear(out=1))
    embedding = text_embedding(fields, narrow, predicts=predicts)
    if narrow != shape.hidden_size:
        embedding = (*embedding, hidden)
    return encoder_stack(fields, shape, embedding, transformer_blocks(shape), head, predicts)


def albert(fields: ConfigFields) -> nn.Stack:
    """ALBERT: all layers of a group share their weights, and the embedding is narrow."""
    shape, narrow = post_norm_blocks(fields), fields.count("embedding_size")
    groups = fields.count("num_hidden_groups", maximum=shape.layers)
    inner = fields.count("inner_group_num")
    block = transformer_blocks(shape.changed(layers=inner))
    # The class distributes layers like this if groups do not divide them.
    spread = Counter(index * groups // shape.layers for index in range(shape.layers))
    encoder = tuple(nn.Repeat(times=times, layers=block, shared=True) for times in spread.values())
    predicts = ends(fields, "ForMaskedLM", "ForPreTraining")
    pooler = (nn.Linear(out=shape.hidden_size),)
    head = task_head(fields, pooler, "ForSequenceClassification", "ForMultipleChoice") or pooler
    if predicts:
        head = vocabulary_head(fields, narrow, "gelu_new")
    if ends(fields, "ForPreTraining"):
        order = nn.branch("order", *pooler, nn.Linear(out=label_count(fields)))
        head = (order, *head)
    embedding = (*text_embedding(fields, narrow, predicts=predicts), *pooler)
    return encoder_stack(fields, shape, embedding, encoder, head, predicts)


def post_norm_blocks(fields: ConfigFields) -> BlockShape:
    """Return the blocks of BERT."""
    return block_shape(fields, post_norm=True, dropout=True)


def text_embedding(
    fields: ConfigFields,
    narrow: int,
    *,
    predicts: bool,
    placed: bool = True,
    typed: bool = True,
    wide: int | None = None,
) -> nn.Layers:
    """Return the tables of tokens, positions and types, and their norm, at the width ``wide``.

    Without ``placed``, there is no table of positions, without ``typed`` none of types.
    """
    vocab = fields.count("vocab_size")
    kinds = fields.count("type_vocab_size", minimum=0) if typed else 0
    positions = fields.count("max_position_embeddings", maximum=MOST_POSITIONS)
    tied = predicts and fields.flag("tie_word_embeddings")
    project = (nn.Linear(out=wide, bias=False),) if wide is not None and wide != narrow else ()
    return (
        nn.Embedding(entries=vocab, width=narrow, tied=tied),
        *(nn.Learned(elements=rows * narrow) for rows in (placed * positions, kinds) if rows),
        *(*project, LAYER_NORM, nn.Dropout()),
    )


def encoder_stack(
    fields: ConfigFields,
    shape: BlockShape,
    embedding: nn.Layers,
    encoder: nn.Layers,
    head: nn.Layers,
    predicts: bool,
) -> nn.Stack:
    """Return the network, which predicts tokens if it ``predicts``, else labels or vectors."""
    return nn.Stack(
        unit=nn.Unit.TOKEN,
        input=nn.StackInput(),
        layers=(
            nn.section("embedding", *embedding, part=nn.Part.EMBEDDING),
            nn.section("encoder", *encoder),
            nn.section("head", *head, *(nn.CrossEntropy(),) * predicts, part=nn.Part.HEAD),
        ),
        blocks=shape.layers,
        hidden_size=shape.hidden_size,
        outputs=fields.count("vocab_size") if predicts else 1,
        tied=predicts and fields.flag("tie_word_embeddings"),
    )


def deberta(fields: ConfigFields, *, fused: bool) -> nn.Stack:
    """DeBERTa: attention to contents and to distances.

    Version 1 fuses the projections of queries, keys and values. Versions 2 and 3 put distances in
    buckets, and version 3 shares their projections with the contents. The work leaves out the
    products with distances and counts only their projections.
    """
    shape = post_norm_blocks(fields)
    hidden = shape.hidden_size
    narrow = fields.count("embedding_size", hidden)
    extra = _distance_projections(fields, shape, fused=fused)
    convolved = () if fused else _convolved(fields, hidden)
    predicts = ends(fields, "ForMaskedLM")
    if predicts and not fields.flag("legacy"):
        fields.refuse("legacy", "is not supported", False, "true")
    pooled = (nn.Linear(out=fields.count("pooler_hidden_size", hidden)),)
    head = task_head(fields, pooled, "ForSequenceClassification")
    if predicts:
        head = vocabulary_head(fields, narrow, shape.function)
    elif ends(fields, "ForMultipleChoice"):
        head = (*pooled, nn.Linear(out=1))
    encoder = (
        *_distance_table(fields, hidden, fused=fused),
        *(_disentangled(shape, extra, fused=fused), *convolved),
    )
    placed = fields.flag("position_biased_input")
    embedding = text_embedding(fields, narrow, predicts=predicts, placed=placed, wide=hidden)
    return encoder_stack(fields, shape, embedding, encoder, head, predicts)


def _distance_projections(fields: ConfigFields, shape: BlockShape, *, fused: bool) -> int:
    """Return the elements of a layer's projections of distances, and of its talking heads."""
    kinds = fields.text("pos_att_type", "") if fields.is_text("pos_att_type") else ""
    toward = fields.names("pos_att_type") or tuple(kinds.split("|"))
    hidden, extra = shape.hidden_size, 0
    if fields.flag("relative_attention") and (fused or not fields.flag("share_att_key")):
        # In version 1, the projection for distances of keys has no bias.
        extra += ("c2p" in toward) * (hidden**2 + (0 if fused else hidden))
        extra += ("p2c" in toward) * (hidden**2 + hidden)
    if fused and fields.flag("talking_head"):
        extra += 2 * shape.heads**2
    return extra


def _convolved(fields: ConfigFields, hidden: int) -> nn.Layers:
    """Return a convolution over the sequence after the first layer: a matrix for each tap."""
    kernel = fields.count("conv_kernel_size", 0, minimum=0)
    groups = fields.count("conv_groups", 1)
    if not kernel:
        return ()
    if groups > 1:
        fields.refuse("conv_groups", "is not supported", groups, "1")
    taps = (nn.Linear(out=hidden, bias=tap == 0) for tap in range(kernel))
    return (nn.residual(*taps), LAYER_NORM)


def _distance_table(fields: ConfigFields, hidden: int, *, fused: bool) -> nn.Layers:
    """Return the table of distances in both directions, and its norm."""
    normed = "layer_norm" in fields.text("norm_rel_ebd", "none").lower() and not fused
    scale = (nn.Learned(elements=2 * hidden),) if normed else ()
    if not fields.flag("relative_attention"):
        return scale
    most = int(fields.number("max_relative_positions", minimum=-1, maximum=MOST_POSITIONS))
    if most < 1:
        most = fields.count("max_position_embeddings", maximum=MOST_POSITIONS)
    if not fused:
        given = int(fields.number("position_buckets", -1, minimum=-1, maximum=MOST_POSITIONS))
        most = given if given > 0 else most
    return (nn.Learned(elements=2 * most * hidden), *scale)


def _disentangled(shape: BlockShape, extra: int, *, fused: bool) -> nn.Repeat:
    attention = nn.Attention(heads=shape.heads, key_bias=not fused, dropout=True, materialised=True)
    positions = (nn.Learned(elements=extra),) if extra else ()
    return nn.repeat(
        shape.layers,
        *(nn.residual(attention, *positions, nn.Dropout()), LAYER_NORM),
        *(nn.residual(*feed_forward(shape), nn.Dropout()), LAYER_NORM),
    )


def modernbert(fields: ConfigFields) -> nn.Stack:
    """ModernBERT: pre-norm, gated, windows on two of three layers, no learned positions."""
    # A scale and a shift, or only a scale.
    norm = LAYER_NORM if fields.flag("norm_bias") else nn.Normalization(kind="rms")
    shape = block_shape(fields, gated=True, bias=fields.flag("mlp_bias"))
    predicts = ends(fields, "ForMaskedLM")
    hidden, vocab = shape.hidden_size, fields.count("vocab_size")
    tied = fields.flag("tie_word_embeddings")
    middle = (nn.Linear(out=hidden, bias=fields.flag("classifier_bias")), norm)
    head: nn.Layers = ()
    if predicts:
        last = nn.Linear(out=vocab, bias=fields.flag("decoder_bias"), tied=tied)
        head = (*middle, last)
    elif task_head(fields, (), "ForSequenceClassification"):
        head = (*middle, nn.Linear(out=label_count(fields)))
    table = (nn.Embedding(entries=vocab, width=hidden, tied=predicts and tied), norm)
    encoder: nn.Layers = (*_windowed_blocks(fields, shape, norm), norm)
    return encoder_stack(fields, shape, table, encoder, head, predicts)


def _windowed_blocks(
    fields: ConfigFields, shape: BlockShape, norm: nn.Normalization
) -> list[nn.Repeat]:
    """Return ModernBERT's blocks: the first without a norm, then all full and all windowed ones."""
    period = fields.count("global_attn_every_n_layers", 3)
    types = fields.texts("layer_types", length=shape.layers, allowed=(FULL, SLIDING))
    if types is None:
        types = tuple(SLIDING if index % period else FULL for index in range(shape.layers))
    window, bias = fields.count("local_attention"), fields.flag("attention_bias")

    def blocks(kind: str, count: int, *, first: bool = False) -> nn.Repeat:
        attention = nn.Attention(
            heads=shape.heads,
            bias=bias,
            key_bias=bias,
            output_bias=bias,
            window=window if kind == SLIDING else None,
        )
        # The embedding's norm serves the first layer.
        start = () if first else (norm,)
        return nn.repeat(
            count, nn.residual(*start, attention), nn.residual(norm, *feed_forward(shape))
        )

    later = [(kind, types[1:].count(kind)) for kind in (FULL, SLIDING)]
    return [
        blocks(types[0], 1, first=True),
        *(blocks(kind, count) for kind, count in later if count),
    ]
