"""What programs can ask: each question, what it holds, and the function of the facade behind it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from advisor import api
from advisor.catalog import Catalog
from advisor.compare.cards import MAX_CARDS, Comparison, compare_cards
from advisor.errors import refusal
from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_sent


class FitsQuestion(Noun):
    """Some cards, and the requests that they serve."""

    accelerator: Name
    """Key or name of the catalog, e.g. ``rtx-4090``."""
    count: Annotated[int, Field(ge=1, le=16384)] = 1
    context_tokens: Annotated[int, Field(ge=2, le=10_000_000)] = 8192
    """Prompt and answer (serving), or the sequence (training). [tokens]"""
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] = 8
    """Sequences served at once."""
    everything: bool = False
    """Check every preset that writes text instead of a short list."""


class CompareQuestion(Noun):
    """Cards to put side by side."""

    accelerators: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_CARDS)]
    """Keys or names of the catalog."""


class CatalogQuestion(Noun):
    """Nothing but the wish to see what there is."""


class KnownCard(Noun):
    """An accelerator of the catalog by its key and name."""

    key: str
    name: str
    vendor: str
    memory_bytes: float
    """As the driver reports it. [bytes]"""
    offers: int
    """How many offers rent it."""


class KnownCards(Noun):
    """What the catalog has."""

    accelerators: tuple[KnownCard, ...]
    providers: tuple[str, ...]
    newest_price_date: str
    prices: str
    """Which prices are in use, as a sentence."""


@dataclass(frozen=True)
class Door:
    """One question that programs can ask."""

    name: str
    summary: str
    question: type[Noun]
    answer: type[Noun]
    ask: Callable[[Any], Noun]


def known_cards(_: CatalogQuestion) -> KnownCards:
    """Return the accelerators, providers and the age of prices."""
    catalog: Catalog = api.load_catalog()
    return KnownCards(
        accelerators=tuple(
            KnownCard(
                key=card.key,
                name=card.name,
                vendor=card.vendor,
                memory_bytes=card.memory_reported_bytes,
                offers=len(catalog.offers_for(card.key)),
            )
            for card in catalog.accelerators
        ),
        providers=tuple(sorted({offer.provider for offer in catalog.offers})),
        newest_price_date=catalog.newest_price_date,
        prices=catalog.prices.sentence,
    )


def _fits(question: FitsQuestion) -> Noun:
    return api.fits(**question.model_dump())


def doors() -> dict[str, Door]:
    """Return every question by its name."""
    from advisor.owning.results import Ownership
    from advisor.planning.fits.results import Fits

    found = (
        Door(
            "recommend",
            "Rank which accelerators to rent or use for a case, how many, in which layout, for how "
            "long, at what cost, and say why every other one lost",
            Case,
            api.Recommendation,
            api.recommend,
        ),
        Door(
            "estimate",
            "Memory, FLOPs, time and cost of a case on the hardware that it states",
            Case,
            api.Estimate,
            api.estimate,
        ),
        Door(
            "own", "Rent or buy the hardware of a case: break-even, cost", Case, Ownership, api.own
        ),
        Door(
            "fits",
            "The known models that some cards can serve and train",
            FitsQuestion,
            Fits,
            _fits,
        ),
        Door(
            "compare",
            "Cards side by side: facts, rent, performance per dollar",
            CompareQuestion,
            Comparison,
            lambda question: compare_cards(question.accelerators, api.load_catalog()),
        ),
        Door(
            "catalog",
            "The accelerators and providers that questions can name, and the age of the prices",
            CatalogQuestion,
            KnownCards,
            known_cards,
        ),
    )
    return {door.name: door for door in found}


def asked(door: Door, content: object) -> Noun:
    """Return the question that a program sends.

    Raises ``InputError`` if it is not valid, or names a file of this machine or a model that
    would be downloaded.
    """
    if not isinstance(content, Mapping):
        raise refusal("question_no_object", value=content)
    return load_sent(door.question, content)
