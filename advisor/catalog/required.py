"""Names that the data files must hold: ``data/required.yaml``."""

from pydantic import Field

from advisor.catalog.records import Record
from advisor.foundation.data_records import shipped

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


required = shipped("required.yaml", Required)
"""Returns the names."""
