"""Recurrent language models and multilayer perceptrons."""

from typing import Literal

from advisor.architecture import stack as nn
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import stage_counts
from advisor.architecture.families.encoder_blocks import FUNCTIONS


def recurrent(fields: ConfigFields, *, cell: Literal["lstm", "gru"]) -> nn.Stack:
    """LSTM or GRU: an embedding, recurrent layers with two biases as PyTorch has them, a head."""
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    width, layers = fields.count("embedding_size", hidden), fields.count("num_hidden_layers")
    table = nn.Embedding(entries=vocab, width=width)
    return nn.Stack(
        unit=nn.Unit.TOKEN,
        input=nn.StackInput(),
        layers=(
            nn.section("embedding", table, part=nn.Part.EMBEDDING),
            nn.section("block", nn.repeat(layers, nn.Recurrent(cell=cell, hidden=hidden))),
            nn.section("head", nn.Linear(out=vocab), nn.CrossEntropy(), part=nn.Part.HEAD),
        ),
        blocks=layers,
        hidden_size=hidden,
        outputs=vocab,
    )


def mlp(fields: ConfigFields) -> nn.Stack:
    """Multilayer perceptron: matrices with an activation between them, on vectors of features."""
    widths, name = stage_counts(fields, "hidden_sizes"), fields.text("hidden_act")
    if name not in FUNCTIONS:
        fields.refuse("hidden_act", "is not known", name, ", ".join(FUNCTIONS))
    function = nn.Activation(function=FUNCTIONS[name])
    body = (layer for width in widths for layer in (nn.Linear(out=width), function))
    outputs = fields.count("num_labels", maximum=10_000_000)
    return nn.Stack(
        unit=nn.Unit.SAMPLE,
        input=nn.StackInput(width=fields.count("num_features", maximum=10_000_000)),
        layers=(
            nn.section("block", *body),
            nn.section("head", nn.Linear(out=outputs), part=nn.Part.HEAD),
        ),
        blocks=len(widths),
        outputs=outputs,
    )
