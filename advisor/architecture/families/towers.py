"""Encoder and encoder-decoder families: BERT, RoBERTa, T5, Whisper.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
Encoders take tokens, and pairs whole samples.
"""

from __future__ import annotations

from advisor.architecture.config.decoder import activation, refuse_cross_attention
from advisor.architecture.config.fields import DEFAULT_LIMIT, LIMITS, ConfigFields
from advisor.architecture.families.encoder_blocks import (
    FUNCTIONS,
    BlockShape,
    transformer_blocks,
)
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Branch,
    Convolution,
    Dropout,
    Embedding,
    Function,
    Layer,
    Learned,
    Linear,
    Normalization,
    Save,
    Section,
    Take,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

TEXT_TOKENS = 512
"""Length of both texts where the work does not say: what T5 was trained on."""
LAYER_NORM = Normalization(kind="layer")


def head_count(fields: ConfigFields, name: str, hidden: int, default: int | None = None) -> int:
    """Return heads that divide the hidden size."""
    heads = fields.count(name, default, maximum=LIMITS["num_attention_heads"])
    if hidden % heads:
        fields.fail(
            f"config field {name} does not divide the hidden size",
            name,
            heads,
            f"a divisor of {hidden:,}",
        )
    return heads


def function_named(fields: ConfigFields, default: str) -> Function:
    """Return the activation that a configuration names.

    Raises
    ------
    InputError
        If blocks of encoders have none of that name.
    """
    chosen = activation(fields, default)
    if chosen not in FUNCTIONS:
        fields.fail(
            "config field hidden_act is not an encoder's",
            "hidden_act",
            chosen,
            ", ".join(FUNCTIONS),
        )
    return FUNCTIONS[chosen]


def part(name: str, *layers: Layer, of: Part = Part.BLOCK) -> Section:
    """Return layers under a common name."""
    return Section(name=name, part=of, layers=layers)


def label_count(fields: ConfigFields) -> int:
    """Labels that a head tells apart; two where nothing says so, as in the classes."""
    labels = fields.mapping("id2label")
    return len(labels) if labels else fields.count("num_labels", 2)


def vocabulary_head(vocab: int, *, tied: bool, twice: bool) -> tuple[Layer, ...]:
    """Matrix that predicts tokens; apart from the table some classes store its bias ``twice``."""
    second = (Learned(elements=vocab),) if twice and not tied else ()
    return (Linear(out=vocab, tied=tied), *second)


def distilbert(fields: ConfigFields) -> Stack:
    """DistilBERT: BERT without token types and pooler."""
    names = {
        "hidden_size": ("dim", 768),
        "num_hidden_layers": ("n_layers", 6),
        "num_attention_heads": ("n_heads", 12),
        "intermediate_size": ("hidden_dim", 3072),
        "vocab_size": ("vocab_size", 30_522),
        "max_position_embeddings": ("max_position_embeddings", 512),
    }
    read: dict[str, object] = {
        name: fields.count(own, value, maximum=LIMITS.get(name, DEFAULT_LIMIT))
        for name, (own, value) in names.items()
    }
    read |= {
        "type_vocab_size": 0,
        "hidden_act": fields.text("activation", "gelu"),
        "architectures": list(fields.names("architectures")),
        "num_labels": label_count(fields),
        "tie_word_embeddings": fields.flag("tie_word_embeddings", True),
    }
    return bert(ConfigFields(read), pooler=False)


