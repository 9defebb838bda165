"""Text of the data files to checked records; every fault becomes a ``CatalogError``."""

from __future__ import annotations

import csv
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import TypeAdapter, ValidationError

from advisor.catalog.records import GpuCatalogFile, OfferRecord
from advisor.errors import CatalogError

if TYPE_CHECKING:
    _Loader = yaml.SafeLoader
else:
    # libyaml parses ten times as fast; PyYAML may be built without it.
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_CATALOG = TypeAdapter(GpuCatalogFile)
_OFFERS = TypeAdapter(list[OfferRecord])


class _StrictLoader(_Loader):
    """YAML in which a key may stand just once in its mapping."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        mapping: dict[Hashable, object] = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            seen: set[str] = set()
            for name, _ in node.value:
                if name.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {name.value!r} stands twice", name.start_mark
                    )
                seen.add(name.value)
        return mapping


def read_catalog(path: Path) -> GpuCatalogFile:
    """Read and check the accelerators.

    Raises
    ------
    CatalogError
        If the file cannot be read, is no YAML, or an entry breaks a rule of the records, stands
        twice, is out of order, or names a source or memory rule that the file lacks.
    """
    text = _text(path)
    try:
        # A subclass of the safe loader: it builds plain values only.
        content = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark else "unknown line"
        raise CatalogError(
            file=path.name,
            entry=place,
            field="YAML",
            value=getattr(error, "problem", None) or str(error),
            remedy=f"Correct the YAML at {place}.",
        ) from error
    try:
        catalog = _CATALOG.validate_python(content)
    except ValidationError as error:
        raise _catalog_fault(path.name, content, error) from error
    _check_order(path.name, [item.key for item in catalog.accelerators])
    _check_keys(path.name, catalog)
    return catalog


def read_offers(path: Path, catalog: GpuCatalogFile) -> list[OfferRecord]:
    """Read and check the offers against the accelerators and sources of ``catalog``.

    Raises
    ------
    CatalogError
        If the file cannot be read, lacks or adds a column, or a row breaks a rule of the
        records, stands twice, or names an unknown accelerator or source.
    """
    rows = list(csv.DictReader(_text(path).splitlines()))
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise CatalogError(
                file=path.name,
                entry=f"line {number}",
                field="columns",
                value=len([cell for cell in row.values() if cell is not None]),
                remedy=f"Give {len(row) - (None in row)} cells; quote cells that hold a comma.",
            )
    try:
        offers = _OFFERS.validate_python(rows)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        index = first["loc"][0]
        number = index + 2 if isinstance(index, int) else 1
        raise CatalogError(
            file=path.name,
            entry=f"line {number}",
            field=".".join(str(part) for part in first["loc"][1:]) or "row",
            value=first["input"] if first["type"] != "missing" else None,
            remedy=_remedy(first["type"], first["msg"]),
        ) from error
    _check_offers(path.name, offers, catalog)
    return offers


def offer_key(offer: OfferRecord) -> str:
    """Return ``provider/instance_type/region/tier`` in lower case, with hyphens for spaces."""
    parts = (offer.provider, offer.instance_type, offer.region, offer.tier)
    return "/".join("-".join(part.casefold().replace("/", "-").split()) for part in parts)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(
            file=path.name,
            entry="",
            field="file",
            value=str(error),
            remedy="Restore the file from git; it must be UTF-8 text.",
        ) from error


def _catalog_fault(file: str, content: object, error: ValidationError) -> CatalogError:
    first = error.errors(include_url=False)[0]
    place = list(first["loc"])
    entry = str(place.pop(0)) if place else ""
    if place and isinstance(content, Mapping):
        inner = place.pop(0)
        section = content.get(entry)
        entry = f"{entry}[{inner}]" if isinstance(inner, int) else str(inner)
        if isinstance(inner, int) and isinstance(section, Sequence):
            item = section[inner]
            entry = str(item.get("key", entry)) if isinstance(item, Mapping) else entry
    whole = isinstance(first["input"], Mapping) and not place
    return CatalogError(
        file=file,
        entry=entry,
        field=".".join(str(part) for part in place) or "entry",
        value=None if first["type"] == "missing" or whole else first["input"],
        remedy=_remedy(first["type"], first["msg"]),
    )


def _remedy(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "Remove the field or correct its name: the records do not know it."
    if kind == "missing":
        return "Add the field."
    return f"{message.removeprefix('Value error, ')}."


def _check_order(file: str, keys: Sequence[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise CatalogError(
                file=file, entry=key, field="key", value=key, remedy="It stands twice; remove one."
            )
        seen.add(key)
    for before, key in pairwise(keys):
        if key < before:
            after = max((other for other in keys if other < key), default=None)
            place = f"after `{after}`" if after else "to the top"
            raise CatalogError(
                file=file,
                entry=key,
                field="key",
                value=key,
                remedy=f"Entries are ordered by key: move `{key}` {place}.",
            )


def _check_keys(file: str, catalog: GpuCatalogFile) -> None:
    for item in catalog.accelerators:
        for name, cited in item.provenance.items():
            source = cited.partition("/")[0]
            if source not in catalog.sources:
                raise CatalogError(
                    file=file,
                    entry=item.key,
                    field=f"provenance.{name}",
                    value=source,
                    remedy="Add this key under sources, or cite one that is there.",
                )
        rule = item.memory_reported_rule
        if rule is not None and rule not in catalog.memory_rules:
            raise CatalogError(
                file=file,
                entry=item.key,
                field="memory_reported_rule",
                value=rule,
                remedy=f"Take one of: {', '.join(catalog.memory_rules)}.",
            )


def _check_offers(file: str, offers: Sequence[OfferRecord], catalog: GpuCatalogFile) -> None:
    accelerators = {item.key for item in catalog.accelerators}
    lines: dict[str, int] = {}
    for number, offer in enumerate(offers, start=2):
        key = offer_key(offer)
        faults = (
            (
                offer.accelerator not in accelerators,
                "accelerator",
                offer.accelerator,
                "Add the accelerator to gpu_catalog.yaml, or correct the key.",
            ),
            (
                offer.source not in catalog.sources,
                "source",
                offer.source,
                "Add this key under sources in gpu_catalog.yaml, or cite one that is there.",
            ),
            (
                key in lines,
                "instance_type",
                key,
                f"The same offer stands on line {lines.get(key)}; remove one.",
            ),
        )
        for wrong, name, value, remedy in faults:
            if wrong:
                raise CatalogError(
                    file=file, entry=f"line {number}", field=name, value=value, remedy=remedy
                )
        lines[key] = number
