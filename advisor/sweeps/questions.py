"""What a sweep asks: a numbered sequence of cases, and the columns that tell them apart."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from advisor.errors import InputError, refusal
from advisor.foundation.names import visible
from advisor.nouns.case import Case, case_inputs

MAX_ROWS: Final = 1_000_000
"""Most rows of a sweep."""
MAX_COLUMNS: Final = 200
"""Most inputs that the rows of a sweep show."""
MAX_FIELDS: Final = 1_000
"""Most inputs that are the same in all rows; a case has some 300."""
MAX_CELL: Final = 200
"""Longest shown text of an input, such as an inline configuration. [characters]"""
MAX_WHOLE: Final = 1 << 63
OWN_CONTENT: Final = frozenset({"model.config", "model.stack"})
"""Fields with content of their own, whose lists and mappings are no axes."""
LABELS: Final = ("id", "name", "note")
"""Columns of a table that are no field of a case; they are copied to the result."""


class Question(NamedTuple):
    """One row: what it shows of its inputs, and its case."""

    shown: dict[str, object]
    """By column."""
    case: dict[str, Any] | InputError
    """The content for `advisor.load_case`, or why the row has none."""


class Questions(Protocol):
    """A sequence of questions that can be read again from any place."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the inputs that the rows show."""

    @property
    def digest(self) -> str:
        """What tells these questions from others."""

    def read(self) -> Iterator[Question]:
        """Yield every question in order."""


def is_list(path: str) -> bool:
    """Return whether a field of a case is itself a list, so that a list is one value of it."""
    known = case_inputs().get(path)
    return known is not None and known.repeat


def column_type(path: str) -> type:
    """Return the type of a column: int, float, bool or str.

    >>> [column_type(path).__name__ for path in ("hardware.count", "workload.tokens", "id")]
    ['int', 'float', 'str']
    """
    known = case_inputs().get(path)
    types = () if known is None or known.repeat else known.types
    return next((kind for kind in (bool, float, int) if kind in types), str)


def check_column(name: str) -> str:
    """Return the name of a column that is a field of a case or a label; else ``InputError``."""
    first = name.partition(".")[0]
    fields = case_inputs()
    if name in LABELS or name in fields or (name in Case.model_fields and name != "objective"):
        return name
    raise refusal(
        "column_no_field",
        value=name,
        allowed=[*LABELS, *(path for path in fields if path.partition(".")[0] == first)]
        if first in Case.model_fields
        else [*LABELS, "and fields such as model.preset, workload.kind, hardware.count"],
        field=name,
    )


def nested(cells: Mapping[str, object]) -> dict[str, Any]:
    """Return the case that dotted fields spell; an outer field comes before its inner ones.

    >>> nested({"model.preset": "llama-3.1-8b", "hardware.count": 8})
    {'model': {'preset': 'llama-3.1-8b'}, 'hardware': {'count': 8}}
    """
    case: dict[str, Any] = {}
    for path in sorted(cells, key=lambda name: name.count(".")):
        *sections, field = path.split(".")
        inner = case
        for name in sections:
            following = inner.get(name)
            # Copied, because many cases share what is the same in all.
            inner[name] = dict(following) if isinstance(following, Mapping) else {}
            inner = inner[name]
        inner[field] = cells[path]
    return case


def flat(path: str, value: object) -> dict[str, object]:
    """Return a value as columns: a section as its fields, everything else as itself."""
    if isinstance(value, Mapping) and path not in OWN_CONTENT and path not in case_inputs():
        cells: dict[str, object] = {}
        for name, item in value.items():
            cells |= flat(f"{path}.{name}", item)
        return cells
    return {path: shown(value)}


def shown(value: object) -> object:
    r"""Return a value as a cell: numbers as they are, all else as printable text of bounded length.

    >>> [shown(value) for value in (8, 10**30, float("inf"), "a\x00b", ["AWS", "Gcore"])]
    [8, '1000000000000000000000000000000', 'inf', 'a\\x00b', 'AWS, Gcore']
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < MAX_WHOLE:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        text = ", ".join(value)
    elif isinstance(value, str | float):
        text = str(value)
    else:
        text = json.dumps(value, default=str)
    start = visible(text[: MAX_CELL + 1])
    return start if len(start) <= MAX_CELL else start[: MAX_CELL - 1] + "…"
