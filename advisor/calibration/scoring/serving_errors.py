"""Errors of serving times with models of a site held out, and ranges from these errors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from advisor.calibration.fitting.memory import START
from advisor.calibration.fitting.robust import pulled_to_pool, range_of_groups
from advisor.calibration.fitting.serving import (
    BURSTS,
    BURSTS_OF,
    HOSTS,
    SERVERS,
    EngineFit,
    engine_packs,
    fit_engine,
    folds_of,
    model_at_site,
    section_of,
    values_of,
    with_values,
)
from advisor.calibration.fitting.serving import DIRECT as CALLED
from advisor.calibration.fitting.stack_runs import blank_training
from advisor.calibration.scoring.report import next_interval
from advisor.calibration.scoring.training_errors import ScoredRun, SpeedErrors, run_errors
from advisor.calibration.tables.cache_rows import fit_cache_interval
from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.deployments import BURST, ONLINE, SINGLE
from advisor.calibration.tables.served_runs import (
    STARTED,
    TAILS,
    Pack,
    Reading,
    predicted_s,
    read_packs,
    readings_of,
)
from advisor.calibration.tables.serving_rows import BURST_TIME, FIRST, TOKEN, WHOLE, interval_name
from advisor.catalog import Catalog
from advisor.catalog.constants import FITTED, Section, join_calibration
from advisor.foundation.data_files import read_yaml
from advisor.foundation.record import record
from advisor.foundation.resources import data_path
from advisor.nouns.software.efficiency import UNMEASURED, Calibration, Interval
from advisor.nouns.software.engines import DIRECT, TAIL, ServingFacts

NEARLY: Final = 1e-3
"""Tolerance of fits that start from the constants of all runs."""
CACHE: Final = "serving_memory"
WORDS: Final = {
    (TOKEN, True): "time per output token, served",
    (FIRST, True): "time to first token, served",
    (WHOLE, True): "throughput, served at a stated load",
    (WHOLE, False): "throughput, saturated",
    (TOKEN, False): "decoding, one stream",
    (FIRST, False): "prompts, one stream",
}
"""Words for a quantity, and for whether a server was used."""
BURST_WORDS: Final = "throughput, finite bursts"


@record
class ServedReading:
    """One reading, predicted in sample and held out."""

    reading: Reading
    interval: str
    """Name of the interval of its time on a measured card."""
    card_measured: bool
    """Whether kernels were measured on this kind of card."""
    engine: str
    online: bool
    """Whether requests passed through a server."""
    seen_s: float
    unseen_s: float
    """Time by constants that were fitted without runs of its model at its site. [s]"""

    @property
    def residual(self) -> float:
        """Measured over predicted time, held out."""
        return self.reading.measured_s / self.unseen_s

    @property
    def words(self) -> str:
        """Return what the reading measures, in words."""
        burst = self.interval.startswith(BURST_TIME)
        return BURST_WORDS if burst else WORDS[self.reading.quantity, self.online]

    def error_pct(self, predicted_s: float) -> float:
        """Signed error; without a server, the error of a rate. [%]"""
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

    ``facts``: everything that is not fitted. ``values``: the fit on all readings, from which the
    others start.
    """
    near = replace(
        fit,
        parameters=tuple(
            replace(one, starts=(min(max(values[one.name], one.low), one.high),))
            for one in fit.parameters
        ),
    )
    readings = readings_of(packs)
    folds = folds_of(readings)
    parts = sorted(set(folds)) if fit.parameters else []
    fitted = [values] + [
        fit_engine(near, facts, packs, calibration, without=part, tolerance=NEARLY)
        for part in parts
    ]
    seen, *others = predicted_s(packs, calibration, [with_values(facts, own) for own in fitted])
    unseen = np.choose(folds, others) if parts else seen
    places = [(pack, reading) for pack in packs for reading in pack.readings]
    return tuple(
        ServedReading(
            reading=reading,
            interval=interval_name(
                pack.kind, reading.quantity, replace(pack.deployment, engine=facts)
            ),
            card_measured=calibration.kernels_for(pack.cards[reading.row])[1],
            engine=pack.engine,
            online=pack.kind == ONLINE,
            seen_s=float(one),
            unseen_s=float(other),
        )
        for (pack, reading), one, other in zip(places, seen, unseen, strict=True)
    )


def all_held_out(
    calibration: Calibration, engine: Engine, fits: Sequence[EngineFit] = (*SERVERS, *CALLED)
) -> tuple[ServedReading, ...]:
    """Predict the readings of fitted engines, see :func:`held_out`.

    ``calibration``: with the constants fitted on all runs. ``engine``: of its calibration, only
    kernels and stated facts count.
    """
    found: list[ServedReading] = []
    for fit in fits:
        facts = calibration.engines.get(fit.name, calibration.serving)
        packs = engine_packs(fit, engine)
        found += held_out(fit, facts, values_of(fit, facts), packs, calibration)
        # Finite bursts of the first server are held out; the others take its constants.
        if fit in SERVERS and (packs := engine_packs(BURSTS_OF[fit.name], engine)):
            bursts = BURSTS if fit.name == BURSTS.name else replace(BURSTS, parameters=())
            found += held_out(bursts, facts, values_of(bursts, facts), packs, calibration)
    return tuple(found)


