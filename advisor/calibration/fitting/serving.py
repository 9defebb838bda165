"""Overheads of serving engines, fitted on the times of published runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from advisor.calibration.fitting.robust import Parameter, fit_log_times, rounded
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.served_runs import (
    OFFLOADED,
    TABLES,
    Pack,
    Reading,
    predicted_s,
    read_packs,
    readings_of,
)
from advisor.estimate.candidates import Floats
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.record import by_identity, record
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts, layered

TOLERANCE: Final = 1e-5
"""Relative gain below which these fits have converged: the constants repeat to 0.1 %."""
FOLDS: Final = 4
"""Parts in which readings are held out."""
HOST_SECTION: Final = "host"
"""Section of an engine's constants for the host's memory."""


@record
class EngineFit:
    """The constants of one engine, and the runs for the fit."""

    name: str
    kinds: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    """Names of ``ServingFacts``, or of ``BackendFacts`` behind the generations and a slash."""
    kin: bool = False
    """The n groups of one card at one site weigh as much as the root of n: they are kin."""


class _Start(Noun):
    start: float
    low: float = 0.01
    high: float = 0.99


Bounded = Annotated[float | _Start, Field(union_mode="left_to_right")]


class _Fit(Noun):
    name: str
    kinds: tuple[str, ...]
    prior: bool = False
    kin: bool = False
    constants: dict[str, Annotated[Bounded | dict[str, Bounded], Field(union_mode="left_to_right")]]


class EngineFits(Noun):
    """Contents of the file."""

    servers: tuple[_Fit, ...]
    bursts: tuple[_Fit, ...]
    called: tuple[_Fit, ...]
    host: tuple[_Fit, ...]


engine_fits = shipped("engine_fits.yaml", EngineFits)
"""Reads which constants are fitted, and where each fit starts."""


def _parameters(constants: Mapping[str, Any], place: str = "") -> Iterator[Parameter]:
    for name, value in constants.items():
        if isinstance(value, float):
            yield Parameter(f"{place}{name}", (value,), low=value / 100, high=value * 100)
        elif isinstance(value, _Start):
            yield Parameter(f"{place}{name}", (value.start,), low=value.low, high=value.high)
        else:
            yield from _parameters(value, f"{name}/")


def _fits(records: Iterable[_Fit]) -> tuple[EngineFit, ...]:
    found = []
    for one in records:
        every = _parameters(one.constants)
        every = (replace(item, prior=item.starts[0]) for item in every) if one.prior else every
        found.append(EngineFit(one.name, one.kinds, tuple(every), one.kin))
    return tuple(found)


SERVERS: Final = _fits(engine_fits().servers)
"""The first engine gives ``serving``; the others take from it what they do not fit."""
(BURSTS,) = _fits(engine_fits().bursts)
"""What finite bursts add."""
BURSTS_OF: Final = {one.name: replace(BURSTS, name=one.name) for one in SERVERS}
"""The bursts of each server."""
DIRECT: Final = _fits(engine_fits().called)
"""Engines with their own kernels, in the order of their fits."""
HOSTS: Final = _fits(engine_fits().host)
"""Layers and experts in the host's memory."""


def section_of(values: Mapping[str, float]) -> dict[str, Any]:
    """Return constants by name as a section of ``calibration.yaml``."""
    section: dict[str, Any] = {}
    backends: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        generations, _, own = name.rpartition("/")
        if not generations:
            section[own] = value
        if generations == HOST_SECTION:
            section.setdefault(HOST_SECTION, {})[own] = value
            continue
        for generation in filter(None, generations.split(", ")):
            backends.setdefault(generation, {})[own] = value
    return section | ({"backends": backends} if backends else {})


def with_values(facts: ServingFacts, values: Mapping[str, float]) -> ServingFacts:
    """Return ``facts`` with these constants replaced."""
    section, known = section_of(values), facts.model_dump()
    if HOST_SECTION in section:
        section[HOST_SECTION] = (known[HOST_SECTION] or {}) | section[HOST_SECTION]
    section["backends"] = layered(known["backends"], section.get("backends", {}))
    return ServingFacts.model_validate(known | section)


