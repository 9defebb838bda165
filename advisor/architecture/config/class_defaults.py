"""What a configuration leaves out is the default of its class: from a table, not from readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Final

from advisor.foundation.resources import data_path

IDENTITY: Final = frozenset(
    {
        *("hidden_size", "n_embd", "d_model"),
        *("num_hidden_layers", "n_layer", "n_layers"),
        *("num_attention_heads", "n_head", "n_heads"),
        "vocab_size",
    }
)
"""What makes a model the size that it is: a whole configuration without one was cut off."""


def class_defaults(model_type: str, *, nested: bool) -> Mapping[str, object]:
    """Fields that the configuration class of a ``model_type`` has by default.

    Parameters
    ----------
    model_type : str
    nested : bool
        True of a text configuration inside a multimodal one, which states only what differs;
        otherwise hidden size, layers, heads and vocabulary have no default.

    Returns
    -------
    Mapping
        Empty for a type without a table.
    """
    fields = _tables()[0].get(model_type, {})
    if nested:
        return fields
    return {name: value for name, value in fields.items() if name not in IDENTITY}


def text_tower_defaults(model_type: str) -> Mapping[str, object]:
    """Type of a multimodal type's text configuration, and whether its head is tied.

    Parameters
    ----------
    model_type : str

    Returns
    -------
    Mapping
        Empty for a type without a table.
    """
    return _tables()[1].get(model_type, {})


def default_towers(model_type: str) -> Mapping[str, int]:
    """Parameters of what a multimodal class builds beside its text tower when no file describes it.

    Parameters
    ----------
    model_type : str

    Returns
    -------
    Mapping
        By name of the part; empty for a type without a table.
    """
    return _tables()[2].get(model_type, {})


@cache
def _tables() -> tuple[
    dict[str, dict[str, object]], dict[str, dict[str, object]], dict[str, dict[str, int]]
]:
    content = json.loads(data_path("config_defaults.json").read_text(encoding="utf-8"))
    return content["fields"], content["text_towers"], content["default_towers"]
