"""Operator rows of alternating updates: blocks take turns on several streams, with a shortcut."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.architecture.mixers.shapes import AlternatingUpdates, Norm
from advisor.architecture.table.operators import Division, Operator, Part, SavedFormat
from advisor.architecture.table.rows import elementwise, linear, linear_input, normalization


def alternating_rows(
    shape: AlternatingUpdates, *, layers: int, hidden_size: int, norm: Norm
) -> Iterator[Operator]:
    """Yield the rows of every block's work on its streams.

    Parameters
    ----------
    norm : Norm
        Norm of the model.

    References
    ----------
    .. [1] Baykal et al., Alternating updates for efficient transformers, 2023,
       arXiv:2301.13310, algorithm 1.
    """
    streams = shape.streams
    mixed = float(streams * hidden_size)
    # Coefficients of the prediction and of the correction, and the scale of the output.
    learned = streams**3 + streams**2 + hidden_size
    yield elementwise(
        "block.alternating.mix",
        layers=layers,
        # Predict and correct: each reads all streams and writes them.
        fused=4.0 * mixed,
        unfused=8.0 * mixed,
        launches=8,
    ).model_copy(
        update={
            "parameters": learned,
            "active_parameters": learned,
            "flops_per_token": 2.0 * hidden_size * (streams**2 + streams),
        }
    )
    yield linear(
        "block.alternating.router",
        layers=layers,
        in_features=hidden_size,
        out_features=streams,
        division=Division.REPLICATED,
        saved=(linear_input(hidden_size, ("router",)),),
    )
    yield normalization("block.alternating.norm", norm=norm, layers=layers, width=hidden_size)
    sides = (
        ("shortcut_in", hidden_size, shape.low_rank),
        ("shortcut_out", shape.low_rank, hidden_size),
    )
    for name, inner, outer in sides:
        yield linear(
            f"block.alternating.{name}",
            layers=layers,
            in_features=inner,
            out_features=outer,
            division=Division.REPLICATED,
            saved=(linear_input(inner, (name,)),),
        )
    yield normalization(
        "block.alternating.shortcut_norm",
        norm=norm,
        layers=layers,
        width=hidden_size,
        stream=SavedFormat.COMPUTE,
    )


def alternating_head(shape: AlternatingUpdates, *, hidden_size: int) -> Iterator[Operator]:
    """Yield the projections that create the additional streams and merge them."""
    for name, part in (("open", Part.EMBEDDING), ("close", Part.HEAD)):
        yield linear(
            f"{part.value}.streams_{name}",
            part=part,
            layers=1,
            in_features=hidden_size,
            out_features=(shape.streams - 1) * hidden_size,
            division=Division.REPLICATED,
            saved=(linear_input(hidden_size, (f"streams_{name}",)),),
        )
