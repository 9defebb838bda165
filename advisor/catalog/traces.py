"""Reads how requests arrive: hourly rates, or published traces with one line for each request."""

import codecs
import csv
import itertools
from array import array
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InputError, refusal
from advisor.foundation.files.reading import opened, too_large
from advisor.foundation.files.structured import NotPlainError, read_json
from advisor.foundation.files.tables import LongRowError, csv_rows, text_lines
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S
from advisor.nouns.demand import HOURS_A_DAY, HOURS_A_WEEK

MOST_BYTES: Final = 256 * 2**20
MOST_REQUESTS: Final = 8_000_000
MOST_TOKENS: Final = 1e8
"""Of one prompt or answer."""
MOST_RATE: Final = 1e6
"""As a case may state. [requests/s]"""
YEAR_S: Final = 365 * 24 * HOUR_S
MOST_SPAN_S: Final = 10 * YEAR_S
ALLOWED: Final = "24 or 168 hourly rates, or a trace of Azure, BurstGPT or Mooncake"
REMEDY: Final = (
    "Give a CSV with the columns hour and requests_per_s, or a trace with its published columns "
    "(GeneratedTokens, Response tokens or output_length)."
)
FIELD: Final = "workload.demand.file"


@record
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


@record
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
    """Read a day or a week of requests; ``InputError`` if its columns are none of those known."""
    with opened(path, name="the demand", allowed=ALLOWED, remedy=REMEDY, field=FIELD) as (
        stream,
        size,
    ):
        if size > MOST_BYTES:
            raise too_large("the demand", MOST_BYTES, remedy=REMEDY, field=FIELD)
        try:
            return _observed(_rows(stream), path)
        except InputError:
            raise
        except LongRowError as error:
            raise _unknown(path, str(error)) from None
        except (ArithmeticError, LookupError, NotPlainError, TypeError, ValueError, csv.Error):
            raise _unknown(path, "a cell that is missing or no number") from None


def _rows(stream: BinaryIO) -> Iterator[Mapping[str, object]]:
    start = stream.read(1024)
    stream.seek(0)
    if start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
        for line in text_lines(stream, errors="replace"):
            if line.strip():
                row = read_json(line)
                if not isinstance(row, dict):
                    raise TypeError
                yield row
        return
    rows = csv_rows(stream, errors="replace")
    header = next(rows, [])
    yield from (dict(zip(header, row, strict=False)) for row in rows if row)


def _observed(rows: Iterator[Mapping[str, object]], path: Path) -> Observed:
    first = next(rows, None)
    if first is None:
        raise _unknown(path, "no rows")
    rows = itertools.chain((first,), rows)
    if "requests_per_s" in first:
        few = itertools.islice(rows, HOURS_A_WEEK + 1)
        rates = [_between(row["requests_per_s"], MOST_RATE) for row in few]
        if len(rates) not in (HOURS_A_DAY, HOURS_A_WEEK) or max(rates) == 0:
            more = "more than " if len(rates) > HOURS_A_WEEK else ""
            count = min(len(rates), HOURS_A_WEEK)
            raise _unknown(path, f"{more}{count} rates, the highest {max(rates):g} requests/s")
        return Observed(tuple(rates))
    for layout in TRACES:
        if layout.moment in first and layout.answer in first:
            return _trace(rows, layout, path)
    raise _unknown(path, "the columns " + ", ".join(map(str, itertools.islice(first, 12))))


def _trace(rows: Iterator[Mapping[str, object]], layout: Layout, path: Path) -> Observed:
    moments, prompts, answers = array("d"), array("d"), array("d")
    for row in rows:
        prompt, answer = (
            _between(row[name], MOST_TOKENS) for name in (layout.prompt, layout.answer)
        )
        if answer > 0:  # BurstGPT lists failures as answers without tokens
            moments.append(_seconds(str(row[layout.moment])) * layout.unit_s)
            prompts.append(prompt)
            answers.append(answer)
        if len(moments) > MOST_REQUESTS:
            raise _unknown(path, f"more than {MOST_REQUESTS:,} requests")
    times = np.sort(np.frombuffer(moments)) if moments else np.empty(0)
    if len(times) < 2 or not np.isfinite(times).all():
        raise _unknown(path, f"{len(times)} answered requests with a moment")
    if times[-1] - times[0] > MOST_SPAN_S:
        raise _unknown(path, f"more than {MOST_SPAN_S / YEAR_S:.0f} years of requests")
    gaps = np.diff(times)
    hours = np.floor(times / HOUR_S)
    same = gaps[hours[1:] == hours[:-1]]
    spread = float(same.var() / same.mean() ** 2) if len(same) > 1 and same.mean() > 0 else 1.0
    return Observed(
        _profile(times), _length(np.frombuffer(prompts)), _length(np.frombuffer(answers)), spread
    )


def _between(cell: object, most: float) -> float:
    """Return a number from 0 to ``most``."""
    number = float(str(cell))
    if not 0 <= number <= most:
        raise ValueError
    return number


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
    value = f"{path.name}: {what}"
    return refusal("no_demand_table", value=value, allowed=ALLOWED, remedy=REMEDY, field=FIELD)
