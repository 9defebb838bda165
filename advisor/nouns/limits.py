"""What the user can spend, wait for and choose from, and what to optimise."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from advisor.foundation.names import Name
from advisor.foundation.noun import Noun
from advisor.foundation.parsing import parse_owned
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.inputs import SERVING, TRAINING, WRITING, Input, Labelled, Reads, asked
from advisor.nouns.software import names
from advisor.nouns.software.kernels import KernelEfficiency

LEAST_RATE, MOST_RATE = 0.01, 100.0
"""Of the euro, far beyond its past; others make prices that round to nothing. [USD/EUR]"""
MOST_NAMES: Final = 1000
"""Of providers, regions or accelerators in one question."""
MOST_OWNED: Final = 200
"""Of owned kinds of hardware in one question; each takes time to search."""
EXPECTED_RISK: Final = 0.5
"""Risk at which a limit judges the expected value."""


class Objective(Labelled):
    """What the best plan minimises."""

    CHEAPEST = "cheapest", "Cheapest"
    FASTEST = "fastest", "Fastest"
    BEST_VALUE = "best_value", "Best value (cost × time)"
    """Least cost x time: one more percent of money buys one more percent of speed."""


class MeasuredMachine(Noun):
    """What the probe measured of a card that the user has."""

    accelerator: Accelerator
    kernels: KernelEfficiency
    """Take the place of the generation's constants."""


class OwnedHardware(Noun):
    """Cards that the user has already: their rental price is zero."""

    accelerator: Annotated[Name, Input("catalog key", label="Card I own", advanced=False)]
    count: Annotated[int, Field(ge=1, le=16384)] = asked(
        "how many", flag="", label="How many", advanced=False, default=1
    )
    measured: MeasuredMachine | None = None
    """From a report of the probe, where there is one."""

    @model_validator(mode="before")
    @classmethod
    def _written(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        accelerator, count = parse_owned(value, field="limits.owned")
        return {"accelerator": accelerator, "count": count}

    @model_validator(mode="after")
    def _same_card(self) -> OwnedHardware:
        if self.measured and self.measured.accelerator.key != self.accelerator:
            raise ValueError(
                f"measured is of {self.measured.accelerator.key!r}, not of {self.accelerator!r}"
            )
        return self


class Constraints(Noun):
    """Hard limits of the search. ``None`` means no limit."""

    deadline_hours: Annotated[float, Field(ge=0.01, le=1e6, allow_inf_nan=False)] | None = asked(
        "training ends within: 24h, 30d",
        "--deadline",
        label="Deadline",
        reads=Reads.HOURS,
        tasks=TRAINING,
        advanced=False,
        blank="No limit",
    )
    """[h]"""
    budget_usd: Annotated[float, Field(ge=0.01, le=1e12, allow_inf_nan=False)] | None = asked(
        "for the run, or for a month of serving: 500, $1.5k",
        "--budget",
        label="Budget",
        unit="USD",
        reads=Reads.USD,
        advanced=False,
        blank="No limit",
    )
    """Training: for the whole run. Serving: for a month of 730 hours. [USD]"""
    max_ttft_ms: Annotated[float, Field(ge=0.1, le=1e9, allow_inf_nan=False)] | None = asked(
        "time to the first token; a search takes 10 s plus 1 ms for each prompt token by default",
        label="First token within",
        reads=Reads.MS,
        tasks=SERVING,
        blank="10 s, more for long prompts",
    )
    """[ms]"""
    max_tpot_ms: Annotated[float, Field(ge=0.1, le=1e5, allow_inf_nan=False)] | None = asked(
        "time per output token, 50ms, or tokens/s of each user, '20 tokens/s'; a search takes 50 "
        "ms by default, and for one or two users 200 ms, the speed of reading",
        label="Time per token",
        reads=Reads.MS,
        tasks=SERVING,
        networks=WRITING,
        advanced=False,
        blank="50; 200 for 1 or 2 users",
    )
    """[ms]"""
    at: Literal["mean", "p50", "p95", "p99"] = asked(
        "what latency targets hold for: the mean request, or the share of requests that stay "
        "under them",
        label="Targets hold for",
        metavar="SHARE",
        tasks=SERVING,
        networks=WRITING,
        default="mean",
    )
    """A percentile needs a rate of requests (``workload.requests_per_s``)."""
    risk: Annotated[float, Field(ge=0.01, le=EXPECTED_RISK, allow_inf_nan=False)] = asked(
        "share of risk that a served latency misses its target: 10% (the high end of the range "
        "meets it), 50% (the expected value does)",
        label="Accepted risk",
        unit="%",
        reads=Reads.PLAIN,
        tasks=SERVING,
        default=0.1,
    )
    """Of each latency target: 0.1 judges the high end of the range, 0.5 the expected value."""
    providers: Annotated[tuple[Name, ...], Field(max_length=MOST_NAMES)] = asked(
        "allow only this provider", "--provider", label="Providers", default=()
    )
    regions: Annotated[tuple[Name, ...], Field(max_length=MOST_NAMES)] = asked(
        "allow only this region, or place as europe", "--region", default=()
    )
    accelerators: Annotated[tuple[Name, ...], Field(max_length=MOST_NAMES)] = asked(
        "allow only this accelerator",
        "--accelerator",
        label="Accelerators",
        metavar="KEY",
        default=(),
    )
    vendors: Annotated[tuple[names.VendorName, ...], names.VENDORS] = ()
    """Allow only accelerators of these; empty allows all."""
    frameworks: Annotated[tuple[names.FrameworkName, ...], names.FRAMEWORKS] = ()
    """Allow only software on these; empty allows all."""
    software: Annotated[tuple[names.ToolName, ...], names.ALLOWED] = ()
    """Allow only these tools; empty allows all that are usual."""
    max_accelerators: Annotated[int, Field(ge=1, le=16384)] = asked(
        "at most this many cards", label="At most this many cards", default=512
    )
    """More than this is seldom rented on demand."""
    price_kind: PriceKind = asked(
        "rent at spot prices", "--spot", sets=PriceKind.SPOT.value, default=PriceKind.ON_DEMAND
    )
    commitment_months: Annotated[int, Field(ge=1, le=60)] | None = asked(
        "rent at what providers ask for a commitment of up to so long, where they do: 12",
        "--commit",
        label="Commitment",
        unit="months",
        blank="None",
    )
    """Every hour of the term is paid. A training run may also rent on demand. [months]"""
    usd_per_eur: (
        Annotated[float, Field(ge=LEAST_RATE, le=MOST_RATE, allow_inf_nan=False)] | None
    ) = asked(
        "exchange rate for prices in euro; the catalog's dated one unless told",
        label="USD for one EUR",
        reads=Reads.RATE,
        blank="Dated rate",
    )
    """None takes the catalog's dated one. [USD/EUR]"""
    owned: Annotated[tuple[OwnedHardware, ...], Field(max_length=MOST_OWNED)] = asked(
        "cards that you have, and no others: rtx-4090:2, unlike ones in one computer: "
        "rtx-3090+rtx-3060-12gb, or the report of a probe: probe.json",
        reads=Reads.CARDS,
        metavar="KEY:N",
        default=(),
    )
    """When given, only these are searched, at no rent."""
