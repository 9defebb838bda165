"""Tables from functions that yield rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import ParamSpec

import pandas as pd

Asked = ParamSpec("Asked")
Rows = Iterator[Mapping[str, object]]
"""Rows by column."""
Cells = Iterator[Sequence[object]]
"""Rows in the order of the columns."""


def tabled(rows: Callable[Asked, Rows]) -> Callable[Asked, pd.DataFrame]:
    """Return rows as a table, which has no columns without rows."""

    @wraps(rows)
    def table(*args: Asked.args, **kwargs: Asked.kwargs) -> pd.DataFrame:
        return pd.DataFrame(list(rows(*args, **kwargs)))

    return table


def columns(*names: str) -> Callable[[Callable[Asked, Cells]], Callable[Asked, pd.DataFrame]]:
    """Return rows as a table with these columns, also without rows."""

    def made(rows: Callable[Asked, Cells]) -> Callable[Asked, pd.DataFrame]:
        @wraps(rows)
        def table(*args: Asked.args, **kwargs: Asked.kwargs) -> pd.DataFrame:
            return pd.DataFrame(list(rows(*args, **kwargs)), columns=list(names))

        return table

    return made
