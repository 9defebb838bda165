"""Reads your own offers, cards and discounts; `overlay` lays them over the shipped catalog.

A file is YAML with ``offers``, ``accelerators``, ``discounts`` and ``providers``, or CSV with
offers. It passes the checks of the shipped files.
"""

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, field_validator

from advisor.catalog.files.rows import AcceleratorRecord, OfferRecord
from advisor.catalog.records import Key, Name
from advisor.errors import InputError, refusal
from advisor.foundation.dates import current_day
from advisor.foundation.files.reading import read_file
from advisor.foundation.files.structured import NotPlainError, read_yaml
from advisor.foundation.noun import Noun, shown
from advisor.nouns.hardware import YOUR_FILE, Confidence

MAX_BYTES: Final = 1_000_000
MOST: Final = {"offers": 5_000, "accelerators": 200, "discounts": 200, "providers": 200}
_FAULTS: Final = {"missing": "is missing", "extra_forbidden": "is no field of it"}
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

Discount = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class OwnFacts(Noun):
    """The content of files, with what they leave out filled in."""

    offers: tuple[OfferRecord, ...] = ()
    accelerators: dict[Key, AcceleratorRecord] = Field(default={})
    discounts: dict[Name, Discount] = Field(default={})
    """Share off the on-demand price, by provider."""
    providers: tuple[Name, ...] = ()
    """The providers that may be used; empty: all. Those of your own offers are always allowed."""

    @field_validator("discounts")
    @classmethod
    def _once(cls, discounts: dict[str, float]) -> dict[str, float]:
        if len({name.casefold() for name in discounts}) < len(discounts):
            raise ValueError("one provider has two discounts; state each provider once")
        return discounts


def discount_facts(stated: Sequence[str]) -> OwnFacts:
    """Return discounts that are written as ``AWS=22%``.

    Raises InputError if one has no provider or no share below 100 %.

    >>> discount_facts(["AWS=22%"]).discounts
    {'AWS': 0.22}
    """
    try:
        pairs = [item.rsplit("=", 1) for item in stated]
        if len({name.casefold() for name, _ in pairs}) < len(pairs):
            raise ValueError
        return OwnFacts.model_validate(_filled({"discounts": dict(pairs)}))
    except ValueError:
        raise refusal("no_discount", value=", ".join(stated)) from None


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
    table = name.lower().endswith(".csv")
    try:
        found: object = _table(text) if table else read_yaml(text)
    except (NotPlainError, csv.Error) as error:
        raise wrong(name, str(error), "plain YAML, or CSV with commas and decimal points") from None
    if not isinstance(found, dict):
        raise wrong(name, type(found).__name__, OF_A_FILE)
    for part, most in MOST.items():
        # Before they are checked, because each could have its own mistakes.
        if isinstance(entries := found.get(part), dict | list) and len(entries) > most:
            raise wrong(name, f"{len(entries):,} {part}", f"up to {most:,}")
    try:
        return OwnFacts.model_validate(_filled(found))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        part, *rest = map(str, first["loc"])
        place = ".".join((part, *rest))
        if table:
            place = ", ".join((f"line {int(rest[0]) + 2}", *rest[1:]))
        shape = ALLOWED.get(part, OF_A_FILE)
        if (fault := _FAULTS.get(first["type"])) is not None:
            raise wrong(name, f"{place} {fault}", shape) from None
        other, bounds, wanted = first["msg"].partition("Input should be ")
        if bounds:
            raise wrong(name, f"{place}: {shown(first['input'])}", wanted.split(",")[0]) from None
        raise wrong(name, f"{place}: {other.removeprefix('Value error, ')}", shape) from None


def _table(text: str) -> dict[str, Any]:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    rows.fieldnames = [name.strip().lower().replace(" ", "_") for name in rows.fieldnames or ()]
    if len(rows.fieldnames) == 1 and re.search("[;\t]", rows.fieldnames[0]):
        raise csv.Error("semicolons or tabs between its cells")
    offers = []
    for row in rows:
        if None in row:
            raise csv.Error(f"line {rows.line_num} has more cells than the header")
        offers.append({name: cell.strip() for name, cell in row.items() if cell and cell.strip()})
    if not offers:
        raise csv.Error("it has no offers")
    return {"offers": offers}


def _filled(found: Mapping[str, Any]) -> dict[str, Any]:
    """Add what a file may leave out. Wrong types stay as they are, so that they are refused."""
    today = current_day().isoformat()
    offer = {
        "tier": "your quote",
        "currency": "USD",
        "price_date": today,
        "source": YOUR_FILE,
        "confidence": Confidence.DATASHEET,
    }
    card = {
        "architecture": "not stated",
        "year": current_day().year,
        "segment": "datacenter",
        "form_factor": "PCIe card",
        "memory_type": "not stated",
        "sources": {"default": YOUR_FILE},
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


def wrong(name: str, what: str, allowed: str) -> InputError:
    """Return the mistake of a file, or of the option ``name``."""
    option = name.startswith("--")
    return InputError(
        f"{name} is wrong" if option else f"the catalog file {name} is wrong",
        value=what,
        allowed=allowed.removesuffix("."),
        remedy="Correct it." if option else REMEDY,
        field=name if option else "--catalog",
    )


VARIABLE: Final = "GPU_ADVISOR_CATALOG"
"""Environment variable with files, separated as in PATH."""

Upload = tuple[str, bytes]
"""Name and content of a file."""
_FILES: ContextVar[tuple[Path, ...]] = ContextVar("own catalog files", default=())
_DISCOUNTS: ContextVar[tuple[str, ...]] = ContextVar("discounts", default=())


@contextmanager
def using_catalog(files: Sequence[str], *, discounts: Sequence[str] = ()) -> Iterator[None]:
    """Put files and discounts over the catalog inside the context.

    Files are as ``read_own_facts`` reads them; ``AWS=22%`` takes a share off a provider's on-demand
    price.
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
