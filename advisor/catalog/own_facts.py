"""Your own offers, cards and discounts, put over the shipped catalog.

A file is YAML with ``offers``, ``accelerators``, ``discounts`` and ``providers``, or CSV with
offers. It passes the checks of the shipped files.
"""

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, field_validator

from advisor.catalog.catalog import Catalog, Source
from advisor.catalog.checks import check_accelerator, check_offer
from advisor.catalog.convert import RULE_SOURCE, accelerator_of, offer_of
from advisor.catalog.nodes import owned_node
from advisor.catalog.quotes import with_upper_ends
from advisor.catalog.records import (
    AcceleratorRecord,
    CatalogFile,
    Key,
    Name,
    OfferRecord,
    Record,
    SourceRecord,
)
from advisor.errors import CatalogError, InputError
from advisor.foundation.dates import current_day
from advisor.foundation.files import read_file
from advisor.foundation.formatting import percent
from advisor.foundation.structured import NotPlainError, read_yaml
from advisor.nouns.hardware import FIRM_TIER, YOUR_QUOTE, Confidence, Offer, Provenance

VARIABLE: Final = "GPU_ADVISOR_CATALOG"
"""Environment variable with files, separated as in PATH."""
SOURCE: Final = "your-file"
MAX_BYTES: Final = 1_000_000
MAX_OFFERS: Final = 5_000
MAX_CARDS: Final = 200
MOST: Final = {
    "offers": MAX_OFFERS,
    "accelerators": MAX_CARDS,
    "discounts": MAX_CARDS,
    "providers": MAX_CARDS,
}
REMEDY: Final = "Correct the file; docs/data.md shows one."
OF_A_FILE: Final = "offers, accelerators, discounts and providers"
ALLOWED: Final = {
    "offers": "a list; each states provider, instance_type, accelerator, accelerators and "
    "on_demand_per_hour or spot_per_hour",
    "accelerators": "cards by key; each states name, vendor (whose software it runs), memory_gb, "
    "memory_bandwidth_gb_per_s and dense_tflops",
    "discounts": "shares from 0% to below 100%, by provider",
    "providers": "a list of names",
}

Upload = tuple[str, bytes]
"""Name and content of a file."""
_FILES: ContextVar[tuple[Path, ...]] = ContextVar("own catalog files", default=())
_DISCOUNTS: ContextVar[tuple[str, ...]] = ContextVar("discounts", default=())

Discount = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


Cards = Annotated[dict[Key, AcceleratorRecord], Field(max_length=MAX_CARDS)]


class OwnFacts(Record):
    """The content of files, with what they leave out filled in."""

    offers: Annotated[tuple[OfferRecord, ...], Field(max_length=MAX_OFFERS)] = ()
    accelerators: Cards = Field(default_factory=dict)
    discounts: dict[Name, Discount] = Field(default_factory=dict)
    """Share off the on-demand price, by provider."""
    providers: tuple[Name, ...] = ()
    """The providers that may be used; empty: all. Those of your own offers are always allowed."""

    @field_validator("discounts")
    @classmethod
    def _once(cls, discounts: dict[str, float]) -> dict[str, float]:
        if len({name.casefold() for name in discounts}) < len(discounts):
            raise ValueError("one provider has two discounts; state each provider once")
        return discounts


@contextmanager
def using_catalog(files: Sequence[str], *, discounts: Sequence[str] = ()) -> Iterator[None]:
    """Put files and discounts over the catalog inside the context.

    Files are as :func:`read_own_facts` reads them; ``AWS=22%`` takes a share off a provider's
    on-demand price.
    """
    tokens = _FILES.set(tuple(map(Path, files))), _DISCOUNTS.set(tuple(discounts))
    try:
        yield
    finally:
        _FILES.reset(tokens[0])
        _DISCOUNTS.reset(tokens[1])


def own_files() -> tuple[Path, ...]:
    """Return the files in use: those of the environment, then those of the context."""
    named = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return (*named, *_FILES.get())


class _Visitors:
    """How a server with several visitors finds the files of the one who asks."""

    uploads: Callable[[], tuple[Upload, ...]] = tuple


def uploads_come_from(find: Callable[[], tuple[Upload, ...]]) -> None:
    """Name the function that returns the files of whoever asks for the catalog."""
    _Visitors.uploads = staticmethod(find)


def uploads() -> tuple[Upload, ...]:
    """Return the files of the visitor who asks; none outside a server."""
    return _Visitors.uploads()


def stated_discounts() -> tuple[str, ...]:
    """Return the discounts of the context."""
    return _DISCOUNTS.get()


def discount_facts(stated: Sequence[str]) -> OwnFacts:
    """Return discounts that are written as ``AWS=22%``.

    Raises InputError if one has no provider or no share below 100 %.

    Examples
    --------
    >>> discount_facts(["AWS=22%"]).discounts
    {'AWS': 0.22}
    """
    try:
        pairs = [item.rsplit("=", 1) for item in stated]
        if len({name.casefold() for name, _ in pairs}) < len(pairs):
            raise ValueError
        return OwnFacts.model_validate(_filled({"discounts": dict(pairs)}))
    except ValueError:
        raise InputError(
            "--discount is not a provider and a share",
            value=", ".join(stated),
            allowed="a provider, = and a share from 0% to below 100%, each provider once",
            remedy="Write --discount AWS=22%.",
            field="--discount",
        ) from None


