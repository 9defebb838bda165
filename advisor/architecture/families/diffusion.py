"""Diffusion networks: U-Nets of Stable Diffusion, DiT, Stable Diffusion 3 and Flux.

Fields follow the classes of Hugging Face diffusers 0.35 (Apache-2.0), and for DiT its paper's code
(Peebles and Xie 2022, arXiv:2212.09748). One "image" is one pass of the network over the latent of
one image. Text encoder and latent decoder are not included.
"""

import re
from typing import Final, NamedTuple

from advisor.architecture import stack as nn
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import LAYER_NORM, stage_counts
from advisor.architecture.table.model import ModelArchitecture

LEFT_OUT: Final = "left out, because they run separately: "
COUNT: Final = re.compile(r"\d{1,3}(?:,\d{3})+")
"""Number of parameters in the name of a part."""
GROUP_NORM: Final = nn.Normalization(kind="group")
PLAIN_NORM: Final = nn.Normalization(kind="layer", affine=False)
SILU: Final = nn.Activation(function="silu")
GELU: Final = nn.Activation(function="gelu")
LATENT_DIVISOR: Final = 8
"""Pixels per latent element along a side, in all of these networks."""
SINUSOIDS: Final = 256
"""Width of the sinusoidal time step in transformers."""


def _vector(source: str, width: int) -> nn.Layers:
    """Return the network that turns an input into a vector and adds it to the condition."""
    return (nn.Take(name=source), nn.Linear(out=width), SILU, nn.Linear(out=width))


def _beside(fields: ConfigFields) -> tuple[str, ...]:
    """Return a note on the parts of the pipeline besides the network."""
    parts = fields.names("beside")
    return (f"{LEFT_OUT}{'; '.join(parts)}",) if parts else ()


def beside_parameters(model: ModelArchitecture) -> int | None:
    """Return the parameters of the other parts of the pipeline; None if they are not known."""
    found = (note for note in model.assumptions if note.startswith(LEFT_OUT))
    counts = [int(n.replace(",", "")) for note in found for n in COUNT.findall(note)]
    return sum(counts) or None


def beside_bytes(model: ModelArchitecture) -> float:
    """Return what those parts take in 16 bits; 0 if they are not known. [bytes]"""
    return 2.0 * (beside_parameters(model) or 0)


class _Stage(NamedTuple):
    """One stage of a latent U-Net."""

    number: int
    width: int
    attends: bool
    """Whether each residual block is followed by attention to the text."""
    heads: int
    depth: int
    """Transformer blocks in each attention."""

    def block(self, read: int, *, attends: bool | None = None) -> nn.Layers:
        """Return a residual block that reads ``read`` channels, and the attention after it."""
        body = (
            *(GROUP_NORM, SILU, nn.Convolution(out=self.width), nn.Condition(source="time")),
            *(GROUP_NORM, SILU, nn.Convolution(out=self.width)),
        )
        shortcut = (nn.Convolution(out=self.width, kernel=1),) if read != self.width else ()
        block = nn.residual(*body, shortcut=shortcut)
        if self.attends if attends is None else attends:
            return (block, _spatial_transformer(self.width, self.heads, self.depth))
        return (block,)


