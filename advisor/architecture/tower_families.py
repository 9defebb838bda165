"""Encoder and encoder-decoder families: BERT, RoBERTa, T5, Whisper, ViT, CLIP.

Defaults are those of the configuration classes of Hugging Face transformers 5.23 (Apache-2.0).
"""

from __future__ import annotations

from advisor.architecture.config_fields import LIMITS, ConfigFields
from advisor.architecture.decoder import LAYER_NORM, activation
from advisor.architecture.shapes import Norm
from advisor.architecture.towers import Projection, Table, Tower, Towers

MAX_IMAGE = 65_536
"""Pixels of one side."""


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


def _table(name: str, rows: int, width: int, *, tied: bool = False) -> Table:
    """Return a table; the use of one that is tied to the head is counted there."""
    return Table(name=name, elements=rows * width, active=0 if tied else rows * width)


def bert(fields: ConfigFields) -> Towers:
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
    classes = fields.names("architectures")
    predicts = any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in classes)
    pools = not any(name.endswith("ForMaskedLM") for name in classes)
    after = []
    if pools:
        after.append(Projection(name="pooler", in_features=hidden, out_features=hidden))
    if predicts:
        after += [
            Projection(name="head_transform", in_features=hidden, out_features=hidden),
            Projection(name="head", in_features=hidden, out_features=vocab, tied=True),
        ]
    if any(name.endswith("ForPreTraining") for name in classes):
        after.append(Projection(name="next_sentence", in_features=hidden, out_features=2))
    tower = Tower(
        name="encoder",
        layers=fields.count("num_hidden_layers", 12),
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size", 3072),
        activation=activation(fields, "gelu"),
        norm=LAYER_NORM,
        outer_norms=2 if predicts else 1,
        tables=(
            _table("tokens", vocab, hidden, tied=predicts),
            _table("positions", fields.count("max_position_embeddings", 512), hidden),
            _table("types", fields.count("type_vocab_size", 2), hidden),
        ),
        after=tuple(after),
    )
    return Towers(towers=(tower,), vocab_size=vocab, tied=predicts)


def t5(fields: ConfigFields) -> Towers:
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

    def tower(name: str, blocks: int, *, decodes: bool) -> Tower:
        head = Projection(
            name="head", in_features=hidden, out_features=vocab, bias=False, tied=tied
        )
        tables = [_table("relative_positions", buckets, heads)]
        if not decodes:
            tables.append(_table("tokens", vocab, hidden, tied=tied))
        return Tower(
            name=name,
            layers=blocks,
            hidden_size=hidden,
            heads=heads,
            head_dim=fields.count("d_kv", 64, maximum=LIMITS["head_dim"]),
            width=fields.count("d_ff", 2048),
            gated=gated,
            # The class writes GELU out where it gates.
            activation="gelu_new" if gated and act == "gelu" else act,
            bias=False,
            causal=decodes,
            cross_attention=decodes,
            norm=Norm(),
            outer_norms=1,
            tables=tuple(tables),
            after=(head,) if decodes else (),
        )

    blocks = fields.count("num_decoder_layers", layers, maximum=LIMITS["num_hidden_layers"])
    towers = (tower("encoder", layers, decodes=False), tower("decoder", blocks, decodes=True))
    return Towers(towers=towers, vocab_size=vocab, tied=tied)


def whisper(fields: ConfigFields) -> Towers:
    """Whisper: convolutions over mel frames, an encoder, and a decoder with a tied head.

    ``WhisperForCausalLM`` is the decoder alone.
    """
    hidden, vocab = fields.count("hidden_size", 384), fields.count("vocab_size", 51_865)
    kernel = 3
    frames = (
        Projection(
            name="convolution",
            in_features=kernel * fields.count("num_mel_bins", 80, maximum=LIMITS["head_dim"]),
            out_features=hidden,
        ),
        Projection(name="convolution_2", in_features=kernel * hidden, out_features=hidden),
    )

    def tower(name: str, *, positions: int, decodes: bool) -> Tower:
        heads = _heads(fields, f"{name}_attention_heads", hidden, 6)
        tables = [_table("positions", positions, hidden)]
        if decodes:
            tables.insert(0, _table("tokens", vocab, hidden, tied=True))
        head = Projection(
            name="head", in_features=hidden, out_features=vocab, bias=False, tied=True
        )
        return Tower(
            name=name,
            layers=fields.count(f"{name}_layers", 4, maximum=LIMITS["num_hidden_layers"]),
            hidden_size=hidden,
            heads=heads,
            head_dim=hidden // heads,
            width=fields.count(f"{name}_ffn_dim", 1536),
            activation=activation(fields, "gelu"),
            key_bias=False,
            causal=decodes,
            cross_attention=decodes,
            norm=LAYER_NORM,
            outer_norms=1,
            tables=tuple(tables),
            before=() if decodes else frames,
            after=(head,) if decodes else (),
        )

    encoder = tower("encoder", positions=fields.count("max_source_positions", 1500), decodes=False)
    decoder = tower("decoder", positions=fields.count("max_target_positions", 448), decodes=True)
    alone = "WhisperForCausalLM" in fields.names("architectures")
    towers = (decoder,) if alone else (encoder, decoder)
    return Towers(towers=towers, vocab_size=vocab, tied=True)


