"""Errors of serving times with models of a site held out, and the ranges they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.calibration.engine import Engine, shipped_engine
from advisor.calibration.memory_fit import START
from advisor.calibration.report import group_quantile
from advisor.calibration.robust import rounded
from advisor.calibration.served_runs import Pack, Reading, predicted_s, readings_of
from advisor.calibration.serving_fit import (
    LLAMA_CPP,
    SERVERS,
    EngineFit,
    engine_packs,
    fit_engine,
    folds_of,
    section_of,
    usable,
    values_of,
    with_values,
)
from advisor.calibration.serving_rows import FIRST, ONLINE, TOKEN, WHOLE, interval_name
from advisor.calibration.software import TAILS, blank_training
from advisor.calibration.speed import ScoredRun, SpeedErrors, run_errors
from advisor.catalog import Catalog
from advisor.catalog.constants import FITTED, Section, join_calibration
from advisor.efficiency import UNMEASURED, Calibration, Interval
from advisor.engines import DIRECT_FIRST_TOKEN, DIRECT_TIME, ServingFacts
from advisor.quantities import Evidence
from advisor.resources import data_path

NEARLY: Final = 1e-3
"""Tolerance of fits that begin at the constants of all runs."""
WORDS: Final = {
    (TOKEN, True): "time per output token, served",
    (FIRST, True): "time to first token, served",
    (WHOLE, False): "throughput, saturated",
    (TOKEN, False): "decoding, one stream",
    (FIRST, False): "prompts, one stream",
}
"""Quantity, and whether a server stood between, in words."""


@dataclass(frozen=True, slots=True)
class ServedReading:
    """One reading, predicted in sample and held out."""

    reading: Reading
    interval: str
    """Name of the interval of its time on a measured card."""
    card_measured: bool
    """Kernels were measured on the card's kind."""
    engine: str
    online: bool
    """A server stood between."""
    seen_s: float
    unseen_s: float
    """By constants that no run of its model at its site took part in. [s]"""

    @property
    def residual(self) -> float:
        """Measured over predicted time, held out."""
        return self.reading.measured_s / self.unseen_s

    def error_pct(self, predicted_s: float) -> float:
        """Signed error; of a rate where no server stood between. [%]"""
        ratio = predicted_s / self.reading.measured_s
        return 100 * (ratio if self.online else 1 / ratio) - 100


def held_out(
    fit: EngineFit,
    facts: ServingFacts,
    values: dict[str, float],
    packs: Sequence[Pack],
    calibration: Calibration,
) -> tuple[ServedReading, ...]:
    """Predict all readings of one engine, each part by a fit on all others.

    Parameters
    ----------
    fit : EngineFit
    facts : ServingFacts
        Everything that is not fitted.
    values : dict of str to float
        The fit on all readings, where the others begin.
    packs : sequence of Pack
    calibration : Calibration
    """
    near = replace(
        fit,
        parameters=tuple(
            replace(one, starts=(min(max(values[one.name], one.low), one.high),))
            for one in fit.parameters
        ),
    )
    readings = readings_of(packs)
    seen = predicted_s(packs, calibration, with_values(facts, values))
    unseen = seen.copy()
    folds = folds_of(readings)
    for fold in dict.fromkeys(folds):
        own = fit_engine(near, facts, packs, calibration, without=fold, tolerance=NEARLY)
        times = predicted_s(packs, calibration, with_values(facts, own))
        for index, place in enumerate(folds):
            if place == fold:
                unseen[index] = times[index]
    places = [(pack, reading) for pack in packs for reading in pack.readings]
    return tuple(
        ServedReading(
            reading=reading,
            interval=interval_name(pack.kind, reading.quantity, pack.deployment),
            card_measured=calibration.kernels_for(pack.cards[reading.row])[1],
            engine=fit.name,
            online=pack.kind == ONLINE,
            seen_s=float(one),
            unseen_s=float(other),
        )
        for (pack, reading), one, other in zip(places, seen, unseen, strict=True)
    )


