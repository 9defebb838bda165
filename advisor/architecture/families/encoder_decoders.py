"""Pairs of an encoder and a decoder: T5, Whisper, BART, Marian and NLLB."""

from typing import Any, Final

from advisor.architecture import stack as nn
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.encoder_blocks import (
    FUNCTIONS,
    LAYER_NORM,
    BlockShape,
    block_shape,
    ends,
    transformer_blocks,
)

TEXT_TOKENS: Final = 512
"""Length of both texts if the work does not state it: T5's training length. [tokens]"""

READ: Final = nn.StackInput(length=TEXT_TOKENS, follows="sequence_length")
WRITTEN: Final = nn.StackInput(length=TEXT_TOKENS, follows="decoder_sequence_length")
T5_NORM: Final = nn.Normalization(kind="rms", stepwise=True)
T5_FUNCTIONS: Final = ("relu", "gelu", "gelu_new", "silu")


def _decoding(decodes: bool) -> dict[str, Any]:
    """Return what the blocks of a decoder have beyond those of an encoder."""
    return {"causal": decodes, "memory": "encoder" if decodes else None}


def _head(fields: ConfigFields) -> nn.Section:
    vocab, tied = fields.count("vocab_size"), fields.flag("tie_word_embeddings")
    logits = nn.Linear(out=vocab, bias=False, tied=tied)
    return nn.section("head", logits, nn.CrossEntropy(), part=nn.Part.HEAD)


def t5(fields: ConfigFields) -> nn.Stack:
    """T5, Flan-T5 and mT5: encoder and decoder without biases, shared token embedding.

    T5 1.1 has its own head, but the class of transformers 5.23 ties it all the same.
    ``T5EncoderModel`` is only the encoder, as in diffusion models.
    """
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    layers = fields.count("num_hidden_layers")
    decoders = fields.count("num_decoder_layers", layers)
    tied = fields.flag("tie_word_embeddings")
    encoder = _t5_blocks(fields, layers, decodes=False)
    if ends(fields, "EncoderModel"):
        table = nn.Embedding(entries=vocab, width=hidden)
        return nn.Stack(
            unit=nn.Unit.SAMPLE,
            input=READ,
            layers=(nn.section("encoder", table, *encoder),),
            blocks=layers,
            hidden_size=hidden,
        )
    table = nn.Embedding(entries=vocab, width=hidden, tied=tied)
    lookup = nn.Embedding(entries=vocab, width=hidden, shared=True)
    return nn.Stack(
        unit=nn.Unit.SAMPLE,
        input=READ,
        others={"words": WRITTEN},
        layers=(
            nn.section("encoder", table, *encoder, nn.Save(name="encoder")),
            nn.Take(name="words"),
            nn.section("decoder", lookup, *_t5_blocks(fields, decoders, decodes=True)),
            _head(fields),
        ),
        blocks=layers + decoders,
        hidden_size=hidden,
        outputs=vocab,
        tied=tied,
    )


def _t5_blocks(fields: ConfigFields, layers: int, *, decodes: bool) -> nn.Layers:
    """Return the blocks of one side, with the dropouts, distances and norm around them."""
    kind, heads = fields.text("feed_forward_proj"), fields.count("num_heads")
    gated, act = kind.startswith("gated-"), kind.removeprefix("gated-")
    if act not in T5_FUNCTIONS:
        known = ", ".join([*T5_FUNCTIONS, *(f"gated-{name}" for name in T5_FUNCTIONS)])
        fields.refuse("feed_forward_proj", "is not a known activation", kind, known)
    shape: dict[str, object] = {
        "layers": layers,
        "hidden_size": fields.count("hidden_size"),
        "heads": heads,
        "head_dim": fields.count("d_kv"),
        "width": fields.count("d_ff"),
        "gated": gated,
        # The class computes GELU step by step in gated layers.
        "function": FUNCTIONS["gelu_new" if gated and act == "gelu" else act],
        "bias": False,
        "norm": T5_NORM,
        "dropout": True,
        "inner_dropout": True,
    }
    blocks = transformer_blocks(BlockShape.model_validate({**shape, **_decoding(decodes)}))
    distances = nn.Learned(elements=fields.count("relative_attention_num_buckets") * heads)
    return (nn.Dropout(), distances, *blocks, T5_NORM, nn.Dropout())


