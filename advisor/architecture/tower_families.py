"""Encoder and encoder-decoder families: BERT, RoBERTa, T5, Whisper, ViT, CLIP, SigLIP.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
Text encoders take tokens, image encoders images, and pairs whole samples.
"""

from __future__ import annotations

from advisor.architecture.config_fields import LIMITS, ConfigFields
from advisor.architecture.convolutional_families import classes
from advisor.architecture.decoder import activation
from advisor.architecture.encoder_blocks import (
    FUNCTIONS,
    BlockShape,
    feed_forward,
    transformer_blocks,
)
from advisor.architecture.layers import (
    Activation,
    Attention,
    Branch,
    Convolution,
    Dropout,
    Embedding,
    ExtraTokens,
    Function,
    Layer,
    Learned,
    Linear,
    Normalization,
    Pool,
    Residual,
    Save,
    Section,
    Take,
)
from advisor.architecture.operators import Part
from advisor.architecture.sample import Unit
from advisor.architecture.stack import Stack, StackInput

MAX_IMAGE = 65_536
"""Pixels of one side."""
TEXT_TOKENS = 512
"""Length of both texts where the work does not say: what T5 was trained on."""
LAYER_NORM = Normalization(kind="layer")
FIRST = Pool(kind="first")


def _heads(fields: ConfigFields, name: str, hidden: int, default: int | None = None) -> int:
    heads = fields.count(name, default, maximum=LIMITS["num_attention_heads"])
    if hidden % heads:
        fields.fail(
            f"config field {name} does not divide the hidden size",
            name,
            heads,
            f"a divisor of {hidden:,}",
        )
    return heads


def _function(fields: ConfigFields, default: str) -> Function:
    return FUNCTIONS[activation(fields, default)]


def _part(name: str, *layers: Layer, part: Part = Part.BLOCK) -> Section:
    return Section(name=name, part=part, layers=layers)


def bert(fields: ConfigFields) -> Stack:
    """BERT, RoBERTa and XLM-RoBERTa: post-norm encoder; pooler and language head by class.

    Heads of other tasks are left out.
    """
    if fields.flag("add_cross_attention", False):
        fields.fail(
            "config field add_cross_attention makes a decoder of an encoder",
            "add_cross_attention",
            True,
            "false",
        )
    hidden, vocab = fields.count("hidden_size", 768), fields.count("vocab_size", 30_522)
    heads = _heads(fields, "num_attention_heads", hidden, 12)
    names = fields.names("architectures")
    predicts = any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in names)
    function = _function(fields, "gelu")
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
    if any(name.endswith("ForPreTraining") for name in names):
        head.append(Branch(name="next_sentence", layers=(Linear(out=hidden), Linear(out=2))))
    if not predicts:
        head.append(Linear(out=hidden))
    else:
        head += [
            *(Linear(out=hidden), Activation(function=function), LAYER_NORM),
            Linear(out=vocab, tied=True),
        ]
    positions = fields.count("max_position_embeddings", 512)
    embedding = (
        Embedding(entries=vocab, width=hidden, tied=predicts),
        Learned(elements=positions * hidden),
        Learned(elements=fields.count("type_vocab_size", 2) * hidden),
        LAYER_NORM,
        Dropout(),
    )
    return Stack(
        unit=Unit.TOKEN,
        input=StackInput(),
        layers=(
            _part("embedding", *embedding, part=Part.EMBEDDING),
            _part("encoder", *transformer_blocks(shape)),
            _part("head", *head, part=Part.HEAD),
        ),
        blocks=layers,
        hidden_size=hidden,
        outputs=vocab if predicts else 1,
        tied=predicts,
    )