def values_of(fit: EngineFit, facts: ServingFacts) -> dict[str, float]:
    """Return the constants by name that ``facts`` holds."""
    found = {}
    for parameter in fit.parameters:
        generations, _, own = parameter.name.rpartition("/")
        if generations == HOST_SECTION:
            found[parameter.name] = float(getattr(facts.host, own))
            continue
        holder = facts.backends[generations.split(", ")[0]] if generations else facts
        found[parameter.name] = float(getattr(holder, own))
    return found


def fit_engine(
    fit: EngineFit,
    facts: ServingFacts | Mapping[str, ServingFacts],
    packs: Sequence[Pack],
    calibration: Calibration,
    without: int | None = None,
    tolerance: float = TOLERANCE,
) -> dict[str, float]:
    """Fit the constants of one engine, or those that several share.

    By name, in the order of ``fit.parameters``; those without room between their bounds stay there.
    Every group of like runs weighs one, on average
    over them where kin weigh less.

    ``facts``: everything that is not fitted; of several engines, by name. ``without``: part of the
    readings to leave out, see :func:`folds_of`. ``tolerance``: relative gain below which the fit
    has converged.
    """
    packs = _without(packs, without)
    each = facts if isinstance(facts, Mapping) else {one.engine: facts for one in packs}
    engines = [(own, [one for one in packs if one.engine == name]) for name, own in each.items()]
    engines = [(own, runs) for own, runs in engines if runs]
    used = readings_of(one for _, runs in engines for one in runs)
    alike = [(one.group, one.quantity) for one in used]
    groups = Counter(alike)
    weights = np.array([1 / groups[name] for name in alike])
    if fit.kin:
        machines = [(one.site, one.group.split(" | ")[2]) for one in used]
        kin = Counter(machine for machine, _ in set(zip(machines, alike, strict=True)))
        less = weights / np.sqrt([kin[machine] for machine in machines])
        weights = less * (weights.sum() / less.sum())
    free = [parameter for parameter in fit.parameters if parameter.low < parameter.high]
    found = {parameter.name: parameter.starts[0] for parameter in fit.parameters}
    names = [parameter.name for parameter in free]

    def predict(points: Floats) -> Floats:
        """Return the times of all readings at all points."""
        chosen = [found | dict(zip(names, point, strict=True)) for point in points.tolist()]
        times = [
            predicted_s(runs, calibration, [with_values(own, values) for values in chosen])
            for own, runs in engines
        ]
        return np.concatenate(times, axis=1)

    measured = np.array([one.measured_s for one in used])
    best = fit_log_times(
        predict, measured, free, weights=weights, tolerance=tolerance, together=True
    ).values
    fitted = zip(names, best.tolist(), strict=True)
    return found | {name: rounded(value, 3) for name, value in fitted}


def _without(packs: Sequence[Pack], part: int | None) -> list[Pack]:
    """Return the packs with the readings for a fit, one part of them left out."""
    folds = iter(folds_of(readings_of(packs)))

    def used(pack: Pack) -> Pack:
        kept = (one for one in pack.readings if next(folds) != part)
        return replace(
            pack, readings=tuple(one for one in kept if not (one.excluded or one.doubtful))
        )

    return [pack for pack in map(used, packs) if pack.readings]


def folds_of(readings: Sequence[Reading]) -> list[int]:
    """Number the parts of the readings that are held out together.

    All runs of one model at one site (repository or address) lie in the same part.
    """
    names = [model_at_site(one) for one in readings]
    order = {name: index % FOLDS for index, name in enumerate(sorted(set(names)))}
    return [order[name] for name in names]


def model_at_site(reading: Reading) -> str:
    """Return the key of the runs that are held out together with this reading's run."""
    return f"{reading.source} | {reading.group.split(' | ')[1]}"


@by_identity(32)
def engine_packs(fit: EngineFit, engine: Engine) -> tuple[Pack, ...]:
    """Return the runs on which an engine's constants, or those of the host's memory, are fitted."""
    if fit in HOSTS:  # whose memory knows nothing of builds
        return read_packs(engine, fit.kinds, OFFLOADED, fit.name, earlier=True)
    return read_packs(engine, fit.kinds, TABLES, fit.name)
