"""Keeps results of functions whose arguments never change, but take long to compare or hash."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

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
