"""The catalog: accelerators and offers, found by key or by exact product name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pydantic import SerializeAsAny, TypeAdapter

from advisor.errors import InputError
from advisor.hardware import Accelerator, Offer
from advisor.noun import Noun

NEAREST = 4


class CatalogSource(Noun):
    """A published source of catalog values, or the statement that there is none."""

    key: str
    title: str
    locator: str
    date: str
    """Date of the source, or the date on which it was read. ISO 8601, possibly truncated."""
    licence: str


@dataclass(frozen=True, eq=False)
class Catalog:
    """Accelerators, offers and their sources.

    Parameters
    ----------
    accelerators : tuple of Accelerator
        Ordered by key.
    offers : tuple of Offer
        In the order of the file.
    sources : Mapping of str to CatalogSource
        By the key that ``Provenance.source`` names.

    Examples
    --------
    >>> from advisor.catalog import load_catalog
    >>> load_catalog().accelerator("h100-sxm").memory_bandwidth_bytes_per_s
    3350000000000.0
    """

    accelerators: tuple[Accelerator, ...]
    offers: tuple[Offer, ...]
    sources: Mapping[str, CatalogSource]
    _by_name: Mapping[str, Accelerator] = field(init=False, repr=False)
    _by_accelerator: Mapping[str, tuple[Offer, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = {item.name.casefold(): item for item in self.accelerators}
        names |= {item.key: item for item in self.accelerators}
        grouped: dict[str, list[Offer]] = {}
        for offer in self.offers:
            grouped.setdefault(offer.accelerator, []).append(offer)
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "_by_name", names)
        object.__setattr__(
            self, "_by_accelerator", {key: tuple(items) for key, items in grouped.items()}
        )

    def accelerator(self, key: str) -> Accelerator:
        """Return the accelerator with this key or exact product name, whatever its case.

        Raises
        ------
        InputError
            If there is none; the message names the nearest keys. Nothing is substituted.
        """
        wanted = key.strip().casefold()
        found = self._by_name.get(wanted)
        if found is not None:
            return found
        nearest = ", ".join(self._near(wanted))
        raise InputError(
            "unknown accelerator",
            value=key,
            allowed=f"a key or product name of the catalog; nearest: {nearest}",
            remedy="Take one of the nearest keys, or look through the catalog's list.",
            field="hardware.accelerator",
        )

    def offers_for(self, key: str) -> tuple[Offer, ...]:
        """Return the offers of one accelerator; empty where nobody in the catalog rents it.

        Raises
        ------
        InputError
            If the accelerator is unknown.
        """
        return self._by_accelerator.get(self.accelerator(key).key, ())

    @property
    def newest_price_date(self) -> str:
        """Date of the newest price, ISO 8601; empty where there is no offer."""
        return max((offer.price_date for offer in self.offers), default="")

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return accelerators, offers and sources as JSON text, in SI units."""
        content: dict[str, tuple[Noun, ...]] = {
            "accelerators": self.accelerators,
            "offers": self.offers,
            "sources": tuple(self.sources.values()),
        }
        return _CONTENT.dump_json(content, indent=indent).decode()

    def _near(self, wanted: str) -> list[str]:
        close = difflib.get_close_matches(wanted, self._by_name, n=2 * NEAREST, cutoff=0.4)
        containing = [item.key for item in self.accelerators if wanted and wanted in item.key]
        keys = [self._by_name[name].key for name in close]
        found = list(dict.fromkeys((*containing, *keys)))[:NEAREST]
        return found or [item.key for item in self.accelerators[:NEAREST]]


_CONTENT = TypeAdapter(dict[str, tuple[SerializeAsAny[Noun], ...]])
