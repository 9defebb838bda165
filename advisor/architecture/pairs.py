"""Encoder-decoder pairs in serving: the encoder reads once, the decoder writes token by token.

Training passes a whole sample through both. A request passes its text or sound through the encoder
once, keeps the output to which the decoder attends, and then runs the decoder for each token.
"""

from collections.abc import Iterator
from itertools import takewhile

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import Operator, OperatorKind, Phase
from advisor.foundation.record import by_identity

ENCODER = "encoder."
"""Name prefix of the encoder's section."""

BRANCHES = 3
"""Branches of a decoder block: self-attention, attention to the encoder, feed-forward."""

_PRODUCTS = frozenset({OperatorKind.MATMUL, OperatorKind.CONVOLUTION})


def is_pair(architecture: ModelArchitecture) -> bool:
    """Whether a network reads one sequence and writes another."""
    sample = architecture.sample
    return architecture.unit is Unit.SAMPLE and bool(sample and sample.decoder_sequence_length)


def positions_read(architecture: ModelArchitecture) -> int:
    """Return the positions that a pair's encoder reads: tokens of a text, frames of a sound."""
    return next((row.keys for row in architecture.operators if row.keys), 1)


@by_identity(64)
def writes_apart(architecture: ModelArchitecture) -> bool:
    """Whether an encoder reads the prompt, so that it takes no positions of the decoder."""
    return any(row.phase is Phase.PROMPT for row in architecture.operators)


def as_writer(architecture: ModelArchitecture) -> ModelArchitecture:
    """Return a pair with a row for each token instead of each sample.

    The pair (see :func:`is_pair`) is built for the length of the work's prompt. The rows state the
    phase in which they run. ``max_position_embeddings`` is the decoder's.
    """
    rows = architecture.operators
    encoder = sum(1 for _ in takewhile(lambda row: row.name.startswith(ENCODER), rows))
    sample = architecture.sample
    written = float((sample and sample.decoder_sequence_length) or 1)
    read = positions_read(architecture)
    layers = max((row.layers for row in rows if row.cache_elements_per_token), default=1)
    return architecture.changed(
        unit=Unit.TOKEN,
        sample=None,
        num_hidden_layers=layers,
        branches_per_layer=BRANCHES,
        assumptions=(
            *architecture.assumptions,
            f"the encoder reads {read:,} positions once for each request",
        ),
        operators=tuple(_rows(rows, encoder, read=float(read), written=written)),
    )


def _rows(
    rows: tuple[Operator, ...], encoder: int, *, read: float, written: float
) -> Iterator[Operator]:
    crossing = False
    for index, row in enumerate(rows):
        if row.saved and row.saved[0].name == "mask":
            continue  # Serving has no dropout.
        if row.kind is OperatorKind.ATTENTION:
            crossing = index >= encoder and bool(row.cache_elements_per_token)
        # After a block's self-attention, keys and values come from the encoder.
        reads = index < encoder or (crossing and row.target in {"k", "v"})
        length = read if reads else written
        update: dict[str, object] = {
            "phase": Phase.PROMPT if reads else Phase.ANSWER,
            "positions_per_token": 1.0,
            "flops_per_token": row.flops_per_token / length,
            "moved_elements_per_token": row.moved_elements_per_token / length,
            "moved_elements_per_token_unfused": row.moved_elements_per_token_unfused / length,
        }
        if row.kind in _PRODUCTS:
            update |= {"kind": OperatorKind.MATMUL, "moved_elements_per_token": 0.0}
        if row.kind is OperatorKind.ATTENTION:
            update |= _attention(row, index < encoder, written=written, length=length)
        yield row.changed(**update)


def _attention(row: Operator, encodes: bool, *, written: float, length: float) -> dict[str, object]:
    per_key = row.flops_per_token_per_key / length
    update: dict[str, object] = {
        "moved_elements_per_token": 0.0,
        "flops_per_token_per_key": per_key,
        "keys": None,
        "causal": not encodes,
    }
    if encodes:
        return update
    if row.cache_elements_per_token:
        return update | {"cache_elements_per_token": row.cache_elements_per_token / written}
    # Two FLOPs for each element of a key, two for each of a value: half as many elements.
    return update | {
        "keys": row.keys,
        "causal": False,
        "cache_heads": row.heads,
        "cache_elements_per_token": per_key / 2,
    }
