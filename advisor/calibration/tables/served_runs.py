"""Published serving runs as arrays: all runs of one network in one format on one engine."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from advisor.calibration.fitting.stack_runs import origin
from advisor.calibration.tables.client_times import benchmark_times
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.deployments import (
    Deployment,
    as_run,
    row_deployment,
    row_group,
    row_kind,
    row_load,
    row_node,
)
from advisor.calibration.tables.reading import Row, shipped_rows
from advisor.calibration.tables.serving_rows import FIRST, LATENCY, TOKEN, WHOLE, measures
from advisor.errors import AdvisorError
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.serving.arrivals import BenchmarkTimes
from advisor.estimate.serving.demand import ServingLoad
from advisor.foundation.noun import Noun
from advisor.foundation.record import record
from advisor.foundation.units import MILLISECOND
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.kernels import generations

TABLES: Final = (
    "serving_runs.csv",
    "loaded_runs.csv",
    "doubtful_loads.csv",
    "desktop_runs.csv",
    "speech_runs.csv",
)
STARTED: Final = ("server_pages.csv",)
"""Servers as guides start them: their runs widen ranges and tune no constant."""
TAILS: Final = ("tail_runs.csv", "doubtful_tails.csv")
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
    doubtful: str = ""
    """Why it widens a range but tunes no constant."""

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

    def times(self, calibration: Calibration, points: Sequence[ServingFacts]) -> BenchmarkTimes:
        """Return the times of all runs under an engine, of one point after the other."""
        runs = len(self.cards)
        place = np.tile(np.arange(runs), len(points))
        layout = self.deployment.candidates.layout.take(place)
        deployment = replace(
            self.deployment,
            engine=self.deployment.under(_columns(points, runs)),
            candidates=Candidates(layout, self._hardware(calibration, points)),
        )
        return benchmark_times(deployment, self.load.take(place), calibration, self.kind)

    def _hardware(self, calibration: Calibration, points: Sequence[ServingFacts]) -> HardwareArrays:
        """Return the hardware of all runs under the kernels of each point."""
        if not points[0].backends:
            place = np.tile(np.arange(len(self.cards)), len(points))
            return self.deployment.candidates.hardware.take(place)
        stored, interface = self.deployment.served.weight_format, self.deployment.interface
        systems = [
            (
                card,
                node,
                calibration.served_kernels(card, stored, facts, interface)[0],
                compute_format(card, stored),
            )
            for facts in points
            for card, node in zip(self.cards, self.nodes, strict=True)
        ]
        return HardwareArrays.stack(systems)


def read_packs(
    engine: Engine,
    kinds: Iterable[str],
    tables: Iterable[str] = TABLES,
    name: str = "",
    *,
    earlier: bool = False,
) -> tuple[Pack, ...]:
    """Read the shipped serving runs of these kinds that state times.

    ``kinds``: values of the tables' ``kind``. ``tables``: files below ``data/measurements``.
    ``name``: engine or builds of one; all by default. ``earlier``: with the engine's earlier
    builds, which have constants of their own.
    """
    rows = [as_run(row) for table in tables for row in shipped_rows(table)]
    engines = engine.calibration.engines
    facts = engines.get(name)
    written = ("", name, facts.builds_of if facts else "")
    together: dict[tuple[object, ...], list[tuple[Row, Deployment, ServingLoad]]]
    together = defaultdict(list)
    wanted = set(kinds)
    for row in rows:
        if row_kind(row) not in wanted or (name and row.cell("engine") not in written):
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
            deployment.in_step,
            row_kind(row),
            row.cell("architecture_key") or row.cell("model"),
            served.weight_format,
            float(served.cache_bytes[0]),
        )
        together[key].append((row, deployment, load))
    packs = [_pack(found, engine) for found in together.values()]
    names = {one for one, own in engines.items() if earlier and own.builds_of == name} | {name}
    return tuple(pack for pack in packs if pack.readings and (not name or pack.engine in names))


def _pack(found: Sequence[tuple[Row, Deployment, ServingLoad]], engine: Engine) -> Pack:
    first, deployment, _ = found[0]
    candidates = [one.candidates for _, one, _ in found]
    return Pack(
        engine=deployment.engine_name,
        kind=row_kind(first),
        deployment=replace(
            deployment,
            candidates=Candidates(
                layout=LayoutArrays.joined([one.layout for one in candidates]),
                hardware=HardwareArrays.joined([one.hardware for one in candidates]),
            ),
        ),
        cards=tuple(engine.accelerator(row) for row, _, _ in found),
        nodes=tuple(row_node(row, engine.accelerator(row)) for row, _, _ in found),
        load=ServingLoad.joined([load for *_, load in found]),
        readings=tuple(
            Reading(
                id=row.cell("id"),
                source=origin(row.cell("source")),
                group=row_group(row),
                quantity=quantity,
                measured_s=seconds,
                row=index,
                excluded=row.cell("excluded_from_fit"),
                doubtful=row.cell("doubtful"),
            )
            for index, (row, _, load) in enumerate(found)
            for quantity, seconds in measured_s(row, load).items()
        ),
    )


def measured_s(row: Row, load: ServingLoad) -> Mapping[str, float]:
    """Return the times in a row, with rates as times of one token or one prompt."""
    measured = {
        name: value
        for column in ("primary_quantity", "secondary_quantity")
        if (value := row.positive(name := row.cell(column)))
    }
    return {
        what: tokens / measured[quantity] if tokens else measured[quantity] * MILLISECOND
        for quantity, (what, tokens) in measures(load).items()
        if quantity in measured and quantity != LATENCY
    }


def readings_of(packs: Iterable[Pack]) -> tuple[Reading, ...]:
    """Return all readings, in the order of :func:`predicted_s`."""
    return tuple(reading for pack in packs for reading in pack.readings)


def predicted_s(
    packs: Iterable[Pack], calibration: Calibration, points: Sequence[ServingFacts]
) -> Floats:
    """Return the predicted time of every reading, of shape [points, readings]. [s]

    ``points``: one engine with several values of its constants, predicted as if each were a further
    run: an evaluation takes about as long for all points as for one.
    """
    return np.concatenate([_pack_s(pack, calibration, points) for pack in packs], axis=1)


def _pack_s(pack: Pack, calibration: Calibration, points: Sequence[ServingFacts]) -> Floats:
    """Predict one pack, once for the points that its cards do not tell apart."""
    kinds = {generations(card) for card in pack.cards}
    interface = pack.deployment.interface
    own: dict[tuple[object, ...], ServingFacts] = {}
    keys = []
    for facts in points:
        kernels = [facts.backend(kind, interface) for kind in kinds]
        keys.append((_values(facts), *(_values(each) for each in kernels if each)))
        own.setdefault(keys[-1], facts)
    times = pack.times(calibration, [*own.values()])
    all_s = {FIRST: times.first_s, TOKEN: times.token_s, WHOLE: times.whole_s}
    tables = {name: seconds.reshape(len(own), -1) for name, seconds in all_s.items()}
    found = np.stack([tables[item.quantity][:, item.row] for item in pack.readings], axis=1)
    return np.asarray(found[[[*own].index(key) for key in keys]])


def _values(facts: Noun) -> tuple[object, ...]:
    """Return the values of a noun that are not sections."""
    return tuple(value for value in facts.__dict__.values() if not isinstance(value, dict))


Facts = TypeVar("Facts", bound=Noun)


def _columns(points: Sequence[Facts], rows: int) -> Facts:
    """Return a noun whose numbers are columns where the points differ, each for some rows."""
    first, *others = points
    columns: dict[str, object] = {}
    for name, value in first.__dict__.items():
        values = [value, *(getattr(one, name) for one in others)]
        if isinstance(value, Noun):
            columns[name] = _columns(values, rows)
        elif isinstance(value, float) and len(set(values)) > 1:
            columns[name] = np.repeat(values, rows)
    return first.changed(**columns)