def all_held_out(calibration: Calibration, engine: Engine) -> tuple[ServedReading, ...]:
    """Predict the readings of all fitted engines, see :func:`held_out`.

    Parameters
    ----------
    calibration : Calibration
        With the constants fitted on all runs.
    engine : Engine
        Of its calibration, only kernels and stated facts count.
    """
    found: list[ServedReading] = []
    for fit in (*SERVERS, LLAMA_CPP):
        facts = calibration.engines.get(fit.name, calibration.serving)
        packs = engine_packs(fit, engine)
        found += held_out(fit, facts, values_of(fit, facts), packs, calibration)
    return tuple(found)


def fit_serving_intervals(held_out: Sequence[ServedReading]) -> dict[str, Interval]:
    """80 % intervals of serving times, from residuals of runs that the fit has not seen.

    Parameters
    ----------
    held_out : sequence of ServedReading

    Returns
    -------
    dict of str to Interval
        By name. Those of engines with kernels of their own hold for cards whose vendor kernels
        nobody measured too; for the others wider ones are stated.
    """
    sure = [item for item in held_out if usable(item.reading)]
    found = {}
    for name in dict.fromkeys(item.interval for item in sure):
        own = [item for item in sure if item.interval == name]
        groups = [item.reading.group for item in own]
        residuals = [item.residual for item in own]
        low, high = (group_quantile(residuals, groups, share) for share in TAILS)
        interval = Interval(
            low=rounded(min(1.0, low), 3),
            high=rounded(max(1.0, high), 3),
            evidence=Evidence.CALIBRATED,
            source=f"10 % and 90 % of measured over predicted time, {len(set(groups))} groups of "
            "published runs, models of a site held out",
        )
        found[name] = interval
        if name in {DIRECT_TIME, DIRECT_FIRST_TOKEN}:
            found[f"{name}{UNMEASURED}"] = interval
    return found


def serving_errors() -> tuple[SpeedErrors, ...]:
    """Score serving times on the shipped runs, by quantity and engine."""
    engine = shipped_engine()
    rows = all_held_out(engine.calibration, engine)

    def score(item: ServedReading) -> ScoredRun:
        interval = engine.calibration.interval(item.interval, measured=item.card_measured)
        return ScoredRun(
            group=item.reading.group,
            seen_pct=item.error_pct(item.seen_s),
            unseen_pct=item.error_pct(item.unseen_s),
            covered=interval.low <= item.residual <= interval.high,
        )

    found = []
    for (what, online), words in WORDS.items():
        own = [item for item in rows if item.reading.quantity == what and item.online is online]
        engines = dict.fromkeys(item.engine for item in own)
        found.append(run_errors(words, [score(item) for item in own]))
        if len(engines) > 1:
            found += [
                run_errors(f"{words}, {name}", [score(item) for item in own if item.engine == name])
                for name in engines
            ]
    return tuple(found)


def serving_sections(kernels: Section, catalog: Catalog) -> Section:
    """Sections of ``calibration.yaml`` that serving runs determine, given fitted kernels.

    Parameters
    ----------
    kernels : dict
        The sections that the kernel tables determine.
    catalog : Catalog

    Returns
    -------
    dict
        ``serving``, ``engines`` and ``intervals``.
    """
    blank = blank_training({}) | {"memory": START}
    start = {"serving": {one.name: one.starts[0] for one in SERVERS[0].parameters}}
    calibration = join_calibration(kernels | start | blank, data_path(FITTED))
    engine = Engine(catalog=catalog, calibration=calibration)
    runs = {fit.name: engine_packs(fit, engine) for fit in (*SERVERS, LLAMA_CPP)}
    first, *others = SERVERS
    common = fit_engine(first, calibration.serving, runs[first.name], calibration)
    serving = with_values(calibration.serving, common)
    fitted = {
        fit.name: section_of(fit_engine(fit, serving, runs[fit.name], calibration))
        for fit in others
    }
    stated = calibration.engines[LLAMA_CPP.name]
    own = fit_engine(LLAMA_CPP, stated, runs[LLAMA_CPP.name], calibration)
    sections = {
        "serving": section_of(common),
        "engines": {**fitted, LLAMA_CPP.name: section_of(own)},
    }
    final = join_calibration(kernels | sections | blank, data_path(FITTED))
    intervals = fit_serving_intervals(all_held_out(final, engine))
    return sections | {
        "intervals": {name: found.model_dump(mode="json") for name, found in intervals.items()}
    }
