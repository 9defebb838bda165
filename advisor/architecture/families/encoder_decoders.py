"""Pairs of an encoder and a decoder: T5, Whisper, BART, Marian and NLLB."""

from __future__ import annotations

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.encoder_blocks import (
    FUNCTIONS,
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
    Convolution,
    Dropout,
    Embedding,
    Layer,
    Learned,
    Linear,
    Normalization,
    Save,
    Take,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

TEXT_TOKENS = 512
"""Length of both texts if the work does not state it: T5's training length. [tokens]"""


def t5(fields: ConfigFields) -> Stack:
    """T5, Flan-T5 and mT5: encoder and decoder without biases, shared token embedding.

    T5 1.1 has its own head, but the class of transformers 5.23 ties it all the same.
    ``T5EncoderModel`` is only the encoder, as in diffusion models.
    """
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    heads = fields.count("num_heads")
    layers = fields.count("num_hidden_layers")
    kind = fields.text("feed_forward_proj")
    gated, known = kind.startswith("gated-"), ("relu", "gelu", "gelu_new", "silu")
    act = kind.removeprefix("gated-")
    if act not in known:
        fields.refuse(
            "feed_forward_proj",
            "is not a known activation",
            kind,
            ", ".join([*known, *(f"gated-{name}" for name in known)]),
        )
    buckets = fields.count("relative_attention_num_buckets")
    tied = fields.flag("tie_word_embeddings")
    norm = Normalization(kind="rms")
    decoders = fields.count("num_decoder_layers", layers)

    def blocks(count: int, *, decodes: bool) -> tuple[Layer, ...]:
        shape = BlockShape(
            layers=count,
            hidden_size=hidden,
            heads=heads,
            head_dim=fields.count("d_kv"),
            width=fields.count("d_ff"),
            gated=gated,
            # The class computes GELU step by step in gated layers.
            function=FUNCTIONS["gelu_new" if gated and act == "gelu" else act],
            bias=False,
            causal=decodes,
            memory="encoder" if decodes else None,
            norm="rms",
            dropout=True,
            biased_scores=True,
        )
        distances = Learned(elements=buckets * heads)
        return (Dropout(), distances, *transformer_blocks(shape), norm, Dropout())

    if any(name.endswith("EncoderModel") for name in fields.names("architectures")):
        table = Embedding(entries=vocab, width=hidden)
        return Stack(
            unit=Unit.SAMPLE,
            input=StackInput(length=TEXT_TOKENS, follows="sequence_length"),
            layers=(part("encoder", table, *blocks(layers, decodes=False)),),
            blocks=layers,
            hidden_size=hidden,
        )
    table = Embedding(entries=vocab, width=hidden, tied=tied)
    lookup = Embedding(entries=vocab, width=hidden, shared=True)
    return Stack(
        unit=Unit.SAMPLE,
        input=StackInput(length=TEXT_TOKENS, follows="sequence_length"),
        others={"words": StackInput(length=TEXT_TOKENS, follows="decoder_sequence_length")},
        layers=(
            part("encoder", table, *blocks(layers, decodes=False), Save(name="encoder")),
            Take(name="words"),
            part("decoder", lookup, *blocks(decoders, decodes=True)),
            part("head", Linear(out=vocab, bias=False, tied=tied), of=Part.HEAD),
        ),
        blocks=layers + decoders,
        hidden_size=hidden,
        outputs=vocab,
        tied=tied,
    )


def whisper(fields: ConfigFields) -> Stack:
    """Whisper: convolutions over mel frames, an encoder, a decoder, a head tied by default.

    ``WhisperForCausalLM`` is only the decoder.
    """
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    mels = fields.count("num_mel_bins")
    sources = fields.count("max_source_positions", maximum=1_000_000)
    targets = fields.count("max_target_positions", maximum=10_000_000)
    tied = fields.flag("tie_word_embeddings")

    def tower(name: str, *, decodes: bool) -> BlockShape:
        heads = head_count(fields, hidden, f"{name}_attention_heads")
        return BlockShape(
            layers=fields.count(f"{name}_layers"),
            hidden_size=hidden,
            heads=heads,
            head_dim=hidden // heads,
            width=fields.count(f"{name}_ffn_dim"),
            function=function_named(fields),
            key_bias=False,
            causal=decodes,
            memory="encoder" if decodes else None,
        )

    reading, writing = tower("encoder", decodes=False), tower("decoder", decodes=True)
    alone = "WhisperForCausalLM" in fields.names("architectures")
    gelu = Activation(function="gelu")
    encoder = part(
        "encoder",
        *(Convolution(out=hidden, kernel=3), gelu),
        *(Convolution(out=hidden, kernel=3, stride=2), gelu),
        Learned(elements=sources * hidden),
        *transformer_blocks(reading),
        LAYER_NORM,
        Save(name="encoder"),
    )
    decoder = part(
        "decoder",
        Embedding(entries=vocab, width=hidden, tied=tied),
        Learned(elements=targets * hidden),
        *transformer_blocks(writing),
        LAYER_NORM,
    )
    head = part("head", Linear(out=vocab, bias=False, tied=tied), of=Part.HEAD)
    words = StackInput(length=targets, follows="decoder_sequence_length")
    # Two frames of 10 ms for each position, after the second convolution's stride.
    frames = StackInput(width=mels, length=2 * sources)
    if alone:
        others = {"words": words, "encoder": StackInput(width=hidden, length=sources)}
    else:
        others = {"words": words}
    return Stack(
        unit=Unit.SAMPLE,
        input=frames,
        others=others,
        layers=(*(() if alone else (encoder,)), Take(name="words"), decoder, head),
        blocks=writing.layers + (0 if alone else reading.layers),
        hidden_size=hidden,
        outputs=vocab,
        tied=tied,
        other_towers=() if alone else ("encoder",),
    )


def marian(fields: ConfigFields) -> Stack:
    """Marian: post-norm translation, with stored sinusoidal positions."""
    vocab = fields.count("vocab_size")
    own = fields.count("decoder_vocab_size", vocab)
    name = "share_encoder_decoder_embeddings"
    if own != vocab or not fields.flag(name):
        fields.refuse(name, "is not supported", False, "true, and one vocabulary")
    return pair(fields, offset=0, post_norm=True)


def pair(
    fields: ConfigFields,
    *,
    offset: int | None = None,
    embedding_norm: bool = False,
    post_norm: bool = False,
) -> Stack:
    """Return BART's relatives, or only the decoder for a causal class.

    ``offset`` adds to the number of stored positions; None means that none are stored. BART and
    mBART store two that no token uses, from fairseq's counting of the padding.
    """
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    positions = fields.count("max_position_embeddings", maximum=10_000_000)

    tied = fields.flag("tie_word_embeddings")
    alone = any(name.endswith("ForCausalLM") for name in fields.names("architectures"))

    shared = tied and not alone

    def tower(name: str, *, decodes: bool) -> tuple[int, tuple[Layer, ...]]:
        heads = head_count(fields, hidden, f"{name}_attention_heads")
        layers = fields.count(f"{name}_layers")
        shape = BlockShape(
            layers=layers,
            hidden_size=hidden,
            heads=heads,
            head_dim=hidden // heads,
            width=fields.count(f"{name}_ffn_dim"),
            function=function_named(fields),
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
    # Without tying, the class also keeps the shared table, which nothing uses.
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
