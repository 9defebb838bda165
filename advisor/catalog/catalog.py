"""The catalog: accelerators, offers and the sources behind them."""

import re
from collections.abc import Callable, Hashable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Annotated, Any, Final, Self, TypeVar, cast

from pydantic import Field

from advisor.catalog.api_prices import ApiPrice
from advisor.catalog.files.rows import converted
from advisor.errors import refusal
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.units import GB, GIB
from advisor.nouns import hardware
from advisor.nouns.limits import LEAST_RATE, MOST_RATE

Argument = TypeVar("Argument", bound=Hashable)
Found = TypeVar("Found")

_COUNTED: Final = re.compile(
    r"(\d{1,4}) ?[x×*][ -]?\D.*|.+?[:=*×,] ?(\d{1,4})|.+ x ?(\d{1,4})", re.ASCII
)
"""What people write of several cards: ``2x rtx-3090``, ``rtx-3090=2``, ``rtx-3090 x2``."""


class Source(Noun):
    """A source of catalog values."""

    key: str
    title: str
    locator: str
    """Address, or repository with commit and path."""
    date: str
    """When the source was published or read. ISO 8601, possibly only the month or the year."""
    licence: str
    confidence: hardware.Confidence


class ExchangeRate(Noun):
    """The value of one unit of a currency in US dollars."""

    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    date: str
    """ISO 8601. Empty if the user gave the rate."""


class PriceState(Noun):
    """Which prices the catalog uses: live ones, or those of the shipped snapshot."""

    live_providers: tuple[str, ...] = ()
    """Providers whose live prices are in use."""
    fetched_at: str = ""
    """When the live prices were fetched. ISO 8601 with time; empty for the shipped snapshot."""
    problem: str = ""
    """Why the cached live prices are not used. Empty if nothing is wrong."""
    hosted: Annotated[tuple[ApiPrice, ...], Field(exclude=True)] = ()
    """Live prices of hosted models, in place of the shipped ones with the same name."""

    @property
    def sentence(self) -> str:
        """Which prices are in use, as a sentence for the user."""
        if not self.live_providers:
            return "Prices come from the snapshot that ships with the program."
        names, day = ", ".join(self.live_providers), self.fetched_at[:10]
        return (
            f"Prices of {names} are live, fetched on {day}; all others come from "
            "the shipped snapshot."
        )


MOST_FOUND: Final = 1000
"""Derived tables that a catalog keeps."""
SHIPPED: Final = PriceState.model_construct()


_SIZE: Final = re.compile(r"\d+gb")
_COMPUTER: Final = re.compile(r"^(apple )?(macbook (air|pro)|mac (mini|studio|pro)|imac) ")
"""What people put before the name of a Mac's chip."""


def _words(name: str) -> list[str]:
    return re.findall("[^-_ (),]+", re.sub(r"(?<=\d) gb\b", "gb", name))


def _compact(name: str) -> str:
    """Return a name without what people leave out or write otherwise."""
    return re.sub("[-_ ]", "", name)


