"""Lays your own offers, cards, discounts and quotes over the shipped catalog."""

from collections import Counter
from collections.abc import Mapping, Sequence

from advisor.catalog.catalog import Catalog, Source
from advisor.catalog.files.checks import check_accelerator, check_offer
from advisor.catalog.files.convert import RULE_SOURCE, accelerator_of, offer_of
from advisor.catalog.files.rows import CatalogFile, SourceRecord, with_upper_ends
from advisor.catalog.nodes import owned_node
from advisor.catalog.own.facts import OwnFacts, wrong
from advisor.errors import CatalogError, InputError
from advisor.foundation.dates import current_day, first_day
from advisor.foundation.formatting import percent
from advisor.nouns.hardware import FIRM_TIER, YOUR_FILE, YOUR_QUOTE, Confidence, Offer, Provenance


def with_own_facts(
    catalog: Catalog, facts: OwnFacts, shipped: CatalogFile, *, name: str
) -> Catalog:
    """Return the catalog with your cards and offers added and your discounts taken off.

    Rules, rates and cards of the ``shipped`` file are known to yours; messages call it ``name``.
    Raises InputError if a key exists already, or a card, a provider or a currency is unknown.
    """
    _check_names(catalog, facts, name)
    source = SourceRecord(
        title=f"Your file {name}",
        locator=name,
        date=current_day().isoformat(),
        licence="yours",
        confidence=Confidence.DATASHEET,
    )
    known = dict.fromkeys(item.key for item in catalog.accelerators)
    content = shipped.changed(
        sources={**shipped.sources, YOUR_FILE: source},
        accelerators={**known, **facts.accelerators},
    )
    own = _own_offers(facts, content, catalog, name)
    provenance = {
        key: Provenance(source=key, date=item.date, confidence=item.confidence)
        for key, item in content.sources.items()
    }
    cards = [
        accelerator_of(key, record, content.reported_memory_rules, provenance)
        for key, record in facts.accelerators.items()
    ]
    taken = Counter(offer.key for offer in own)
    if twice := [key for key, times in taken.items() if times > 1]:
        raise wrong(name, f"{twice[0]} is given twice", "one line for each instance and region")
    others = (
        _discounted(offer, facts.discounts)
        for offer in catalog.offers
        if offer.key not in taken and _allowed(offer, facts.providers)
    )
    offers = tuple(sorted([*others, *own], key=lambda item: item.key))
    if not offers:
        raise wrong(name, "no offer is left", "providers with an offer")
    return catalog.changed(
        accelerators=tuple(sorted([*catalog.accelerators, *cards], key=lambda c: c.key)),
        offers=offers,
        sources={**catalog.sources, YOUR_FILE: Source(key=YOUR_FILE, **source.model_dump())},
    )


def _check_names(catalog: Catalog, facts: OwnFacts, name: str) -> None:
    """Refuse providers that nobody knows, and cards that the catalog has."""
    shipped = {offer.provider for offer in catalog.offers}
    own = {offer.provider for offer in facts.offers}
    providers = {provider.casefold() for provider in shipped | own}
    for stated in (*facts.discounts, *facts.providers):
        if stated.casefold() not in providers:
            known = ", ".join(sorted(shipped, key=str.casefold))
            raise wrong(name, f"provider {stated}", known)
    keys = {item.key for item in catalog.accelerators}
    if twice := sorted(keys & facts.accelerators.keys()):
        raise wrong(name, f"accelerators.{twice[0]} exists already", "a key of your own")


def _own_offers(
    facts: OwnFacts, content: CatalogFile, catalog: Catalog, name: str
) -> tuple[Offer, ...]:
    """Return your offers, your lowest prices with an upper end as shipped ones have.

    Cards and offers are checked as those of the shipped files are; no price is of later than today.
    """
    today, own = current_day(), []
    try:
        for key, record in facts.accelerators.items():
            check_accelerator(key, record, content, rule_source=RULE_SOURCE, file=name)
        for line, offer in enumerate(facts.offers, start=2):
            place, card = f"line {line} ({offer.instance_type})", offer.accelerator
            if card not in facts.accelerators:
                try:
                    card = catalog.accelerator(card).key
                except InputError as error:
                    raise wrong(name, f"{place}: accelerator {card}", error.allowed) from None
            keyed = offer.changed(accelerator=card)
            check_offer(keyed, content, line=line, file=name)
            if first_day(offer.price_date) > today:
                day = f"the day on which you saw the price, up to today ({today})"
                raise wrong(name, f"{place}: price_date {offer.price_date}", day)
            own.append(offer_of(keyed, content))
        return with_upper_ends([*catalog.offers, *own], file=name)[len(catalog.offers) :]
    except CatalogError as error:
        raise wrong(name, f"{error.entry}: {error.field} {error.value}", error.remedy) from None


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
            provenance=Provenance(source=YOUR_FILE, date=today, confidence=Confidence.DATASHEET),
        )
        for place, (cards, like) in enumerate(machines or [(count, None)])
    ]
    others = [offer for offer in catalog.offers if offer.accelerator != accelerator]
    return catalog.changed(offers=(*others, *quoted))


def _allowed(offer: Offer, providers: Sequence[str]) -> bool:
    named = {name.casefold() for name in providers}
    yours = offer.provenance.source == YOUR_FILE
    return not providers or yours or offer.provider.casefold() in named
