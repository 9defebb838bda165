"""Image encoders of transformer blocks (ViT, Swin), and the pairs CLIP and SigLIP."""

from typing import Final, NamedTuple

from advisor.architecture import stack as nn
from advisor.architecture.config.class_defaults import class_defaults
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import (
    LAYER_NORM,
    MEAN,
    classes,
    image_stack,
    stage_counts,
)
from advisor.architecture.families.encoder_blocks import (
    BlockShape,
    block_shape,
    ends,
    feed_forward,
    function_named,
    transformer_blocks,
)

FIRST: Final = nn.Pool(kind="first")


COPY: Final = nn.Merge(factor=1)
"""Swin shifts the map, cuts it into windows, takes queries, keys, values and outputs of the heads
apart, and puts the map together again and shifts it back: one and a half, four, one and a half."""


class _Pixels(NamedTuple):
    """The input of an image encoder."""

    image: nn.StackInput
    patches: nn.Convolution
    number: int
    """Patches of an image of the default size."""


def _pixels(fields: ConfigFields) -> _Pixels:
    side = fields.count("image_size")
    patch = fields.count("patch_size", maximum=side)
    image = nn.StackInput(width=fields.count("num_channels"), image=side)
    out = fields.count("hidden_size")
    patches = nn.Convolution(out=out, kernel=patch, stride=patch, padding=0)
    return _Pixels(image, patches, (side // patch) ** 2)


def _encoder(
    pixels: _Pixels, shape: BlockShape, vision: nn.Layers, head: nn.Layers, outputs: int = 1
) -> nn.Stack:
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=pixels.image,
        layers=(nn.section("vision", *vision), nn.section("head", *head, part=nn.Part.HEAD)),
        blocks=shape.layers,
        hidden_size=shape.hidden_size,
        outputs=outputs,
    )


def eva02(fields: ConfigFields) -> nn.Stack:
    """EVA-02: a vision transformer with gated, normalised feed-forward layers, as in timm."""
    pixels, outputs, shape = _pixels(fields), classes(fields), block_shape(fields)
    hidden, width = shape.hidden_size, shape.width
    up = (nn.Linear(out=2 * width, target="up"), nn.GatedProduct(function="silu"), LAYER_NORM)
    blocks = nn.repeat(
        shape.layers,
        nn.residual(LAYER_NORM, nn.Attention(heads=shape.heads, key_bias=False)),
        nn.residual(LAYER_NORM, *up, nn.Linear(out=hidden, target="down")),
    )
    positions = nn.Learned(elements=(pixels.number + 1) * hidden)
    vision = (pixels.patches, nn.ExtraTokens(), positions, blocks)
    return _encoder(pixels, shape, vision, (MEAN, LAYER_NORM, nn.Linear(out=outputs)), outputs)


def vit(fields: ConfigFields, *, tokens: int = 1) -> nn.Stack:
    """Vision transformer: patches, a class token, learned positions; pooler or classifier.

    With ``layer_scale`` and ``class_position`` it is a DeiT III.
    """
    shape = block_shape(fields, layer_scale=fields.flag("layer_scale"))
    placed = tokens * fields.flag("class_position", True)
    pooled = (nn.Linear(out=fields.count("pooler_output_size", shape.hidden_size)),)
    classifiers = 2 if ends(fields, "WithTeacher") else 1
    return _classifier(
        fields, shape, tokens=tokens, positions=placed, pooled=pooled, classifiers=classifiers
    )


def dinov2(fields: ConfigFields) -> nn.Stack:
    """DINOv2: ViT with scaled branches; the largest is gated. Token and mean classify."""
    hidden = fields.count("hidden_size")
    ratio = fields.number("mlp_ratio", minimum=0.01, maximum=64)
    gated = fields.flag("use_swiglu_ffn")
    width = max(int(hidden * ratio), 1)
    if gated:
        # A multiple of 8, so that three matrices have about the size of two.
        width = (width * 2 // 3 + 7) // 8 * 8
    function = "silu" if gated else function_named(fields)
    shape = block_shape(fields, width=width, gated=gated, function=function, layer_scale=True)
    masked = hidden if fields.flag("use_mask_token") else 0
    return _classifier(fields, shape, positions=1, masked=masked, meaned=True)


def _classifier(
    fields: ConfigFields,
    shape: BlockShape,
    *,
    positions: int,
    tokens: int = 1,
    pooled: nn.Layers = (),
    masked: int = 0,
    meaned: bool = False,
    classifiers: int = 1,
) -> nn.Stack:
    """Return an image encoder with its pooler, or with classifiers of token (and mean)."""
    pixels, hidden, outputs = _pixels(fields), shape.hidden_size, 1
    head: nn.Layers = (FIRST, *pooled)
    if any("ForImageClassification" in name for name in fields.names("architectures")):
        outputs = classes(fields)
        both = (nn.Concatenate(name="mean"),) if meaned else ()
        head = (FIRST, *both, nn.Linear(out=outputs * classifiers))
    if meaned and outputs > 1:
        head = (nn.branch("mean", MEAN), *head)
    shape = shape.changed(input_bias=fields.flag("qkv_bias"))
    vision = (
        pixels.patches,
        *((nn.Learned(elements=masked),) if masked else ()),
        nn.ExtraTokens(tokens=tokens),
        nn.Learned(elements=(pixels.number + positions) * hidden),
        *(*transformer_blocks(shape), LAYER_NORM),
    )
    return _encoder(pixels, shape, vision, head, outputs)


def siglip_vision(fields: ConfigFields) -> nn.Stack:
    """SigLIP's image encoder: patches without a class token, pooled by one query."""
    pixels, shape = _pixels(fields), block_shape(fields)
    return _encoder(pixels, shape, _siglip_seeing(pixels, shape), _siglip_pooled(shape))


def _siglip_seeing(pixels: _Pixels, shape: BlockShape) -> nn.Layers:
    positions = nn.Learned(elements=pixels.number * shape.hidden_size)
    return (pixels.patches, positions, *transformer_blocks(shape), LAYER_NORM)


def _siglip_pooled(shape: BlockShape) -> nn.Layers:
    return (
        *(nn.Save(name="patches"), FIRST, nn.Learned(elements=shape.hidden_size)),
        nn.Attention(heads=shape.heads, memory="patches"),
        nn.residual(LAYER_NORM, *feed_forward(shape)),
    )


def _towers(fields: ConfigFields, kind: str) -> tuple[ConfigFields, ConfigFields]:
    text, vision = (
        ConfigFields(
            fields.mapping(f"{tower}_config") or {},
            class_defaults(f"{kind}_{tower}_model", sizes=True),
        )
        for tower in ("text", "vision")
    )
    return text, vision


def _pair(
    text: ConfigFields,
    pixels: _Pixels,
    vision: nn.Section,
    *,
    seeing: BlockShape,
    reading: BlockShape,
    project: nn.Linear,
) -> nn.Stack:
    """Return a vision tower, and a text tower whose first token ``project`` projects."""
    hidden, vocab = reading.hidden_size, text.count("vocab_size")
    tokens = text.count("max_position_embeddings", maximum=10_000_000)
    words = nn.section(
        "text",
        nn.Embedding(entries=vocab, width=hidden),
        nn.Learned(elements=tokens * hidden),
        *(*transformer_blocks(reading), LAYER_NORM, FIRST, project),
    )
    return nn.Stack(
        unit=nn.Unit.SAMPLE,
        input=pixels.image,
        others={"words": nn.StackInput(length=tokens, follows="sequence_length")},
        layers=(vision, nn.Take(name="words"), words),
        blocks=seeing.layers + reading.layers,
        hidden_size=hidden,
        other_towers=("vision",),
    )


def siglip(fields: ConfigFields) -> nn.Stack:
    """SigLIP: CLIP's pair with a sigmoid loss; the image is pooled by one query."""
    text, image = _towers(fields, "siglip")
    pixels, seeing, reading = _pixels(image), block_shape(image), block_shape(text)
    # Learned temperature and bias of the loss.
    loss = nn.Learned(elements=2)
    layers = (*_siglip_seeing(pixels, seeing), loss, *_siglip_pooled(seeing))
    project = nn.Linear(out=text.count("projection_size", reading.hidden_size))
    vision = nn.section("vision", *layers)
    return _pair(text, pixels, vision, seeing=seeing, reading=reading, project=project)


def clip(fields: ConfigFields) -> nn.Stack:
    """CLIP: a vision tower and a causal text tower, each projected to a common space."""
    project = nn.Linear(out=fields.count("projection_dim"), bias=False)
    text, image = _towers(fields, "clip")
    pixels, seeing, reading = _pixels(image), block_shape(image), block_shape(text, causal=True)
    vision = nn.section(
        "vision",
        pixels.patches.changed(bias=False),
        nn.ExtraTokens(),
        nn.Learned(elements=(pixels.number + 1) * seeing.hidden_size),
        # Learned temperature of the contrastive loss.
        nn.Learned(elements=1),
        *(LAYER_NORM, *transformer_blocks(seeing), FIRST, LAYER_NORM, project),
    )
    return _pair(text, pixels, vision, seeing=seeing, reading=reading, project=project)


def swin(fields: ConfigFields) -> nn.Stack:
    """Swin: attention in shifted windows; each stage has fewer and wider positions."""
    width = fields.count("embed_dim")
    depths, heads = stage_counts(fields, "depths"), stage_counts(fields, "num_heads")
    window = fields.count("window_size", maximum=1024)
    patch = fields.count("patch_size", maximum=1024)
    ratio = fields.number("mlp_ratio", minimum=0.01, maximum=64)
    bias, gelu = fields.flag("qkv_bias"), nn.Activation(function="gelu")
    if len(heads) != len(depths):
        fields.fail("lists of stages differ in length", "num_heads", list(heads), f"{len(depths)}")
    patches = nn.Convolution(out=width, kernel=patch, stride=patch, padding=0)
    body = [nn.section("stem", patches, LAYER_NORM)]
    for index, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        attention = nn.Attention(heads=count, window=window, materialised=True, bias=bias)
        inner = max(int(ratio * width), 1)
        blocks = nn.repeat(
            depth,
            # A learned bias for every distance in a window and every head.
            nn.Learned(elements=(2 * window - 1) ** 2 * count),
            nn.residual(LAYER_NORM, nn.repeat(2, COPY), attention, nn.repeat(5, COPY)),
            nn.residual(LAYER_NORM, *nn.feed_forward(width, inner, gelu)),
        )
        merged: nn.Layers = ()
        if index < len(depths) - 1:
            width *= 2
            merged = (nn.Merge(), LAYER_NORM, nn.Linear(out=width, bias=False))
        body.append(nn.section(f"stage_{index + 1}", blocks, *merged))
    return image_stack(fields, tuple(body), LAYER_NORM, MEAN)
