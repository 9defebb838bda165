"""Kinds of network, and which of them an entered model is: the fields follow from it."""

from functools import lru_cache
from typing import Final

from advisor.architecture.presets import find_preset, load_preset
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.nouns.inputs import Network

EXAMPLES: Final = {
    Network.LANGUAGE: "llama-3.1-8b",
    Network.VISION: "resnet-50",
    Network.DIFFUSION: "sd-1.5-unet",
    Network.RECURRENT: "lstm-4x1024",
    Network.ENCODER: "bge-base-en-v1.5",
    Network.PAIRS: "whisper-large-v3",
}
"""The model that each kind opens with."""


def network_of(architecture: ModelArchitecture) -> Network:
    """Return the kind of a network, by what it takes and compares.

    ``DIFFUSION`` makes images by denoising.
    """
    if architecture.unit is Unit.SAMPLE:
        return Network.PAIRS
    if architecture.unit is Unit.IMAGE:
        return Network.DIFFUSION if architecture.denoises else Network.VISION
    recurrent = any(op.kind is OperatorKind.RECURRENCE for op in architecture.operators)
    if recurrent:
        return Network.RECURRENT
    return Network.LANGUAGE if architecture.generates else Network.ENCODER


@lru_cache(maxsize=256)
def network_named(model: str, chosen: str) -> Network:
    """Return the kind of the model that was entered; the chosen kind where its name tells none.

    >>> network_named("resnet-50", "language")
    <Network.VISION: 'vision'>
    >>> network_named("13B", "language")
    <Network.LANGUAGE: 'language'>
    """
    preset = find_preset(model)
    return Network(chosen) if preset is None else network_of(load_preset(preset))
