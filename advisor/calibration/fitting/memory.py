"""The constant of training memory that published peaks determine, and the ranges of peaks.

The reserve of the allocator beyond tensors is fitted on runs whose settings are stated in full,
within the bounds observed on cards. Ranges come from sources that the fit has not seen.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import ceil, floor, log
from typing import Final

from advisor.calibration.fitting.robust import pulled_to_pool, range_of_groups
from advisor.calibration.fitting.stack_runs import TABLE, TAILS, blank_training, origin
from advisor.calibration.scoring.report import (
    Summary,
    group_quantile,
    next_interval,
    scored,
    summarise,
)
from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.memory_rows import TENSORS, predicted_tensors
from advisor.calibration.tables.reading import Row, shipped_rows
from advisor.calibration.tables.training_rows import RAN, row_interval, settled_run
from advisor.catalog import Catalog
from advisor.catalog.constants import FITTED, Section, join_calibration
from advisor.errors import AdvisorError
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.memory_report import interval_name, outside_bytes
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import record
from advisor.foundation.resources import data_path
from advisor.foundation.units import GIB
from advisor.nouns.software.efficiency import Interval
from advisor.nouns.software.links_and_memory import MemoryFacts

RESERVES: Final = tuple(percent / 100 for percent in range(8, 26))
"""Reserved over tensors besides weights, as observed on cards. [fraction]"""
START: Final[Section] = {"fragmentation": {"expected": 0.16}}
"""Middle of the bounds; it fills in a row's open settings while the reserve is fitted."""
NAMES: Final = tuple(f"training_memory{kind}" for kind in ("", "_4bit", "_guessed", "_samples"))
LEAST_GROUPS: Final = 3
"""With fewer groups of fully stated runs, an interval also uses guessed settings."""
TRUTH: Final = tuple(f"memory_{name}" for name in ("train", "fsdp", "ddp", "tp", "lora", "vision"))
"""Tables that PyTorch's own accounting fills."""
IN_SAMPLE: Final = "in sample"
HELD_OUT: Final = "each source held out"
NEUTRAL: Final = Interval(low=1, high=1, evidence=Evidence.ASSUMED, source="not fitted yet")


@record
class PeakRun:
    """One published peak and its predicted tensors."""

    id: str
    source: str
    """Repository or site: runs of one source are held out together."""
    group: str
    software: str
    interval: str
    kind: str
    """The same interval, as if no setting were guessed."""
    measured: float
    """The peak as its tool counts. [bytes]"""
    tensors: float
    weights: float
    """Of the tensors."""
    outside: Mapping[str, float]
    """Driver context and communicators, if the tool counts them: low, expected, high. [bytes]"""
    counts_reserve: bool
    certain: float = 0.0
    """Weights and optimizer states of a run with stated settings: a formula fixes them. [bytes]"""

    def held(self, reserve: float) -> float:
        """Tensors with their reserve. [bytes]"""
        return self.tensors + reserve * self.counts_reserve * (self.tensors - self.weights)


@record
class HeldOutPeak:
    """One peak with a reserve that was fitted without its source."""

    run: PeakRun
    reserve: float

    def factor(self, facts: MemoryFacts, side: str) -> float:
        """Factor on what is not certain at which that end of the range meets the measurement."""
        run = self.run
        rest = run.held(facts.fragmentation[side]) - run.certain
        return max(0.0, run.measured - run.outside[side] - run.certain) / rest

    def predicted(self, facts: MemoryFacts, interval: Interval) -> Range:
        """Range of the peak. [bytes]"""
        run, reserves = self.run, facts.fragmentation | {"expected": self.reserve}
        ends = {
            side: run.certain + (run.held(reserves[side]) - run.certain) * factor
            for side, factor in (("low", interval.low), ("expected", 1.0), ("high", interval.high))
        }
        return Range(
            **{side: value + run.outside[side] for side, value in ends.items()},
            evidence=interval.evidence,
        )