def latent_unet(fields: ConfigFields) -> nn.Stack:
    """Stable Diffusion U-Net: residual blocks and transformers on latents, conditioned on text."""
    found = _unet_stages(fields)
    depth, first = fields.count("layers_per_block", maximum=64), found[0].width
    out = nn.Convolution(out=fields.count("out_channels", maximum=4096))
    time = fields.count("time_embedding_dim", 4 * first)
    stem = (nn.Take(name="latent"), nn.Convolution(out=first), nn.Save(name="skip_0"))
    text = fields.count("cross_attention_dim")
    others = {
        "timestep": nn.StackInput(width=first),
        "text": nn.StackInput(width=text, length=fields.count("text_length")),
    }
    condition: nn.Layers = (nn.Save(name="latent"),)
    added = fields.optional_count("projection_class_embeddings_input_dim")
    if added is not None:
        others["added"] = nn.StackInput(width=added)
        condition += (*_vector("added", time), nn.Save(name="added_vector"))
    condition += (*_vector("timestep", time), nn.Save(name="time"))
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=_latent(fields),
        others=others,
        layers=(
            nn.section("condition", *condition),
            nn.section("stem", *stem),
            *_down_and_up(found, depth),
            nn.section("head", GROUP_NORM, SILU, out, part=nn.Part.HEAD),
        ),
        blocks=2 * len(found) * depth + len(found) + 2,
        hidden_size=max(stage.width for stage in found),
        guided=True,
        notes=_beside(fields),
    )


def _unet_stages(fields: ConfigFields) -> list[_Stage]:
    widths = stage_counts(fields, "block_out_channels")
    count = len(widths)
    plain = (*("CrossAttnDownBlock2D",) * (count - 1), "DownBlock2D")
    kinds = fields.names("down_block_types") or plain
    if len(kinds) != count:
        fields.fail("lists of stages differ in length", "down_block_types", list(kinds), str(count))
    heads = _per_stage(fields, "attention_head_dim", count)
    depths = _per_stage(fields, "transformer_layers_per_block", count)
    attends = [kind.startswith("CrossAttn") for kind in kinds]
    return [
        _Stage(index + 1, *stage)
        for index, stage in enumerate(zip(widths, attends, heads, depths, strict=True))
    ]


def _down_and_up(found: list[_Stage], depth: int) -> list[nn.Layer]:
    """Return the stages down, the middle, and the stages up, each with what the way down saved."""
    layers: list[nn.Layer] = []
    skips, width = [found[0].width], found[0].width
    for stage in found:
        inside: list[nn.Layer] = []
        for _ in range(depth):
            inside += [*stage.block(width), nn.Save(name=f"skip_{len(skips)}")]
            width = stage.width
            skips.append(width)
        if stage is not found[-1]:
            inside += [nn.Convolution(stride=2), nn.Save(name=f"skip_{len(skips)}")]
            skips.append(width)
        layers.append(nn.section(f"down_{stage.number}", *inside))
    last = found[-1]
    middle = (*last.block(width, attends=True), *last.block(width, attends=False))
    layers.append(nn.section("middle", *middle))
    for stage in reversed(found):
        inside = []
        for _ in range(depth + 1):
            joined = skips.pop()
            inside.append(nn.Concatenate(name=f"skip_{len(skips)}"))
            inside += stage.block(width + joined)
            width = stage.width
        if stage is not found[0]:
            inside += [nn.Upsample(), nn.Convolution()]
        layers.append(nn.section(f"up_{stage.number}", *inside))
    return layers


def _latent(fields: ConfigFields) -> nn.StackInput:
    return nn.StackInput(
        width=fields.count("in_channels", maximum=4096),
        image=fields.count("sample_size", maximum=8192) * LATENT_DIVISOR,
        divisor=LATENT_DIVISOR,
    )


def _per_stage(fields: ConfigFields, name: str, count: int) -> tuple[int, ...]:
    length = fields.length(name)
    if length is None:
        return (fields.count(name),) * count
    values = stage_counts(fields, name)
    if length != count:
        fields.refuse(name, "does not match the stages", length, str(count))
    return values


def _spatial_transformer(width: int, heads: int, depth: int) -> nn.Residual:
    """Return attention between the pixels of a feature map, and to the text."""
    gated = nn.GatedProduct(function="gelu")
    block = (
        nn.residual(LAYER_NORM, nn.Attention(heads=heads, bias=False)),
        nn.residual(LAYER_NORM, nn.Attention(heads=heads, bias=False, memory="text")),
        nn.residual(LAYER_NORM, *nn.feed_forward(width, 8 * width, gated)),
    )
    # A 1 x 1 convolution and a matrix are the same product.
    matrix = nn.Linear(out=width)
    return nn.residual(GROUP_NORM, matrix, nn.repeat(depth, *block), matrix)


