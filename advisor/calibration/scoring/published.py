"""The shipped measurements with their predictions, and those nearest to a configuration."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from math import log2
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from advisor.calibration.scoring.accuracy_page import ALL_TABLES, UNSEEN
from advisor.calibration.scoring.report import IN_BYTES, ValidationReport, ValidationRow, summarise
from advisor.calibration.scoring.validation import recognise
from advisor.calibration.tables.context import shipped_engine
from advisor.calibration.tables.reading import Row, measurement_tables, shipped_rows
from advisor.catalog import load_catalog
from advisor.errors import InputError
from advisor.foundation.noun import LARGEST, Noun, read_table, refuse
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Serving, Workload

PREDICTIONS: Final = "predictions.csv"
Figure = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]


class Prediction(Noun):
    """A line of the file."""

    table: str
    id: str
    quantity: str
    regime: str = ""
    group: str = ""
    low: Figure
    expected: Figure
    high: Figure

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.expected <= self.high:
            order = f"{self.low}, {self.expected}, {self.high}"
            msg = f"Order the three: low, expected, high, not {order}"
            raise ValueError(msg)
        return self


COLUMNS: Final = tuple(Prediction.model_fields)
BOUNDS: Final = ("low", "expected", "high")
REMEDY: Final = "Run 'make accuracy', which writes the file anew."


def rounded(report: ValidationReport) -> ValidationReport:
    """Return a report with the digits of the file: four, and all digits of bytes."""
    rows = tuple(
        row.model_copy(update={name: float(_digits(row, name)) for name in BOUNDS})
        for row in report.rows
    )
    return report.changed(rows=rows, summary=summarise(rows))


def predictions_csv(reports: Mapping[str, ValidationReport]) -> str:
    """Text of ``data/predictions.csv``: one line for each measured quantity of a row.

    ``reports``: by key of ``accuracy.ALL_TABLES``.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(
        (table, row.id, row.quantity, row.regime, row.group, *(_digits(row, b) for b in BOUNDS))
        for table, report in reports.items()
        for row in report.rows
    )
    return text.getvalue()


def _digits(row: ValidationRow, name: str) -> str:
    # The accounting of tensors is exact to a millionth.
    return f"{getattr(row, name):{'.0f' if row.quantity in IN_BYTES else '.4g'}}"


@cache
def _stored() -> dict[str, list[Prediction]]:
    tables: dict[str, list[Prediction]] = defaultdict(list)
    for line in read_table(data_path(PREDICTIONS), Prediction, key=("table", "id", "quantity")):
        tables[line.table].append(line)
    return tables


def stored_predictions(table: str, measured: Mapping[str, Row]) -> list[ValidationRow]:
    """Return the predictions of a table with its measurements.

    Raises CatalogError if a prediction has no measurement: the file is older than the table.

    ``measured``: the table's rows by id.
    """
    return [_with_measured(line, measured) for line in _stored()[table]]


def _with_measured(line: Prediction, measured: Mapping[str, Row]) -> ValidationRow:
    row = measured.get(line.id, Row())
    if not row.get(line.quantity):
        refuse(PREDICTIONS, None, REMEDY, entry=line.id, field=line.quantity)
    try:
        measured_value = row.number(line.quantity) or 0.0
    except InputError as error:
        refuse(f"{line.table}.csv", error.value, error.remedy, entry=line.id, field=line.quantity)
    return ValidationRow(
        source=(row.get("source") or "").strip(),
        measured=measured_value,
        **line.model_dump(exclude={"table"}),
    )


TASKS: Final = measurement_tables().tasks
"""Kinds of work in the tables, in words."""
ACCOUNTING: Final = "Accounting of tensors"
START_UP: Final = "Start-up logs"
REPOSITORY: Final = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-fA-F]{7,40}|HEAD):(\S+)")
OTHER_GENERATION: Final = 3.0
OTHER_MODEL_OF_CARD: Final = 0.5
OTHER_KIND: Final = 2.0
COUNT_WEIGHT: Final = 0.25
"""Distances, in doublings of the model's size."""
ROUTED_SHARE: Final = 0.7
"""A model that uses a smaller share of its parameters per token is a mixture of experts."""


class PublishedRun(Noun):
    """One published measurement and the engine's prediction."""

    table: str
    """Key of ``accuracy.ALL_TABLES``."""
    row: ValidationRow
    model: str
    accelerator: str
    """Catalog key; empty if the row has no card."""
    accelerator_name: str
    generation: str
    """The maker's name of the card's architecture."""
    count: int
    task: str
    parameters: float
    active_parameters: float
    """Parameters that one token uses: fewer in mixtures of experts."""
    settings: tuple[tuple[str, str], ...]
    """Other columns and values of the row."""

    @property
    def unseen(self) -> bool:
        """Whether no fit has used the measurement."""
        return self.table in UNSEEN

    @property
    def address(self) -> str | None:
        """Web address of the source; None if it is not a page."""
        source = self.row.source
        if source.startswith(("https://", "http://")):
            return source.split()[0]
        found = REPOSITORY.match(source)
        if found is None:
            return None
        repository, commit, path = found.groups()
        return f"https://github.com/{repository}/blob/{commit}/{path}"


