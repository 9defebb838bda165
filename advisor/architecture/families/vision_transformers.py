"""Image encoders of transformer blocks (ViT, Swin), and the pairs CLIP and SigLIP."""

from __future__ import annotations

from advisor.architecture.config.class_defaults import class_defaults
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import classes, image_stack, stage_counts
from advisor.architecture.families.encoder_blocks import (
    BlockShape,
    feed_forward,
    function_named,
    head_count,
    part,
    transformer_blocks,
)
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
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
    Merge,
    Normalization,
    Pool,
    Repeat,
    Residual,
    Save,
    Section,
    Take,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

MAX_IMAGE = 65_536
"""Largest side of an image. [pixels]"""

LAYER_NORM = Normalization(kind="layer")

FIRST = Pool(kind="first")


def _pixels(fields: ConfigFields) -> tuple[StackInput, Convolution, int]:
    """Return the input of an image encoder, its patches, and their number at the default size."""
    side = fields.count("image_size")
    patch = fields.count("patch_size", maximum=side)
    channels = fields.count("num_channels")
    out = fields.count("hidden_size")
    convolution = Convolution(out=out, kernel=patch, stride=patch, padding=0)
    return StackInput(width=channels, image=side), convolution, (side // patch) ** 2


def _vision_blocks(
    fields: ConfigFields, *, causal: bool = False, width: int | None = None
) -> BlockShape:
    hidden = fields.count("hidden_size")
    heads = head_count(fields, hidden)
    return BlockShape(
        layers=fields.count("num_hidden_layers"),
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=width or fields.count("intermediate_size"),
        function=function_named(fields),
        causal=causal,
        layer_scale=fields.flag("layer_scale"),
    )


def eva02(fields: ConfigFields) -> Stack:
    """EVA-02: a vision transformer with gated, normalised feed-forward layers, as in timm."""
    image, patches, count = _pixels(fields)
    hidden, outputs = fields.count("hidden_size"), classes(fields)
    heads = head_count(fields, hidden)
    width = fields.count("intermediate_size")
    layers = fields.count("num_hidden_layers")
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

    With ``layer_scale`` and ``class_position`` it is a DeiT III.
    """
    shape, placed = _vision_blocks(fields), fields.flag("class_position", True)
    return _classifier(fields, shape, positions=int(placed), pooled=_pooler(fields, shape))


def deit(fields: ConfigFields) -> Stack:
    """DeiT: ViT with a second token and classifier, which a teacher trains."""
    shape = _vision_blocks(fields)
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
    """DINOv2: ViT with scaled branches; the largest is gated. Token and mean classify."""
    hidden = fields.count("hidden_size")
    ratio = fields.number("mlp_ratio", minimum=0.01, maximum=64)
    gated = fields.flag("use_swiglu_ffn")
    width = max(int(hidden * ratio), 1)
    if gated:
        # A multiple of 8, so that three matrices have about the size of two.
        width = (width * 2 // 3 + 7) // 8 * 8
    shape = _vision_blocks(fields, width=width).model_copy(
        update={
            "gated": gated,
            "function": "silu" if gated else function_named(fields),
            "layer_scale": True,
        }
    )
    masked = hidden if fields.flag("use_mask_token") else 0
    return _classifier(fields, shape, positions=1, masked=masked, meaned=True)


def _pooler(fields: ConfigFields, shape: BlockShape) -> tuple[Linear, ...]:
    return (Linear(out=fields.count("pooler_output_size", shape.hidden_size)),)


def _classifier(
    fields: ConfigFields,
    shape: BlockShape,
    *,
    positions: int,
    tokens: int = 1,
    pooled: tuple[Linear, ...] = (),
    masked: int = 0,
    meaned: bool = False,
    classifiers: int = 1,
) -> Stack:
    """Return an image encoder with its pooler, or with classifiers of token (and mean)."""
    image, patches, count = _pixels(fields)
    hidden, outputs = shape.hidden_size, 1
    after: tuple[Layer, ...] = (FIRST, *pooled)
    if any("ForImageClassification" in name for name in fields.names("architectures")):
        outputs = classes(fields)
        both = (Concatenate(name="mean"),) if meaned else ()
        after = (FIRST, *both, Linear(out=outputs * classifiers))
    shape = shape.model_copy(update={"input_bias": fields.flag("qkv_bias")})
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
    image, patches, count = _pixels(fields)
    shape = _vision_blocks(fields)
    hidden = shape.hidden_size
    pooled = (
        *(Save(name="patches"), FIRST, Learned(elements=hidden)),
        Attention(heads=shape.heads, memory="patches"),
        Residual(body=(LAYER_NORM, *feed_forward(shape))),
    )
    positions = Learned(elements=count * hidden)
    return image, shape, (patches, positions, *transformer_blocks(shape), LAYER_NORM), pooled


def _pair(fields: ConfigFields, kind: str) -> tuple[ConfigFields, ConfigFields]:
    """Return the fields of the text tower and of the vision tower."""
    text, vision = (
        ConfigFields(
            fields.mapping(f"{tower}_config") or {},
            class_defaults(f"{kind}_{tower}_model", sizes=True),
        )
        for tower in ("text", "vision")
    )
    return text, vision


def siglip(fields: ConfigFields) -> Stack:
    """SigLIP: CLIP's pair with a sigmoid loss; the image is pooled by one query."""
    text, vision = _pair(fields, "siglip")
    image, seeing, blocks, pooled = _siglip_image(vision)
    reading = _vision_blocks(text)
    vocab, hidden = text.count("vocab_size"), reading.hidden_size
    tokens = text.count("max_position_embeddings", maximum=10_000_000)
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
    common = fields.count("projection_dim")
    text, vision = _pair(fields, "clip")
    vocab = text.count("vocab_size")
    image, patches, count = _pixels(vision)
    seeing = _vision_blocks(vision)
    reading = _vision_blocks(text, causal=True)
    tokens = text.count("max_position_embeddings", maximum=10_000_000)
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


def swin(fields: ConfigFields) -> Stack:
    """Swin: attention in shifted windows; each stage has fewer and wider positions."""
    width = fields.count("embed_dim")
    depths = stage_counts(fields, "depths")
    heads = stage_counts(fields, "num_heads")
    window = fields.count("window_size", maximum=1024)
    patch = fields.count("patch_size", maximum=1024)
    ratio = fields.number("mlp_ratio", minimum=0.01, maximum=64)
    bias = fields.flag("qkv_bias")
    if len(heads) != len(depths):
        fields.fail("lists of stages differ in length", "num_heads", list(heads), f"{len(depths)}")
    body: list[Layer] = [
        Section(
            name="stem",
            layers=(Convolution(out=width, kernel=patch, stride=patch, padding=0), LAYER_NORM),
        )
    ]
    for index, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        attention = Attention(heads=count, window=window, materialised=True, bias=bias)
        block = (
            # A learned bias for every distance in a window and every head.
            Learned(elements=(2 * window - 1) ** 2 * count),
            Residual(body=(LAYER_NORM, attention)),
            Residual(
                body=(
                    *(LAYER_NORM, Linear(out=max(int(ratio * width), 1), target="up")),
                    *(Activation(function="gelu"), Linear(out=width, target="down")),
                )
            ),
        )
        layers: list[Layer] = [Repeat(times=depth, layers=block)]
        if index < len(depths) - 1:
            width *= 2
            layers += [Merge(), LAYER_NORM, Linear(out=width, bias=False)]
        body.append(Section(name=f"stage_{index + 1}", layers=tuple(layers)))
    head = (LAYER_NORM, Pool(kind="average", kernel=None), Linear(out=classes(fields)))
    return image_stack(fields, tuple(body), head, blocks=sum(depths))
