"""Diffusion networks: U-Nets of Stable Diffusion, DiT, and Flux-class transformers.

Fields and defaults follow the classes of Hugging Face diffusers 0.35 (Apache-2.0), and for DiT its
paper's code (Peebles and Xie 2022, arXiv:2212.09748). One "image" is one pass of the network over
the latent of one image. Text encoder and latent decoder are not included.
"""

from __future__ import annotations

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import stage_counts
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Attention,
    Concatenate,
    Condition,
    Convolution,
    Embedding,
    GatedProduct,
    Layer,
    Learned,
    Linear,
    Normalization,
    Repeat,
    Residual,
    Save,
    Section,
    Take,
    Upsample,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit

GROUP_NORM = Normalization(kind="group")
LAYER_NORM = Normalization(kind="layer")
PLAIN_NORM = Normalization(kind="layer", affine=False)
SILU = Activation(function="silu")
LATENT_DIVISOR = 8
"""Pixels per latent element along a side, in all of these networks."""
SINUSOIDS = 256
"""Width of the sinusoidal time step in transformers."""


def _vector(source: str, width: int) -> tuple[Layer, ...]:
    """Return the network that turns an input into a vector and adds it to the condition."""
    return (Take(name=source), Linear(out=width), SILU, Linear(out=width))


def _beside(fields: ConfigFields) -> tuple[str, ...]:
    """Return a note on the parts of the pipeline besides the network."""
    parts = fields.names("beside")
    return (f"left out, because they run separately: {'; '.join(parts)}",) if parts else ()


def latent_unet(fields: ConfigFields) -> Stack:
    """Stable Diffusion U-Net: residual blocks and transformers on latents, conditioned on text."""
    widths = stage_counts(fields, "block_out_channels")
    count = len(widths)
    depth = fields.count("layers_per_block")
    kinds = fields.names("down_block_types") or (
        *("CrossAttnDownBlock2D",) * (count - 1),
        "DownBlock2D",
    )
    if len(kinds) != count:
        fields.fail("lists of stages differ in length", "down_block_types", list(kinds), str(count))
    reads = tuple(kind.startswith("CrossAttn") for kind in kinds)
    heads = _per_stage(fields, "attention_head_dim", count)
    blocks = _per_stage(fields, "transformer_layers_per_block", count)
    time = fields.count("time_embedding_dim", 4 * widths[0])
    text = fields.count("cross_attention_dim")

    def convolved(stage: int, read: int, *, attends: bool) -> tuple[Layer, ...]:
        out = widths[stage]
        body = (
            *(GROUP_NORM, SILU, Convolution(out=out), Condition(source="time")),
            *(GROUP_NORM, SILU, Convolution(out=out)),
        )
        shortcut = (Convolution(out=out, kernel=1),) if read != out else ()
        block = Residual(body=body, shortcut=shortcut)
        told = (_spatial_transformer(out, heads[stage], blocks[stage]),) if attends else ()
        return (block, *told)

    layers: list[Layer] = [
        Section(name="condition", layers=(Save(name="latent"), *_condition(fields, time))),
        Section(
            name="stem",
            layers=(Take(name="latent"), Convolution(out=widths[0]), Save(name="skip_0")),
        ),
    ]
    skips, width = [widths[0]], widths[0]
    for stage, out in enumerate(widths):
        inside: list[Layer] = []
        for _ in range(depth):
            inside += [*convolved(stage, width, attends=reads[stage])]
            inside.append(Save(name=f"skip_{len(skips)}"))
            skips.append(out)
            width = out
        if stage < count - 1:
            inside += [Convolution(stride=2), Save(name=f"skip_{len(skips)}")]
            skips.append(out)
        layers.append(Section(name=f"down_{stage + 1}", layers=tuple(inside)))
    last = count - 1
    middle = (*convolved(last, width, attends=True), *convolved(last, width, attends=False))
    layers.append(Section(name="middle", layers=middle))
    for stage in reversed(range(count)):
        inside = []
        for _ in range(depth + 1):
            joined = skips.pop()
            inside.append(Concatenate(name=f"skip_{len(skips)}"))
            inside += [*convolved(stage, width + joined, attends=reads[stage])]
            width = widths[stage]
        if stage:
            inside += [Upsample(), Convolution()]
        layers.append(Section(name=f"up_{stage + 1}", layers=tuple(inside)))
    head = (GROUP_NORM, SILU, Convolution(out=fields.count("out_channels")))
    layers.append(Section(name="head", part=Part.HEAD, layers=head))
    others = {
        "timestep": StackInput(width=widths[0]),
        "text": StackInput(width=text, length=fields.count("text_length")),
    }
    added = fields.optional_count("projection_class_embeddings_input_dim")
    if added is not None:
        others["added"] = StackInput(width=added)
    return Stack(
        unit=Unit.IMAGE,
        input=_latent(fields),
        others=others,
        layers=tuple(layers),
        blocks=2 * count * depth + count + 2,
        hidden_size=max(widths),
        guided=True,
        notes=_beside(fields),
    )


