"""Providers and regions as people name them: ``europe`` is each region there, with its grid."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Final, Literal

from advisor.catalog.catalog import Catalog
from advisor.catalog.records import Key, Text
from advisor.errors import InputError
from advisor.foundation.noun import Noun, shipped

MOST_NEAR: Final = 6
"""Similar names shown beside one that no offer has."""
_APART: Final = "/"
"""Between the regions of one offer, and between a place and those around it."""


class _Places(Noun):
    """The file ``places.yaml``: regions by place, with the places around it."""

    providers: dict[Text, Text]
    """Names of providers by other names, in small letters."""
    grids: dict[Text, Key]
    """Of a place, its key in ``energy.csv``."""
    places: dict[str, tuple[Text, ...]]


def chosen(
    catalog: Catalog, kind: Literal["provider", "region"], names: Sequence[str], *, field: str
) -> frozenset[str]:
    """Return the providers or regions of offers that names mean, in small letters.

    A place means the regions in it. Raises InputError, about ``field``, if no offer has a name.
    """
    known = catalog.once(_names_of, kind)
    found: set[str] = set()
    for name in names:
        wanted = name.casefold()
        meant = {wanted, _places().providers.get(wanted, wanted)} & known.keys()
        if kind == "region":
            meant |= {region for region in known if wanted in places_of(region)}
        if not meant:
            raise _unknown(name, kind, known, field)
        found |= meant
    return frozenset(found)


@cache
def places_of(region: str) -> frozenset[str]:
    """Return the places in which a region in small letters lies; none if it names no place."""
    parts = region.split(_APART)
    return frozenset(place for part in parts for path in _paths(part) for place in path)


def grid_of(region: str, asked: Collection[str] = ()) -> str | None:
    """Return the key in ``energy.csv`` of the grid of an offer's region; None if it is not known.

    Of a region that spans several, the first counts that lies in one of the ``asked`` places.

    >>> grid_of("CANADA-1/US-1/NORWAY-1"), grid_of("CANADA-1/US-1/NORWAY-1", ["europe"])
    ('can', 'nor')
    """
    parts = region.casefold().split(_APART)
    wanted = {name.casefold() for name in asked}
    inside = [part for part in parts if wanted & {part, *places_of(part)}]
    grids = _places().grids
    paths = (path for part in inside or parts for path in sorted(_paths(part), key=len)[::-1])
    return next((grids[place] for path in paths for place in path[::-1] if place in grids), None)


@cache
def _paths(part: str) -> tuple[tuple[str, ...], ...]:
    """Return the places, outermost first, in which one region in small letters lies."""
    return tuple(
        tuple(path.split(_APART))
        for path, shapes in _places().places.items()
        if any(fnmatchcase(part, shape) for shape in shapes)
    )


_places = shipped("places.yaml", _Places)


def _names_of(catalog: Catalog, kind: str) -> dict[str, str]:
    return {(name := getattr(offer, kind)).casefold(): name for offer in catalog.offers}


def _unknown(name: str, kind: str, known: dict[str, str], field: str) -> InputError:
    wanted = name.casefold()
    near = [other for other in known if wanted in other]
    near += get_close_matches(wanted, known, n=MOST_NEAR, cutoff=0.6)
    names = sorted({known[other] for other in near or known}, key=str.casefold)
    remedy = "Correct the name or drop the limit; 'gpu-advisor prices show' lists them."
    if kind == "region":
        places = sorted({place for region in known for place in places_of(region)})
        names = [*places, *names] if near else places
        remedy = "Name a place of these, or a region as the provider writes it (eu-west-1)."
    what, allowed = f"no offer has this {kind}", ", ".join(names)
    return InputError(what, value=name, allowed=allowed, remedy=remedy, field=field)
