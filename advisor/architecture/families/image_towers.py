"""Image encoders of transformer blocks (ViT, DeiT, DINOv2, EVA-02), and the pairs CLIP and SigLIP.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0)
where there is one, else of timm 1.0 (Apache-2.0).
"""

from __future__ import annotations

from advisor.architecture.config.fields import LIMITS, ConfigFields
from advisor.architecture.families.convolutional import classes
from advisor.architecture.families.encoder_blocks import (
    BlockShape,
    feed_forward,
    transformer_blocks,
)
from advisor.architecture.families.towers import function_named, head_count, part
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Attention,
    Branch,
    Concatenate,
    Convolution,
    Embedding,
    ExtraTokens,
    GatedProduct,
    Layer,
    Learned,
    Linear,
    Normalization,
    Pool,
    Repeat,
    Residual,
    Save,
    Take,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

MAX_IMAGE = 65_536
"""Pixels of one side."""
LAYER_NORM = Normalization(kind="layer")
FIRST = Pool(kind="first")


def _pixels(
    fields: ConfigFields, image: int, patch: int, width: int = 768
) -> tuple[StackInput, Convolution, int]:
    """Input of an image encoder, its patches, and how many there are at the default size."""
    side = fields.count("image_size", image, maximum=MAX_IMAGE)
    patch = fields.count("patch_size", patch, maximum=side)
    channels = fields.count("num_channels", 3, maximum=LIMITS["head_dim"])
    out = fields.count("hidden_size", width)
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
    heads = head_count(fields, "num_attention_heads", hidden, size[2])
    return BlockShape(
        layers=fields.count("num_hidden_layers", size[1]),
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size", size[3]),
        function=function_named(fields, function),
        causal=causal,
        layer_scale=fields.flag("layer_scale", False),
    )


def eva02(fields: ConfigFields) -> Stack:
    """EVA-02: a vision transformer with gated, normalised feed-forward layers, as in timm."""
    image, patches, count = _pixels(fields, 448, 14, 1024)
    hidden, outputs = fields.count("hidden_size", 1024), classes(fields)
    heads = head_count(fields, "num_attention_heads", hidden, 16)
    width = fields.count("intermediate_size", 2730)
    layers = fields.count("num_hidden_layers", 24)
    gated = (Linear(out=2 * width, target="up"), GatedProduct(function="silu"), LAYER_NORM)
    block = (
        Residual(body=(LAYER_NORM, Attention(heads=heads, key_bias=False))),
        Residual(body=(LAYER_NORM, *gated, Linear(out=hidden, target="down"))),
    )
    mean = Pool(kind="average", kernel=None)
    return Stack(
        unit=Unit.IMAGE,
        input=image,
        layers=(
            part(
                "vision",
                *(patches, ExtraTokens(), Learned(elements=(count + 1) * hidden)),
                Repeat(times=layers, layers=block),
            ),
            part("head", mean, LAYER_NORM, Linear(out=outputs), of=Part.HEAD),
        ),
        blocks=layers,
        hidden_size=hidden,
        outputs=outputs,
    )


def vit(fields: ConfigFields) -> Stack:
    """Vision transformer: patches, a class token, learned positions; pooler or classifier.

    ``layer_scale`` and ``class_position`` make a DeiT III of it.
    """
    shape, placed = _vision_blocks(fields, "gelu"), fields.flag("class_position", True)
    return _classifier(fields, shape, positions=int(placed), pooled=_pooler(fields, shape))


def deit(fields: ConfigFields) -> Stack:
    """DeiT: ViT with a second token, which a teacher's answer trains, and its classifier."""
    shape = _vision_blocks(fields, "gelu")
    taught = any(name.endswith("WithTeacher") for name in fields.names("architectures"))
    return _classifier(
        fields,
        shape,
        tokens=2,
        positions=2,
        pooled=_pooler(fields, shape),
        classifiers=2 if taught else 1,
    )