def peak_runs(engine: Engine) -> tuple[PeakRun, ...]:
    """Predict the tensors of the shipped runs that state a peak.

    ``engine``: its reserve and communicators only fill in a row's open settings.
    """
    facts = engine.calibration.memory
    found = []
    for row in shipped_rows(TABLE):
        measured = row.number("peak_memory_gib")
        asked = row.cell("primary_quantity") == "peak_memory_gib" or row.flag("also_memory")
        usable = row.number("predictable") != 0 and (row.cell("outcome") or RAN) == RAN
        if not (measured and asked and usable):
            continue
        try:
            run, layout = settled_run(row, engine)
        except AdvisorError:
            # `validate` reports such rows with the reason.
            continue
        arrays = LayoutArrays.of(layout)
        tensors, weights, optimizer = training_memory(run, arrays, facts).tensors
        basis = row.cell("memory_basis")
        guessed = row_interval(row, engine.calibration) is not None
        found.append(
            PeakRun(
                id=row.cell("id"),
                source=origin(row.cell("source")),
                group=row.cell("split_group"),
                software=run.software,
                interval=NAMES[2] if guessed else interval_name(run),
                kind=interval_name(run),
                measured=measured * GIB,
                tensors=float(tensors[0]),
                weights=float(weights[0]),
                certain=0.0 if guessed else float((weights + optimizer)[0]),
                outside={
                    side: float(outside_bytes(arrays, facts, side)[0])
                    * (basis not in ("allocated", "reserved"))
                    for side in facts.context_bytes
                },
                counts_reserve=basis != "allocated",
            )
        )
    return tuple(found)


def fit_reserve(runs: Sequence[PeakRun]) -> float:
    """Reserve with the least mean absolute log error; groups of similar runs weigh equally.

    ``runs``: runs with guessed settings are left out. [fraction]
    """
    stated = [run for run in runs if run.interval != NAMES[2]]
    sizes = Counter(run.group for run in stated)

    def miss(reserve: float) -> float:
        return sum(
            abs(log((run.held(reserve) + run.outside["expected"]) / run.measured))
            / sizes[run.group]
            for run in stated
        )

    return min(RESERVES, key=miss)


def hold_out_peaks(runs: Sequence[PeakRun]) -> tuple[HeldOutPeak, ...]:
    """Predict the peaks of each source with the reserve fitted on all other sources."""
    found = []
    for source in dict.fromkeys(run.source for run in runs):
        reserve = fit_reserve([run for run in runs if run.source != source])
        found += [HeldOutPeak(run, reserve) for run in runs if run.source == source]
    return tuple(found)


def fit_peak_intervals(held_out: Sequence[HeldOutPeak], facts: MemoryFacts) -> dict[str, Interval]:
    """80 % intervals on tensors for a group not yet seen, from peaks that no constant has seen.

    By name, on what no formula fixes; where settings are guessed, on all. What too few
    groups state in full takes those with guessed settings too, every run weighing one. Runs of
    one source share their guesses, so every source weighs one there. Bounds are drawn towards
    those of all peaks, the fewer groups the more. What fits is decided by the factor below
    which nine of ten known groups stay: few groups widen the range, but refuse no run that
    others have run.

    ``facts``: stated bounds of reserve and context, which widen a range besides the interval.
    """
    pool = _bounds(held_out, facts, [item.run.group for item in held_out])
    found = {}
    for name in NAMES:
        own = [item for item in held_out if item.run.interval == name]
        groups = [item.run.group for item in own]
        if len(set(groups)) < LEAST_GROUPS:
            own = [item for item in held_out if item.run.kind == name] or list(held_out)
            groups = [item.run.id for item in own]
        sources = [item.run.source for item in own] if name == NAMES[2] else ()
        behind = len(set(sources or [item.run.group for item in own]))
        *bounds, usual = pulled_to_pool(_bounds(own, facts, groups, sources), pool, behind)
        found[name] = range_of_groups(
            bounds,
            f"range for one more group, from {len(own)} published runs in {behind} "
            f"{'sources' if sources else 'groups'}: "
            "measured over predicted peak, each source held out, drawn towards that of all peaks, "
            "beyond the spread of the reserve",
            behind,
            usual=usual,
        )
    return found


