"""Recurrent language models and multilayer perceptrons."""

from __future__ import annotations

from typing import Literal

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.convolutional import stage_counts
from advisor.architecture.families.encoder_blocks import FUNCTIONS
from advisor.architecture.stack.compile import Stack, StackInput
from advisor.architecture.stack.layers import (
    Activation,
    Embedding,
    Layer,
    Linear,
    Recurrent,
    Repeat,
    Section,
)
from advisor.architecture.table.operators import Part
from advisor.architecture.table.sample import Unit


def recurrent(fields: ConfigFields, *, cell: Literal["lstm", "gru"]) -> Stack:
    """LSTM or GRU: an embedding, recurrent layers with two biases as PyTorch has them, a head."""
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    width = fields.count("embedding_size", hidden)
    layers = fields.count("num_hidden_layers")
    return Stack(
        unit=Unit.TOKEN,
        input=StackInput(),
        layers=(
            Section(
                name="embedding",
                part=Part.EMBEDDING,
                layers=(Embedding(entries=vocab, width=width),),
            ),
            Section(
                name="block",
                layers=(Repeat(times=layers, layers=(Recurrent(cell=cell, hidden=hidden),)),),
            ),
            Section(name="head", part=Part.HEAD, layers=(Linear(out=vocab),)),
        ),
        blocks=layers,
        hidden_size=hidden,
        outputs=vocab,
    )


def mlp(fields: ConfigFields) -> Stack:
    """Multilayer perceptron: matrices with an activation between them, on vectors of features."""
    widths = stage_counts(fields, "hidden_sizes")
    name = fields.text("hidden_act")
    if name not in FUNCTIONS:
        fields.refuse("hidden_act", "is not known", name, ", ".join(FUNCTIONS))
    body: list[Layer] = []
    for width in widths:
        body += [Linear(out=width), Activation(function=FUNCTIONS[name])]
    outputs = fields.count("num_labels", maximum=10_000_000)
    return Stack(
        unit=Unit.SAMPLE,
        input=StackInput(width=fields.count("num_features", maximum=10_000_000)),
        layers=(
            Section(name="block", layers=tuple(body)),
            Section(name="head", part=Part.HEAD, layers=(Linear(out=outputs),)),
        ),
        blocks=len(widths),
        outputs=outputs,
    )
