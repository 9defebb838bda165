"""How the requests of a service change through a day or a week."""

import math
from collections.abc import Callable
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from advisor.foundation.names import PathName
from advisor.foundation.noun import Noun
from advisor.foundation.parsing import parse_arrivals, parse_sound
from advisor.nouns.inputs import WRITING, Labelled, Reads, asked

HOURS_A_DAY: Final = 24
HOURS_A_WEEK: Final = 168


def _typed(parse: Callable[..., float]) -> BeforeValidator:
    """Return the check that also takes what people write."""

    def check(value: object, info: ValidationInfo) -> object:
        return parse(value, field=info.field_name or "") if isinstance(value, str) else value

    return BeforeValidator(check)


RequestRate = Annotated[
    float, _typed(parse_arrivals), Field(gt=0, le=1e6, allow_inf_nan=False), Reads.ARRIVALS
]
"""As a number, or as people write it: ``600/min``. [requests/s]"""
Sound = Annotated[float, _typed(parse_sound), Field(gt=0, le=1e9, allow_inf_nan=False), Reads.SOUND]
"""Hours of sound, as a number for each day or as people write it: ``5000 in 3 days``. [h/day]"""


class DayShape(Labelled):
    """A day between its quietest and its busiest hour; the shapes are assumed."""

    FLAT = "flat", "Flat"
    OFFICE = "office", "Office hours"
    CONSUMER = "consumer", "Evenings"
    GLOBAL = "global", "All time zones"

    @property
    def trough(self) -> float:
        """Quietest hour over the busiest."""
        return {"flat": 1.0, "office": 0.05, "consumer": 0.2, "global": 0.6}[self.value]

    @property
    def busiest(self) -> float:
        """Hour of the day."""
        return {"flat": 12.0, "office": 14.0, "consumer": 20.0, "global": 16.0}[self.value]

    def shares(self) -> tuple[float, ...]:
        """Return the rate of each hour over that of the busiest.

        >>> max(DayShape.OFFICE.shares()), round(min(DayShape.OFFICE.shares()), 3)
        (1.0, 0.05)
        """
        swing = 1 - self.trough
        turns = ((hour - self.busiest) / HOURS_A_DAY for hour in range(HOURS_A_DAY))
        return tuple(
            self.trough + swing * ((1 + math.cos(2 * math.pi * turn)) / 2) ** 2 for turn in turns
        )


Rate = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Demand(Noun):
    """A day or a week of requests: a file, or a shape with its peak."""

    file: PathName | None = asked(
        "requests of a day or a week: a CSV with hour and requests_per_s, or a trace with one "
        "line for each request",
        "--demand",
        metavar="FILE",
    )
    day_shape: DayShape | None = asked(
        "shape of a day",
        "--demand-shape",
        label="Shape of the day",
        metavar="SHAPE",
        networks=WRITING,
        blank="No day: the same all the time",
    )
    peak_requests_per_s: RequestRate | None = asked(
        "rate of the busiest hour: 40/s",
        "--peak-requests",
        label="Requests/s at the peak",
        networks=WRITING,
        blank="Of the file",
    )
    """With a file, its busiest hour is scaled to this. [requests/s]"""
    growth: Annotated[float, Field(ge=0.01, le=1000, allow_inf_nan=False)] = asked(
        "factor on all rates: 1.5 plans for half as much again",
        label="Growth",
        reads=Reads.PLAIN,
        networks=WRITING,
        default=1.0,
    )
    min_replicas: Annotated[int, Field(ge=0, le=16384)] = asked(
        "fewest replicas of an autoscaled fleet; 0 lets the last one stop",
        label="Fewest replicas",
        reads=Reads.PLAIN,
        networks=WRITING,
        default=1,
    )
    cold_start_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = asked(
        "time until a new replica answers (machine, image and weights)",
        "--cold-start",
        metavar="SECONDS",
    )
    """None adds assumed times for machine and image to the weights' transfer. [s]"""
    hold_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = asked(
        "time for which a lower need lasts before replicas go (300)",
        "--scale-down-after",
        metavar="SECONDS",
        default=300.0,
    )
    """Kubernetes' default for its Horizontal Pod Autoscaler. [s]"""
    hourly: Annotated[tuple[Rate, ...], Field(max_length=HOURS_A_WEEK)] = ()
    """Rates of a day's or a week's hours, in place of a file. [requests/s]"""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [self.file is not None, self.day_shape is not None, bool(self.hourly)]
        if sum(given) != 1:
            raise ValueError("a demand is one of file, day_shape and hourly")
        if self.day_shape is not None and self.peak_requests_per_s is None:
            raise ValueError("a day_shape needs peak_requests_per_s")
        if self.hourly and (
            len(self.hourly) not in (HOURS_A_DAY, HOURS_A_WEEK) or max(self.hourly) <= 0
        ):
            raise ValueError(
                f"hourly has {HOURS_A_DAY} or {HOURS_A_WEEK} rates, one of them above 0"
            )
        return self

    def rates(self) -> tuple[float, ...]:
        """Return the rate of each hour; a file has to be read before. [requests/s]

        >>> max(Demand(day_shape="office", peak_requests_per_s=10, growth=2.0).rates())
        20.0
        """
        shares = self.hourly if self.day_shape is None else self.day_shape.shares()
        scale = self.growth * (self.peak_requests_per_s or max(shares)) / max(shares)
        return tuple(scale * share for share in shares)