def _all_bursts(
    common: dict[str, float], fitted: Mapping[str, Any], fixed: Section, engine: Engine
) -> tuple[dict[str, ServingFacts], tuple[Pack, ...]]:
    """Return the facts of all servers by name, and their finite bursts."""
    start = {one.name: one.starts[0] for one in BURSTS.parameters}
    sections = {"serving": section_of(common | start), "engines": fitted}
    found = join_calibration(fixed | sections, data_path(FITTED))
    facts = {fit.name: found.engines.get(fit.name, found.serving) for fit in SERVERS}
    packs = [engine_packs(BURSTS_OF[name], engine) for name in facts]
    return facts, tuple(pack for own in packs for pack in own)


def strange_engines(calibration: Calibration, engine: Engine) -> tuple[ServedReading, ...]:
    """Predict the one-stream runs of engines without fitted constants.

    ``calibration``: with the constants fitted on all runs. ``engine``: of its calibration, only
    kernels and stated facts count.
    """
    known = {fit.name for fit in (*SERVERS, *CALLED)}
    packs = [pack for pack in read_packs(engine, (SINGLE,)) if pack.engine not in known]
    return held_out(EngineFit("", (SINGLE,), ()), calibration.serving, {}, packs, calibration)


def fit_serving_intervals(
    held_out: Sequence[ServedReading], others: Sequence[ServedReading]
) -> dict[str, Interval]:
    """80 % intervals of serving times, from residuals of runs that the fit has not seen.

    By name. Servers but the first have their own, with their name behind; bounds
    are drawn towards those of all servers, the fewer models at a site stand behind them. Without a
    server, sources take the place of models: a few hold most runs. Those of engines with kernels
    of their own hold for cards whose vendor kernels nobody measured too; for
    servers wider ones are stated.

    ``others``: readings of engines that are called directly and have no fitted constants.
    """
    sure = [item for item in held_out if not item.reading.excluded]
    served = [item for item in sure if item.interval not in DIRECT]
    found = {}
    for name in dict.fromkeys(item.interval for item in sure):
        own = [item for item in sure if item.interval == name]
        if name in DIRECT:
            for called in dict.fromkeys(item.engine for item in own):
                runs = [item for item in own if item.engine == called]
                bounds = _interval(runs, own, by_source=True)
                if called == CALLED[0].name:
                    found[name] = found[f"{name}{UNMEASURED}"] = bounds
                else:
                    found[f"{name}_{called}"] = bounds
            continue
        quantity = own[0].reading.quantity
        kin = [item for item in served if item.reading.quantity == quantity]
        found[name] = _interval(own, kin)
        for engine in dict.fromkeys(item.engine for item in own):
            runs = [item for item in own if item.engine == engine]
            found[name if engine == SERVERS[0].name else f"{name}_{engine}"] = _interval(runs, kin)
    for name in dict.fromkeys(item.interval for item in others):
        own = [item for item in others if item.interval == name]
        quantity = own[0].reading.quantity
        kin = [item for item in (*sure, *others) if item.reading.quantity == quantity]
        found[name] = found[f"{name}{UNMEASURED}"] = _interval(own, kin)
    return found


def _interval(
    own: Sequence[ServedReading], kin: Sequence[ServedReading], *, by_source: bool = False
) -> Interval:
    """Interval of runs, moved towards the interval of similar runs."""

    def next_one(items: Sequence[ServedReading]) -> list[float]:
        values = [item.residual for item in items]
        groups = [item.reading.group for item in items]
        each = next_interval(values, groups)
        if not by_source:
            return each
        sources = [item.reading.site for item in items]
        places = [" | ".join(pair) for pair in zip(sources, groups, strict=True)]
        low, high = next_interval(values, places, sources=sources)
        # A source of few like runs must not speak for the scatter of a large one.
        return [min(low, each[0]), max(high, each[1])]

    bounds, pool = next_one(own), next_one(kin)
    models = len({model_at_site(item.reading) for item in own})
    groups = len({item.reading.group for item in own})
    sources = len({item.reading.site for item in own})
    behind = f"; each group or each of {sources} sources weighs one" if by_source else ""
    return range_of_groups(
        pulled_to_pool(bounds, pool, models),
        f"range for one more group, from {groups} groups of published runs: measured over "
        f"predicted time, each of {models} models at a site held out in turn{behind}",
        groups,
    )


def tail_intervals(calibration: Calibration, engine: Engine) -> dict[str, Interval]:
    """80 % intervals of late first tokens: of finite bursts, and of other loads.

    ``calibration``: with the constants fitted on all runs, none of which is a tail.
    """
    late = _unfitted(calibration, engine, TAILS)
    sure = [item for item in late if item.interval.endswith(TAIL) and not item.reading.excluded]
    return {
        name: _interval([item for item in sure if item.interval == name], sure)
        for name in dict.fromkeys(item.interval for item in sure)
    }