def _latent(fields: ConfigFields) -> StackInput:
    return StackInput(
        width=fields.count("in_channels", maximum=4096),
        image=fields.count("sample_size", maximum=8192) * LATENT_DIVISOR,
        divisor=LATENT_DIVISOR,
    )


def _per_stage(fields: ConfigFields, name: str, count: int) -> tuple[int, ...]:
    """Return one number for each stage, from a list or a single number."""
    length = fields.length(name)
    if length is None:
        return (fields.count(name),) * count
    values = stage_counts(fields, name)
    if length != count:
        fields.refuse(name, "does not match the stages", length, str(count))
    return values


def _condition(fields: ConfigFields, width: int) -> tuple[Layer, ...]:
    """Return the vector of the time step and of the image's other conditions."""
    added = fields.has("projection_class_embeddings_input_dim")
    more = (*_vector("added", width), Save(name="added_vector")) if added else ()
    return (*more, *_vector("timestep", width), Save(name="time"))


def _spatial_transformer(width: int, heads: int, depth: int) -> Residual:
    """Return attention between the pixels of a feature map, and to the text."""
    block = (
        Residual(body=(LAYER_NORM, Attention(heads=heads, bias=False))),
        Residual(body=(LAYER_NORM, Attention(heads=heads, bias=False, memory="text"))),
        Residual(
            body=(
                LAYER_NORM,
                Linear(out=8 * width, target="up"),
                GatedProduct(function="gelu"),
                Linear(out=width, target="down"),
            )
        ),
    )
    # A 1 x 1 convolution and a matrix are the same product.
    return Residual(
        body=(
            GROUP_NORM,
            *(Linear(out=width), Repeat(times=depth, layers=block), Linear(out=width)),
        )
    )


