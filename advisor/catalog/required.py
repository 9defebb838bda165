"""Names that the data files must hold: ``data/required.yaml``."""

from functools import cache

from pydantic import Field

from advisor.catalog.records import Record
from advisor.foundation.data_records import read_record
from advisor.foundation.resources import data_path

Names = frozenset[str]


class Constants(Record):
    """Of one of the two files of calibration."""

    sections: Names
    intervals: Names
    """Ranges that it must state. An engine's own range takes precedence."""
    fields: dict[str, Names] = Field(default_factory=dict)
    """By section of both files, the fields that only this one has."""


class Required(Record):
    """The file."""

    fitted: Constants
    facts: Constants
    owning_defaults: dict[str, Names]
    """Groups of each field of ``owning_defaults.csv``."""


@cache
def required() -> Required:
    """Return the names."""
    return read_record(data_path("required.yaml"), Required)