def dinov2(fields: ConfigFields) -> Stack:
    """DINOv2: ViT with scaled branches, gated in its largest; classifies by token and mean."""
    hidden = fields.count("hidden_size", 768)
    ratio = fields.number("mlp_ratio", 4, minimum=0.01, maximum=64)
    gated = fields.flag("use_swiglu_ffn", False)
    width = max(int(hidden * ratio), 1)
    if gated:
        # A multiple of 8 that makes three matrices as large as two.
        width = (width * 2 // 3 + 7) // 8 * 8
    shape = _vision_blocks(fields, "gelu").model_copy(
        update={
            "width": width,
            "gated": gated,
            "function": "silu" if gated else function_named(fields, "gelu"),
            "layer_scale": True,
        }
    )
    masked = hidden if fields.flag("use_mask_token", True) else 0
    return _classifier(fields, shape, positions=1, patch=14, masked=masked, meaned=True)


def _pooler(fields: ConfigFields, shape: BlockShape) -> tuple[Linear, ...]:
    return (Linear(out=fields.count("pooler_output_size", shape.hidden_size)),)


def _classifier(
    fields: ConfigFields,
    shape: BlockShape,
    *,
    positions: int,
    tokens: int = 1,
    patch: int = 16,
    pooled: tuple[Linear, ...] = (),
    masked: int = 0,
    meaned: bool = False,
    classifiers: int = 1,
) -> Stack:
    """Return an image encoder with its pooler, or its classifiers of token (and mean) instead."""
    image, patches, count = _pixels(fields, 224, patch)
    hidden, outputs = shape.hidden_size, 1
    after: tuple[Layer, ...] = (FIRST, *pooled)
    if any("ForImageClassification" in name for name in fields.names("architectures")):
        outputs = classes(fields)
        both = (Concatenate(name="mean"),) if meaned else ()
        after = (FIRST, *both, Linear(out=outputs * classifiers))
    shape = shape.model_copy(update={"input_bias": fields.flag("qkv_bias", True)})
    mask = (Learned(elements=masked),) if masked else ()
    average = Branch(name="mean", layers=(Pool(kind="average", kernel=None),))
    mean = (average,) if meaned and outputs > 1 else ()
    return Stack(
        unit=Unit.IMAGE,
        input=image,
        layers=(
            part(
                "vision",
                *(patches, *mask, ExtraTokens(tokens=tokens)),
                Learned(elements=(count + positions) * hidden),
                *(*transformer_blocks(shape), LAYER_NORM),
            ),
            part("head", *mean, *after, of=Part.HEAD),
        ),
        blocks=shape.layers,
        hidden_size=hidden,
        outputs=outputs,
    )


def siglip_vision(fields: ConfigFields) -> Stack:
    """SigLIP's image encoder: patches without a class token, pooled by one query."""
    image, shape, seeing, pooled = _siglip_image(fields)
    return Stack(
        unit=Unit.IMAGE,
        input=image,
        layers=(part("vision", *seeing), part("head", *pooled, of=Part.HEAD)),
        blocks=shape.layers,
        hidden_size=shape.hidden_size,
    )


def _siglip_image(
    fields: ConfigFields,
) -> tuple[StackInput, BlockShape, tuple[Layer, ...], tuple[Layer, ...]]:
    image, patches, count = _pixels(fields, 224, 16)
    shape = _vision_blocks(fields, "gelu_pytorch_tanh")
    hidden = shape.hidden_size
    pooled = (
        *(Save(name="patches"), FIRST, Learned(elements=hidden)),
        Attention(heads=shape.heads, memory="patches"),
        Residual(body=(LAYER_NORM, *feed_forward(shape))),
    )
    positions = Learned(elements=count * hidden)
    return image, shape, (patches, positions, *transformer_blocks(shape), LAYER_NORM), pooled


def siglip(fields: ConfigFields) -> Stack:
    """SigLIP: CLIP's pair with a sigmoid loss; the image is pooled by one query."""
    text = ConfigFields(fields.mapping("text_config") or {})
    vision = ConfigFields(fields.mapping("vision_config") or {})
    image, seeing, blocks, pooled = _siglip_image(vision)
    reading = _vision_blocks(text, "gelu_pytorch_tanh")
    vocab, hidden = text.count("vocab_size", 32_000), reading.hidden_size
    tokens = text.count("max_position_embeddings", 64, maximum=10_000_000)
    return Stack(
        unit=Unit.SAMPLE,
        input=image,
        others={"words": StackInput(length=tokens, follows="sequence_length")},
        layers=(
            # Learned temperature and bias of the loss.
            part("vision", *blocks, Learned(elements=2), *pooled),
            Take(name="words"),
            part(
                "text",
                Embedding(entries=vocab, width=hidden),
                Learned(elements=tokens * hidden),
                *(*transformer_blocks(reading), LAYER_NORM, FIRST),
                Linear(out=text.count("projection_size", hidden)),
            ),
        ),
        blocks=seeing.layers + reading.layers,
        hidden_size=hidden,
        other_towers=("vision",),
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
            part(
                "vision",
                patches.model_copy(update={"bias": False}),
                ExtraTokens(),
                Learned(elements=(count + 1) * seeing.hidden_size),
                # Learned temperature of the contrastive loss.
                Learned(elements=1),
                *(LAYER_NORM, *transformer_blocks(seeing), FIRST, LAYER_NORM, project),
            ),
            Take(name="words"),
            part(
                "text",
                Embedding(entries=vocab, width=reading.hidden_size),
                Learned(elements=tokens * reading.hidden_size),
                *(*transformer_blocks(reading), LAYER_NORM, FIRST, project),
            ),
        ),
        blocks=seeing.layers + reading.layers,
        hidden_size=reading.hidden_size,
        other_towers=("vision",),
    )