def _patches(fields: ConfigFields, image: int, patch: int) -> tuple[int, int]:
    """Patches of an image, and the elements of one."""
    image = fields.count("image_size", image, maximum=MAX_IMAGE)
    patch = fields.count("patch_size", patch, maximum=image)
    channels = fields.count("num_channels", 3, maximum=LIMITS["head_dim"])
    return (image // patch) ** 2, channels * patch * patch


def vit(fields: ConfigFields) -> Towers:
    """Vision transformer: patches, a class token, learned positions; pooler or classifier."""
    hidden = fields.count("hidden_size", 768)
    heads = _heads(fields, "num_attention_heads", hidden, 12)
    patches, elements = _patches(fields, 224, 16)
    classes = fields.names("architectures")
    if any(name.endswith("ForImageClassification") for name in classes):
        labels = fields.mapping("id2label")
        count = len(labels) if labels else fields.count("num_labels", 2)
        after = Projection(name="classifier", in_features=hidden, out_features=count)
    else:
        width = fields.count("pooler_output_size", hidden)
        after = Projection(name="pooler", in_features=hidden, out_features=width)
    bias = fields.flag("qkv_bias", True)
    if not bias:
        fields.fail("config field qkv_bias is not supported", "qkv_bias", bias, "true")
    tower = Tower(
        name="vision",
        layers=fields.count("num_hidden_layers", 12),
        hidden_size=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=fields.count("intermediate_size", 3072),
        activation=activation(fields, "gelu"),
        norm=LAYER_NORM,
        outer_norms=1,
        # One position more than patches, and the class token itself.
        tables=(_table("positions", patches + 2, hidden),),
        before=(Projection(name="patches", in_features=elements, out_features=hidden),),
        after=(after,),
    )
    return Towers(towers=(tower,), vocab_size=1)


def clip(fields: ConfigFields) -> Towers:
    """CLIP: a vision tower and a causal text tower, each projected to a common space."""
    common = fields.count("projection_dim", 512)
    text = ConfigFields(fields.mapping("text_config") or {})
    vision = ConfigFields(fields.mapping("vision_config") or {})
    vocab = text.count("vocab_size", 49_408)

    def tower(
        name: str, own: ConfigFields, tables: tuple[Table, ...], size: tuple[int, int, int, int]
    ) -> Tower:
        hidden = own.count("hidden_size", size[0])
        heads = _heads(own, "num_attention_heads", hidden, size[2])
        projection = Projection(
            name="projection", in_features=hidden, out_features=common, bias=False
        )
        return Tower(
            name=name,
            layers=own.count("num_hidden_layers", size[1]),
            hidden_size=hidden,
            heads=heads,
            head_dim=hidden // heads,
            width=own.count("intermediate_size", size[3]),
            activation=activation(own, "quick_gelu"),
            causal=name == "text",
            norm=LAYER_NORM,
            outer_norms=2 if name == "vision" else 1,
            tables=tables,
            after=(projection,),
        )

    width = text.count("hidden_size", 512)
    text_tables = (
        _table("tokens", vocab, width),
        _table("positions", text.count("max_position_embeddings", 77), width),
    )
    patches, elements = _patches(vision, 224, 32)
    pixels = vision.count("hidden_size", 768)
    vision_tables = (
        _table("positions", patches + 2, pixels),
        # Learned temperature of the contrastive loss.
        Table(name="temperature", elements=1, active=1),
    )
    vision_tower = tower("vision", vision, vision_tables, (768, 12, 12, 3072)).model_copy(
        update={
            "before": (
                Projection(name="patches", in_features=elements, out_features=pixels, bias=False),
            )
        }
    )
    text_tower = tower("text", text, text_tables, (512, 12, 8, 2048))
    return Towers(towers=(vision_tower, text_tower), vocab_size=vocab)
