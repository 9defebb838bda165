"""Published dense models, to scale a shape for a parameter count."""

from __future__ import annotations

from math import log
from typing import Final

from advisor.errors import InputError
from advisor.foundation.noun import Noun
from advisor.nouns.case import AssumedShape


class PublishedModel(Noun):
    """A dense model whose shape is published."""

    name: str
    parameters: float
    hidden_size: int
    layers: int
    heads: int
    key_value_heads: int
    width: int
    vocab_size: int
    positions: int
    gated: bool = True
    """False for GPT-3: plain GELU, LayerNorm, learned positions, tied head."""
    tied: bool = False

    @property
    def shape(self) -> AssumedShape:
        """Its shape in the fields of a case."""
        return AssumedShape(
            like=self.name,
            num_hidden_layers=self.layers,
            hidden_size=self.hidden_size,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
            intermediate_size=self.width,
            vocab_size=self.vocab_size,
        )


def _gpt3(name: str, parameters: float, hidden: int, layers: int, heads: int) -> PublishedModel:
    return PublishedModel(
        name=f"GPT-3 {name}",
        parameters=parameters,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        key_value_heads=heads,
        width=4 * hidden,
        vocab_size=50257,
        positions=2048,
        gated=False,
        tied=True,
    )


def _llama(
    name: str,
    parameters: float,
    hidden: int,
    layers: int,
    heads: int,
    groups: int,
    width: int,
    *,
    vocab: int = 128_256,
    positions: int = 131_072,
    tied: bool = False,
) -> PublishedModel:
    return PublishedModel(
        name=name,
        parameters=parameters,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        key_value_heads=groups,
        width=width,
        vocab_size=vocab,
        positions=positions,
        tied=tied,
    )


PUBLISHED: Final = (
    # Brown et al. 2020, arXiv:2005.14165, table 2.1.
    _gpt3("small", 125e6, 768, 12, 12),
    _gpt3("medium", 350e6, 1024, 24, 16),
    _gpt3("large", 760e6, 1536, 24, 16),
    _gpt3("175B", 175e9, 12288, 96, 96),
    # Touvron et al. 2023, arXiv:2302.13971, table 2, and arXiv:2307.09288, table 1.
    _llama("Llama 2 7B", 6.74e9, 4096, 32, 32, 32, 11008, vocab=32000, positions=4096),
    _llama("Llama 2 13B", 13.0e9, 5120, 40, 40, 40, 13824, vocab=32000, positions=4096),
    _llama("LLaMA 33B", 32.5e9, 6656, 60, 52, 52, 17920, vocab=32000, positions=2048),
    # Llama team 2024, arXiv:2407.21783, table 3; Llama 3.2 model cards.
    _llama("Llama 3.2 1B", 1.24e9, 2048, 16, 32, 8, 8192, tied=True),
    _llama("Llama 3.2 3B", 3.21e9, 3072, 28, 24, 8, 8192, tied=True),
    _llama("Llama 3.1 8B", 8.03e9, 4096, 32, 32, 8, 14336),
    _llama("Llama 3.1 70B", 70.6e9, 8192, 80, 64, 8, 28672),
    _llama("Llama 3.1 405B", 405.9e9, 16384, 126, 128, 8, 53248),
    # Qwen team 2024, arXiv:2412.15115, table 1, and the model cards; biases of queries, keys and
    # values left out.
    _llama("Qwen2.5 7B", 7.62e9, 3584, 28, 28, 4, 18944, vocab=152_064),
    _llama("Qwen2.5 14B", 14.8e9, 5120, 48, 40, 8, 13824, vocab=152_064),
    _llama("Qwen2.5 32B", 32.8e9, 5120, 64, 40, 8, 27648, vocab=152_064),
    _llama("Qwen2.5 72B", 72.7e9, 8192, 80, 64, 8, 29568, vocab=152_064),
)
"""Published dense models; the nearest in size is scaled."""


def nearest_published(parameters: float, count: int = 3) -> tuple[PublishedModel, ...]:
    """Return the published dense models nearest in size, by ratio.

    Parameters
    ----------
    parameters : float
        [elements]

    Returns
    -------
    tuple of PublishedModel
        Models, the nearest first.
    """
    ranked = sorted(PUBLISHED, key=lambda model: abs(log(parameters / model.parameters)))
    return tuple(ranked[:count])


def published_named(name: str) -> PublishedModel:
    """Return the published model of a name; case, blanks and dashes do not matter.

    Raises
    ------
    InputError
        If no model has this name.

    Examples
    --------
    >>> published_named("llama-3.1-8b").hidden_size
    4096
    """

    def bare(text: str) -> str:
        return text.lower().replace(" ", "").replace("-", "")

    for model in PUBLISHED:
        if bare(model.name) == bare(name):
            return model
    raise InputError(
        "model.shape.like is not a model of the table",
        value=name,
        allowed=", ".join(model.name for model in PUBLISHED),
        remedy="Choose one of these, or leave it out to use the nearest in size.",
        field="model.shape.like",
    )