def whisper(fields: ConfigFields) -> nn.Stack:
    """Whisper: convolutions over mel frames, an encoder, a decoder, a head tied by default.

    ``WhisperForCausalLM`` is only the decoder.
    """
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    sources = fields.count("max_source_positions", maximum=1_000_000)
    targets = fields.count("max_target_positions", maximum=10_000_000)
    tied = fields.flag("tie_word_embeddings")
    reading, writing = (
        block_shape(fields, tower, key_bias=False, **_decoding(tower == "decoder"))
        for tower in ("encoder", "decoder")
    )
    alone = "WhisperForCausalLM" in fields.names("architectures")
    gelu = nn.Activation(function="gelu")
    encoder = nn.section(
        "encoder",
        *(nn.Convolution(out=hidden, kernel=3), gelu),
        *(nn.Convolution(out=hidden, kernel=3, stride=2), gelu),
        nn.Learned(elements=sources * hidden),
        *(*transformer_blocks(reading), LAYER_NORM, nn.Save(name="encoder")),
    )
    decoder = nn.section(
        "decoder",
        nn.Embedding(entries=vocab, width=hidden, tied=tied),
        nn.Learned(elements=targets * hidden),
        *(*transformer_blocks(writing), LAYER_NORM),
    )
    others = {"words": nn.StackInput(length=targets, follows="decoder_sequence_length")}
    if alone:
        others["encoder"] = nn.StackInput(width=hidden, length=sources)
    return nn.Stack(
        unit=nn.Unit.SAMPLE,
        # Two frames of 10 ms for each position, after the second convolution's stride.
        input=nn.StackInput(width=fields.count("num_mel_bins"), length=2 * sources),
        others=others,
        layers=(*(() if alone else (encoder,)), nn.Take(name="words"), decoder, _head(fields)),
        blocks=writing.layers + (0 if alone else reading.layers),
        hidden_size=hidden,
        outputs=vocab,
        tied=tied,
        other_towers=() if alone else ("encoder",),
    )


def marian(fields: ConfigFields) -> nn.Stack:
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
) -> nn.Stack:
    """Return BART's relatives, or only the decoder for a causal class.

    ``offset`` adds to the number of stored positions; None means that none are stored. BART and
    mBART store two that no token uses, from fairseq's counting of the padding.
    """
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    positions = fields.count("max_position_embeddings", maximum=10_000_000)
    tied, alone = fields.flag("tie_word_embeddings"), ends(fields, "ForCausalLM")
    reads, writes = (
        block_shape(
            fields, tower, post_norm=post_norm, dropout=True, **_decoding(tower == "decoder")
        )
        for tower in ("encoder", "decoder")
    )

    def tower(shape: BlockShape) -> nn.Layers:
        shared = shape.causal and tied and not alone
        return (
            nn.Embedding(entries=vocab, width=hidden, tied=tied, shared=shared),
            *(() if offset is None else (nn.Learned(elements=(positions + offset) * hidden),)),
            *((LAYER_NORM,) if embedding_norm else ()),
            *(nn.Dropout(), *transformer_blocks(shape)),
            *(() if post_norm else (LAYER_NORM,)),
        )

    # Without tying, the class also keeps the shared table, which nothing uses.
    unused = () if tied else (nn.Learned(elements=vocab * hidden),)
    encoder = nn.section("encoder", *unused, *tower(reads), nn.Save(name="encoder"))
    memory = {"encoder": nn.StackInput(width=hidden, length=TEXT_TOKENS)} if alone else {}
    decoder = nn.section("decoder", *tower(writes))
    return nn.Stack(
        unit=nn.Unit.SAMPLE,
        input=READ,
        others={"words": WRITTEN, **memory},
        layers=(*(() if alone else (encoder,)), nn.Take(name="words"), decoder, _head(fields)),
        blocks=writes.layers + (0 if alone else reads.layers),
        hidden_size=hidden,
        outputs=vocab,
        tied=tied,
    )
