"""Reads how requests arrive: hourly rates, or published traces with one line for each request."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InputError
from advisor.foundation.files import read_file
from advisor.nouns.demand import HOURS_A_DAY, HOURS_A_WEEK

MOST_BYTES: Final = 256 * 2**20
HOUR_S: Final = 3600.0
REMEDY: Final = (
    "Give a CSV with the columns hour and requests_per_s (24 or 168 rows), or a trace: TIMESTAMP, "
    "ContextTokens, GeneratedTokens (Azure); Timestamp, Request tokens, Response tokens "
    "(BurstGPT); or JSON lines with timestamp, input_length, output_length (Mooncake)."
)
FIELD: Final = "workload.demand.file"


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a trace: moment, prompt and answer tokens, and seconds of one unit of time."""

    moment: str
    prompt: str
    answer: str
    unit_s: float


TRACES: Final = (
    Layout("TIMESTAMP", "ContextTokens", "GeneratedTokens", 1.0),
    Layout("Timestamp", "Request tokens", "Response tokens", 1.0),
    Layout("timestamp", "input_length", "output_length", 1e-3),
)
"""Azure LLM inference 2023 and 2024, BurstGPT, and Mooncake (milliseconds), by their own pages of
2024 and 2025. No trace is shipped."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a file says of a service; lengths are None where it has only rates."""

    hourly: tuple[float, ...]
    """Of a day's or a week's hours. [requests/s]"""
    input_tokens: tuple[int, int] | None = None
    """Mean and 95th percentile."""
    output_tokens: tuple[int, int] | None = None
    arrival_scv: float | None = None
    """Squared coefficient of variation of the times between arrivals, within an hour."""


def read_demand(path: Path) -> Observed:
    """Read a day or a week of requests.

    Raises
    ------
    InputError
        If the file cannot be read, or its columns are none of those known.
    """
    content = read_file(path, most=MOST_BYTES, name="the demand", remedy=REMEDY, field=FIELD)
    text = content.decode("utf-8-sig", errors="replace")
    rows = _lines(text) if text.lstrip().startswith("{") else csv.DictReader(io.StringIO(text))
    try:
        return _observed(iter(rows), path)
    except (ValueError, TypeError, csv.Error):
        raise _unknown(path, "a cell that is no number") from None


def _lines(text: str) -> Iterator[Mapping[str, object]]:
    for line in text.splitlines():
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise TypeError
            yield row


def _observed(rows: Iterator[Mapping[str, object]], path: Path) -> Observed:
    first = next(rows, None)
    if first is None:
        raise _unknown(path, "no rows")
    if "requests_per_s" in first:
        rates = [float(str(row["requests_per_s"])) for row in (first, *rows)]
        good = len(rates) in (HOURS_A_DAY, HOURS_A_WEEK) and min(rates) >= 0 and max(rates) > 0
        if not good or not np.isfinite(rates).all():
            raise _unknown(path, f"{len(rates)} rates")
        return Observed(tuple(rates))
    for layout in TRACES:
        if layout.moment in first and layout.answer in first:
            return _trace((first, *rows), layout, path)
    raise _unknown(path, ", ".join(str(name) for name in first))


def _trace(rows: tuple[Mapping[str, object], ...], layout: Layout, path: Path) -> Observed:
    moments = np.array([_seconds(str(row[layout.moment])) for row in rows]) * layout.unit_s
    prompts, answers = (
        np.array([float(str(row[name])) for row in rows]) for name in (layout.prompt, layout.answer)
    )
    answered = answers > 0  # BurstGPT lists failures as answers without tokens
    if answered.sum() < 2 or not np.isfinite(moments).all():
        raise _unknown(path, f"{int(answered.sum())} answered requests")
    order = np.argsort(moments[answered])
    times = moments[answered][order]
    gaps = np.diff(times)
    hours = np.floor(times / HOUR_S)
    same = gaps[hours[1:] == hours[:-1]]
    spread = float(same.var() / same.mean() ** 2) if len(same) > 1 and same.mean() > 0 else 1.0
    return Observed(
        _profile(times),
        _length(prompts[answered]),
        _length(answers[answered]),
        spread,
    )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text[:26])
        return moment.replace(tzinfo=UTC).timestamp()


def _profile(times: NDArray[np.float64]) -> tuple[float, ...]:
    """Return mean rates by hour of the week or of the day; short traces are one rate. [1/s]"""
    span = float(times[-1] - times[0])
    hours = HOURS_A_WEEK if span >= HOURS_A_WEEK * HOUR_S else HOURS_A_DAY
    if span < HOURS_A_DAY * HOUR_S:
        return (len(times) / max(span, 1.0),) * HOURS_A_DAY
    first = np.floor(times[0] / HOUR_S)
    place = (np.floor(times / HOUR_S) - first).astype(int)
    # The last hour is not whole.
    counted = np.bincount(place)[:-1]
    start = int(first) % hours
    rates = [
        float(counted[(hour - start) % hours :: hours].mean()) / HOUR_S for hour in range(hours)
    ]
    return tuple(rates)


def _length(tokens: NDArray[np.float64]) -> tuple[int, int]:
    return max(1, round(float(tokens.mean()))), max(1, round(float(np.quantile(tokens, 0.95))))


def _unknown(path: Path, what: str) -> InputError:
    return InputError(
        "the demand is not a table that this program reads",
        value=f"{path.name}: {what}",
        allowed="hourly rates or a known trace",
        remedy=REMEDY,
        field=FIELD,
    )