class Catalog(Noun):
    """Everything that can be bought or rented, with its sources.

    >>> from advisor.catalog import load_catalog
    >>> load_catalog().accelerator("h100-sxm").memory_bandwidth_bytes_per_s
    3350000000000.0
    """

    accelerators: Annotated[tuple[hardware.Accelerator, ...], Field(min_length=1)]
    """Ordered by key."""
    offers: Annotated[tuple[hardware.Offer, ...], Field(min_length=1)]
    """Ordered by key."""
    sources: dict[str, Source]
    """By key."""
    excluded: dict[str, str]
    """Accelerators left out on purpose, with the reason."""
    exchange_rates: dict[str, ExchangeRate] = Field(default_factory=dict)
    """By currency. The offers' prices in US dollars already use these rates."""
    software: dict[str, hardware.SoftwareSupport] = Field(default_factory=dict)
    """By compute capability."""
    prices: PriceState = SHIPPED

    def accelerator(self, key: str) -> hardware.Accelerator:
        """Find an accelerator by catalog key or full product name.

        Upper and lower case are the same; blanks and hyphens do not count: "RTX 4090" is rtx-4090.

        A part of a name, its number or two words, is enough where it means one card: "4090",
        "orin nano". Keys joined by ``+`` are unlike cards of one computer. Raises InputError if no
        accelerator, or more than one (h100), has this name. The message suggests the nearest ones.
        """
        wanted = key.casefold().strip()
        wanted = _COMPUTER.sub("", wanted) or wanted
        found = self._by_name.get(wanted) or self._by_compact_name.get(_compact(wanted))
        found = found or self._by_part(wanted)
        if found is not None:
            return found
        if hardware.JOIN in wanted:
            names = wanted.split(hardware.JOIN)
            if not all(map(str.strip, names)):
                raise refusal("card_missing", value=key, join=hardware.JOIN)
            return unlike_cards(key, [self.accelerator(name) for name in names])
        near = self._nearest(wanted)
        nearest = f"; nearest: {', '.join(near)}" if near else ""
        if reason := self.excluded.get(wanted):
            raise refusal(
                "accelerator_left_out", value=key, key=key, reason=reason, nearest=nearest
            )
        if near and (counted := _COUNTED.fullmatch(wanted)):
            raise refusal(
                "accelerator_with_number",
                value=key,
                number=counted[counted.lastindex or 0],
                card=near[0],
                nearest=nearest,
            )
        raise refusal("unknown_accelerator", value=key, nearest=nearest)

    def offers_for(self, key: str) -> tuple[hardware.Offer, ...]:
        """Return the offers of one accelerator by key; empty if nobody rents it out."""
        return self._by_accelerator.get(self.accelerator(key).key, ())

    def software_for(self, accelerator: hardware.Accelerator) -> hardware.SoftwareSupport | None:
        """Return the software that an accelerator needs; None if the catalog has no entry."""
        return self.software.get(accelerator.compute_capability or "")

    def at_rate(self, currency: str, usd: float) -> Self:
        """Return the catalog with the prices of a currency (EUR) at a new rate. [USD for one unit]

        Raises InputError if no offer is quoted in that currency, or the rate is no possible one.
        """
        if currency not in self.exchange_rates:
            raise refusal(
                "no_prices_in_currency",
                value=currency,
                allowed=", ".join(self.exchange_rates) or "none: all prices are in USD",
            )
        if not LEAST_RATE <= usd <= MOST_RATE:
            raise refusal(
                "exchange_rate_out_of_range",
                value=usd,
                least=LEAST_RATE,
                most=MOST_RATE,
                currency=currency,
            )
        offers = tuple(
            converted(offer, usd=usd, rate_date="")
            if offer.quote is not None and offer.quote.currency == currency
            else offer
            for offer in self.offers
        )
        rates = self.exchange_rates | {currency: ExchangeRate(usd=usd, date="")}
        return self.changed(offers=offers, exchange_rates=rates)

    @cached_property
    def newest_price_date(self) -> str:
        """Date of the newest price. ISO 8601."""
        return max(offer.price_date for offer in self.offers)

    def __copy__(self) -> Self:
        """Return a copy without the lookup tables: ``model_copy`` may change what they index."""
        copied = super().__copy__()
        for name in {*copied.__dict__} - {*type(self).model_fields}:
            del copied.__dict__[name]
        return copied

    def once(self, find: Callable[[Self, Argument], Found], argument: Argument) -> Found:
        """Return ``find(catalog, argument)`` of a module, computed once for this catalog.

        After ``MOST_FOUND`` different arguments, all are forgotten.
        """
        key = find, argument
        known = self._found.get(key)
        if known is not None:
            return cast("Found", known)
        found = find(self, argument)
        if len(self._found) >= MOST_FOUND:
            self._found.clear()
        self._found[key] = found
        return found

    @cached_property
    def _found(self) -> dict[object, object]:
        return {}

    def __getstate__(self) -> dict[Any, Any]:
        """Pickle the fields alone."""
        state = super().__getstate__()
        fields = {name: state["__dict__"][name] for name in type(self).model_fields}
        return {**state, "__dict__": fields}

    def _by_part(self, name: str) -> hardware.Accelerator | None:
        """Return the one card with all words of a name and the fewest others.

        A size of memory among the others tells cards apart only where nothing else does: a 3060 is
        the RTX 3060 with 12 GB rather than the RTX 3060 Ti.
        """
        words = set(_words(name))
        numbers = (word for word in words if re.search(r"\d", word) and not _SIZE.fullmatch(word))
        if not any(len(word) > 1 for word in numbers) and len(words) < 2:
            return None
        found: dict[tuple[int, int], list[hardware.Accelerator]] = {}
        for item in self.accelerators:
            size = f"{item.memory_marketed_bytes / GB:g}gb"
            if words <= {*_words(item.key), *_words(item.name.casefold()), size}:
                others = [word for word in _words(item.key) if word not in words]
                plain = [word for word in others if not _SIZE.fullmatch(word)]
                found.setdefault((len(plain), len(others)), []).append(item)
        best = found[min(found)] if found else []
        return best[0] if len(best) == 1 else None

    def _nearest(self, name: str) -> list[str]:
        """Return up to five keys: first those that share the name or its number, then like ones."""
        short = _compact(name)
        containing = [
            other
            for other in self._by_name
            if short and (short in (long := _compact(other)) or long in short)
        ]
        containing.sort(key=len)
        number = next((word for word in name.split("-") if re.search(r"\d", word)), name)
        alike = get_close_matches(name, self._by_name, n=20, cutoff=0.5)
        alike.sort(key=lambda other: (number not in other, "mig" in other))
        return list(dict.fromkeys(self._by_name[other].key for other in containing + alike))[:5]

    @cached_property
    def _by_name(self) -> dict[str, hardware.Accelerator]:
        names = {item.name.casefold(): item for item in self.accelerators}
        return names | {item.key: item for item in self.accelerators}

    @cached_property
    def _by_compact_name(self) -> dict[str, hardware.Accelerator]:
        return {_compact(name): item for name, item in self._by_name.items()}

    @cached_property
    def _by_accelerator(self) -> dict[str, tuple[hardware.Offer, ...]]:
        groups: dict[str, list[hardware.Offer]] = {}
        for offer in self.offers:
            groups.setdefault(offer.accelerator, []).append(offer)
        return {key: tuple(offers) for key, offers in groups.items()}