def read_own_facts(path: Path) -> OwnFacts:
    """Read a file of your own.

    ``InputError`` names the entry that is wrong, or why it cannot be read.
    """
    content = read_file(
        path,
        most=MAX_BYTES,
        name=f"the catalog file {path.name}",
        allowed="a YAML or CSV file",
        remedy=REMEDY,
        field="--catalog",
    )
    return parse_own_facts(content, name=path.name)


def parse_own_facts(content: bytes, *, name: str) -> OwnFacts:
    """Return the facts of a file's content, with the errors of :func:`read_own_facts`.

    A name that ends in ``.csv`` is a table of offers.
    """
    text = content.decode("utf-8-sig", errors="replace")
    try:
        found = _table(text) if name.lower().endswith(".csv") else read_yaml(text)
    except (NotPlainError, csv.Error) as error:
        raise _wrong(name, str(error), "plain YAML or CSV") from None
    if not isinstance(found, dict):
        raise _wrong(name, type(found).__name__, OF_A_FILE)
    for part, most in MOST.items():
        # Before they are checked, because each could have its own mistakes.
        if isinstance(entries := found.get(part), dict | list) and len(entries) > most:
            raise _wrong(name, f"{len(entries):,} {part}", f"up to {most:,}")
    try:
        return OwnFacts.model_validate(_filled(found))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        what = f"{place}: {first['msg']}" if first["type"] != "missing" else f"{place} is missing"
        raise _wrong(name, what, ALLOWED.get(str(first["loc"][0]), OF_A_FILE)) from None


def with_own_facts(
    catalog: Catalog, facts: OwnFacts, shipped: CatalogFile, *, name: str
) -> Catalog:
    """Return the catalog with your cards and offers added and your discounts taken off.

    Rules, rates and cards of the ``shipped`` file are known to yours; messages call it ``name``.
    Raises InputError if a key exists already, or a card, a provider or a currency is unknown.
    """
    today = current_day().isoformat()
    source = SourceRecord(
        title=f"Your file {name}",
        locator=name,
        date=today,
        licence="yours",
        confidence=Confidence.DATASHEET,
    )
    providers = {offer.provider.casefold() for offer in catalog.offers}
    providers |= {offer.provider.casefold() for offer in facts.offers}
    for stated in (*facts.discounts, *facts.providers):
        if stated.casefold() not in providers:
            raise _wrong(
                name,
                f"provider {stated}",
                ", ".join(sorted({offer.provider for offer in catalog.offers}, key=str.casefold)),
            )
    known = {item.key for item in catalog.accelerators}
    if twice := sorted(known & facts.accelerators.keys()):
        raise _wrong(name, f"accelerators.{twice[0]} exists already", "a key of your own")
    content = shipped.model_copy(
        update={
            "sources": {**shipped.sources, SOURCE: source},
            "accelerators": {**dict.fromkeys(known), **facts.accelerators},
        }
    )
    try:
        for key, record in facts.accelerators.items():
            check_accelerator(key, record, content, rule_source=RULE_SOURCE, file=name)
        for line, offer in enumerate(facts.offers, start=1):
            check_offer(offer, content, line=line, file=name)
    except CatalogError as error:
        raise _wrong(name, f"{error.entry}: {error.field} {error.value}", error.remedy) from None
    provenance = {
        key: Provenance(source=key, date=item.date, confidence=item.confidence)
        for key, item in content.sources.items()
    }
    cards = [
        accelerator_of(key, record, content.reported_memory_rules, provenance)
        for key, record in facts.accelerators.items()
    ]
    own = [offer_of(record, content) for record in facts.offers]
    taken = {offer.key for offer in own}
    if len(taken) < len(own):
        raise _wrong(name, "an offer is given twice", "one line for each instance and region")
    others = (
        _discounted(offer, facts.discounts)
        for offer in catalog.offers
        if offer.key not in taken and _allowed(offer, facts.providers)
    )
    offers = tuple(sorted([*others, *_bounded(own, catalog, name)], key=lambda item: item.key))
    if not offers:
        raise _wrong(name, "no offer is left", "providers with an offer")
    return catalog.changed(
        accelerators=tuple(sorted([*catalog.accelerators, *cards], key=lambda c: c.key)),
        offers=offers,
        sources={**catalog.sources, SOURCE: Source(key=SOURCE, **source.model_dump())},
    )


def _bounded(own: list[Offer], catalog: Catalog, name: str) -> list[Offer]:
    """Give your lowest prices the upper end that shipped ones have."""
    try:
        bounded = with_upper_ends([*catalog.offers, *own], file=name)
    except CatalogError as error:
        raise _wrong(name, f"{error.entry}: {error.field} {error.value}", error.remedy) from None
    return list(bounded[len(catalog.offers) :])


