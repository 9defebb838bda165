"""Fills in a row's open settings by the rules of ``data/measurement_guesses.yaml``.

Only this module guesses. No rule applies to a row that states its settings in columns.
"""

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
    """Assumed settings of rows of one kind, and the reason."""

    id: str
    when: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Allowed words by column; "" is an empty cell."""
    least: dict[str, float] = Field(default_factory=dict)
    """Least number by column."""
    holds: dict[str, str] = Field(default_factory=dict)
    """Part of the text by column."""
    take: dict[str, str]
    """Word that replaces an empty cell, by column."""
    why: str
    source: str = ""
    date: datetime.date | None = None
    """Day of the look-up."""

    def fits(self, row: Row) -> bool:
        """Whether the rule applies to this row."""
        return (
            all(cell(row, column).lower() in words for column, words in self.when.items())
            and all(_at_least(row, column, least) for column, least in self.least.items())
            and all(part in cell(row, column).lower() for column, part in self.holds.items())
        )


def _at_least(row: Row, column: str, least: float) -> bool:
    try:
        return float(cell(row, column)) >= least
    except ValueError:
        # The reader of this column reports the unusable cell.
        return False


class Guesses(Noun):
    """Words, columns and rules of one kind of table."""

    words: dict[str, dict[str, str]] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    rules: tuple[Rule, ...] = ()


class ModelNames(Noun):
    """Names of preset models in published tables."""

    ignored_prefixes: tuple[str, ...]
    ignored_suffixes: tuple[str, ...]
    names: dict[str, str]

    def spelled(self, name: str) -> str:
        """Return a model's name in the spelling of presets."""
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
    """Return the names of models in published tables."""
    return _file().models


def filled(row: Row, table: str, *, unit: str = "") -> dict[str, str]:
    """Return a row with its words translated and its empty cells filled.

    By column, and by field of a case if a column states one.

    Parameters
    ----------
    table : {"shape", "training", "serving"}
        Section of the file.
    unit : str, optional
        What the row's network takes: ``token``, ``image`` or ``sample``.
    """
    guesses: Guesses = getattr(_file(), table)
    found = {column: _meaning(cell(row, column), words) for column, words in guesses.words.items()}
    found = {**row, **found} | {column: word for column, word, _ in guessed(row, table, unit=unit)}
    for column, field in guesses.columns.items():
        found[field] = cell(found, field) or cell(found, column)
    return found


def guessed(row: Row, table: str, *, unit: str = "") -> Iterator[tuple[str, str, Rule]]:
    """Yield the assumptions for a row: column, word and the rule with the reason."""
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
    """Return the meaning of a cell, as a whole or of each part of a list."""
    plain = text.lower()
    if plain in words:
        return words[plain]
    parts = [part.strip() for part in plain.replace(";", ",").split(",")]
    return ",".join(words.get(part, part) for part in parts) if len(parts) > 1 else text
