"""Offers, cards and discounts of one's own, which a reader uploads for the session."""

from functools import lru_cache
from hashlib import sha256
from typing import Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from advisor import api
from advisor.errors import InputError, refusal
from advisor.foundation.formatting import percent
from advisor.foundation.names import display_name

Upload = tuple[str, bytes]
"""Name and content of a file."""
KEY: Final = "own_catalog"
MOST_FILES: Final = 3
MOST_BYTES: Final = 1_000_000
"""Of one file."""


def held() -> tuple[Upload, ...]:
    """Return the files of this session."""
    if get_script_run_ctx(suppress_warning=True) is None:
        return ()
    found: tuple[Upload, ...] = st.session_state.get(KEY, ())
    return found


def version() -> str:
    """Return what tells the catalog of this session from others."""
    return f"{api.load_catalog().prices.fetched_at} {_digest(held())}"


@lru_cache(maxsize=8)
def _digest(files: tuple[Upload, ...]) -> str:
    return sha256(repr(files).encode()).hexdigest() if files else ""


def add(name: str, content: bytes) -> None:
    """Take a file, or a newer one of the same name.

    Raises InputError if there are too many, or it fails the checks of ``--catalog``; the session
    then keeps what it had.
    """
    display_name(name, field="the name of the file")
    before = held()
    others = tuple(item for item in before if item[0] != name)
    if len(others) >= MOST_FILES:
        raise refusal("too_many_files", value=len(others) + 1, most=MOST_FILES)
    st.session_state[KEY] = (*others, (name, content))
    try:
        api.load_catalog()
    except InputError:
        st.session_state[KEY] = before
        raise


def forget() -> None:
    """Drop the files; a callback."""
    st.session_state.pop(KEY, None)


def words(upload: Upload) -> str:
    """Say what was understood of a file.

    >>> words(("quotes.yaml", b"discounts: {AWS: 22%}"))
    'quotes.yaml: 22 % off AWS.'
    """
    name, content = upload
    facts = api.parse_own_facts(content, name=name)
    parts = []
    if facts.offers:
        firms = ", ".join(sorted({offer.provider for offer in facts.offers}))
        parts.append(f"{len(facts.offers):,} offer{'s' * (len(facts.offers) > 1)} of {firms}")
    if facts.accelerators:
        parts.append(f"cards: {', '.join(card.name for card in facts.accelerators.values())}")
    parts += [f"{percent(share)} off {firm}" for firm, share in facts.discounts.items()]
    if facts.providers:
        parts.append(f"only {', '.join(facts.providers)} may be used")
    return f"{name}: {'; '.join(parts) or 'nothing'}."


api.uploads_come_from(held)  # Every question of this server uses the files of its own session.
