"""The page that shows users the errors of the engine, including misses."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean
from textwrap import fill
from typing import Final

from advisor.calibration.fitting.kernel_tables import FOLDER
from advisor.calibration.scoring.report import (
    FitVerdict,
    Summary,
    ValidationReport,
    ValidationRow,
    as_text,
)
from advisor.calibration.scoring.training_errors import CurveError, SpeedErrors
from advisor.calibration.scoring.validation import validate
from advisor.calibration.tables.reading import measurement_tables
from advisor.foundation.data_files import read_text
from advisor.foundation.resources import data_path
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.workload import FineTuning, Pretraining, Serving

PAGE_WIDTH: Final = 99
"""Width of a paragraph without its full stop. [characters]"""
TABLES: Final = measurement_tables().tables
"""Files below ``data/measurements`` and their headings."""
UNSEEN: Final = measurement_tables().unseen
"""The same for measurements that no fit uses."""
ALL_TABLES: Final = TABLES | UNSEEN
UNSEEN_CURVES: Final = "outside_scaling_curves"
"""Table of scaling curves that no fit uses."""

FARTHEST: Final = 6
LEAST_GROUPS: Final = 3
"""Regimes with fewer groups appear only in the line of all regimes."""


def score_tables(names: Iterable[str] = ALL_TABLES) -> dict[str, ValidationReport]:
    """Score the engine on the shipped tables.

    ``names``: keys of ``ALL_TABLES``.
    """
    folder = data_path(FOLDER).parent
    return {name: validate(folder / f"{name}.csv") for name in names}


def accuracy_markdown(
    reports: dict[str, ValidationReport],
    speeds: Iterable[SpeedErrors],
    peaks: Iterable[Summary],
    served: Iterable[SpeedErrors],
    curves: Iterable[CurveError],
) -> str:
    """Text of ``docs/accuracy.md``.

    ``reports``: from :func:`score_tables`. ``speeds``: from
    :func:`advisor.calibration.scoring.training_errors.speed_errors`. ``peaks``: from
    :func:`advisor.calibration.fitting.memory.peak_errors`. ``served``: from
    :func:`advisor.calibration.scoring.serving_errors.serving_errors`. ``curves``: from
    :func:`advisor.calibration.scoring.training_errors.scaling_errors`.
    """
    overview, unseen = (
        "\n".join(
            _cells(ALL_TABLES[name], each)
            for name, report in reports.items()
            for each in report.summary
            if each.regime == "all" and name in tables
        )
        for tables in (TABLES, UNSEEN)
    )
    sections = "\n".join(_section(name, report) for name, report in reports.items())
    speed = "\n".join(_speed_cells(each) for each in speeds)
    peak = "\n".join(_cells(each.regime, each) for each in peaks)
    serving = "\n".join(_speed_cells(each) for each in served)
    page = read_text(data_path("pages") / "accuracy.md")
    return page.format(
        head=HEAD,
        overview=overview,
        unseen=unseen,
        speed=speed,
        peak=peak,
        serving=serving,
        curves="\n".join(_curve_cells(each) for each in curves),
        sections=sections,
        fields=_case_fields(),
    )


def _case_fields() -> str:
    """Return the fields of a case that a table may have as columns."""
    nouns = (Pretraining, FineTuning, Serving, ParallelLayout)
    names = dict.fromkeys(name for noun in nouns for name in noun.model_fields if name != "kind")
    return fill(", ".join(f"`{name}`" for name in names), PAGE_WIDTH)


def _section(name: str, report: ValidationReport) -> str:
    scored = len({row.id for row in report.rows})
    lines = [
        f"## {ALL_TABLES[name]}",
        "",
        f"`data/measurements/{name}.csv`: {scored} rows predicted, {len(report.skipped)} not.",
        "",
    ]
    regimes = [
        each for each in report.summary if each.regime != "all" and each.groups >= LEAST_GROUPS
    ]
    if regimes:
        lines += [HEAD, *(_cells(each.regime.replace("|", ", "), each) for each in regimes), ""]
    lines += ["Farthest off, by group of like rows:", ""]
    lines += [f"- {text}" for text in _farthest(report.rows)]
    if report.verdicts:
        lines += ["", "Did it fit?", "", *(f"- {text}" for text in _fitted(report.verdicts))]
    if report.skipped:
        reasons: dict[str, int] = defaultdict(int)
        for row in report.skipped:
            reasons[row.reason.partition(";")[0]] += 1
        lines += ["", "Not predicted:", ""]
        lines += [
            f"- {count}: {reason}"
            for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        ]
    return "\n".join([*lines, ""])


def _fitted(verdicts: Iterable[FitVerdict]) -> list[str]:
    outcomes = {True: "ran out of memory", False: "ran"}
    texts = []
    for lacking, what in outcomes.items():
        of = [each for each in verdicts if (each.outcome == "oom") is lacking]
        calls = ", ".join(
            f"{sum(each.called == call for each in of)} {call}"
            for call in ("fits", "tight", "impossible")
        )
        wrong = ", ".join(each.id for each in of if each.wrong)
        texts.append(f"{len(of)} {what}, called: {calls}" + (f" (wrong: {wrong})" if wrong else ""))
    return texts


def _farthest(rows: Iterable[ValidationRow]) -> list[str]:
    groups: dict[tuple[str, str], list[ValidationRow]] = defaultdict(list)
    for row in rows:
        groups[row.group, row.quantity].append(row)

    def miss(members: list[ValidationRow]) -> float:
        return fmean(abs(row.error_pct) for row in members)

    worst = sorted(groups.values(), key=lambda members: (-miss(members), members[0].id))
    texts = []
    for members in worst[:FARTHEST]:
        row = max(members, key=lambda row: abs(row.error_pct))
        more = f", {len(members)} rows" if len(members) > 1 else ""
        texts.append(
            f"`{row.id}`, {row.quantity}: measured {as_text(row.quantity, row.measured)}, "
            f"predicted {as_text(row.quantity, row.expected)} "
            f"(group {miss(members):.0f} % off{more})"
        )
    return texts


def _cells(name: str, each: Summary) -> str:
    return (
        f"| {name} | {each.quantity} | {each.n} | {each.groups} | {each.median_abs_pct:.1f} | "
        f"{each.p90_abs_pct:.1f} | {each.bias_pct:+.1f} | {each.coverage_pct:.0f} | "
        f"{each.each_row.median_abs_pct:.1f} | {each.each_row.p90_abs_pct:.1f} |"
    )


def _speed_cells(each: SpeedErrors) -> str:
    return (
        f"| {each.name} | {each.rows} | {each.groups} | {each.median_abs_pct:.1f} | "
        f"{each.p90_abs_pct:.1f} | {each.bias_pct:+.1f} | {each.held_out_median_abs_pct:.1f} | "
        f"{each.held_out_p90_abs_pct:.1f} | {each.held_out_coverage_pct:.0f} |"
    )


def _curve_cells(each: CurveError) -> str:
    fitted = "yes" if each.fitted else "no"
    return (
        f"| {each.name} | {each.first:,} | {each.last:,} | {fitted} | {each.lost_pct:.1f} | "
        f"{each.predicted_pct:.1f} | {each.error_points:+.1f} |"
    )


HEAD: Final = """\
| what | quantity | rows | groups | median | 90 % | bias | in range | rows: median | rows: 90 % |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""
