"""Published serving runs as arrays: all runs of one network in one format on one engine."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.calibration.fitting.stack_runs import origin
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.deployments import (
    BenchmarkTimes,
    Deployment,
    benchmark_times,
    row_deployment,
    row_group,
    row_kind,
    row_load,
    row_node,
)
from advisor.calibration.tables.reading import Row, cell, number, shipped_rows
from advisor.calibration.tables.serving_rows import FIRST, TOKEN, WHOLE
from advisor.errors import AdvisorError
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.serving.demand import ServingLoad
from advisor.foundation.noun import Noun
from advisor.foundation.record import record
from advisor.foundation.units import MILLISECOND
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.generations import generations

TABLES: Final = ("serving_runs.csv", "loaded_runs.csv", "desktop_runs.csv", "speech_runs.csv")
TAILS: Final = ("tail_runs.csv",)
"""Percentiles under a load, which no constant is fitted on."""
OFFLOADED: Final = ("offload_runs.csv",)
"""Runs with layers or experts in the host's memory."""
REPOSITORY: Final = re.compile(r"(?:github )?([\w.-]+/[\w.-]+)")


@record
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

    @property
    def site(self) -> str:
        """Return the repository or site, without the file or the request in it."""
        found = REPOSITORY.match(self.source)
        return found[1] if found else self.source


@record
class Pack:
    """Runs that differ only in load, layout and cards."""

    engine: str
    kind: str
    deployment: Deployment
    """A deployment with the hardware of all runs; a fit replaces its engine."""
    cards: tuple[Accelerator, ...]
    nodes: tuple[Node, ...]
    """Their machines, with the rates that the rows state."""
    load: ServingLoad
    readings: tuple[Reading, ...]

    def times(
        self, calibration: Calibration, facts: ServingFacts, hardware: HardwareArrays
    ) -> BenchmarkTimes:
        """Return the times of all runs under an engine with these constants."""
        candidates = Candidates(self.deployment.candidates.layout, hardware)
        deployment = replace(
            self.deployment, engine=self.deployment.under(facts), candidates=candidates
        )
        return benchmark_times(deployment, self.load, calibration, self.kind)


def read_packs(
    engine: Engine, kinds: Iterable[str], tables: Iterable[str] = TABLES
) -> tuple[Pack, ...]:
    """Read the shipped serving runs of these kinds that state times.

    ``kinds``: values of the tables' ``kind``. ``tables``: files below ``data/measurements``.
    """
    rows = [row for name in tables for row in shipped_rows(name)]
    together: dict[tuple[object, ...], list[tuple[Row, Deployment, ServingLoad]]]
    together = defaultdict(list)
    wanted = set(kinds)
    for row in rows:
        if row_kind(row) not in wanted:
            continue
        try:
            deployment = row_deployment(row, engine)
            load = row_load(row, row_kind(row), deployment, engine)
        except AdvisorError:
            continue
        served = deployment.served
        key = (
            deployment.engine_name,
            deployment.interface,
            deployment.settings,
            deployment.percentile,
            row_kind(row),
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
        engine=deployment.engine_name,
        kind=row_kind(first),
        deployment=replace(
            deployment,
            candidates=Candidates(
                layout=joined([one.layout for one in candidates]),
                hardware=joined([one.hardware for one in candidates]),
            ),
        ),
        cards=tuple(engine.accelerator(row) for row, _, _ in found),
        nodes=tuple(row_node(row, engine.accelerator(row)) for row, _, _ in found),
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
        new_tokens = float(load.input_tokens[0] - load.cached_tokens[0])
        found[FIRST] = requests * new_tokens / measured["prefill_tokens_per_s"]
    if "total_output_tokens_per_s" in measured:
        tokens = requests * float(load.output_tokens[0])
        found[WHOLE] = tokens / measured["total_output_tokens_per_s"]
    return found


def readings_of(packs: Iterable[Pack]) -> tuple[Reading, ...]:
    """Return all readings, in the order of :func:`predicted_s`."""
    return tuple(reading for pack in packs for reading in pack.readings)


Known = dict[tuple[object, ...], NDArray[np.float64]]
"""Predicted times of a pack by its place and the constants that it depends on."""


def predicted_s(
    packs: Iterable[Pack],
    calibration: Calibration,
    facts: ServingFacts,
    remembered: Known | None = None,
) -> Floats:
    """Return the predicted time of every reading. [s]

    ``remembered``: times of earlier calls with these packs. A pack whose constants did not change
    is not predicted again: a fit moves the constants of one generation at a time.
    """
    known: dict[tuple[str, str, str, Node], HardwareArrays] = {}

    def hardware(pack: Pack) -> HardwareArrays:
        if not facts.backends:
            return pack.deployment.candidates.hardware
        stored, interface = pack.deployment.served.weight_format, pack.deployment.interface
        places = list(zip(pack.cards, pack.nodes, strict=True))
        for card, node in places:
            if (card.key, stored.name, interface, node) not in known:
                kernels, _ = calibration.served_kernels(card, stored, facts, interface)
                known[card.key, stored.name, interface, node] = HardwareArrays.of(
                    card, node, kernels, compute=compute_format(card, stored)
                )
        return joined([known[card.key, stored.name, interface, node] for card, node in places])

    def predict(pack: Pack) -> NDArray[np.float64]:
        times = pack.times(calibration, facts, hardware(pack))
        all_s = {FIRST: times.first_s, TOKEN: times.token_s, WHOLE: times.whole_s}
        return np.array([all_s[item.quantity][item.row] for item in pack.readings])

    if remembered is None:
        return np.concatenate([predict(pack) for pack in packs])
    shared = _values(facts)
    found: list[NDArray[np.float64]] = []
    for place, pack in enumerate(packs):
        interface = pack.deployment.interface
        own = {card.key: facts.backend(generations(card), interface) for card in pack.cards}
        key = (place, shared, *(_values(each) for each in own.values() if each))
        if key not in remembered:
            remembered[key] = predict(pack)
        found.append(remembered[key])
    return np.concatenate(found)


def _values(facts: Noun) -> tuple[object, ...]:
    """Return the values of a noun that are not sections."""
    return tuple(value for value in facts.__dict__.values() if not isinstance(value, dict))
