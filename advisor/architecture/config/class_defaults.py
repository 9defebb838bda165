"""Defaults of configuration classes, for fields that a configuration leaves out."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Final

from pydantic import Field

from advisor.architecture.config.fields import field_facts
from advisor.foundation.noun import Noun, check_numbers, checked, read_json
from advisor.foundation.resources import data_path

FILE: Final = "config_defaults.json"
Count = Annotated[int, Field(ge=0, le=10**15)]

BUILT_WHOLE: Final = frozenset({"clip", "siglip"})
"""Families that nest configurations and whose towers are all built."""


def class_defaults(model_type: str, *, sizes: bool | Collection[str]) -> Mapping[str, object]:
    """Return the default fields of the configuration class of a ``model_type``.

    Empty for a type without a table.

    ``sizes``: which of hidden size, layers, heads and vocabulary have defaults: all in the text
    configuration of a multimodal model, which states only what differs; otherwise those in
    ``sized_by_class`` of the family's row.
    """
    tables = _tables()
    # A multimodal class passes unknown fields to its text configuration.
    own = tables.of(model_type)
    inner = str(tables.text_towers.get(model_type, {}).get("model_type"))
    whole = "hidden_size" in own or model_type in BUILT_WHOLE
    fields = own if whole else {**tables.of(inner), **own}
    identity = field_facts().identity
    kept = identity if sizes is True else frozenset(sizes or ())
    return {name: fields[name] for name in fields if name not in identity or name in kept}


def text_tower_defaults(model_type: str) -> Mapping[str, object]:
    """Return the type of a multimodal type's text configuration, and whether its head is tied.

    Empty for a type without a table.
    """
    return _tables().text_towers.get(model_type, {})


def default_towers(model_type: str) -> Mapping[str, int]:
    """Return the parameters of the parts, by name, that a multimodal class builds undescribed.

    Empty for a type without a table.
    """
    return _tables().default_towers.get(model_type, {})


class _Published(Noun):
    """Defaults of a family without a class in transformers, or of fields that its class lacks."""

    source: str
    fields: Annotated[dict[str, object], Field(min_length=1)]


class _Defaults(Noun):
    """The file of defaults: fields of configuration classes, by ``model_type``."""

    source: str
    fields: Annotated[dict[str, dict[str, object]], Field(min_length=1)]
    text_towers: Annotated[dict[str, dict[str, object]], Field(min_length=1)]
    default_towers: Annotated[dict[str, dict[str, Count]], Field(min_length=1)]
    others: dict[str, _Published]

    def of(self, model_type: str) -> dict[str, object]:
        """Return the default fields of a type; empty if the type is unknown."""
        own = self.others[model_type].fields if model_type in self.others else {}
        return {**self.fields.get(model_type, {}), **own}


@cache
def _tables() -> _Defaults:
    content = read_json(data_path(FILE))
    check_numbers(content, file=FILE)
    return checked(_Defaults.model_validate, content, file=FILE)
