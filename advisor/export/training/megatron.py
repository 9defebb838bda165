"""Megatron-LM: training that splits layers, matrices, sequences or experts over accelerators.

The model's shape comes from the operator table. A model can be launched if its rows are those of a
plain decoder.
"""

from collections.abc import Mapping
from typing import Final

from advisor.architecture.table.operators import Operator
from advisor.export.setup import Setup
from advisor.export.training.model_names import ORIGINAL, launch_models, rotary_of
from advisor.export.training.tool import Tool, fused
from advisor.export.training.words import rate
from advisor.nouns.layout import ParallelLayout, Sharding

PLAIN_ROWS: Final = {
    f"{part}{name}"
    for part, names in {
        "embedding.": "tokens positions",
        "block.attention.": "query key value query_norm key_norm rotation scores output",
        "block.feed_forward.": "gate up activation down router dispatch",
        "block.feed_forward.experts.": "gate up activation down",
        "block.": "attention_input_norm feed_forward_input_norm residual unassigned",
        "head.": "norm logits loss",
    }.items()
    for name in names.split()
}
"""Rows of the decoders that ``pretrain_gpt.py`` builds: rotary or learned positions, feed-forward
layers or experts without shared ones, and one kind of attention."""
LEAST_RATE: Final = 0.1
"""Last over highest rate of a cosine schedule (Llama 2, section 2.2)."""


def _rows(setup: Setup) -> Mapping[str, Operator]:
    return {row.name: row for row in setup.model.operators}


def _plain(setup: Setup) -> bool:
    rows = _rows(setup)
    windows = any(row.window is not None for row in rows.values())
    placed = "block.attention.rotation" in rows or setup.model.learned_positions
    return set(rows) <= PLAIN_ROWS and not windows and placed


def _inner_width(setup: Setup) -> int:
    rows = _rows(setup)
    inner = rows.get("block.feed_forward.down") or rows["block.feed_forward.experts.down"]
    return inner.in_features


def _normalization(setup: Setup) -> str:
    """Return the kind of the norm: a layer norm has a shift in addition to its scale."""
    norm = _rows(setup)["block.attention_input_norm"]
    return "LayerNorm" if norm.parameters > setup.model.hidden_size else "RMSNorm"


def _gated(setup: Setup) -> bool:
    rows = _rows(setup)
    return "block.feed_forward.gate" in rows or "block.feed_forward.experts.gate" in rows


def _biased(setup: Setup, name: str = "output") -> bool:
    row = _rows(setup)[f"block.attention.{name}"]
    return row.parameters > row.in_features * row.out_features


def _stages(setup: Setup) -> int:
    return setup.layout.pipeline * setup.layout.virtual_stages


def _counts_ends(setup: Setup) -> bool:
    """Whether embedding and head count as layers, so that the stages are even."""
    return setup.layout.pipeline > 1 and bool(setup.model.num_hidden_layers % _stages(setup))


def _layers(setup: Setup) -> int:
    return setup.model.num_hidden_layers + (2 if _counts_ends(setup) else 0)


def _arranged(_: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout; only the distributed optimizer keeps its states on the host."""
    if layout.offload and layout.sharding is Sharding.DDP:
        return layout.changed(sharding=Sharding.ZERO1)
    return layout


MEGATRON: Final = Tool(
    "megatron-lm",
    facts={
        "biased": _biased,
        "bridge": lambda setup: launch_models().megatron_bridge.of(setup.model.hub_id),
        "counts_ends": _counts_ends,
        "expert_width": lambda setup: _rows(setup)["block.feed_forward.experts.down"].in_features,
        "gated": _gated,
        "grouped": lambda setup: setup.model.num_key_value_heads < setup.model.num_attention_heads,
        "head_width": lambda setup: (
            _rows(setup)["block.attention.query"].out_features // setup.model.num_attention_heads
        ),
        "inner_width": _inner_width,
        "least_rate": lambda setup: f"{LEAST_RATE * float(rate(setup)):g}",
        "longest": lambda setup: max(
            setup.run.sequence_length, setup.model.max_position_embeddings or 0
        ),
        "normalization": _normalization,
        "only_queries_biased": lambda setup: not _biased(setup) and _biased(setup, "query"),
        "original_base": lambda _: f"{ORIGINAL.base:,}",
        # What ``pretrain_gpt.py`` does not build.
        "other_rows": lambda setup: (
            ", ".join(sorted(set(_rows(setup)) - PLAIN_ROWS)) or "windows or positions of its own"
        ),
        "plain_decoder": _plain,
        "query_norm": lambda setup: "block.attention.query_norm" in _rows(setup),
        "rotary": lambda setup: rotary_of(setup.model.hub_id),
        "rotary_factor": lambda setup: f"{rotary_of(setup.model.hub_id).factor:g}",
        "stage_layers": lambda setup: _layers(setup) // _stages(setup),
        "stages": _stages,
        "tokenizer_id": lambda setup: setup.model.hub_id or setup.checkpoint or "",
        "uneven_stages": lambda setup: (
            setup.layout.pipeline > 1 and bool(_layers(setup) % _stages(setup))
        ),
    },
    arranged=_arranged,
    # Gradients are summed in fp32 unless told otherwise.
    means=lambda setup: {
        **fused(None),
        "reduce_format": "bf16" if setup.run.switches.reduce_format == "bf16" else None,
    },
)