def published_runs(names: Iterable[str] = ALL_TABLES) -> tuple[PublishedRun, ...]:
    """Return the shipped measurements, each with the prediction of ``make accuracy``.

    In the order of the tables; one for each quantity of a measurement.

    ``names``: keys of ``accuracy.ALL_TABLES``.
    """
    return tuple(run for name in names for run in _runs_of(name))


def predicted_now(run: PublishedRun) -> PublishedRun:
    """Return a measurement with a new prediction, to all digits.

    ``run``: one of :func:`published_runs`.
    """
    row = _rows_of(run.table)[run.row.id]
    engine = shipped_engine()
    found = recognise(row).predict(row, engine)
    [scored] = [each for each in found if each.quantity == run.row.quantity]
    return run.changed(row=scored)


@cache
def _rows_of(name: str) -> dict[str, Row]:
    table = shipped_rows(name)
    return {row.cell("id"): row for row in table}


@cache
def _runs_of(name: str) -> tuple[PublishedRun, ...]:
    cards = {card.key: card for card in load_catalog().accelerators}
    rows = _rows_of(name)
    found = []
    for row in stored_predictions(name, rows):
        try:
            found.append(_joined(name, row, rows[row.id], cards))
        except InputError as error:  # of a cell: nobody but the file is at fault
            refuse(f"{name}.csv", error.value, error.remedy, entry=row.id, field=error.field)
    return tuple(found)


def _joined(
    table: str, scored: ValidationRow, row: Row, cards: dict[str, Accelerator]
) -> PublishedRun:
    word = row.cell("workload") or row.cell("kind")
    fallback = START_UP if table.endswith("_logs") else ACCOUNTING
    key = row.cell("accelerator")
    card = cards.get(key)
    hidden = measurement_tables().hidden | {scored.quantity}
    return PublishedRun(
        table=table,
        row=scored,
        model=row.cell("model"),
        accelerator=key,
        accelerator_name=card.name if card else key,
        generation=card.architecture if card else "",
        count=int(row.number("num_accelerators") or row.number("world") or 1),
        task=TASKS.get(word, word) or fallback,
        parameters=row.number("parameters") or 0.0,
        active_parameters=row.number("active_parameters") or row.number("parameters") or 0.0,
        settings=tuple(
            (name, value.strip())
            for name, value in row.items()
            if name not in hidden and value and value.strip()
        ),
    )


def similar_runs(
    workload: Workload,
    *,
    accelerator: Accelerator,
    count: int,
    parameters: float,
    active_parameters: float | None = None,
    most: int = 3,
) -> tuple[PublishedRun, ...]:
    """Return the measurements of speed most like a configuration, nearest first.

    Empty if no shipped measurement is of such work.

    Distance counts doublings of the model's size; another number of cards counts a quarter as
    much, another card of the same generation half a doubling, another generation three, a mixture
    of experts for a dense model or the reverse two. It orders what is shown and enters no estimate.

    ``workload``: only measurements of the same kind of work are returned. ``parameters``: of the
    model. ``active_parameters``: those that one token uses; all by default. ``most``: at most this
    many, one of each group of similar measurements.
    """
    serving = isinstance(workload, Serving)
    runs = published_runs(
        ["serving_runs", "loaded_runs", "desktop_runs"] if serving else ["training_runs"]
    )
    words, speeds = _words(workload), measurement_tables().speeds
    routed = _routed(parameters, active_parameters or parameters)

    def distance(run: PublishedRun) -> float:
        card = 0.0
        if run.accelerator != accelerator.key:
            same = run.generation == accelerator.architecture
            card = OTHER_MODEL_OF_CARD if same else OTHER_GENERATION
        size = abs(log2(run.parameters / parameters))
        kind = OTHER_KIND * (_routed(run.parameters, run.active_parameters) is not routed)
        return card + size + kind + COUNT_WEIGHT * abs(log2(run.count / count))

    comparable = [
        run
        for run in runs
        if run.task in words and run.row.quantity in speeds and run.parameters > 0
    ]
    nearest: dict[str, PublishedRun] = {}
    for run in sorted(comparable, key=lambda run: (distance(run), run.row.id)):
        nearest.setdefault(run.row.group, run)
        if len(nearest) == most:
            break
    return tuple(nearest.values())


def _routed(parameters: float, active: float) -> bool:
    """Whether a model is a mixture of experts; tables may leave out an embedding."""
    return active < ROUTED_SHARE * parameters


def _words(workload: Workload) -> frozenset[str]:
    """Return the tables' kinds of work for this workload."""
    names: tuple[str, ...] = ("pretraining",)
    if isinstance(workload, Serving):
        names = ("llm_online", "llm_single_stream", "llm_static_batch")
    elif isinstance(workload, FineTuning):
        full = workload.method is FineTuningMethod.FULL
        names = ("full_finetuning",) if full else (workload.method.value,)
    return frozenset(TASKS[name] for name in names)
