"""Rotary positions of published model families, from ``data/rotary_bases.yaml``."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.data_files import read_yaml
from advisor.foundation.data_records import checked
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path

FILE: Final = "rotary_bases.yaml"


class Rotary(Noun):
    """Base and scaling of rotary positions."""

    pattern: Annotated[str, Field(min_length=1)]
    """Part of the hub ids that it holds for."""
    base: Annotated[int, Field(ge=1)]
    factor: Annotated[float, Field(gt=0)] | None = None
    """Of Llama 3.1's scaling; None without scaling."""
    source: Annotated[str, Field(min_length=1)]


class _Table(Noun):
    bases: Annotated[tuple[Rotary, ...], Field(min_length=1)]


ORIGINAL: Final = Rotary(pattern="*", base=10_000, source="Su et al. 2021, arXiv:2104.09864")
"""For a model of one's own, trained from scratch."""


@cache
def _rows() -> tuple[Rotary, ...]:
    return checked(_Table.model_validate, read_yaml(data_path(FILE)), file=FILE).bases


def rotary_of(hub_id: str | None) -> Rotary:
    """Return the rotary positions of a published model, or the original ones.

    Examples
    --------
    >>> rotary_of("meta-llama/Llama-3.2-1B").factor
    32.0
    >>> rotary_of(None).base
    10000
    """
    return next((row for row in _rows() if row.pattern in (hub_id or "")), ORIGINAL)
