"""Links with odd parameters, opened as the page opens them."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, fields
from functools import cache
from random import Random
from typing import Final

from advisor import api
from advisor.ui.forms.cases import case_of
from advisor.ui.forms.inputs import DEFAULTS, Inputs
from advisor.ui.forms.reading import read
from advisor.ui.session.links import decode
from advisor.ui.session.question import question
from tests.fuzz.answers import check_message
from tests.fuzz.mutate import FRAGMENTS, HOSTILE, TYPED, torn

GPT2: Final = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}
LINK: Final = {
    **{name: value for name, value in asdict(DEFAULTS).items() if isinstance(value, str)},
    "v": "1",
    "providers": "AWS",
    "accelerators": "h100-sxm~l40s",
    "engine": "0.1.0",
    "catalog": "2026-11-21",
    "usd": "12.50",
}
CONFIG: Final = base64.urlsafe_b64encode(zlib.compress(json.dumps(GPT2).encode())).decode()


def make_link(source: Random) -> dict[str, str]:
    """Return the parameters of a link, some of them odd."""
    link = source.choice((LINK, LINK, LINK | {"model": "config.json", "config": CONFIG}))
    link = dict(source.sample(list(link.items()), source.randint(1, len(link))))
    texts = [item for item in HOSTILE if isinstance(item, str)]
    for _ in range(source.randint(1, 5)):
        name = source.choice((*LINK, "config", "__class__", "a\x00b"))
        if name in link and source.random() < 0.3:
            link[name] = torn(link[name], source, 1)
        else:
            link[name] = source.choice(source.choice((TYPED, TYPED, texts, FRAGMENTS)))
    return link


@cache
def _names() -> tuple[frozenset[str], dict[str, str]]:
    catalog = api.load_catalog()
    providers = frozenset(offer.provider for offer in catalog.offers)
    return providers, {card.key: card.name for card in catalog.accelerators}


def _opened(parameters: dict[str, str]) -> tuple[Inputs, tuple[str, ...]]:
    """Return the inputs of a link, and what had to be corrected."""
    page = question(providers=lambda: _names()[0], accelerators=lambda: _names()[1])
    found = decode(page, parameters)
    names = (item.name for item in fields(Inputs))
    inputs = Inputs(**{name: found.values[name] for name in names})  # type: ignore[arg-type]
    return inputs, found.corrections


def run_link(parameters: dict[str, str]) -> None:
    """Open a link, and make the case of what it asks."""
    inputs, corrections = _opened(parameters)
    reading = read(inputs)
    for text in (*corrections, *reading.problems.values()):
        check_message(text)
    if not reading.problems:
        api.load_case(case_of(inputs, reading.numbers))
