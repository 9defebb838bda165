"""The rows of a sweep: the figures of each answer under the names of columns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Any, Final

from advisor.catalog import Catalog
from advisor.errors import AdvisorError, InputError
from advisor.estimate.results import Estimate
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_case
from advisor.planning.many import Figures, estimate_many

Row = dict[str, Any]


class Outcome(StrEnum):
    """What became of a row."""

    OK = "ok"
    LATE_OR_DEAR = "misses_limits"
    """It fits, but misses a limit of the case."""
    NO_FIT = "does_not_fit"
    NO_PLAN = "no_plan"
    """The catalog has nothing within the limits; ``recommend`` says why."""
    MISTAKE = "mistake"
    """The case is wrong; ``problem`` says what, allowed values and remedy."""


FIGURES: Final[Mapping[str, tuple[type, str]]] = {
    "accelerator": (str, "accelerator"),
    "count": (int, "count"),
    "data": (int, "layout.data"),
    "tensor": (int, "layout.tensor"),
    "pipeline": (int, "layout.pipeline"),
    "context": (int, "layout.context"),
    "expert": (int, "layout.expert"),
    "sharding": (str, "layout.sharding"),
    "micro_batch": (int, "layout.micro_batch"),
    "recompute": (str, "layout.recompute"),
    "precision": (str, "precision"),
    "software": (str, "software.name"),
    "fits": (bool, "memory.fits"),
    "memory_bytes_low": (float, "memory.total_bytes.low"),
    "memory_bytes": (float, "memory.total_bytes.expected"),
    "memory_bytes_high": (float, "memory.total_bytes.high"),
    "usable_bytes": (float, "memory.usable_bytes"),
    "step_s": (float, "time.step_s.expected"),
    "tokens_per_s": (float, "time.tokens_per_s.expected"),
    "run_hours_low": (float, "time.run_hours.low"),
    "run_hours": (float, "time.run_hours.expected"),
    "run_hours_high": (float, "time.run_hours.high"),
    "ttft_ms": (float, "serving.ttft_ms.expected"),
    "ttft_ms_high": (float, "serving.ttft_ms.high"),
    "tpot_ms": (float, "serving.tpot_ms.expected"),
    "tpot_ms_high": (float, "serving.tpot_ms.high"),
    "output_tokens_per_s": (float, "serving.output_tokens_per_s.expected"),
    "max_concurrency": (int, "serving.max_concurrency"),
    "max_context_tokens": (int, "serving.max_context_tokens"),
    "usd_per_hour": (float, "cost.usd_per_hour.expected"),
    "rent_usd_low": (float, "cost.rent_usd.low"),
    "rent_usd": (float, "cost.rent_usd.expected"),
    "rent_usd_high": (float, "cost.rent_usd.high"),
    "usd_per_million_tokens": (float, "cost.usd_per_million_tokens.expected"),
    "energy_kwh": (float, "cost.energy_kwh.expected"),
    "provider": (str, "cost.provider"),
    "region": (str, "cost.region"),
    "instance_type": (str, "cost.instance_type"),
    "instances": (int, "cost.instances"),
}
"""Columns of the result, each with its type and its place in an `Estimate`."""
COLUMNS: Final[Mapping[str, type]] = {
    "outcome": str,
    **{name: kind for name, (kind, _) in FIGURES.items()},
    "problem": str,
    "problem_field": str,
}
NO_PLAN: Final = "nothing in the catalog meets the limits; recommend says why for each accelerator"


def answer_rows(
    cases: Sequence[Mapping[str, Any] | InputError], catalog: Catalog | None = None
) -> list[Row]:
    """Answer cases (content for `load_case`, or its error), each as a row.

    A mistake in one changes no other.
    """
    rows: list[Row | None] = []
    valid: list[Case] = []
    for content in cases:
        try:
            if isinstance(content, InputError):
                raise content
            valid.append(load_case(content))
            rows.append(None)
        except AdvisorError as error:
            rows.append(mistake(error))
    try:
        answers: Iterator[Figures | Row] = iter(estimate_many(valid, catalog))
    except Exception:  # noqa: BLE001 - one defect must not cost the other rows
        answers = iter([_alone(case, catalog) for case in valid])
    return [_row(next(answers)) if row is None else row for row in rows]


def _alone(case: Case, catalog: Catalog | None) -> Figures | Row:
    try:
        [found] = estimate_many([case], catalog)
    except Exception as error:  # noqa: BLE001
        return mistake(AdvisorError(f"a defect of the program: {type(error).__name__}: {error}"))
    return found


def _row(found: Figures | Row) -> Row:
    if isinstance(found, dict):
        return found
    if found is None:
        return {"outcome": Outcome.NO_PLAN.value, "problem": NO_PLAN}
    if isinstance(found, InputError):
        return mistake(found)
    outcome = Outcome.NO_FIT if not found.memory.fits else Outcome.OK
    if outcome is Outcome.OK and found.missed_limits:
        outcome = Outcome.LATE_OR_DEAR
    row: Row = {"outcome": outcome.value}
    for name, (_, path) in FIGURES.items():
        row[name] = _at(found, path)
    if found.missed_limits:
        row["problem"] = " ".join(found.missed_limits)
    return row


def _at(estimate: Estimate, path: str) -> object:
    value: Any = estimate
    for name in path.split("."):
        value = getattr(value, name, None)
    return value.value if isinstance(value, Enum) else value


def mistake(error: AdvisorError) -> Row:
    """Return the row of a case that cannot be answered."""
    return {
        "outcome": Outcome.MISTAKE.value,
        "problem": str(error),
        "problem_field": getattr(error, "field", "") or None,
    }


def as_text(rows: Sequence[Row]) -> str:
    """Return rows as one line of JSON."""
    return json.dumps(rows, separators=(",", ":"), allow_nan=False)
