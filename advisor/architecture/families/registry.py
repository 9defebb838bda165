"""How to read each ``model_type``, and which are refused, from ``data/model_families.yaml``."""

from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Self, cast

from pydantic import Field, model_validator

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families.decoder_settings import DecoderSettings, decoder_of
from advisor.architecture.table.model import Network, Unit
from advisor.foundation.noun import Noun, checked, refuse, shipped

FILE = "model_families.yaml"


class Family(DecoderSettings):
    """A supported family: a row of the file, which explains its fields."""

    title: Annotated[str, Field(min_length=1)]
    summary: Annotated[str, Field(min_length=1)]
    takes: Unit = Unit.TOKEN
    reserved_positions: Annotated[int, Field(ge=0)] = 0
    sized_by_class: bool | tuple[str, ...] = False
    reader: Annotated[str, Field(pattern=r"^\w+\.\w+$")] | None = None
    names: dict[str, str] = Field(default_factory=dict)
    constants: dict[str, object] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        settings = self.model_fields_set & set(DecoderSettings.model_fields)
        if self.reader and settings:
            raise ValueError(f"a reader takes no settings, but {', '.join(sorted(settings))} stand")
        if self.constants and not self.reader:
            raise ValueError("constants stand without a reader")
        return self

    def read(self, fields: ConfigFields) -> Network:
        """Return the shape of a configuration. A reader's module is imported on first use.

        Raises InputError if a field is missing or unusable.
        """
        if self.reader is None:
            return decoder_of(self, fields)
        module, _, name = self.reader.partition(".")
        found = import_module(f"advisor.architecture.families.{module}")
        return cast(Network, getattr(found, name)(fields, **self.constants))


class _Refused(Noun):
    reason: Annotated[str, Field(min_length=1)]
    types: tuple[str, ...]


class _FamilyFile(Noun):
    families: Annotated[dict[str, dict[str, object]], Field(min_length=1)]
    """Unchecked rows: each is checked when its family is first used."""
    refused: tuple[_Refused, ...]


def supported_types() -> Collection[str]:
    """Return every supported ``model_type``, in file order."""
    return _file().families.keys()


@cache
def family_of(model_type: str) -> Family:
    """Return the family of a supported ``model_type``.

    Raises CatalogError if its row is invalid.
    """
    rows = _file().families
    row = dict(rows[model_type])
    like = str(row.pop("like", model_type))
    if like not in rows:
        refuse(FILE, like, "Name a row of this file.", entry=model_type, field="like")
    whole = {**rows[like], **row}
    return checked(Family.model_validate, whole, file=FILE, entry=model_type)


@cache
def refused_types() -> Mapping[str, str]:
    """Return the refused types, each with its difference from what would be built."""
    return {kind: group.reason for group in _file().refused for kind in group.types}


def named_type(fields: ConfigFields) -> str:
    """Return the ``model_type`` of a configuration, or its diffusers class, in lower case."""
    return fields.text("model_type", fields.text("_class_name", "")).lower()


_file = shipped(FILE, _FamilyFile)
