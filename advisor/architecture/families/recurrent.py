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


def lstm(fields: ConfigFields) -> Stack:
    """LSTM: an embedding, recurrent layers with two biases as PyTorch has them, and a head."""
    return _recurrent(fields, "lstm")


def gru(fields: ConfigFields) -> Stack:
    """GRU: an embedding, recurrent layers with two biases as PyTorch has them, and a head."""
    return _recurrent(fields, "gru")


def _recurrent(fields: ConfigFields, cell: Literal["lstm", "gru"]) -> Stack:
    hidden, vocab = fields.count("hidden_size", 1024), fields.count("vocab_size", 33_278)
    width = fields.count("embedding_size", hidden)
    layers = fields.count("num_hidden_layers", 4)
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
    widths = stage_counts(fields, "hidden_sizes", (1024, 1024))
    name = fields.text("hidden_act", "relu")
    if name not in FUNCTIONS:
        fields.fail(
            "config field hidden_act is not known", "hidden_act", name, ", ".join(FUNCTIONS)
        )
    body: list[Layer] = []
    for width in widths:
        body += [Linear(out=width), Activation(function=FUNCTIONS[name])]
    outputs = fields.count("num_labels", 10, maximum=10_000_000)
    return Stack(
        unit=Unit.SAMPLE,
        input=StackInput(width=fields.count("num_features", 784, maximum=10_000_000)),
        layers=(
            Section(name="block", layers=tuple(body)),
            Section(name="head", part=Part.HEAD, layers=(Linear(out=outputs),)),
        ),
        blocks=len(widths),
        outputs=outputs,
    )