def _modulated_head(outputs: int) -> nn.Section:
    condition = nn.Condition(source="time", chunks=2)
    return nn.section("head", PLAIN_NORM, condition, nn.Linear(out=outputs), part=nn.Part.HEAD)


def _modulated_block(hidden: int, attention: nn.Attention) -> nn.Layers:
    """Return a transformer block whose norms the time step shifts and scales."""
    return (
        nn.residual(PLAIN_NORM, nn.Condition(source="time", chunks=6), attention),
        nn.residual(PLAIN_NORM, *nn.feed_forward(hidden, 4 * hidden, GELU)),
    )


def dit(fields: ConfigFields) -> nn.Stack:
    """DiT: a transformer over patches of a latent; time step and class condition each block."""
    hidden, layers = fields.count("hidden_size"), fields.count("num_hidden_layers")
    heads, patch = fields.count("num_attention_heads"), fields.count("patch_size", maximum=64)
    latent = _latent(fields)
    patches = ((latent.image or 0) // LATENT_DIVISOR // patch) ** 2
    block = _modulated_block(hidden, nn.Attention(heads=heads))
    # One more label means "no class". The look-up reads one vector.
    labels = nn.Embedding(entries=fields.count("num_labels") + 1, width=hidden)
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=latent,
        others={"timestep": nn.StackInput(width=SINUSOIDS), "label": nn.StackInput()},
        layers=(
            nn.section(
                "condition",
                *(nn.Save(name="latent"), nn.Take(name="label"), labels),
                *(nn.Save(name="label_vector"), *_vector("timestep", hidden)),
                *(nn.Save(name="time"), nn.Take(name="latent")),
            ),
            nn.section(
                "stem",
                nn.Convolution(out=hidden, kernel=patch, stride=patch, padding=0),
                nn.Learned(elements=patches * hidden),
            ),
            nn.section("block", nn.repeat(layers, *block)),
            _modulated_head(patch * patch * latent.width * 2),
        ),
        blocks=layers,
        hidden_size=hidden,
        guided=True,
        notes=_beside(fields),
    )


def flux(fields: ConfigFields) -> nn.Stack:
    """Flux: image and text in two streams that attend to each other, then in one."""
    heads = fields.count("num_attention_heads")
    hidden = heads * fields.count("attention_head_dim")
    double, single = fields.count("num_layers"), fields.count("num_single_layers")
    channels = fields.count("in_channels", maximum=65_536)
    guided = ("guidance",) if fields.flag("guidance_embeds") else ()
    vectors = [_vector(name, hidden) for name in (*guided, "pooled", "timestep")]
    text, length = fields.count("joint_attention_dim"), fields.count("text_length")
    # A token covers 2 x 2 elements of the latent.
    image = nn.StackInput(
        width=channels, image=fields.count("image_size"), divisor=2 * LATENT_DIVISOR
    )
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=image,
        others={
            "text": nn.StackInput(width=text, length=length),
            "timestep": nn.StackInput(width=SINUSOIDS),
            "guidance": nn.StackInput(width=SINUSOIDS),
            "pooled": nn.StackInput(width=fields.count("pooled_projection_dim")),
        },
        layers=(
            nn.section(
                "condition",
                *(nn.Save(name="latent"), *(layer for vector in vectors for layer in vector)),
                *(nn.Save(name="time"), nn.Take(name="text"), nn.Linear(out=hidden)),
                *(nn.Save(name="words"), nn.Take(name="latent"), nn.Linear(out=hidden)),
            ),
            nn.section("double", nn.repeat(double, *_two_streams(hidden, heads))),
            nn.section(
                "single",
                nn.Concatenate(name="words", along="positions"),
                nn.repeat(single, _one_stream(hidden, heads)),
            ),
            _modulated_head(channels),
        ),
        blocks=double + single,
        hidden_size=hidden,
        # Without a guidance that it reads, it is distilled to 1 to 4 steps (FLUX.1 schnell's page).
        usual_steps=None if guided else 4,
        notes=_beside(fields),
    )


