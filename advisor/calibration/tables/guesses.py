"""A row's number formats, and its open settings by ``data/measurement_guesses.yaml``.

Only this module guesses. No rule applies to a row that states its settings in columns.
"""

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import Field

from advisor.calibration.tables.reading import Row
from advisor.errors import refusal
from advisor.foundation.noun import Noun, shipped
from advisor.nouns.precision import GGUF_ENGINE, KV_CACHE_FORMATS, WEIGHT_FORMATS, WeightFormat

GGUF: Final = "gguf_"
"""Start of the tables' words for formats of GGUF files."""

GGUF_READERS: Final = frozenset({"llama_cpp", "ik_llama_cpp", "whisper_cpp"})
"""Engines that read only GGUF files."""
AS_GGUF: Final = {"mxfp4": "gguf_mxfp4_moe"}
"""Formats that such a file stores in its own way."""


def cache_bytes(row: Row) -> float:
    """Return the bytes of one cached element from ``kv_cache_format`` or ``kv_precision``."""
    if row.cell("kv_cache_format"):
        return row.choice("kv_cache_format", KV_CACHE_FORMATS)
    return row.choice("kv_precision", table_words().cache_bytes)


def weight_format(row: Row) -> WeightFormat:
    """Return the storage format of a row's weights: ``weight_format``, else ``weight_precision``.

    Raises InputError if the format is unknown and the row states no bits per parameter.
    """
    if row.cell("weight_format"):
        return row.choice("weight_format", WEIGHT_FORMATS)
    name = row.cell("weight_precision").lower()
    if row.cell("engine") in GGUF_READERS:
        name = AS_GGUF.get(name, name)
    known = table_words().weight_formats.get(
        name, name.removeprefix(GGUF) if name.startswith(GGUF) else ""
    )
    if known in WEIGHT_FORMATS:
        return WEIGHT_FORMATS[known]
    bits = row.number("weight_bits_per_parameter")
    if bits is None and name.startswith("exl2_"):
        bits = Row({"bits": name.removeprefix("exl2_")}).number("bits")
    if bits is None or bits <= 0:
        raise refusal(
            "row_of_unknown_format",
            value=name,
            allowed=(*table_words().weight_formats, f"{GGUF}q4_k_m and the like"),
        )
    common = row.number("common_bits_per_parameter")
    return WeightFormat(
        name=name,
        title=name,
        bytes_per_parameter=bits / 8,
        common_bytes_per_parameter=common / 8 if common else None,
        compute="fp16",
        # The bits of a GGUF file are its size over its parameters.
        whole=name.startswith(GGUF),
        engine=GGUF_ENGINE if name.startswith(GGUF) else "",
    )


class Rule(Noun):
    """Assumed settings of rows of one kind, and the reason."""

    id: str
    when: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Allowed words by column; "" is an empty cell."""
    least: dict[str, float] = Field(default_factory=dict)
    """Least number by column."""
    holds: dict[str, str] = Field(default_factory=dict)
    """Part of the text by column."""
    take: dict[str, str] = Field(default_factory=dict)
    """Word that replaces an empty cell, by column."""
    reads: dict[str, str] = Field(default_factory=dict)
    """Pattern of a column's text; its named groups are words for the columns of these names."""
    why: str
    source: str = ""
    date: datetime.date | None = None
    """Day of the look-up."""

    def fits(self, row: Row) -> bool:
        """Whether the rule applies to this row."""
        return (
            all(row.cell(column).lower() in words for column, words in self.when.items())
            and all(_at_least(row, column, least) for column, least in self.least.items())
            and all(part in row.cell(column).lower() for column, part in self.holds.items())
        )

    def words(self, row: Row) -> dict[str, str]:
        """Return the words for empty cells, by column."""
        found = [re.search(pattern, row.cell(column)) for column, pattern in self.reads.items()]
        return self.take | {
            name: word for each in found if each for name, word in each.groupdict().items()
        }


def _at_least(row: Row, column: str, least: float) -> bool:
    try:
        return float(row.cell(column)) >= least
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


class TableWords(Noun):
    """The words of published tables, and what they leave open."""

    weight_formats: dict[str, str]
    cache_bytes: dict[str, float]
    """Of one cached element; 16 bits if none is stated."""
    memory: dict[str, dict[str, str]]
    """By column of the tables of memory peaks."""
    models: ModelNames
    shape: Guesses
    training: Guesses
    serving: Guesses


table_words = shipped("measurement_guesses.yaml", TableWords)


def filled(row: Row, table: str, *, unit: str = "") -> Row:
    """Return a row with its words translated and its empty cells filled.

    By column, and by field of a case if a column states one.

    ``table``: section of the file. ``unit``: what the row's network takes: ``token``, ``image`` or
    ``sample``.
    """
    guesses: Guesses = getattr(table_words(), table)
    words = {name: _meaning(row.cell(name), words) for name, words in guesses.words.items()}
    found = row | words | {column: word for column, word, _ in guessed(row, table, unit=unit)}
    for column, field in guesses.columns.items():
        found[field] = found.cell(field) or found.cell(column)
    return found


def guessed(row: Row, table: str, *, unit: str = "") -> Iterator[tuple[str, str, Rule]]:
    """Yield the assumptions for a row: column, word and the rule with the reason."""
    guesses: Guesses = getattr(table_words(), table)
    with_unit = row | {"unit": unit}
    taken: set[str] = set()
    for rule in guesses.rules:
        if not rule.fits(with_unit):
            continue
        for column, word in rule.words(row).items():
            empty = not row.cell(column) and not row.cell(guesses.columns.get(column, ""))
            if column not in taken and (empty or column in rule.when):
                taken.add(column)
                yield column, word, rule


def _meaning(text: str, words: Mapping[str, str]) -> str:
    """Return the meaning of a cell, as a whole or of each part of a list."""
    plain = text.lower()
    if plain in words:
        return words[plain]
    parts = [part.strip() for part in plain.replace(";", ",").split(",")]
    return ",".join(words.get(part, part) for part in parts) if len(parts) > 1 else text
