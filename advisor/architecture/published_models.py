"""Published dense models, to scale a shape for a parameter count."""

from __future__ import annotations

from collections.abc import Iterator
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


_COLUMNS: Final = ("name", "parameters", "hidden_size", "layers", "heads", "key_value_heads")
_GPT3: Final = {"vocab_size": 50257, "positions": 2048, "gated": False, "tied": True}
_LLAMA1: Final = {"vocab_size": 32000, "positions": 2048}
_LLAMA2: Final = {"vocab_size": 32000, "positions": 4096}
_LLAMA3: Final = {"vocab_size": 128_256, "positions": 131_072}
_QWEN: Final = {"vocab_size": 152_064, "positions": 131_072}


def _models(facts: dict[str, int], *rows: tuple[str | float, ...]) -> Iterator[PublishedModel]:
    """Yield models with common facts. A row has ``_COLUMNS`` and the feed-forward width."""
    for row in rows:
        own = dict(zip((*_COLUMNS, "width"), row, strict=True))
        yield PublishedModel.model_validate({**own, **facts})


PUBLISHED: Final = (
    # Brown et al. 2020, arXiv:2005.14165, table 2.1.
    *_models(
        _GPT3,
        ("GPT-3 small", 125e6, 768, 12, 12, 12, 3072),
        ("GPT-3 medium", 350e6, 1024, 24, 16, 16, 4096),
        ("GPT-3 large", 760e6, 1536, 24, 16, 16, 6144),
        ("GPT-3 175B", 175e9, 12288, 96, 96, 96, 49152),
    ),
    # Touvron et al. 2023, arXiv:2302.13971, table 2, and arXiv:2307.09288, table 1.
    *_models(
        _LLAMA2,
        ("Llama 2 7B", 6.74e9, 4096, 32, 32, 32, 11008),
        ("Llama 2 13B", 13.0e9, 5120, 40, 40, 40, 13824),
    ),
    *_models(_LLAMA1, ("LLaMA 33B", 32.5e9, 6656, 60, 52, 52, 17920)),
    # Llama team 2024, arXiv:2407.21783, table 3; Llama 3.2 model cards.
    *_models(
        {**_LLAMA3, "tied": True},
        ("Llama 3.2 1B", 1.24e9, 2048, 16, 32, 8, 8192),
        ("Llama 3.2 3B", 3.21e9, 3072, 28, 24, 8, 8192),
    ),
    *_models(
        _LLAMA3,
        ("Llama 3.1 8B", 8.03e9, 4096, 32, 32, 8, 14336),
        ("Llama 3.1 70B", 70.6e9, 8192, 80, 64, 8, 28672),
        ("Llama 3.1 405B", 405.9e9, 16384, 126, 128, 8, 53248),
    ),
    # Qwen team 2024, arXiv:2412.15115, table 1, and the model cards; biases of queries, keys and
    # values left out.
    *_models(
        _QWEN,
        ("Qwen2.5 7B", 7.62e9, 3584, 28, 28, 4, 18944),
        ("Qwen2.5 14B", 14.8e9, 5120, 48, 40, 8, 13824),
        ("Qwen2.5 32B", 32.8e9, 5120, 64, 40, 8, 27648),
        ("Qwen2.5 72B", 72.7e9, 8192, 80, 64, 8, 29568),
    ),
)
"""Published dense models; the nearest in size is scaled."""


def nearest_published(parameters: float, count: int = 3) -> tuple[PublishedModel, ...]:
    """Return the ``count`` published dense models nearest in size, by ratio, the nearest first."""
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
