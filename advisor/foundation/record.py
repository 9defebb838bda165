"""Small records with slots that mypy holds to be frozen, and results kept by identity."""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from functools import wraps
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def record(kind: type[T]) -> type[T]:
    """Make a dataclass whose records compare by their fields and never change.

    ``dataclass(frozen=True)`` compiles six methods for each class, which took a tenth of a short
    command. Here only ``__init__`` is compiled: the others are shared, and mypy, not a run, refuses
    to change a field.

    >>> @record
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> Point(1.0) == Point(1.0, 0.0), len({Point(1.0), Point(1.0)}), Point(1.0)
    (True, 1, Point(x=1.0, y=0.0))
    """
    made: Any = dataclass(slots=True, eq=False, repr=False)(kind)
    compared = [item.name for item in fields(made) if item.compare]
    made.compared = attrgetter(*compared) if compared else lambda _: None
    for name, method in _SHARED.items():
        if name not in kind.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _equal(one: Any, other: Any) -> Any:
    if type(one) is not type(other):
        return NotImplemented
    return one is other or one.compared(one) == one.compared(other)


def _hash(one: Any) -> int:
    return hash(one.compared(one))


def _repr(one: Any) -> str:
    shown = (f"{item.name}={getattr(one, item.name)!r}" for item in fields(one) if item.repr)
    return f"{type(one).__qualname__}({', '.join(shown)})"


_SHARED: dict[str, Callable[..., object]] = {"__eq__": _equal, "__hash__": _hash, "__repr__": _repr}


Given = ParamSpec("Given")
Result = TypeVar("Result")


def by_identity(most: int) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Let a function keep up to ``most`` results.

    Equal arguments that are not the same objects are computed again.

    >>> @by_identity(2)
    ... def total(numbers):
    ...     return [sum(numbers)]
    >>> numbers = (1, 2)
    >>> total(numbers) is total(numbers)
    True
    """

    def keeping(function: Callable[Given, Result]) -> Callable[Given, Result]:
        # With a result stay its arguments, so that no other object takes their place in memory.
        known: dict[tuple[object, ...], tuple[object, Result]] = {}

        @wraps(function)
        def asked(*given: Given.args, **named: Given.kwargs) -> Result:
            key: tuple[object, ...] = tuple(map(id, given))
            if named:
                key = (*key, *named, *map(id, named.values()))
            if (found := known.get(key)) is None:
                if len(known) >= most:
                    known.clear()
                found = known[key] = (given, named), function(*given, **named)
            return found[1]

        return asked

    return keeping
