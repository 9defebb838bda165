"""Text encoders with learned positions: BERT, DistilBERT, ELECTRA and ALBERT."""

from __future__ import annotations

from collections import Counter

from advisor.architecture.config.decoder import refuse_cross_attention
from advisor.architecture.config.fields import DEFAULT_LIMIT, LIMITS, ConfigFields
from advisor.architecture.families.encoder_blocks import (
    LAYER_NORM,
    BlockShape,
    function_named,
    head_count,
    part,
    transformer_blocks,
)
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Branch,
    Dropout,
    Embedding,
    Layer,
    Learned,
    Linear,
    Repeat,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

MOST_POSITIONS = 10_000_000


def label_count(fields: ConfigFields) -> int:
    """Return the number of labels of a head; two by default, as in the classes."""
    labels = fields.mapping("id2label")
    return len(labels) if labels else fields.count("num_labels", 2)


def vocabulary_head(vocab: int, *, tied: bool, twice: bool) -> tuple[Layer, ...]:
    """Return the matrix that predicts tokens. Untied classes may store its bias ``twice``."""
    second = (Learned(elements=vocab),) if twice and not tied else ()
    return (Linear(out=vocab, tied=tied), *second)


def distilbert(fields: ConfigFields) -> Stack:
    """DistilBERT: BERT without token types and pooler."""
    names = {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "vocab_size": "vocab_size",
        "max_position_embeddings": "max_position_embeddings",
    }
    read: dict[str, object] = {
        name: fields.count(own, maximum=LIMITS.get(name, DEFAULT_LIMIT))
        for name, own in names.items()
    }
    read |= {
        "type_vocab_size": 0,
        "hidden_act": fields.text("activation"),
        "architectures": list(fields.names("architectures")),
        "num_labels": label_count(fields),
        "tie_word_embeddings": fields.flag("tie_word_embeddings"),
    }
    return bert(ConfigFields(read), pooler=False)


def bert(fields: ConfigFields, *, pooler: bool = True) -> Stack:
    """BERT, RoBERTa and XLM-RoBERTa: post-norm encoder; the class decides pooler and head."""
    refuse_cross_attention(fields)
    shape, vocab = post_norm_blocks(fields), fields.count("vocab_size")
    hidden, tied = shape.hidden_size, fields.flag("tie_word_embeddings")
    predicts = ends(fields, "ForMaskedLM", "ForPreTraining", "LMHeadModel", "ForCausalLM")
    head: list[Layer] = []
    if ends(fields, "ForPreTraining"):
        head.append(Branch(name="next_sentence", layers=(Linear(out=hidden), Linear(out=2))))
    if ends(fields, "ForQuestionAnswering", "ForTokenClassification"):
        head.append(Linear(out=label_count(fields)))
    elif ends(fields, "ForSequenceClassification"):
        head += [Linear(out=hidden), Linear(out=label_count(fields))]
    elif not predicts:
        head += [Linear(out=hidden)] if pooler else []
    else:
        head += [
            *(Linear(out=hidden), Activation(function=shape.function), LAYER_NORM),
            *vocabulary_head(vocab, tied=tied, twice=pooler),
        ]
    embedding = text_embedding(fields, hidden, vocab, tied=predicts and tied)
    blocks = transformer_blocks(shape)
    return encoder_stack(embedding, blocks, tuple(head), shape, vocab if predicts else None, tied)


def ends(fields: ConfigFields, *endings: str) -> bool:
    """Return whether the file's class name ends in one of these."""
    return any(name.endswith(endings) for name in fields.names("architectures"))


def electra(fields: ConfigFields) -> Stack:
    """ELECTRA: BERT with a narrower embedding, as generator, discriminator or classifier."""
    shape, tied = post_norm_blocks(fields), fields.flag("tie_word_embeddings")
    hidden = shape.hidden_size
    narrow, vocab = fields.count("embedding_size"), fields.count("vocab_size")
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
    embedding = text_embedding(fields, narrow, vocab, tied=predicts and tied)
    project = (Linear(out=hidden),) if narrow != hidden else ()
    return encoder_stack(
        (*embedding, *project),
        transformer_blocks(shape),
        head,
        shape,
        vocab if predicts else None,
        tied,
    )


def albert(fields: ConfigFields) -> Stack:
    """ALBERT: all layers of a group share their weights, and the embedding is narrow."""
    shape = post_norm_blocks(fields)
    hidden, narrow = shape.hidden_size, fields.count("embedding_size")
    tied = fields.flag("tie_word_embeddings")
    vocab = fields.count("vocab_size")
    groups = fields.count("num_hidden_groups", maximum=shape.layers)
    inner = fields.count("inner_group_num")
    block = transformer_blocks(shape.model_copy(update={"layers": inner}))
    # The class distributes layers like this if groups do not divide them.
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
    embedding = (*text_embedding(fields, narrow, vocab, tied=predicts and tied), Linear(out=hidden))
    return encoder_stack(embedding, encoder, head, shape, vocab if predicts else None, tied)


def post_norm_blocks(fields: ConfigFields) -> BlockShape:
    """Return the blocks of BERT."""
    hidden = fields.count("hidden_size")
    heads = head_count(fields, hidden)
    return BlockShape(
        layers=fields.count("num_hidden_layers"),
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size"),
        function=function_named(fields),
        post_norm=True,
        dropout=True,
    )


def text_embedding(
    fields: ConfigFields, narrow: int, vocab: int, *, tied: bool, wide: int | None = None
) -> tuple[Layer, ...]:
    """Return the tables of tokens, positions and types, and their norm, at the width ``wide``."""
    kinds = fields.count("type_vocab_size", minimum=0)
    positions = fields.count("max_position_embeddings", maximum=MOST_POSITIONS)
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


def encoder_stack(
    embedding: tuple[Layer, ...],
    encoder: tuple[Layer, ...],
    head: tuple[Layer, ...],
    shape: BlockShape,
    vocab: int | None,
    tied: bool,
) -> Stack:
    """Return the network. With ``vocab`` it predicts tokens, with a tied table or its own."""
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
