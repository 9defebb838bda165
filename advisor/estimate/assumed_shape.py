"""How much wider a range is if the model's shape is assumed."""

from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.quantities import Evidence

ASSUMED_SHAPE_WIDENING: Final = 1.1
"""A parameter count alone gives weights and FLOPs, but not the shape: the bounds widen by this
factor. Llama, Mistral, Qwen and Gemma models of 7 to 9 billion parameters differ by about
this factor in activation bytes per token."""


def shape_widening(architecture: ModelArchitecture) -> float:
    """Factor by which bounds widen if the shape is assumed."""
    return ASSUMED_SHAPE_WIDENING if architecture.evidence is Evidence.ASSUMED else 1.0
