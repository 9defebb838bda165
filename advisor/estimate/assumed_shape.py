"""How much wider a range gets where the model's shape is assumed."""

from __future__ import annotations

from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.quantities import Evidence

ASSUMED_SHAPE_WIDENING: Final = 1.1
"""A bare parameter count fixes weights and FLOPs but not the shape: bounds move this much
further out. Llama, Mistral, Qwen and Gemma models of 7 to 9 billion parameters differ by about
this factor in activation bytes per token."""


def shape_widening(architecture: ModelArchitecture) -> float:
    """Factor by which bounds move out where the shape is assumed."""
    return ASSUMED_SHAPE_WIDENING if architecture.evidence is Evidence.ASSUMED else 1.0