def stable_diffusion_3(fields: ConfigFields) -> nn.Stack:
    """Stable Diffusion 3: image and text in two streams that attend to each other."""
    heads, depth = fields.count("num_attention_heads"), fields.count("num_layers")
    hidden = heads * fields.count("attention_head_dim")
    latent, patch = _latent(fields), fields.count("patch_size", maximum=64)
    places = fields.count("pos_embed_max_size") ** 2
    text, length = fields.count("joint_attention_dim"), fields.count("text_length")
    twice = min(fields.length("dual_attention_layers") or 0, depth - 1)
    stream = _two_streams(hidden, heads)
    # The image attends to itself beside the attention to both.
    own = nn.Attention(heads=heads, head_norm=True)
    alone = nn.residual(PLAIN_NORM, nn.Condition(source="time", chunks=3), own)
    vectors = (*_vector("pooled", hidden), *_vector("timestep", hidden))
    return nn.Stack(
        unit=nn.Unit.IMAGE,
        input=latent,
        others={
            "text": nn.StackInput(width=text, length=length),
            "timestep": nn.StackInput(width=SINUSOIDS),
            "pooled": nn.StackInput(width=fields.count("pooled_projection_dim")),
        },
        layers=(
            nn.section(
                "condition",
                *(nn.Save(name="latent"), *vectors, nn.Save(name="time")),
                *(nn.Take(name="text"), nn.Linear(out=hidden), nn.Save(name="words")),
                nn.Take(name="latent"),
            ),
            nn.section(
                "stem",
                nn.Convolution(out=hidden, kernel=patch, stride=patch, padding=0),
                nn.Learned(elements=places * hidden),
            ),
            *((nn.section("twice", nn.repeat(twice, alone, *stream)),) if twice else ()),
            nn.section("double", nn.repeat(depth - 1 - twice, *stream)),
            nn.section("last", *_read_only(hidden, heads)),
            _modulated_head(patch * patch * fields.count("out_channels", maximum=65_536)),
        ),
        blocks=depth,
        hidden_size=hidden,
        guided=True,
        notes=_beside(fields),
    )


def _two_streams(hidden: int, heads: int) -> nn.Layers:
    """Return a block of the image and one of the text, each of which attends to both."""

    def stream(other: str) -> nn.Layers:
        return _modulated_block(hidden, nn.Attention(heads=heads, joint=other, head_norm=True))

    return (
        *(*stream("words"), nn.Save(name="pixels"), nn.Take(name="words")),
        *(*stream("pixels"), nn.Save(name="words"), nn.Take(name="pixels")),
    )


def _read_only(hidden: int, heads: int) -> nn.Layers:
    """Return the last block, after which nothing reads the text."""
    words = nn.Attention(heads=heads, joint="pixels", head_norm=True, output=False)
    image = nn.Attention(heads=heads, joint="words", head_norm=True)
    return (
        *(nn.Save(name="pixels"), nn.Take(name="words"), PLAIN_NORM),
        *(nn.Condition(source="time", chunks=2), words, nn.Take(name="pixels")),
        *_modulated_block(hidden, image),
    )


def _one_stream(hidden: int, heads: int) -> nn.Residual:
    """Return a block whose attention and feed-forward layers run side by side."""
    attention = nn.Attention(heads=heads, head_norm=True, output=False)
    return nn.residual(
        *(PLAIN_NORM, nn.Condition(source="time", chunks=3), nn.Save(name="both")),
        *(attention, nn.Save(name="attended"), nn.Take(name="both")),
        *(nn.Linear(out=4 * hidden), GELU, nn.Concatenate(name="attended")),
        nn.Linear(out=hidden),
    )