def _bounds(
    runs: Sequence[HeldOutPeak],
    facts: MemoryFacts,
    groups: Sequence[str],
    sources: Sequence[str] = (),
) -> list[float]:
    """Measured over predicted peaks: the range of one more group, and 90 % of the known ones."""
    low, high = ([item.factor(facts, side) for item in runs] for side in ("low", "high"))
    return [
        next_interval(low, groups, sources=sources)[0],
        next_interval(high, groups, sources=sources)[1],
        group_quantile(high, groups, TAILS[1]),
    ]


def fit_tensor_intervals(engine: Engine) -> dict[str, Interval]:
    """80 % intervals on allocated bytes, by kind of the tables from PyTorch's accounting.

    The 10 % and 90 % quantiles of the rows. They are in sample: the terms were written with these
    tables.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for table in TRUTH:
        for row in shipped_rows(table):
            try:
                kind, _, memory = predicted_tensors(row, engine)
            except AdvisorError:
                # `validate` reports such rows with the reason.
                continue
            counted = row.number("peak_total") or 0.0
            ratios[TENSORS[kind]].append(counted / float(memory.allocated[0]))
    found = {}
    for name, values in ratios.items():
        ordered = sorted(values)
        low = min(1.0, floor(ordered[ceil(TAILS[0] * len(ordered)) - 1] * 1e4) / 1e4)
        # If nearly all rows lie above the expected value, only the upper end leaves a fifth out.
        within = [value for value in ordered if value >= low]
        last = min(ceil((TAILS[1] - TAILS[0]) * len(ordered)), len(within))
        found[name] = Interval(
            low=low,
            high=max(1.0, ceil(within[last - 1] * 1e4) / 1e4),
            evidence=Evidence.CALIBRATED,
            source=f"10 % and 90 % of counted over predicted bytes, {len(ordered)} peaks of "
            "PyTorch's own bookkeeping",
        )
    return found


def memory_sections(kernels: Section, catalog: Catalog) -> Section:
    """Sections of ``calibration.yaml`` that published peaks determine, given fitted kernels.

    ``memory`` and ``intervals``.

    ``kernels``: the sections that the kernel tables and serving runs determine.
    """
    given = kernels.get("intervals")
    served: Section = given if isinstance(given, dict) else {}
    blank = blank_training(dict.fromkeys(NAMES, NEUTRAL.model_dump()))
    calibration = join_calibration(kernels | blank | {"memory": START}, data_path(FITTED))
    engine = Engine(catalog=catalog, calibration=calibration)
    runs = peak_runs(engine)
    intervals = fit_peak_intervals(hold_out_peaks(runs), calibration.memory)
    intervals |= fit_tensor_intervals(engine)
    groups = {(run.software, run.group) for run in runs}
    return {
        "memory": {
            "fragmentation": {"expected": fit_reserve(runs)},
            "peak_groups": dict(Counter(name for name, _ in sorted(groups))),
        },
        "intervals": served
        | {name: found.model_dump(mode="json") for name, found in intervals.items()},
    }


def peak_errors() -> tuple[Summary, ...]:
    """Score published peaks in sample, and with each source held out.

    By regime: in sample, and each source held out, constants and ranges both.
    """
    engine = shipped_engine()
    facts, shipped = engine.calibration.memory, engine.calibration.intervals
    runs = peak_runs(engine)
    held_out = hold_out_peaks(runs)
    scores = []
    for item in held_out:
        others = [other for other in held_out if other.run.source != item.run.source]
        known = HeldOutPeak(item.run, facts.fragmentation["expected"])
        for regime, peak, intervals in (
            (IN_SAMPLE, known, shipped),
            (HELD_OUT, item, fit_peak_intervals(others, facts)),
        ):
            scores.append(
                scored(
                    Row({"id": item.run.id, "source": item.run.source}),
                    "peak_memory_gib",
                    item.run.measured / GIB,
                    peak.predicted(facts, intervals[item.run.interval]).scaled(1 / GIB),
                    regime=regime,
                    group=item.run.group,
                )
            )
    found = {each.regime: each for each in summarise(scores)}
    return found[IN_SAMPLE], found[HELD_OUT]
