"""The errors of the engine on a table of measurements."""

from collections import defaultdict
from typing import Final

from advisor.calibration.scoring.report import ValidationReport, as_text
from advisor.terminal.console import Report

FARTHEST: Final = 5
NAMED: Final = 6
"""Most rows that are named for each reason; the rest is counted."""


def show_validation(console: Report, report: ValidationReport) -> None:
    """Print the summary, the rows with the largest errors, and the rows not predicted."""
    scored = len({row.id for row in report.rows})
    console.paragraph(
        f"{report.table} ({report.kind}): {scored} rows predicted, {len(report.skipped)} not.",
    )
    for quantity in dict.fromkeys(each.quantity for each in report.summary):
        rows = [
            {"Regime": each.regime.replace("|", " ")} | each.cells
            for each in report.summary
            if each.quantity == quantity
        ]
        console.tabled_cells(quantity, rows, right=range(1, 7))
    if report.summary:
        console.paragraph(
            "Errors are in percent of the measurement and averaged within groups of similar runs "
            "first: the median and the 90th percentile of absolute errors. The bias is the median "
            "of signed errors.",
        )
    farthest = sorted(report.rows, key=lambda row: -abs(row.error_pct))[:FARTHEST]
    console.bullets(
        "Largest errors",
        (
            "{}, {}: measured {}, predicted {} ({} to {}), {:+.0f} %".format(
                row.id,
                row.quantity,
                *(
                    as_text(row.quantity, value)
                    for value in (row.measured, row.expected, row.low, row.high)
                ),
                row.error_pct,
            )
            for row in farthest
        ),
    )
    if report.verdicts:
        wrong = [each for each in report.verdicts if each.wrong]
        console.paragraph(
            f"{len(report.verdicts)} rows state whether the run fitted; {len(wrong)} are predicted "
            "wrongly" + (f": {', '.join(each.id for each in wrong[:NAMED])}." if wrong else "."),
        )
    if report.skipped:
        console.heading("Not predicted")
        reasons: dict[str, list[str]] = defaultdict(list)
        for row in report.skipped:
            reasons[row.reason].append(row.id)
        for reason, ids in sorted(reasons.items(), key=lambda item: -len(item[1])):
            more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
            console.paragraph(f"{len(ids)}: {reason} ({', '.join(ids[:NAMED])}{more})")
