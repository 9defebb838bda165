"""Pairs of an encoder and a decoder of one shape: BART, mBART, Pegasus, Marian and NLLB.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.encoder_blocks import BlockShape, transformer_blocks
from advisor.architecture.families.towers import (
    LAYER_NORM,
    TEXT_TOKENS,
    function_named,
    head_count,
    part,
)
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import Dropout, Embedding, Layer, Learned, Linear, Save, Take
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

BART_OFFSET = 2
"""Learned positions that no token has: those of BERT's padding, as fairseq counted."""


def bart(fields: ConfigFields) -> Stack:
    """BART: post-norm encoder and decoder with learned positions, one tied token embedding."""
    return _pair(fields, offset=BART_OFFSET, embedding_norm=True, post_norm=True)


def mbart(fields: ConfigFields) -> Stack:
    """MBART: BART with norms before the branches and after the last."""
    return _pair(fields, offset=BART_OFFSET, embedding_norm=True)


def pegasus(fields: ConfigFields) -> Stack:
    """Pegasus: pre-norm encoder and decoder; positions stored though they are sines."""
    return _pair(fields, offset=0)


def marian(fields: ConfigFields) -> Stack:
    """Marian: post-norm translation; positions stored though they are sines."""
    vocab = fields.count("vocab_size", 58_101)
    own = fields.count("decoder_vocab_size", vocab)
    if own != vocab or not fields.flag("share_encoder_decoder_embeddings", True):
        fields.fail(
            "config field share_encoder_decoder_embeddings is not supported",
            "share_encoder_decoder_embeddings",
            False,
            "true, and one vocabulary",
        )
    return _pair(fields, offset=0, post_norm=True, vocab=58_101)


def m2m_100(fields: ConfigFields) -> Stack:
    """M2M-100 and NLLB: pre-norm translation among many languages; positions are sines."""
    return _pair(fields, offset=None, vocab=128_112, function="relu")


def _pair(
    fields: ConfigFields,
    *,
    offset: int | None,
    embedding_norm: bool = False,
    post_norm: bool = False,
    vocab: int = 50_265,
    function: str = "gelu",
) -> Stack:
    """Return the pair, or the decoder alone where the class is one that writes on.

    ``offset`` adds to the stored positions, of which None has none.
    """
    hidden, vocab = fields.count("hidden_size", 1024), fields.count("vocab_size", vocab)
    positions = fields.count("max_position_embeddings", 1024, maximum=10_000_000)

    tied = fields.flag("tie_word_embeddings", True)
    alone = any(name.endswith("ForCausalLM") for name in fields.names("architectures"))

    shared = tied and not alone

    def tower(name: str, *, decodes: bool) -> tuple[int, tuple[Layer, ...]]:
        heads = head_count(fields, f"{name}_attention_heads", hidden, 16)
        layers = fields.count(f"{name}_layers", 12, maximum=LIMITS["num_hidden_layers"])
        shape = BlockShape(
            layers=layers,
            hidden_size=hidden,
            heads=heads,
            head_dim=hidden // heads,
            width=fields.count(f"{name}_ffn_dim", 4096),
            function=function_named(fields, function),
            causal=decodes,
            memory="encoder" if decodes else None,
            post_norm=post_norm,
            dropout=True,
        )
        return layers, (
            Embedding(entries=vocab, width=hidden, tied=tied, shared=decodes and shared),
            *(() if offset is None else (Learned(elements=(positions + offset) * hidden),)),
            *((LAYER_NORM,) if embedding_norm else ()),
            Dropout(),
            *transformer_blocks(shape),
            *(() if post_norm else (LAYER_NORM,)),
        )

    reads, reading = tower("encoder", decodes=False)
    writes, writing = tower("decoder", decodes=True)
    # Where nothing is tied the class keeps the table that nothing shares besides.
    unused = () if tied else (Learned(elements=vocab * hidden),)
    text = StackInput(length=TEXT_TOKENS, follows="sequence_length")
    words = StackInput(length=TEXT_TOKENS, follows="decoder_sequence_length")
    memory = {"encoder": StackInput(width=hidden, length=TEXT_TOKENS)} if alone else {}
    encoder = () if alone else (part("encoder", *unused, *reading, Save(name="encoder")),)
    return Stack(
        unit=Unit.SAMPLE,
        input=text,
        others={"words": words, **memory},
        layers=(
            *(*encoder, Take(name="words"), part("decoder", *writing)),
            part("head", Linear(out=vocab, bias=False, tied=tied), of=Part.HEAD),
        ),
        blocks=writes + (0 if alone else reads),
        hidden_size=hidden,
        outputs=vocab,
        tied=tied,
    )