def bert(fields: ConfigFields, *, pooler: bool = True) -> Stack:
    """BERT, RoBERTa and XLM-RoBERTa: post-norm encoder; pooler and head by class."""
    refuse_cross_attention(fields)
    hidden, vocab = fields.count("hidden_size", 768), fields.count("vocab_size", 30_522)
    heads = head_count(fields, "num_attention_heads", hidden, 12)
    names = fields.names("architectures")
    predicts = any(
        name.endswith(("ForMaskedLM", "ForPreTraining", "LMHeadModel", "ForCausalLM"))
        for name in names
    )
    function = function_named(fields, "gelu")
    layers = fields.count("num_hidden_layers", 12)
    shape = BlockShape(
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size", 3072),
        function=function,
        post_norm=True,
        dropout=True,
    )
    head: list[Layer] = []
    tied = fields.flag("tie_word_embeddings", True)
    if any(name.endswith("ForPreTraining") for name in names):
        head.append(Branch(name="next_sentence", layers=(Linear(out=hidden), Linear(out=2))))
    if any(name.endswith(("ForQuestionAnswering", "ForTokenClassification")) for name in names):
        head.append(Linear(out=label_count(fields)))
    elif any(name.endswith("ForSequenceClassification") for name in names):
        head += [Linear(out=hidden), Linear(out=label_count(fields))]
    elif not predicts:
        head += [Linear(out=hidden)] if pooler else []
    else:
        head += [
            *(Linear(out=hidden), Activation(function=function), LAYER_NORM),
            *vocabulary_head(vocab, tied=tied, twice=pooler),
        ]
    positions = fields.count("max_position_embeddings", 512)
    kinds = fields.count("type_vocab_size", 2, minimum=0)
    embedding = (
        Embedding(entries=vocab, width=hidden, tied=predicts and tied),
        Learned(elements=positions * hidden),
        *((Learned(elements=kinds * hidden),) if kinds else ()),
        LAYER_NORM,
        Dropout(),
    )
    return Stack(
        unit=Unit.TOKEN,
        input=StackInput(),
        layers=(
            part("embedding", *embedding, of=Part.EMBEDDING),
            part("encoder", *transformer_blocks(shape)),
            part("head", *head, of=Part.HEAD),
        ),
        blocks=layers,
        hidden_size=hidden,
        outputs=vocab if predicts else 1,
        tied=predicts and tied,
    )


def t5(fields: ConfigFields) -> Stack:
    """T5, Flan-T5 and mT5: encoder and decoder without biases, shared token embedding.

    T5 1.1 has a head of its own, though the class of transformers 5.23 ties it all the same.
    ``T5EncoderModel`` is the encoder alone, as diffusion models hold it.
    """
    hidden, vocab = fields.count("hidden_size", 512), fields.count("vocab_size", 32_128)
    heads = fields.count("num_heads", 8, maximum=LIMITS["num_attention_heads"])
    layers = fields.count("num_hidden_layers", 6)
    kind = fields.text("feed_forward_proj", "relu")
    gated, known = kind.startswith("gated-"), ("relu", "gelu", "gelu_new", "silu")
    act = kind.removeprefix("gated-")
    if act not in known:
        fields.fail(
            "config field feed_forward_proj is not a known activation",
            "feed_forward_proj",
            kind,
            ", ".join([*known, *(f"gated-{name}" for name in known)]),
        )
    buckets = fields.count("relative_attention_num_buckets", 32)
    tied = fields.flag("tie_word_embeddings", True)
    norm = Normalization(kind="rms")
    decoders = fields.count("num_decoder_layers", layers, maximum=LIMITS["num_hidden_layers"])

    def blocks(count: int, *, decodes: bool) -> tuple[Layer, ...]:
        shape = BlockShape(
            layers=count,
            hidden_size=hidden,
            heads=heads,
            head_dim=fields.count("d_kv", 64, maximum=LIMITS["head_dim"]),
            width=fields.count("d_ff", 2048),
            gated=gated,
            # The class writes GELU out where it gates.
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

    ``WhisperForCausalLM`` is the decoder alone.
    """
    hidden, vocab = fields.count("hidden_size", 384), fields.count("vocab_size", 51_865)
    mels = fields.count("num_mel_bins", 80, maximum=LIMITS["head_dim"])
    sources = fields.count("max_source_positions", 1500, maximum=1_000_000)
    targets = fields.count("max_target_positions", 448, maximum=10_000_000)
    tied = fields.flag("tie_word_embeddings", True)

    def tower(name: str, *, decodes: bool) -> BlockShape:
        heads = head_count(fields, f"{name}_attention_heads", hidden, 6)
        return BlockShape(
            layers=fields.count(f"{name}_layers", 4, maximum=LIMITS["num_hidden_layers"]),
            hidden_size=hidden,
            heads=heads,
            head_dim=hidden // heads,
            width=fields.count(f"{name}_ffn_dim", 1536),
            function=function_named(fields, "gelu"),
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