def _discounted(offer: Offer, discounts: Mapping[str, float]) -> Offer:
    share = {name.casefold(): part for name, part in discounts.items()}.get(
        offer.provider.casefold()
    )
    price = offer.on_demand_usd_per_hour
    if not share or price is None:
        return offer
    noted = "; ".join(filter(None, (offer.notes, f"{percent(share)} off as you said")))
    return offer.changed(on_demand_usd_per_hour=price * (1 - share), notes=noted, quote=None)


def with_quote(catalog: Catalog, accelerator: str, count: int, usd_per_hour: float) -> Catalog:
    """Return the catalog with your rent of ``count`` cards [USD/h] in place of all their offers.

    The machines are those of the offers that join all cards, or hold an even share of them and have
    a network. Without any, one machine with PCIe alone. A host's memory that is not known is that
    of the usual machine.
    """
    today = current_day().isoformat()
    usual = owned_node(catalog.accelerator(accelerator), count)
    machines: list[tuple[int, Offer | None]] = [
        (offer.accelerators, offer)
        for offer in catalog.offers
        if offer.accelerator == accelerator
        and count % offer.accelerators == 0
        and (offer.accelerators == count or offer.inter_node_bytes_per_s)
    ]
    quoted = [
        Offer(
            key=f"your-quote/{place}",
            provider=YOUR_QUOTE,
            instance_type=f"{cards}x {accelerator}" if like is None else like.instance_type,
            tier=FIRM_TIER,
            region="as quoted",
            accelerator=accelerator,
            accelerators=cards,
            vcpus=None if like is None else like.vcpus,
            host_memory_bytes=(None if like is None else like.host_memory_bytes)
            or usual.host_memory_bytes,
            on_demand_usd_per_hour=usd_per_hour * cards / count,
            spot_usd_per_hour=usd_per_hour * cards / count,
            price_date=today,
            intra_node="" if like is None else like.intra_node,
            inter_node_bytes_per_s=None if like is None else like.inter_node_bytes_per_s,
            provenance=Provenance(source=SOURCE, date=today, confidence=Confidence.DATASHEET),
        )
        for place, (cards, like) in enumerate(machines or [(count, None)])
    ]
    others = [offer for offer in catalog.offers if offer.accelerator != accelerator]
    return catalog.changed(offers=(*others, *quoted))


def _allowed(offer: Offer, providers: Sequence[str]) -> bool:
    named = {name.casefold() for name in providers}
    yours = offer.provenance.source == SOURCE
    return not providers or yours or offer.provider.casefold() in named


def _table(text: str) -> dict[str, Any]:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    offers = []
    for row in rows:
        if None in row:
            msg = f"line {rows.line_num} has more cells than the header"
            raise csv.Error(msg)
        offers.append({name: cell.strip() for name, cell in row.items() if cell and cell.strip()})
    if not offers:
        msg = "it has no offers"
        raise csv.Error(msg)
    return {"offers": offers}


def _filled(found: Mapping[str, Any]) -> dict[str, Any]:
    """Add what a file may leave out. Wrong types stay as they are, so that they are refused."""
    today = current_day().isoformat()
    offer = {
        "region": "unspecified",
        "tier": "your quote",
        "currency": "USD",
        "price_date": today,
        "source": SOURCE,
        "confidence": Confidence.DATASHEET,
    }
    card = {
        "architecture": "not stated",
        "year": current_day().year,
        "segment": "datacenter",
        "form_factor": "PCIe card",
        "memory_type": "not stated",
        "sources": {"default": SOURCE},
    }
    filled = dict(found)
    if isinstance(offers := found.get("offers"), list):
        filled["offers"] = [{**offer, **o} if isinstance(o, dict) else o for o in offers]
    if isinstance(cards := found.get("accelerators"), dict):
        filled["accelerators"] = {
            key: {**card, **_card_rule(item), **item} if isinstance(item, dict) else item
            for key, item in cards.items()
        }
    if isinstance(discounts := found.get("discounts"), dict):
        filled["discounts"] = {name: _share(part) for name, part in discounts.items()}
    return filled


def _card_rule(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a card's memory and price follow from, where it states neither."""
    rule = {} if "memory_reported_mib" in item else {"memory_reported_rule": "marketed-gb"}
    price = {} if "purchase" in item else {"no_purchase": "your file states no price"}
    return {**rule, **price}


def _share(part: object) -> object:
    """Return ``22%`` as 0.22."""
    if isinstance(part, str) and part.strip().endswith("%"):
        try:
            return float(part.strip()[:-1]) / 100
        except ValueError:
            return part
    return part


def _wrong(name: str, what: str, allowed: str) -> InputError:
    option = name.startswith("--")
    return InputError(
        f"{name} is wrong" if option else f"the catalog file {name} is wrong",
        value=what,
        allowed=allowed,
        remedy="Correct it." if option else REMEDY,
        field=name if option else "--catalog",
    )
