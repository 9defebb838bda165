"""The shipped measurements with their predictions, and those nearest to a configuration."""

import re
from collections.abc import Iterable
from functools import cache
from math import log2
from typing import Final

from advisor.calibration.scoring.accuracy_page import ALL_TABLES, UNSEEN
from advisor.calibration.scoring.predictions import stored_predictions
from advisor.calibration.scoring.report import ValidationRow
from advisor.calibration.scoring.validation import recognise
from advisor.calibration.tables.context import shipped_engine
from advisor.calibration.tables.reading import Row, cell, measurement_tables, number, shipped_rows
from advisor.catalog import load_catalog
from advisor.errors import InputError
from advisor.foundation.data_records import refuse
from advisor.foundation.noun import Noun
from advisor.nouns.hardware import Accelerator
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Serving, Workload

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
def _rows_of(name: str) -> dict[str, dict[str, str]]:
    table = shipped_rows(name)
    return {cell(row, "id"): row for row in table}


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
    word = cell(row, "workload") or cell(row, "kind")
    fallback = START_UP if table.endswith("_logs") else ACCOUNTING
    key = cell(row, "accelerator")
    card = cards.get(key)
    hidden = measurement_tables().hidden | {scored.quantity}
    return PublishedRun(
        table=table,
        row=scored,
        model=cell(row, "model"),
        accelerator=key,
        accelerator_name=card.name if card else key,
        generation=card.architecture if card else "",
        count=int(number(row, "num_accelerators") or number(row, "world") or 1),
        task=TASKS.get(word, word) or fallback,
        parameters=number(row, "parameters") or 0.0,
        active_parameters=number(row, "active_parameters") or number(row, "parameters") or 0.0,
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
