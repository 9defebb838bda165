"""The decorator of small records: a dataclass with slots that mypy holds to be frozen."""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

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
