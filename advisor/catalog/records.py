"""Types of the values in data files: bounded, in human units."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from advisor.foundation import names
from advisor.foundation.dates import first_day
from advisor.foundation.noun import Noun, shipped

# One bound for each unit, far above every product: a larger figure has a wrong unit or is damaged.
Usd = Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
"""Price of one accelerator, or of one unit of a currency. [USD]"""
PerHour = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
"""Price of an instance. [currency/h]"""
UsdPerKwh = Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]
Gigabits = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Gigabytes = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
"""GB or GiB of one machine, or GB/s or Gbit/s of its memory and links."""
Mebibytes = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Teraflops = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Watts = Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100_000)]
"""Accelerators, processors or members of a link domain."""


_DATE = r"^20\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$"
_KEY = r"^[a-z0-9]+(-[a-z0-9]+)*$"
MAX_KEY = 80


def _date(text: str) -> str:
    if not re.search(_DATE, text):
        raise PydanticCustomError(
            "date_spelling", "Write a day as 2026-10-05, a month as 2026-10, a year as 2026"
        )
    first_day(text)  # says of 2026-02-31 that the day is out of range
    return text


def _key(text: str) -> str:
    if len(text) > MAX_KEY or not re.search(_KEY, text):
        raise PydanticCustomError(
            "key_spelling",
            f"Write up to {MAX_KEY} small letters and digits with single hyphens, as in `rtx-4090`",
        )
    return text


Text = Annotated[names.Text, Field(min_length=1)]
Name = Annotated[names.Name, Field(min_length=1)]
IsoDate = Annotated[str, Field(json_schema_extra={"pattern": _DATE}), AfterValidator(_date)]
IsoDay = Annotated[IsoDate, Field(min_length=10)]
Key = Annotated[str, Field(json_schema_extra={"pattern": _KEY}), AfterValidator(_key)]


Names = frozenset[str]


class Constants(Noun):
    """Of one of the two files of calibration."""

    sections: Names
    intervals: Names
    """Ranges that it must state. An engine's own range takes precedence."""
    fields: dict[str, Names] = Field(default_factory=dict)
    """By section of both files, the fields that only this one has."""


class Required(Noun):
    """The file."""

    fitted: Constants
    facts: Constants
    owning_defaults: dict[str, Names]
    """Groups of each field of ``owning_defaults.csv``."""


required = shipped("required.yaml", Required)
