"""What a sweep asks: numbered cases, the columns that tell them apart, and grids of cases."""

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

from advisor.errors import InputError, refusal
from advisor.foundation.names import MAX_NAME, printable, visible
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


ENDS: Final = frozenset({"from", "to"})
STEPS: Final = ("step", "factor")
ROUNDING: Final = 1e-9
"""Share of a step by which the last value of a range may miss its end."""


@dataclass(frozen=True)
class Grid:
    """Fields with one value, and axes with several. The last axis varies fastest."""

    fixed: dict[str, Any]
    axes: dict[str, Sequence[object]]

    @property
    def count(self) -> int:
        """Number of combinations."""
        return math.prod(len(values) for values in self.axes.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """Fields that vary, in the order of the grid."""
        names = (
            name for path, values in self.axes.items() for one in values for name in flat(path, one)
        )
        return tuple(dict.fromkeys(names))

    @property
    def digest(self) -> str:
        """Digest of the whole grid."""
        content = json.dumps([self.fixed, list(self.axes.items())], default=str)
        return sha256(content.encode(errors="backslashreplace")).hexdigest()

    def read(self) -> Iterator[Question]:
        """Yield every combination in order."""
        for values in itertools.product(*self.axes.values()):
            cells = dict(zip(self.axes, values, strict=True))
            shown = {
                name: item for path, one in cells.items() for name, item in flat(path, one).items()
            }
            yield Question(shown, nested(self.fixed | cells))


def read_grid(content: Mapping[str, Any]) -> Grid:
    """Return the grid that a mapping spells.

    Raises InputError if an axis is empty, a range is not one, or there are more than ``MAX_ROWS``
    combinations.

    ``content``: a case in which any field may be a list of values, or a range: ``{from: 1024, to:
    8192, factor: 2}`` or ``{from: 1, to: 8, step: 1}``. A field that is itself a list, such as
    ``limits.providers``, varies as a list of lists. A whole section may be a list of sections.

    >>> read_grid({"hardware": {"count": {"from": 1, "to": 8, "factor": 2}}}).axes
    {'hardware.count': (1, 2, 4, 8)}
    """
    grid = Grid({}, {})
    for name, value in content.items():
        _place(str(name), value, grid)
    if len(grid.columns) > MAX_COLUMNS:
        raise _too_many("varies too many fields", MAX_COLUMNS)
    return grid


def _too_many(what: str, most: int, *, field: str = "") -> InputError:
    return refusal("grid_too_large", fault=what, most=most, field=field)


def _place(path: str, value: object, grid: Grid) -> None:
    """Put a field of the grid among the fixed ones or among the axes."""
    printable(path, field="the name of a field", limit=MAX_NAME)
    # While they are placed: a range counts the rows of all axes before it, a row copies all fields.
    if len(grid.axes) > MAX_COLUMNS:
        raise _too_many("varies too many fields", MAX_COLUMNS)
    if len(grid.fixed) > MAX_FIELDS:
        raise _too_many("states too many fields", MAX_FIELDS)
    if path in OWN_CONTENT and isinstance(value, Mapping):
        grid.fixed[path] = value
    elif isinstance(value, list | tuple):
        varies = not is_list(path) or (bool(value) and all(isinstance(one, list) for one in value))
        if not varies:
            grid.fixed[path] = list(value)
        elif value:
            grid.axes[path] = tuple(value)
            if grid.count > MAX_ROWS:
                raise _too_many("has too many combinations", MAX_ROWS, field=path)
        else:
            raise refusal("field_without_values", path=path, value=[], field=path)
    elif isinstance(value, Mapping) and ENDS <= set(value) <= ENDS | set(STEPS):
        grid.axes[path] = _range(path, value, most=MAX_ROWS // max(1, grid.count))
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            _place(f"{path}.{name}", item, grid)
    else:
        grid.fixed[path] = value


def _range(path: str, given: Mapping[str, object], *, most: int) -> Sequence[float]:
    """Return the values of a range, both ends included; ``most`` of them leave the grid usable."""
    numbers = {name: _number(path, name, value) for name, value in given.items()}
    low, high = numbers["from"], numbers["to"]
    way = [name for name in STEPS if name in numbers]
    if len(way) != 1:
        raise _no_range(path, given, "exactly one of step and factor beside from and to")
    by = numbers[way[0]]
    if way == ["step"]:
        if by <= 0 or high < low:
            raise _no_range(path, given, "a step above 0, and from at most to")
        count = (high - low) / by
    else:
        if by <= 1 or low <= 0 or high < low:
            raise _no_range(path, given, "a factor above 1, from above 0, and from at most to")
        count = math.log(high / low) / math.log(by)
    if count >= most:
        raise _too_many("has too many combinations", MAX_ROWS, field=path)
    places = range(math.floor(count + ROUNDING) + 1)
    whole = all(isinstance(one, int) for one in numbers.values())
    if way == ["step"] and all(float(one).is_integer() for one in numbers.values()):
        # Not spelled out: it may be long, and the grid may still be refused.
        first, step = int(low), int(by)
        return range(first, first + step * len(places), step)
    values = (low + by * place if way == ["step"] else low * by**place for place in places)
    return tuple(int(value) if whole else float(value) for value in values)


def _number(path: str, name: str, value: object) -> float:
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
    if math.isfinite(number):
        return value if isinstance(value, int) and abs(value) < 1 << 53 else number
    raise refusal("range_without_number", name=name, value=value, field=path)


def _no_range(path: str, given: Mapping[str, object], allowed: str) -> InputError:
    return refusal("no_range", value=dict(given), allowed=allowed, field=path)
