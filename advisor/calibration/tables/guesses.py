"""What a row of a table leaves open, filled in by the rules of ``data/measurement_guesses.yaml``.

The only place that guesses. A row that states its settings in columns meets no rule.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from pydantic import Field

from advisor.calibration.tables.reading import Row, cell
from advisor.foundation.data_records import read_record
from advisor.foundation.noun import Noun
from advisor.foundation.resources import data_path

FILE: Final = "measurement_guesses.yaml"


class Rule(Noun):
    """What is taken for rows of one kind, and why."""

    id: str
    when: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Column -> its words; "" is an empty cell."""
    least: dict[str, float] = Field(default_factory=dict)
    """Column -> the least number."""
    holds: dict[str, str] = Field(default_factory=dict)
    """Column -> a part of its text."""
    take: dict[str, str]
    """Column -> the word that an empty cell then means."""
    why: str
    source: str = ""
    date: datetime.date | None = None
    """On which somebody looked it up."""

    def fits(self, row: Row) -> bool:
        """Whether the rule is for this row."""
        return (
            all(cell(row, column).lower() in words for column, words in self.when.items())
            and all(_at_least(row, column, least) for column, least in self.least.items())
            and all(part in cell(row, column).lower() for column, part in self.holds.items())
        )


def _at_least(row: Row, column: str, least: float) -> bool:
    try:
        return float(cell(row, column)) >= least
    except ValueError:
        # The reader of the column refuses the cell.
        return False


class Guesses(Noun):
    """Words, columns and rules of one kind of table."""

    words: dict[str, dict[str, str]] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    rules: tuple[Rule, ...] = ()


class ModelNames(Noun):
    """How published tables name models that are presets."""

    ignored_prefixes: tuple[str, ...]
    ignored_suffixes: tuple[str, ...]
    names: dict[str, str]

    def spelled(self, name: str) -> str:
        """Return a model's name as presets spell it."""
        short = name.lower()
        for prefix in self.ignored_prefixes:
            short = short.removeprefix(prefix)
        for suffix in self.ignored_suffixes:
            short = short.removesuffix(suffix)
        return self.names.get(short, short.replace(" ", "-")).replace("__", "/")


class _File(Noun):
    models: ModelNames
    shape: Guesses
    training: Guesses
    serving: Guesses


@cache
def _file() -> _File:
    return read_record(data_path(FILE), _File)


def model_names() -> ModelNames:
    """Return how published tables name models."""
    return _file().models


def filled(row: Row, table: str, *, unit: str = "") -> dict[str, str]:
    """Return a row with its words translated and its empty cells filled.

    Parameters
    ----------
    table : {"shape", "training", "serving"}
        Section of the file.
    unit : str, optional
        What the row's network takes: ``token``, ``image`` or ``sample``.

    Returns
    -------
    dict of str to str
        By column, and by field of a case where a column tells one.
    """
    guesses: Guesses = getattr(_file(), table)
    found = {column: _meaning(cell(row, column), words) for column, words in guesses.words.items()}
    found = {**row, **found} | {column: word for column, word, _ in guessed(row, table, unit=unit)}
    for column, field in guesses.columns.items():
        found[field] = cell(found, field) or cell(found, column)
    return found


def guessed(row: Row, table: str, *, unit: str = "") -> Iterator[tuple[str, str, Rule]]:
    """Yield what is taken for a row: column, word and the rule that says why."""
    guesses: Guesses = getattr(_file(), table)
    with_unit = {**row, "unit": unit}
    open_columns = {
        column
        for rule in guesses.rules
        for column in rule.take
        if not cell(row, column) and not cell(row, guesses.columns.get(column, ""))
    }
    taken: set[str] = set()
    for rule in guesses.rules:
        if not rule.fits(with_unit):
            continue
        for column, word in rule.take.items():
            if column not in taken and (column in open_columns or column in rule.when):
                taken.add(column)
                yield column, word, rule


def _meaning(text: str, words: Mapping[str, str]) -> str:
    """Return what a cell's words mean: all of it, or each part of a list."""
    plain = text.lower()
    if plain in words:
        return words[plain]
    parts = [part.strip() for part in plain.replace(";", ",").split(",")]
    return ",".join(words.get(part, part) for part in parts) if len(parts) > 1 else text
