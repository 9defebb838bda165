"""Measured against predicted, as tables."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from advisor.architecture.presets import find_preset, listed_hub_id
from advisor.architecture.titles import model_title
from advisor.calibration.scoring.published import PublishedRun
from advisor.calibration.scoring.report import Summary, summary
from advisor.foundation.formatting import EN_DASH
from advisor.foundation.units import GIB, plain
from advisor.frames.rows import Rows, tabled

QUANTITY_TITLES: Final = {
    "tokens_per_s_per_accelerator": "Training speed (tokens/s per accelerator)",
    "samples_per_s": "Training speed (samples/s)",
    "step_time_s": "Time of a training step (s)",
    "wall_hours": "Duration of a training run (h)",
    "accelerator_hours": "Accelerator-hours of a training run",
    "peak_memory_gib": "Memory of training (GiB)",
    "peak_total": "Memory of tensors (GiB)",
    "tpot_ms": "Time per output token (ms)",
    "ttft_ms": "Time to the first token (ms)",
    "total_output_tokens_per_s": "Serving speed (output tokens/s)",
    "decode_tokens_per_s": "Decoding speed (tokens/s)",
    "prefill_tokens_per_s": "Speed of reading prompts (tokens/s)",
    "latency_ms": "Time of a request (ms)",
    "images_per_s": "Images per second",
    "kv_cache_gib": "Room for the key-value cache (GiB)",
    "kv_tokens": "Tokens in the key-value cache",
    "weights_gib": "Memory of served weights (GiB)",
}
"""Columns of the tables in words, in the order of the page."""
SCALES: Final = {"peak_total": GIB}
"""Divisors of values for the screen."""
DIGITS: Final = 3
YEAR: Final = 4
"""Whole numbers with more digits get thousands separators."""
BREAK: Final = re.compile(r"([;|])(?=\S)")
"""Where a long word may end a line."""


def quantities(runs: Iterable[PublishedRun]) -> list[str]:
    """Return the quantities that were scored, known ones first and in order."""
    present = dict.fromkeys(run.row.quantity for run in runs)
    known = [name for name in QUANTITY_TITLES if name in present]
    return known + [name for name in present if name not in QUANTITY_TITLES]


def quantity_title(name: str) -> str:
    """Return a quantity in words, or the column's name if it has none."""
    return QUANTITY_TITLES.get(name, name)


@tabled
def accuracy_frame(runs: Sequence[PublishedRun]) -> Rows:
    """Return one row for each measurement, for the chart and the CSV file; bytes as GiB."""
    for run in runs:
        yield {
            "id": run.row.id,
            "quantity": run.row.quantity,
            "task": run.task,
            "model": run.model,
            "accelerator": run.accelerator_name,
            "count": run.count,
            **{
                name: getattr(run.row, name) / SCALES.get(run.row.quantity, 1.0)
                for name in ("measured", "low", "expected", "high")
            },
            "error_pct": run.row.error_pct,
            "covered": run.row.covered,
            "regime": run.row.regime,
            "group": run.row.group,
            "source": run.row.source,
        }


def accuracy_summary(runs: Sequence[PublishedRun]) -> Summary | None:
    """Return the errors of measurements of one quantity; None if there are none."""
    if not runs:
        return None
    return summary(runs[0].row.quantity, "all", [run.row for run in runs])


@tabled
def accuracy_table(runs: Sequence[PublishedRun]) -> Rows:
    """Return the errors by quantity as text, one row each."""
    for name in quantities(runs):
        if runs_of := [run for run in runs if run.row.quantity == name]:
            yield {"What": quantity_title(name)} | _errors(runs_of)


@tabled
def accuracy_by_task(runs: Sequence[PublishedRun]) -> Rows:
    """Return the errors of one quantity by work and generation of cards, as text."""
    parts: dict[tuple[str, str], list[PublishedRun]] = {}
    for run in runs:
        parts.setdefault((run.task, run.generation or "-"), []).append(run)
    ordered = sorted(parts.items(), key=lambda item: (-len(item[1]), item[0]))
    for (task, generation), members in ordered:
        yield {"Work": task, "Generation": generation} | _errors(members)


def farthest_off(runs: Sequence[PublishedRun], *, most: int) -> list[PublishedRun]:
    """Return the worst predictions, one per group of similar measurements, worst first."""
    worst: dict[str, PublishedRun] = {}
    for run in sorted(runs, key=lambda run: -abs(run.row.error_pct)):
        worst.setdefault(run.row.group, run)
        if len(worst) == most:
            break
    return list(worst.values())


@tabled
def runs_table(runs: Sequence[PublishedRun]) -> Rows:
    """Return measurements as text, one row each, in four columns: a phone shows no more."""
    several = len({run.row.quantity for run in runs}) > 1
    for run in runs:
        yield {
            "Run": _run(run) + (f": {quantity_title(run.row.quantity)}" if several else ""),
            "Measured": _number(run, run.row.measured),
            "Predicted": f"{_number(run, run.row.expected)} "
            f"({_number(run, run.row.low)}{EN_DASH}{_number(run, run.row.high)})",
            "Off by": f"{run.row.error_pct:+.0f} %",
        }


def _run(run: PublishedRun) -> str:
    where = f", {run.count:,}x {run.accelerator_name}" if run.accelerator_name else ""
    return f"{model_words(run.model)}, {run.task}{where}"


@cache
def model_words(name: str) -> str:
    """Return the name of a measured model as other pages write it, where they know it.

    >>> model_words("LLAMA3.1_405B"), model_words("Qwen3.6-35B-A3B")
    ('Llama 3.1 405B', 'Qwen3.6-35B-A3B')
    """
    preset = None if listed_hub_id(name) else find_preset(name)
    return model_title(preset) if preset else name.replace("_", " ")


@tabled
def settings_table(run: PublishedRun) -> Rows:
    """Return the settings that the source states about a run as text, one row each."""
    for name, value in (
        *run.settings,
        ("row of the table", run.row.id),
        ("scored_with", run.row.regime.replace("|", ",")),
    ):
        if value in NOTHING_SAID or (value == "1" and name.endswith("_parallel")):
            continue
        stem, _, unit = name.rpartition("_")
        apart = unit in UNITS and "_per_" not in name
        title = f"{stem} ({UNITS[unit]})" if stem and apart else name
        text = value.replace("_", " ") if name in IN_WORDS else value
        yield {
            "Setting": title.replace("_", " "),
            "Value": f"{int(text):,}"
            if text.isdigit() and len(text) > YEAR
            else BREAK.sub(r"\1 ", text),
        }


NOTHING_SAID: Final = frozenset({"", "ok", "none", "unknown"})
"""Values of settings that tell a reader nothing."""
UNITS: Final = {"gib": "GiB", "gb": "GB", "ms": "ms", "s": "s", "hours": "h", "pct": "%"}
"""Units at the end of a column's name."""
IN_WORDS: Final = frozenset({"flags", "run_note", "memory_basis", "framework"})
"""Columns whose values are words."""


def _number(run: PublishedRun, value: float) -> str:
    return plain(value / SCALES.get(run.row.quantity, 1.0), DIGITS)


def _errors(runs: Sequence[PublishedRun]) -> dict[str, str]:
    return summary(runs[0].row.quantity, "all", [run.row for run in runs]).cells
