"""Text encoders after BERT: ELECTRA, ALBERT, DeBERTa and ModernBERT.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from advisor.architecture.config.decoder import FULL, SLIDING
from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.encoder_blocks import (
    BlockShape,
    feed_forward,
    transformer_blocks,
)
from advisor.architecture.families.towers import (
    LAYER_NORM,
    function_named,
    head_count,
    label_count,
    part,
    vocabulary_head,
)
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Attention,
    Branch,
    Dropout,
    Embedding,
    Layer,
    Learned,
    Linear,
    Normalization,
    Repeat,
    Residual,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

MOST_POSITIONS = 10_000_000


def ends(fields: ConfigFields, *endings: str) -> bool:
    """Return whether the class that the file names ends in one of these."""
    return any(name.endswith(endings) for name in fields.names("architectures"))


def _tied(fields: ConfigFields) -> bool:
    return fields.flag("tie_word_embeddings", True)


def electra(fields: ConfigFields) -> Stack:
    """ELECTRA: BERT with a narrower embedding; generator, discriminator or classifier by class."""
    shape, tied = _post_norm(fields, hidden=256, heads=4, width=1024), _tied(fields)
    hidden = shape.hidden_size
    narrow, vocab = fields.count("embedding_size", 128), fields.count("vocab_size", 30_522)
    predicts = ends(fields, "ForMaskedLM", "ForCausalLM")
    head: tuple[Layer, ...] = ()
    if predicts:
        head = (
            *(Linear(out=narrow), Activation(function="gelu"), LAYER_NORM),
            Linear(out=vocab, tied=tied),
        )
    elif ends(fields, "ForPreTraining"):
        head = (Linear(out=hidden), Activation(function="gelu"), Linear(out=1))
    elif ends(fields, "ForSequenceClassification"):
        head = (Linear(out=hidden), Linear(out=label_count(fields)))
    elif ends(fields, "ForTokenClassification", "ForQuestionAnswering"):
        head = (Linear(out=label_count(fields)),)
    embedding = _embedding(fields, narrow, vocab, tied=predicts and tied)
    project = (Linear(out=hidden),) if narrow != hidden else ()
    return _encoder(
        (*embedding, *project),
        transformer_blocks(shape),
        head,
        shape,
        vocab if predicts else None,
        tied,
    )


def albert(fields: ConfigFields) -> Stack:
    """ALBERT: all layers of a group share their weights, and the embedding is narrow."""
    shape = _post_norm(fields, hidden=4096, heads=64, width=16_384, function="gelu_new")
    hidden, narrow = shape.hidden_size, fields.count("embedding_size", 128)
    tied = _tied(fields)
    vocab = fields.count("vocab_size", 30_000)
    groups = fields.count("num_hidden_groups", 1, maximum=shape.layers)
    inner = fields.count("inner_group_num", 1, maximum=LIMITS["num_hidden_layers"])
    block = transformer_blocks(shape.model_copy(update={"layers": inner}))
    # As the class spreads layers that groups do not divide.
    spread = Counter(index * groups // shape.layers for index in range(shape.layers))
    encoder = tuple(Repeat(times=times, layers=block, shared=True) for times in spread.values())
    pooler: tuple[Layer, ...] = (Linear(out=hidden),)
    predicts = ends(fields, "ForMaskedLM", "ForPreTraining")
    head: tuple[Layer, ...] = pooler
    if predicts:
        head = (
            *(Linear(out=narrow), Activation(function="gelu_new"), LAYER_NORM),
            *vocabulary_head(vocab, tied=tied, twice=True),
        )
    if ends(fields, "ForPreTraining"):
        order = Branch(name="order", layers=(*pooler, Linear(out=label_count(fields))))
        head = (order, *head)
    elif ends(fields, "ForSequenceClassification", "ForMultipleChoice", "ForTokenClassification"):
        pooled = () if ends(fields, "ForTokenClassification") else pooler
        head = (*pooled, Linear(out=label_count(fields)))
    elif ends(fields, "ForQuestionAnswering"):
        head = (Linear(out=label_count(fields)),)
    embedding = (*_embedding(fields, narrow, vocab, tied=predicts and tied), Linear(out=hidden))
    return _encoder(embedding, encoder, head, shape, vocab if predicts else None, tied)


def deberta(fields: ConfigFields) -> Stack:
    """DeBERTa: attention to contents and to distances, each with projections of its own.

    The products with distances are left out of the work: their projections alone are counted.
    """
    return _deberta(fields, fused=True)


def deberta_v2(fields: ConfigFields) -> Stack:
    """DeBERTa v2 and v3: distances in buckets, whose projections v3 shares with the contents.

    The products with distances are left out of the work: their projections alone are counted.
    """
    return _deberta(fields, fused=False)


def _deberta(fields: ConfigFields, *, fused: bool) -> Stack:
    sizes = (768, 12, 3072) if fused else (1536, 24, 6144)
    layers = 12 if fused else 24
    shape = _post_norm(fields, hidden=sizes[0], heads=sizes[1], width=sizes[2], layers=layers)
    hidden, tied = shape.hidden_size, _tied(fields)
    vocab = fields.count("vocab_size", 50_265 if fused else 128_100)
    narrow = fields.count("embedding_size", hidden)
    kinds = fields.text("pos_att_type", "") if fields.is_text("pos_att_type") else ""
    toward = fields.names("pos_att_type") or tuple(kinds.split("|"))
    relative = fields.flag("relative_attention", False)
    distances = _distances(fields, buckets=not fused) if relative else 0
    extra = 0
    if relative and (fused or not fields.flag("share_att_key", False)):
        square = hidden * hidden
        # The first version's projection of keys' distances has no bias.
        extra += ("c2p" in toward) * (square + (0 if fused else hidden))
        extra += ("p2c" in toward) * (square + hidden)
    if fused and fields.flag("talking_head", False):
        extra += 2 * shape.heads**2
    block = _disentangled(shape, extra, fused=fused)
    after: tuple[Layer, ...] = ()
    kernel = 0 if fused else fields.count("conv_kernel_size", 0, minimum=0, maximum=64)
    groups = fields.count("conv_groups", 1)
    if kernel and groups > 1:
        fields.fail("config field conv_groups is not supported", "conv_groups", groups, "1")
    if kernel:
        # A convolution over the sequence: a matrix for each tap, after the first layer.
        taps = tuple(Linear(out=hidden, bias=tap == 0) for tap in range(kernel))
        after = (Residual(body=taps), LAYER_NORM)
    table = (Learned(elements=distances * hidden),) if distances else ()
    normed = "layer_norm" in fields.text("norm_rel_ebd", "none").lower() and not fused
    scale = (Learned(elements=2 * hidden),) if normed else ()
    head: tuple[Layer, ...] = ()
    predicts = ends(fields, "ForMaskedLM")
    if predicts and not fields.flag("legacy", True):
        fields.fail("config field legacy is not supported", "legacy", False, "true")
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
    embedding = _embedding(fields, narrow, vocab, tied=predicts and tied, kinds=0, wide=hidden)
    return _encoder(
        embedding, (*table, *scale, *block, *after), head, shape, vocab if predicts else None, tied
    )


def _distances(fields: ConfigFields, *, buckets: bool) -> int:
    """Return the rows of the table of distances: both directions."""
    most = int(fields.number("max_relative_positions", -1, minimum=-1, maximum=MOST_POSITIONS))
    if most < 1:
        most = fields.count("max_position_embeddings", 512, maximum=MOST_POSITIONS)
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
    """ModernBERT: pre-norm and gated, windows on two layers of three, no positions learned."""
    hidden, vocab = fields.count("hidden_size", 768), fields.count("vocab_size", 50_368)
    layers, tied = fields.count("num_hidden_layers", 22), _tied(fields)
    heads = head_count(fields, "num_attention_heads", hidden, 12)
    # Scale and shift, or a scale alone.
    norm = LAYER_NORM if fields.flag("norm_bias", False) else Normalization(kind="rms")
    shape = BlockShape(
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size", 1152),
        gated=True,
        function=function_named(fields, "gelu"),
        bias=fields.flag("mlp_bias", False),
    )
    period = fields.count("global_attn_every_n_layers", 3)
    types = fields.texts("layer_types", length=layers, allowed=(FULL, SLIDING))
    if types is None:
        types = tuple(SLIDING if index % period else FULL for index in range(layers))
    window = fields.count("local_attention", 128, maximum=65_536)
    bias = fields.flag("attention_bias", False)

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
    middle = (Linear(out=hidden, bias=fields.flag("classifier_bias", False)), norm)
    head: tuple[Layer, ...] = ()
    if predicts:
        head = (*middle, Linear(out=vocab, bias=fields.flag("decoder_bias", True), tied=tied))
    elif ends(
        fields, "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"
    ):
        head = (*middle, Linear(out=label_count(fields)))
    table = (Embedding(entries=vocab, width=hidden, tied=predicts and tied), norm)
    return _encoder(table, encoder, head, shape, vocab if predicts else None, tied)


def _post_norm(
    fields: ConfigFields,
    *,
    hidden: int,
    heads: int,
    width: int,
    layers: int = 12,
    function: str = "gelu",
) -> BlockShape:
    hidden = fields.count("hidden_size", hidden)
    heads = head_count(fields, "num_attention_heads", hidden, heads)
    return BlockShape(
        layers=fields.count("num_hidden_layers", layers),
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size", width),
        function=function_named(fields, function),
        post_norm=True,
        dropout=True,
    )


def _embedding(
    fields: ConfigFields,
    narrow: int,
    vocab: int,
    *,
    tied: bool,
    kinds: int = 2,
    wide: int | None = None,
) -> tuple[Layer, ...]:
    """Tables of tokens, positions and kinds, and their norm, at the width of ``wide``."""
    kinds = fields.count("type_vocab_size", kinds, minimum=0)
    positions = fields.count("max_position_embeddings", 512, maximum=MOST_POSITIONS)
    if not fields.flag("position_biased_input", True):
        positions = 0
    project = (Linear(out=wide, bias=False),) if wide is not None and wide != narrow else ()
    return (
        Embedding(entries=vocab, width=narrow, tied=tied),
        *((Learned(elements=positions * narrow),) if positions else ()),
        *((Learned(elements=kinds * narrow),) if kinds else ()),
        *project,
        LAYER_NORM,
        Dropout(),
    )


def _encoder(
    embedding: tuple[Layer, ...],
    encoder: tuple[Layer, ...],
    head: tuple[Layer, ...],
    shape: BlockShape,
    vocab: int | None,
    tied: bool,
) -> Stack:
    """Return the network; ``vocab`` where it predicts tokens, with a tied table or its own."""
    return Stack(
        unit=Unit.TOKEN,
        input=StackInput(),
        layers=(
            part("embedding", *embedding, of=Part.EMBEDDING),
            part("encoder", *encoder),
            part("head", *head, of=Part.HEAD),
        ),
        blocks=shape.layers,
        hidden_size=shape.hidden_size,
        outputs=vocab or 1,
        tied=tied and vocab is not None,
    )
