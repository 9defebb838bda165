"""What a configuration leaves out is the default of its class: from a table, not from readers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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

BUILT_WHOLE: Final = frozenset({"clip", "siglip"})
"""Families whose towers are all built, though they nest configurations."""


def class_defaults(model_type: str, *, sizes: bool | Collection[str]) -> Mapping[str, object]:
    """Fields that the configuration class of a ``model_type`` has by default.

    Parameters
    ----------
    sizes : bool or collection of str
        Which of hidden size, layers, heads and vocabulary have defaults: all of a text
        configuration inside a multimodal one, which states only what differs; else those that
        the family's row has as ``sized_by_class``.

    Returns
    -------
    Mapping
        Empty for a type without a table.
    """
    tables = _tables()
    # A multimodal class hands what it does not know to its text configuration.
    own = tables.of(model_type)
    inner = str(tables.text_towers.get(model_type, {}).get("model_type"))
    whole = "hidden_size" in own or model_type in BUILT_WHOLE
    fields = own if whole else {**tables.of(inner), **own}
    kept = IDENTITY if sizes is True else frozenset(sizes or ())
    return {name: fields[name] for name in fields if name not in IDENTITY or name in kept}


def text_tower_defaults(model_type: str) -> Mapping[str, object]:
    """Type of a multimodal type's text configuration, and whether its head is tied.

    Returns
    -------
    Mapping
        Empty for a type without a table.
    """
    return _tables().text_towers.get(model_type, {})


def default_towers(model_type: str) -> Mapping[str, int]:
    """Parameters of what a multimodal class builds beside its text tower when no file describes it.

    Returns
    -------
    Mapping
        By name of the part; empty for a type without a table.
    """
    return _tables().default_towers.get(model_type, {})


class _Published(Noun):
    """What a family without a class in transformers has by default."""

    source: str
    fields: Annotated[dict[str, object], Field(min_length=1)]


class _Defaults(Noun):
    """The file: fields of configuration classes, by ``model_type``."""

    source: str
    fields: Annotated[dict[str, dict[str, object]], Field(min_length=1)]
    text_towers: Annotated[dict[str, dict[str, object]], Field(min_length=1)]
    default_towers: Annotated[dict[str, dict[str, Count]], Field(min_length=1)]
    others: dict[str, _Published]

    def of(self, model_type: str) -> dict[str, object]:
        """Fields of a type by default; empty where nothing is known."""
        if model_type in self.others:
            return self.others[model_type].fields
        return self.fields.get(model_type, {})


@cache
def _tables() -> _Defaults:
    content = read_json(data_path(FILE))
    check_numbers(content, file=FILE)
    return checked(_Defaults.model_validate, content, file=FILE)
