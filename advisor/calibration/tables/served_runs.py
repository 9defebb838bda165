"""Published serving runs as arrays: all runs of one network in one format on one engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.calibration.fitting.stack_runs import origin
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.reading import Row, cell, number, shipped_rows
from advisor.calibration.tables.serving_rows import (
    FIRST,
    ONLINE,
    TOKEN,
    WHOLE,
    BenchmarkTimes,
    Deployment,
    benchmark_times,
    row_deployment,
    row_group,
    row_load,
)
from advisor.catalog.nodes import node_for
from advisor.errors import AdvisorError
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.serving.demand import ServingLoad
from advisor.estimate.serving.times import compute_format
from advisor.foundation.units import MILLISECOND
from advisor.nouns.efficiency import Calibration
from advisor.nouns.engines import ServingFacts
from advisor.nouns.hardware import Accelerator

TABLE: Final = "serving_runs.csv"


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured time of one run."""

    id: str
    source: str
    """Repository or site."""
    group: str
    quantity: str
    """``FIRST``, ``TOKEN`` or ``WHOLE``."""
    measured_s: float
    row: int
    """Index in the pack."""
    excluded: str = ""
    """Why no fit uses it; empty if a fit does."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Runs that differ only in load, layout and cards."""

    engine: str
    kind: str
    deployment: Deployment
    """A deployment with the hardware of all runs; a fit replaces its engine."""
    cards: tuple[Accelerator, ...]
    load: ServingLoad
    readings: tuple[Reading, ...]

    def times(
        self, calibration: Calibration, facts: ServingFacts, hardware: HardwareArrays
    ) -> BenchmarkTimes:
        """Return the times of all runs under an engine with these constants."""
        candidates = Candidates(self.deployment.candidates.layout, hardware)
        deployment = replace(self.deployment, engine=facts, candidates=candidates)
        return benchmark_times(deployment, self.load, calibration, online=self.kind == ONLINE)


def read_packs(engine: Engine, kinds: Iterable[str]) -> tuple[Pack, ...]:
    """Read the shipped serving runs of these kinds that state times.

    Parameters
    ----------
    kinds : iterable of str
        Values of the table's ``kind``.
    """
    rows = shipped_rows(TABLE)
    together: dict[tuple[object, ...], list[tuple[Row, Deployment, ServingLoad]]]
    together = defaultdict(list)
    wanted = set(kinds)
    for row in rows:
        if cell(row, "kind") not in wanted:
            continue
        try:
            deployment = row_deployment(row, engine)
            load = row_load(row, cell(row, "kind"), deployment, engine)
        except AdvisorError:
            continue
        served = deployment.served
        key = (
            cell(row, "engine"),
            cell(row, "kind"),
            cell(row, "architecture_key") or cell(row, "model"),
            served.weight_format,
            served.cache_bytes_per_element,
        )
        together[key].append((row, deployment, load))
    return tuple(_pack(found, engine) for found in together.values())


def _pack(found: Sequence[tuple[Row, Deployment, ServingLoad]], engine: Engine) -> Pack:
    first, deployment, _ = found[0]
    candidates = [one.candidates for _, one, _ in found]
    return Pack(
        engine=cell(first, "engine"),
        kind=cell(first, "kind"),
        deployment=replace(
            deployment,
            candidates=Candidates(
                layout=joined([one.layout for one in candidates]),
                hardware=joined([one.hardware for one in candidates]),
            ),
        ),
        cards=tuple(engine.accelerator(row) for row, _, _ in found),
        load=joined([load for *_, load in found]),
        readings=tuple(
            Reading(
                id=cell(row, "id"),
                source=origin(cell(row, "source")),
                group=row_group(row),
                quantity=quantity,
                measured_s=seconds,
                row=index,
                excluded=cell(row, "excluded_from_fit"),
            )
            for index, (row, _, load) in enumerate(found)
            for quantity, seconds in measured_s(row, load).items()
        ),
    )


Arrays = TypeVar("Arrays", LayoutArrays, HardwareArrays, ServingLoad)


def joined(parts: Sequence[Arrays]) -> Arrays:
    """Return concatenated structs of arrays."""
    kind = type(parts[0])
    return kind(
        **{
            item.name: np.concatenate([getattr(one, item.name) for one in parts])
            for item in fields(kind)
        }
    )


def measured_s(row: Row, load: ServingLoad) -> Mapping[str, float]:
    """Return the times in a row, with rates as times of one token or one prompt."""
    measured = {
        name: value
        for column in ("primary_quantity", "secondary_quantity")
        if (value := number(row, name := cell(row, column))) is not None and value > 0
    }
    found = {}
    if "tpot_ms" in measured:
        found[TOKEN] = measured["tpot_ms"] * MILLISECOND
    if "ttft_ms" in measured:
        found[FIRST] = measured["ttft_ms"] * MILLISECOND
    requests = float(load.concurrency[0])
    if "decode_tokens_per_s" in measured:
        found[TOKEN] = requests / measured["decode_tokens_per_s"]
    if "prefill_tokens_per_s" in measured:
        found[FIRST] = requests * float(load.input_tokens[0]) / measured["prefill_tokens_per_s"]
    if "total_output_tokens_per_s" in measured:
        tokens = requests * float(load.output_tokens[0])
        found[WHOLE] = tokens / measured["total_output_tokens_per_s"]
    return found


def readings_of(packs: Iterable[Pack]) -> tuple[Reading, ...]:
    """Return all readings, in the order of :func:`predicted_s`."""
    return tuple(reading for pack in packs for reading in pack.readings)


def predicted_s(packs: Iterable[Pack], calibration: Calibration, facts: ServingFacts) -> Floats:
    """Return the predicted time of every reading. [s]"""
    known: dict[tuple[str, str], HardwareArrays] = {}

    def hardware(pack: Pack) -> HardwareArrays:
        if not facts.backends:
            return pack.deployment.candidates.hardware
        stored = pack.deployment.served.weight_format
        for card in pack.cards:
            if (card.key, stored.name) not in known:
                kernels, _ = calibration.served_kernels(card, stored, facts)
                known[card.key, stored.name] = HardwareArrays.of(
                    card, node_for(card, None), kernels, compute=compute_format(card, stored)
                )
        return joined([known[card.key, stored.name] for card in pack.cards])

    found: list[NDArray[np.float64]] = []
    for pack in packs:
        times = pack.times(calibration, facts, hardware(pack))
        all_s = {FIRST: times.first_s, TOKEN: times.token_s, WHOLE: times.whole_s}
        found.append(np.array([all_s[item.quantity][item.row] for item in pack.readings]))
    return np.concatenate(found)
