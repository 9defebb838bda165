"""What a configuration leaves out is the default of its class: from a table, not from readers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.data_records import check_numbers, checked, read_json
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path

FILE: Final = "config_defaults.json"
Count = Annotated[int, Field(ge=0, le=10**15)]

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
    fields = _tables().fields.get(model_type, {})
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
    return _tables().text_towers.get(model_type, {})


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
    return _tables().default_towers.get(model_type, {})


class _Defaults(Noun):
    """The file: fields of configuration classes, by ``model_type``."""

    source: str
    fields: Annotated[dict[str, dict[str, object]], Field(min_length=1)]
    text_towers: Annotated[dict[str, dict[str, object]], Field(min_length=1)]
    default_towers: Annotated[dict[str, dict[str, Count]], Field(min_length=1)]


@cache
def _tables() -> _Defaults:
    content = read_json(data_path(FILE))
    check_numbers(content, file=FILE)
    return checked(_Defaults.model_validate, content, file=FILE)