def dit(fields: ConfigFields) -> Stack:
    """DiT: a transformer over patches of a latent; time step and class condition each block."""
    hidden = fields.count("hidden_size")
    layers = fields.count("num_hidden_layers")
    heads = fields.count("num_attention_heads")
    patch = fields.count("patch_size", maximum=64)
    latent = _latent(fields)
    patches = ((latent.image or 0) // LATENT_DIVISOR // patch) ** 2
    block = (
        Residual(body=(PLAIN_NORM, Condition(source="time", chunks=6), Attention(heads=heads))),
        Residual(
            body=(
                PLAIN_NORM,
                Linear(out=4 * hidden, target="up"),
                Activation(function="gelu"),
                Linear(out=hidden, target="down"),
            )
        ),
    )
    labels = fields.count("num_labels")
    # One more label means "no class". The look-up reads one vector.
    look_up = (Take(name="label"), Embedding(entries=labels + 1, width=hidden))
    outputs = patch * patch * latent.width * 2
    return Stack(
        unit=Unit.IMAGE,
        input=latent,
        others={"timestep": StackInput(width=SINUSOIDS), "label": StackInput()},
        layers=(
            Section(
                name="condition",
                layers=(
                    *(Save(name="latent"), *look_up, Save(name="label_vector")),
                    *(*_vector("timestep", hidden), Save(name="time"), Take(name="latent")),
                ),
            ),
            Section(
                name="stem",
                layers=(
                    Convolution(out=hidden, kernel=patch, stride=patch, padding=0),
                    Learned(elements=patches * hidden),
                ),
            ),
            Section(name="block", layers=(Repeat(times=layers, layers=block),)),
            Section(
                name="head",
                part=Part.HEAD,
                layers=(PLAIN_NORM, Condition(source="time", chunks=2), Linear(out=outputs)),
            ),
        ),
        blocks=layers,
        hidden_size=hidden,
        guided=True,
        notes=_beside(fields),
    )


def flux(fields: ConfigFields) -> Stack:
    """Flux: image and text in two streams that attend to each other, then in one."""
    heads = fields.count("num_attention_heads")
    hidden = heads * fields.count("attention_head_dim")
    double, single = fields.count("num_layers"), fields.count("num_single_layers")
    channels = fields.count("in_channels", maximum=65_536)
    text = fields.count("joint_attention_dim")
    pooled = fields.count("pooled_projection_dim")
    gelu = Activation(function="gelu")
    vectors = ["timestep", "pooled"]
    if fields.flag("guidance_embeds"):
        vectors.append("guidance")

    def stream(other: str) -> tuple[Layer, ...]:
        mixed = Attention(heads=heads, joint=other, head_norm=True)
        return (
            Residual(body=(PLAIN_NORM, Condition(source="time", chunks=6), mixed)),
            Residual(
                body=(
                    PLAIN_NORM,
                    *(Linear(out=4 * hidden, target="up"), gelu),
                    Linear(out=hidden, target="down"),
                )
            ),
        )

    pair = (
        *(*stream("words"), Save(name="pixels")),
        *(Take(name="words"), *stream("pixels"), Save(name="words"), Take(name="pixels")),
    )
    one = Residual(
        body=(
            *(PLAIN_NORM, Condition(source="time", chunks=3), Save(name="both")),
            *(Attention(heads=heads, head_norm=True, output=False), Save(name="attended")),
            *(Take(name="both"), Linear(out=4 * hidden), gelu, Concatenate(name="attended")),
            Linear(out=hidden),
        )
    )
    condition = [_vector(name, hidden) for name in reversed(vectors)]
    return Stack(
        unit=Unit.IMAGE,
        # A token covers 2 x 2 elements of the latent.
        input=StackInput(
            width=channels,
            image=fields.count("image_size"),
            divisor=2 * LATENT_DIVISOR,
        ),
        others={
            "text": StackInput(width=text, length=fields.count("text_length")),
            "timestep": StackInput(width=SINUSOIDS),
            "guidance": StackInput(width=SINUSOIDS),
            "pooled": StackInput(width=pooled),
        },
        layers=(
            Section(
                name="condition",
                layers=(
                    *(Save(name="latent"), *(layer for vector in condition for layer in vector)),
                    *(Save(name="time"), Take(name="text"), Linear(out=hidden)),
                    *(Save(name="words"), Take(name="latent"), Linear(out=hidden)),
                ),
            ),
            Section(name="double", layers=(Repeat(times=double, layers=pair),)),
            Section(
                name="single",
                layers=(
                    Concatenate(name="words", along="positions"),
                    Repeat(times=single, layers=(one,)),
                ),
            ),
            Section(
                name="head",
                part=Part.HEAD,
                layers=(PLAIN_NORM, Condition(source="time", chunks=2), Linear(out=channels)),
            ),
        ),
        blocks=double + single,
        hidden_size=hidden,
        notes=_beside(fields),
    )
