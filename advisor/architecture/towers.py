"""Stacks of encoder or decoder blocks side by side: BERT, T5, Whisper, ViT, CLIP.

Rows are per token of their own tower. How many tokens each tower sees is the work's business
(frames, patches, prompt), which the estimates do not know yet: these models are counted, and
not estimated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from advisor.architecture.feed_forward import feed_forward_rows
from advisor.architecture.model import ModelArchitecture
from advisor.architecture.operators import Division, Operator, OperatorKind, Part
from advisor.architecture.rows import FUSED_PASSES, elementwise, linear, normalization
from advisor.architecture.shapes import FeedForwardShape, Norm
from advisor.noun import Noun
from advisor.quantities import Evidence

Count = Annotated[int, Field(ge=1)]

NOT_ESTIMATED = "memory and time of encoders and of encoder-decoder models are not estimated yet"


class Table(Noun):
    """Learned elements of a tower that no block holds: embeddings, scales, biases."""

    name: str
    elements: Count
    active: Annotated[int, Field(ge=0)]
    """Elements that one token uses, as published counts have it."""


class Projection(Noun):
    """A matrix before or after the blocks: patches, convolutions over frames, poolers, heads."""

    name: str
    in_features: Count
    out_features: Count
    bias: bool = True
    tied: bool = False


class Tower(Noun):
    """Blocks that are alike."""

    name: str
    layers: Count
    hidden_size: Count
    heads: Count
    head_dim: Count
    width: Count
    """Of the feed-forward layers."""
    gated: bool = False
    activation: str = "gelu"
    bias: bool = True
    """Of every matrix but the keys'."""
    key_bias: bool = True
    causal: bool = False
    cross_attention: bool = False
    """Blocks also attend to another tower's output."""
    norm: Norm
    outer_norms: Annotated[int, Field(ge=0)] = 0
    """Norms outside the blocks."""
    tables: tuple[Table, ...] = ()
    before: tuple[Projection, ...] = ()
    after: tuple[Projection, ...] = ()


class Towers(Noun):
    """Towers, and what joins them."""

    towers: tuple[Tower, ...]
    vocab_size: Count
    tied: bool = False


def towers_architecture(
    shape: Towers,
    *,
    name: str,
    family: str,
    source: str,
    assumptions: tuple[str, ...],
    max_position_embeddings: int | None,
    weight_format: str,
    hub_id: str | None = None,
) -> ModelArchitecture:
    """Architecture of towers, marked as not estimated.

    Parameters
    ----------
    shape : Towers
    name, family, source, assumptions, max_position_embeddings, weight_format, hub_id
        As in :class:`ModelArchitecture`.

    Returns
    -------
    ModelArchitecture
        Its size and heads are those of the last tower; its layers are those of all.
    """
    last = shape.towers[-1]
    return ModelArchitecture(
        name=name,
        family=family,
        hub_id=hub_id,
        source=source,
        evidence=Evidence.DERIVED,
        assumptions=assumptions,
        hidden_size=last.hidden_size,
        num_hidden_layers=sum(tower.layers for tower in shape.towers),
        num_attention_heads=last.heads,
        num_key_value_heads=last.heads,
        vocab_size=shape.vocab_size,
        max_position_embeddings=max_position_embeddings,
        weight_format=weight_format,
        tied_embeddings=shape.tied,
        not_estimated=NOT_ESTIMATED,
        operators=tuple(row for tower in shape.towers for row in tower_rows(tower)),
    )


def tower_rows(tower: Tower) -> Iterator[Operator]:
    """Yield the rows of one tower, in the order of the forward pass."""
    path, hidden, layers = tower.name, tower.hidden_size, tower.layers
    for table in tower.tables:
        yield elementwise(
            f"{path}.embedding.{table.name}",
            kind=OperatorKind.EMBEDDING,
            part=Part.EMBEDDING,
            layers=1,
            fused=FUSED_PASSES * hidden,
            unfused=FUSED_PASSES * hidden,
            launches=1,
        ).model_copy(update={"parameters": table.elements, "active_parameters": table.active})
    for projection in tower.before:
        yield _projection(projection, path=path, part=Part.EMBEDDING)
    yield from _attention_rows(tower, f"{path}.attention")
    if tower.cross_attention:
        yield from _attention_rows(tower, f"{path}.cross_attention", cross=True)
    feed_forward = FeedForwardShape(
        layers=layers,
        width=tower.width,
        gated=tower.gated,
        activation=tower.activation,
        bias=tower.bias,
    )
    yield from feed_forward_rows(
        feed_forward, path=f"{path}.feed_forward", hidden_size=hidden, saved=()
    )
    branches = ["attention", "feed_forward"]
    if tower.cross_attention:
        branches.insert(1, "cross_attention")
    for branch in branches:
        yield normalization(f"{path}.{branch}_norm", norm=tower.norm, layers=layers, width=hidden)
    yield elementwise(
        f"{path}.residual",
        layers=layers,
        fused=len(branches) * FUSED_PASSES * hidden,
        unfused=len(branches) * 3.0 * hidden,
        launches=len(branches),
    )
    for index in range(tower.outer_norms):
        yield normalization(
            f"{path}.norm{f'_{index + 1}' if index else ''}",
            norm=tower.norm,
            part=Part.HEAD,
            layers=1,
            width=hidden,
        )
    for projection in tower.after:
        yield _projection(projection, path=path, part=Part.HEAD)


def _projection(projection: Projection, *, path: str, part: Part) -> Operator:
    return linear(
        f"{path}.{projection.name}",
        part=part,
        layers=1,
        in_features=projection.in_features,
        out_features=projection.out_features,
        bias=projection.bias,
        tied=projection.tied,
        division=Division.REPLICATED,
    )


def _attention_rows(tower: Tower, path: str, *, cross: bool = False) -> Iterator[Operator]:
    width = tower.heads * tower.head_dim
    for name in ("query", "key", "value"):
        yield linear(
            f"{path}.{name}",
            layers=tower.layers,
            in_features=tower.hidden_size,
            out_features=width,
            bias=tower.bias and (tower.key_bias or name != "key"),
            target=name[0],
        )
    # Generation caches its own keys; those of the other tower do not grow with it.
    caches = tower.cross_attention and not cross
    yield Operator(
        name=f"{path}.scores",
        kind=OperatorKind.ATTENTION,
        part=Part.BLOCK,
        layers=tower.layers,
        division=Division.TENSOR,
        flops_per_token_per_key=4.0 * width,
        causal=tower.causal and not cross,
        heads=tower.heads,
        cache_heads=tower.heads if caches else 0,
        cache_elements_per_token=2.0 * width if caches else 0.0,
    )
    yield linear(
        f"{path}.output",
        layers=tower.layers,
        in_features=width,
        out_features=tower.hidden_size,
        bias=tower.bias,
        target="o",
    )