def t5(fields: ConfigFields) -> Stack:
    """T5, Flan-T5 and mT5: encoder and decoder without biases, shared token embedding.

    T5 1.1 has a head of its own, though the class of transformers 5.23 ties it all the same.
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

    table = Embedding(entries=vocab, width=hidden, tied=tied)
    lookup = Embedding(entries=vocab, width=hidden, shared=True)
    return Stack(
        unit=Unit.SAMPLE,
        input=StackInput(length=TEXT_TOKENS, follows="sequence_length"),
        others={"words": StackInput(length=TEXT_TOKENS, follows="decoder_sequence_length")},
        layers=(
            _part("encoder", table, *blocks(layers, decodes=False), Save(name="encoder")),
            Take(name="words"),
            _part("decoder", lookup, *blocks(decoders, decodes=True)),
            _part("head", Linear(out=vocab, bias=False, tied=tied), part=Part.HEAD),
        ),
        blocks=layers + decoders,
        hidden_size=hidden,
        outputs=vocab,
        tied=tied,
    )


def whisper(fields: ConfigFields) -> Stack:
    """Whisper: convolutions over mel frames, an encoder, and a decoder with a tied head.

    ``WhisperForCausalLM`` is the decoder alone.
    """
    hidden, vocab = fields.count("hidden_size", 384), fields.count("vocab_size", 51_865)
    mels = fields.count("num_mel_bins", 80, maximum=LIMITS["head_dim"])
    sources = fields.count("max_source_positions", 1500, maximum=1_000_000)
    targets = fields.count("max_target_positions", 448, maximum=10_000_000)

    def tower(name: str, *, decodes: bool) -> BlockShape:
        heads = _heads(fields, f"{name}_attention_heads", hidden, 6)
        return BlockShape(
            layers=fields.count(f"{name}_layers", 4, maximum=LIMITS["num_hidden_layers"]),
            hidden_size=hidden,
            heads=heads,
            head_dim=hidden // heads,
            width=fields.count(f"{name}_ffn_dim", 1536),
            function=_function(fields, "gelu"),
            key_bias=False,
            causal=decodes,
            memory="encoder" if decodes else None,
        )

    reading, writing = tower("encoder", decodes=False), tower("decoder", decodes=True)
    alone = "WhisperForCausalLM" in fields.names("architectures")
    gelu = Activation(function="gelu")
    encoder = _part(
        "encoder",
        *(Convolution(out=hidden, kernel=3), gelu),
        *(Convolution(out=hidden, kernel=3, stride=2), gelu),
        Learned(elements=sources * hidden),
        *transformer_blocks(reading),
        LAYER_NORM,
        Save(name="encoder"),
    )
    decoder = _part(
        "decoder",
        Embedding(entries=vocab, width=hidden, tied=True),
        Learned(elements=targets * hidden),
        *transformer_blocks(writing),
        LAYER_NORM,
    )
    head = _part("head", Linear(out=vocab, bias=False, tied=True), part=Part.HEAD)
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
        tied=True,
    )


def _pixels(fields: ConfigFields, image: int, patch: int) -> tuple[StackInput, Convolution, int]:
    """Input of an image encoder, its patches, and how many there are at the default size."""
    side = fields.count("image_size", image, maximum=MAX_IMAGE)
    patch = fields.count("patch_size", patch, maximum=side)
    channels = fields.count("num_channels", 3, maximum=LIMITS["head_dim"])
    out = fields.count("hidden_size", 768)
    convolution = Convolution(out=out, kernel=patch, stride=patch, padding=0)
    return StackInput(width=channels, image=side), convolution, (side // patch) ** 2


def _vision_blocks(
    fields: ConfigFields,
    function: str,
    size: tuple[int, int, int, int] = (768, 12, 12, 3072),
    *,
    causal: bool = False,
) -> BlockShape:
    hidden = fields.count("hidden_size", size[0])
    heads = _heads(fields, "num_attention_heads", hidden, size[2])
    return BlockShape(
        layers=fields.count("num_hidden_layers", size[1]),
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size", size[3]),
        function=_function(fields, function),
        causal=causal,
        layer_scale=fields.flag("layer_scale", False),
    )


def vit(fields: ConfigFields) -> Stack:
    """Vision transformer: patches, a class token, learned positions; pooler or classifier.

    ``layer_scale`` and ``class_position`` make a DeiT III of it.
    """
    image, patches, count = _pixels(fields, 224, 16)
    shape = _vision_blocks(fields, "gelu")
    hidden, outputs = shape.hidden_size, 1
    if any(name.endswith("ForImageClassification") for name in fields.names("architectures")):
        outputs = classes(fields)
        after = (FIRST, Linear(out=outputs))
    else:
        width = fields.count("pooler_output_size", hidden)
        after = (FIRST, Linear(out=width))
    bias = fields.flag("qkv_bias", True)
    if not bias:
        fields.fail("config field qkv_bias is not supported", "qkv_bias", bias, "true")
    positions = count + fields.flag("class_position", True)
    return Stack(
        unit=Unit.IMAGE,
        input=image,
        layers=(
            _part(
                "vision",
                *(patches, ExtraTokens(), Learned(elements=positions * hidden)),
                *(*transformer_blocks(shape), LAYER_NORM),
            ),
            _part("head", *after, part=Part.HEAD),
        ),
        blocks=shape.layers,
        hidden_size=hidden,
        outputs=outputs,
    )


def siglip_vision(fields: ConfigFields) -> Stack:
    """SigLIP's image encoder: patches without a class token, pooled by one query."""
    image, patches, count = _pixels(fields, 224, 16)
    shape = _vision_blocks(fields, "gelu_pytorch_tanh")
    hidden = shape.hidden_size
    pooled = (
        *(Save(name="patches"), FIRST, Learned(elements=hidden)),
        Attention(heads=shape.heads, memory="patches"),
        Residual(body=(LAYER_NORM, *feed_forward(shape))),
    )
    return Stack(
        unit=Unit.IMAGE,
        input=image,
        layers=(
            _part(
                "vision",
                *(patches, Learned(elements=count * hidden)),
                *(*transformer_blocks(shape), LAYER_NORM),
            ),
            _part("head", *pooled, part=Part.HEAD),
        ),
        blocks=shape.layers,
        hidden_size=hidden,
    )


def clip(fields: ConfigFields) -> Stack:
    """CLIP: a vision tower and a causal text tower, each projected to a common space."""
    common = fields.count("projection_dim", 512)
    text = ConfigFields(fields.mapping("text_config") or {})
    vision = ConfigFields(fields.mapping("vision_config") or {})
    vocab = text.count("vocab_size", 49_408)
    image, patches, count = _pixels(vision, 224, 32)
    seeing = _vision_blocks(vision, "quick_gelu")
    reading = _vision_blocks(text, "quick_gelu", (512, 12, 8, 2048), causal=True)
    tokens = text.count("max_position_embeddings", 77, maximum=10_000_000)
    project = Linear(out=common, bias=False)
    return Stack(
        unit=Unit.SAMPLE,
        input=image,
        others={"words": StackInput(length=tokens, follows="sequence_length")},
        layers=(
            _part(
                "vision",
                patches.model_copy(update={"bias": False}),
                ExtraTokens(),
                Learned(elements=(count + 1) * seeing.hidden_size),
                # Learned temperature of the contrastive loss.
                Learned(elements=1),
                *(LAYER_NORM, *transformer_blocks(seeing), FIRST, LAYER_NORM, project),
            ),
            Take(name="words"),
            _part(
                "text",
                Embedding(entries=vocab, width=reading.hidden_size),
                Learned(elements=tokens * reading.hidden_size),
                *(*transformer_blocks(reading), LAYER_NORM, FIRST, project),
            ),
        ),
        blocks=seeing.layers + reading.layers,
        hidden_size=reading.hidden_size,
    )
