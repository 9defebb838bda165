"""The cache file of live prices: written whole or not at all, and verified by its checksum."""

import json
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from advisor.catalog.live.prices import LivePrices
from advisor.errors import RefreshError, TransferError
from advisor.foundation.files.writing import write_whole

FORMAT: Final = "gpu-advisor live prices"
SCHEMA: Final = 2
"""Version of the file format. The reader refuses every other version."""
MAX_BYTES: Final = 10_000_000
"""Some 16,000 offers, of 600 bytes each; reading them takes half a second and under 100 MB."""
MAX_HEAD_BYTES: Final = 1000
CLOCK_TOLERANCE: Final = timedelta(days=1)


class CacheRefusedError(Exception):
    """The cache cannot be used; the message says why."""


class ClockError(CacheRefusedError):
    """The cache has a date in the future, so the clock is wrong, not the cache."""


def read_cache(path: Path, *, now: datetime) -> LivePrices | None:
    """Read the cached prices; None if no cache exists.

    Raises CacheRefusedError if it is unreadable, damaged, of another version, or from the future.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CacheRefusedError("it is too large")
        if path.exists() and not path.is_file():  # reading a named pipe would wait
            raise CacheRefusedError("it cannot be read: it is not a regular file")
        head, _, body = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheRefusedError(f"it cannot be read ({error.strerror})") from None
    _check_head(head, body)
    try:
        prices = LivePrices.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CacheRefusedError(f"its field {place} is broken") from None
    if prices.fetched_at > now + CLOCK_TOLERANCE:
        day = prices.fetched_at.date().isoformat()
        raise ClockError(
            f"it was written on {day}, after today: the clock of this machine seems to be wrong"
        )
    return prices


def write_cache(path: Path, prices: LivePrices) -> None:
    """Write the prices.

    A reader sees the old file or the new one. Raises ``RefreshError`` if it cannot be written.
    """
    body = prices.model_dump_json()
    if len(body) > MAX_BYTES - MAX_HEAD_BYTES:
        raise RefreshError(
            f"live prices cannot be kept: they are too large, {len(body) / 1e6:,.0f} MB",
            remedy="Report it: a true feed takes a few MB.",
        )
    digest = sha256(body.encode()).hexdigest()
    head = json.dumps({"format": FORMAT, "schema": SCHEMA, "sha256": digest})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{head}\n{body}")
    except (OSError, TransferError) as error:
        why = f"{str(path)!r} cannot be written ({getattr(error, 'strerror', '')})"
        why = error.what if isinstance(error, TransferError) else why
        raise RefreshError(
            f"live prices cannot be kept: {why}",
            remedy="Free disk space, allow writing there, or set GPU_ADVISOR_CACHE_DIR.",
        ) from None


def _check_head(head: bytes, body: bytes) -> None:
    try:
        found = json.loads(head)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CacheRefusedError("it is damaged: its first line is not that of this program")
    if found.get("schema") != SCHEMA:
        raise CacheRefusedError(
            f"it has version {found.get('schema')}, but this program reads version {SCHEMA}"
        )
    if found.get("sha256") != sha256(body).hexdigest():
        raise CacheRefusedError("it is damaged: its checksum does not match")