def _unfitted(
    calibration: Calibration, engine: Engine, tables: Sequence[str]
) -> list[ServedReading]:
    """Predict the readings of tables on which no constant is fitted, server by server."""
    found: list[ServedReading] = []
    for fit in SERVERS:
        facts = calibration.engines.get(fit.name, calibration.serving)
        own = read_packs(engine, (ONLINE, BURST), tables, fit.name)
        found += held_out(EngineFit(fit.name, (), ()), facts, {}, own, calibration)
    return found


def serving_errors() -> tuple[SpeedErrors, ...]:
    """Score serving times on the shipped runs, by quantity and engine."""
    engine = shipped_engine()
    rows = all_held_out(engine.calibration, engine)

    def score(item: ServedReading) -> ScoredRun:
        interval = engine.calibration.engine_interval(
            item.interval, item.engine, measured=item.card_measured
        )
        return ScoredRun(
            group=item.reading.group,
            seen_pct=item.error_pct(item.seen_s),
            unseen_pct=item.error_pct(item.unseen_s),
            covered=interval.low <= item.residual <= interval.high,
        )

    found = []
    for words in (*WORDS.values(), BURST_WORDS):
        own = [item for item in rows if item.words == words]
        engines = dict.fromkeys(item.engine for item in own)
        found.append(run_errors(words, [score(item) for item in own]))
        if len(engines) > 1:
            found += [
                run_errors(f"{words}, {name}", [score(item) for item in own if item.engine == name])
                for name in engines
            ]
    return tuple(found)


DIRECTLY: Final = "serving_direct"
"""How the names of intervals of engines begin that are called directly."""


def serving_sections(kernels: Section, catalog: Catalog, *, called: bool) -> Section:
    """Sections of ``calibration.yaml`` that serving runs determine, given fitted kernels.

    ``serving``, ``engines`` and ``intervals``.

    ``kernels``: the sections that the kernel tables determine. ``called``: also fit the engines of
    desktop computers, which takes most of the time. Otherwise their constants and intervals are
    those of the file.
    """
    # Full engines of a known number of requests are bursts, too.
    fitted_later = (*SERVERS[0].parameters, *BURSTS.parameters)
    start = {"serving": {one.name: one.starts[0] for one in fitted_later}}
    fixed = kernels | start | {"memory": START}
    engine = Engine(catalog, join_calibration(fixed | blank_training({}), data_path(FITTED)))
    # The requests of a saturated engine depend on the memory that is left.
    memory: Section = {CACHE: fit_cache_interval(engine).model_dump(mode="json")}
    blank = blank_training(memory) | {"memory": START}
    calibration = join_calibration(fixed | blank, data_path(FITTED))
    engine = Engine(catalog, calibration)
    anew = CALLED if called else ()
    runs = {fit.name: engine_packs(fit, engine) for fit in (*SERVERS, *anew)}
    first, *others = SERVERS
    common = fit_engine(first, calibration.serving, runs[first.name], calibration)
    serving = with_values(calibration.serving, common)
    fitted = {
        fit.name: section_of(fit_engine(fit, serving, runs[fit.name], calibration))
        for fit in others
    }
    common |= fit_engine(BURSTS, *_all_bursts(common, fitted, fixed | blank, engine), calibration)
    for fit in anew:
        # Builds that differ on some cards start from what is fitted of their engine.
        known = {"engines": fitted} if fitted.keys() & {each.name for each in CALLED} else {}
        stated = join_calibration(fixed | blank | known, data_path(FITTED)).engines[fit.name]
        fitted[fit.name] = section_of(fit_engine(fit, stated, runs[fit.name], calibration))
    stored: Any = read_yaml(data_path(FITTED))
    if called:
        for fit in HOSTS:
            cards = join_calibration(fixed | blank | {"engines": fitted}, data_path(FITTED))
            held = fit_engine(fit, cards.engines[fit.name], engine_packs(fit, engine), cards)
            fitted[fit.name] = fitted.get(fit.name, {}) | section_of(held)
    else:
        fitted |= {fit.name: stored["engines"][fit.name] for fit in (*CALLED, *HOSTS)}
    sections: Section = {"serving": section_of(common), "engines": fitted}
    final = join_calibration(kernels | sections | blank, data_path(FITTED))
    readings = all_held_out(final, engine, (*SERVERS, *anew))
    readings += tuple(_unfitted(final, engine, STARTED))
    found = fit_serving_intervals(readings, strange_engines(final, engine) if called else ())
    found |= tail_intervals(final, engine)
    intervals = {name: one.model_dump(mode="json") for name, one in found.items()}
    if not called:
        kept = {name: one for name, one in stored["intervals"].items() if name.startswith(DIRECTLY)}
        intervals |= kept
        order = dict.fromkeys((*stored["intervals"], *intervals))
        intervals = {name: intervals[name] for name in order if name in intervals}
    return sections | {"intervals": memory | intervals}
