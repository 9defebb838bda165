"""What every answer keeps, checked on its own figures: sums, order, signs, words."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from advisor.estimate.results import Estimate, StepTime
from advisor.estimate.serving.results import ServingEstimate
from advisor.foundation.quantities import Term

LONGEST_MESSAGE: Final = 600
CLOSE: Final = 1e-6
"""Terms are sums of floats in another order."""
SIGNED: Final = re.compile(r"margin|saving|change")
"""What may be below zero, by name: what is spare or saved by one way over another."""
QUOTED: Final = (
    *(".id", ".name", ".table", ".reason", ".case", ".key", ".region", ".system"),
    *(".rows[].group", ".rows[].source", ".rows[].regime", ".summary[].regime"),
    *(".skipped[].quantity", ".instance_type"),
)
"""Where a user's own words stand: names, cells of a table, a probe's system."""
AMOUNTS: Final = re.compile(r"(?:_bytes|_kwh|_usd|_s|_ms|_hours|_per_hour|_per_s|_ratio)$")
MISSING: Final = re.compile(
    r"-\$?[\d.,]+ ?\w* short\b|\b(?:nan|inf)\b|\$-|(?<![\w.,)\-])-0(?:[.,]0+)?(?![\w.,-])"
)
"""What a person cannot read as an amount; ``-0`` too."""
UP_TO: Final = re.compile(r"\$([\d.,]*\d)(?: a month)? expected, up to \$([\d.,]*\d)")
SPAN: Final = re.compile(
    r"(?<![\w.,])(\$?)(\d[\d.,]*)(?: (?:[A-Za-z/]+|%))? \(\$?(\d[\d.,]*)\u2013\$?(\d[\d.,]*)\)"
)
"""An expected value as shown, with the ends of its range in brackets."""


class BrokenAnswerError(Exception):
    """An answer breaks a law; the first argument names the law, the second shows the breach."""


def check_message(text: str) -> None:
    """Refuse what no terminal or page should be given."""
    if len(text) > LONGEST_MESSAGE:
        raise BrokenAnswerError("a message has over 600 characters", f"{len(text)}: {text[:200]}")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise BrokenAnswerError("a message has control characters", ascii(text))


def check_json(text: str) -> Any:
    """Return what the text holds, if it is JSON with finite numbers alone."""

    def refuse(word: str) -> object:
        raise BrokenAnswerError("JSON holds a number that is none", word)

    content = json.loads(text, parse_constant=refuse)
    check_figures(content)
    return content


def check_figures(content: object, where: str = "") -> None:
    """Ranges are ordered, amounts are not negative, sentences say what they show."""
    if isinstance(content, dict):
        if {"low", "expected", "high"} <= content.keys():
            _ordered(content, where)
        for key, value in content.items():
            check_figures(value, f"{where}.{key}")
    elif isinstance(content, list):
        for item in content:
            check_figures(item, f"{where}[]")
    elif isinstance(content, str):
        if not where.endswith(QUOTED):
            check_words(content, where)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        name = re.sub(r"\.(?:low|expected|high)$", "", where).rpartition(".")[2]
        if content < 0 and AMOUNTS.search(name) and not SIGNED.search(where):
            raise BrokenAnswerError(f"{where} is negative", repr(content))
        if content == 0 and AMOUNTS.search(name) and math.copysign(1.0, content) < 0:
            raise BrokenAnswerError(f"{where} is a negative zero", repr(content))


def _ordered(content: dict[str, Any], where: str) -> None:
    low, expected, high = (content[name] for name in ("low", "expected", "high"))
    numbers = all(isinstance(item, int | float) for item in (low, expected, high))
    if numbers and not low <= expected <= high:
        raise BrokenAnswerError(f"{where} is out of order", f"{low} {expected} {high}")


def check_words(text: str, where: str = "a text") -> None:
    """Sums and ranges in a text are in order as a reader sees them."""
    if found := MISSING.search(text):
        raise BrokenAnswerError(f"{where} shows a number that is none", found[0] + ": " + text)
    for first, most in UP_TO.findall(text):
        if _read(first) > _read(most):
            raise BrokenAnswerError(f"{where} expects more than the most", text)
    for _, expected, low, high in SPAN.findall(text):
        if not _read(low) <= _read(expected) <= _read(high):
            raise BrokenAnswerError(f"{where} shows a range out of order", text)


def _read(number: str) -> float:
    return float(number.rstrip(".,").replace(",", ""))


def check_estimate(estimate: Estimate) -> None:
    """The terms of every number add up to it, the parts of memory at every end of the range."""
    memory = estimate.memory
    parts = [
        getattr(memory, name)
        for name in type(memory).model_fields
        if name.endswith("_bytes")
        and name not in ("total_bytes", "usual_bytes", "usable_bytes", "host_bytes")
    ]
    for end in ("low", "expected", "high"):
        _sums(
            f"memory parts, {end}",
            sum(getattr(part, end) for part in parts),
            getattr(memory.total_bytes, end),
        )
    fits = memory.needed_bytes <= memory.usable_bytes
    # A host that is too small is no fault of the card's figures.
    if memory.fits != fits and (memory.fits or not memory.host_bytes.high):
        raise BrokenAnswerError("memory fits against its figures", repr(memory))
    for name, terms, total in _totals(estimate):
        _sums(name, sum(term.value for term in terms), total)
        if lowest := [term for term in terms if term.value < 0]:
            raise BrokenAnswerError(f"{name} has a negative term", repr(lowest[0]))


def _totals(estimate: Estimate) -> Iterator[tuple[str, tuple[Term, ...], float]]:
    yield "terms of memory", estimate.memory.terms, estimate.memory.total_bytes.expected
    time: StepTime | None = estimate.time
    serving: ServingEstimate | None = estimate.serving
    if time is not None:
        yield "terms of a step", time.terms, time.step_s.expected
        yield "terms of the run", time.run_terms, time.run_hours.expected * 3600
    if serving is not None:
        yield "terms of an answer", serving.terms, serving.tpot_ms.expected / 1000


def _sums(name: str, shown: float, total: float) -> None:
    if abs(shown - total) > CLOSE * max(abs(total), 1e-12):
        raise BrokenAnswerError(f"{name} do not sum to the total", f"{shown!r}, {total!r}")