_facts = shipped("unlike_cards.yaml", hardware.UnlikeFacts)


def unlike_cards(key: str, cards: Sequence[hardware.Accelerator]) -> hardware.UnlikeCards:
    """Return cards of one computer as one device that holds a model's layers in turn.

    ``key`` is what the user wrote, for messages. Raises InputError if the cards are of one kind,
    too many, of several vendors, or not cards for a slot.
    """
    facts = _facts()
    _check(key, cards, facts)
    parts = tuple(sorted(cards, key=lambda card: (-card.memory_bandwidth_bytes_per_s, card.key)))
    oldest = min(parts, key=lambda card: (card.year, card.compute_capability or ""))
    formats = set.intersection(*({*card.peak_flops_per_s} for card in parts))
    sizes = [card.memory_reported_bytes for card in parts]
    total = sum(sizes)

    def mean(rates: Sequence[float]) -> float:
        """Return the rate of full cards, one after the other."""
        return total / sum(size / rate for size, rate in zip(sizes, rates, strict=True))

    powers = [card.board_power_w for card in parts]
    prices = [card.purchase_usd for card in parts]
    priced = None not in prices
    home = any(card.segment is hardware.Segment.CONSUMER for card in parts)
    provenance: dict[str, hardware.Provenance] = {"default": oldest.source_of("default")}
    return hardware.UnlikeCards(
        **oldest.model_dump(
            include={"vendor", "architecture", "year", "memory_type", "compute_capability"}
        ),
        key=hardware.JOIN.join(card.key for card in parts),
        name=" + ".join(card.name for card in parts),
        segment=hardware.Segment.CONSUMER if home else oldest.segment,
        form_factor="cards of one computer",
        memory_marketed_bytes=sum(card.memory_marketed_bytes for card in parts),
        memory_reported_bytes=total - (len(parts) - 1) * facts.further_card_gib * GIB,
        memory_reported_derived=any(card.memory_reported_derived for card in parts),
        memory_bandwidth_bytes_per_s=mean([card.memory_bandwidth_bytes_per_s for card in parts]),
        peak_flops_per_s={
            name: mean([card.peak_flops_per_s[name] for card in parts])
            for name in oldest.peak_flops_per_s
            if name in formats
        },
        board_power_w=None if None in powers else sum(power or 0.0 for power in powers),
        interconnect=None,
        pcie_generation=min(card.pcie_generation or facts.pcie_generation for card in parts),
        pcie_lanes=min(card.pcie_lanes for card in parts),
        purchase_usd=sum(price or 0.0 for price in prices) if priced else None,
        purchase_date=min(card.purchase_date or "" for card in parts) if priced else None,
        purchase_kind=oldest.purchase_kind if priced else None,
        no_purchase=None if priced else "not all of these cards have a price",
        provenance=provenance,
        inference_only=True,
        parts=parts,
        usable_share=facts.usable_share,
    )


def _check(key: str, cards: Sequence[hardware.Accelerator], facts: hardware.UnlikeFacts) -> None:
    kinds = {card.key for card in cards}
    vendors = {card.vendor for card in cards}
    alone = [card.name for card in cards if not card.form_factor.startswith(facts.form_factor)]
    if len(kinds) == 1:
        raise refusal("cards_alike", value=key, kind=cards[0].key, count=len(cards))
    if len(cards) > facts.most_cards:
        raise refusal("cards_too_many", value=key, most=facts.most_cards)
    if alone:
        raise refusal("card_stands_alone", value=key, card=alone[0])
    if len(vendors) > 1:
        raise refusal("cards_of_vendors", value=key)
