"""Reports in Markdown, HTML and CSV: the answer, its assumptions and sources, the alternatives."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.architecture.presets import find_preset
from advisor.architecture.titles import in_letters, model_title
from advisor.catalog.offer_list import OfferLine, OfferList
from advisor.errors import without_options
from advisor.estimate.configuration import METHOD_WORDS
from advisor.estimate.results import Estimate
from advisor.export.formats import Format
from advisor.export.quoting import csv_cell, html_text, markdown_link, markdown_text
from advisor.foundation.data_files import read_text
from advisor.foundation.formatting import memory, term_value
from advisor.foundation.quantities import Range, Term
from advisor.foundation.references import citation
from advisor.foundation.resources import data_path
from advisor.nouns.workload import FineTuning
from advisor.planning.explain.sentences import hosted_cells, way_out_sentence
from advisor.planning.explain.terms import term_sections
from advisor.planning.results import Recommendation
from advisor.terminal.estimate import RANGES, arrangement, fit_sentence, numbers
from advisor.terminal.recommendation import TITLES, offered, shortlist, spread

STYLE: Final = "report.css"

OPENS: Final = "Opens again at"
SHOWN_REASONS: Final = 6
TRADE_OFFS: Final = 7
HOSTED: Final = 3
"""Rows of a table; more would need a third page."""
LONGEST_BAR: Final = 70.0
"""Of its column; the value stands behind it. [%]"""


@dataclass(frozen=True)
class Bar:
    """One bar of a chart."""

    label: str
    value: str
    share: float
    """Of the whole width; a longer one is cut. [fraction]"""


@dataclass(frozen=True)
class Section:
    """A titled part of a report: paragraphs, a table, a list. Each may be empty."""

    title: str
    paragraphs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    items: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    """Drawn above the table, in HTML only."""


@dataclass(frozen=True)
class Report:
    """The content of a report, independent of its format."""

    title: str
    """What was asked."""
    answer: str
    """Empty where the title says it."""
    made: str
    """Date, program and prices of the report."""
    link: str | None
    """Address that opens the answer on the page."""
    sections: tuple[Section, ...]


def report_file(
    answer: Recommendation | Estimate, to: Format, *, made: str, link: str | None = None
) -> str:
    """Return a report.

    ``made`` states date, program and prices of the report; ``link`` opens the answer on the page.
    """
    if to is Format.JSON:
        return answer.to_json() + "\n"
    if to is Format.CSV:
        return _csv(answer)
    report = (
        _recommended(answer, made, link)
        if isinstance(answer, Recommendation)
        else _one(answer, made, link)
    )
    return rendered(report, to)


def rendered(report: Report, to: Format) -> str:
    """Return a report as Markdown or HTML."""
    return _markdown(report) if to is Format.MARKDOWN else _html(report)


def _recommended(answer: Recommendation, made: str, link: str | None) -> Report:
    parts: list[Section] = []
    if answer.plans:
        best = answer.plans[0]
        parts += [_numbers(best.estimate, best.why), *_hosted(best.estimate)]
        parts.append(_memory(best.estimate))
        plans = tuple(
            (TITLES[item.objective], item.plans[0].sentence, offered(item.plans[0].estimate))
            for item in answer.rankings
        )
        aims = ("Aim", "Plan", "Price")
        parts.append(Section("The best of each aim", columns=aims, rows=plans))
    shown = spread(answer.frontier, TRADE_OFFS)
    trade_offs = tuple(tuple(item.cells.values()) for item in shown)
    priced = [item for item in shown if item.cost_usd]
    most = max((item.cost_usd.expected for item in priced if item.cost_usd), default=0.0)
    bars = tuple(
        Bar(item.label, item.cells["Cost"], item.cost_usd.expected / most)
        for item in priced
        if item.cost_usd and most
    )
    timed = answer.plans[0].estimate.serving if answer.plans else None
    heads = ("Hardware", f"Time {timed.timed}" if timed else "Time", "Cost")
    parts.append(Section("Trade-offs", columns=heads, rows=trade_offs, bars=bars))
    lost = tuple(
        (item.accelerator_name, f"{item.message} {item.remedy}".strip())
        for item in shortlist(answer.rejections, SHOWN_REASONS)
    )
    columns = ("Accelerator", "Why, and what would help")
    parts.append(Section("Why not the others", columns=columns, rows=lost))
    words = {"warning": "Check", "info": "Note"}
    advice = tuple(f"{words[item.severity]}: {item.message}" for item in answer.advice)
    parts.append(Section("Advice", items=advice))
    parts += _rests_on(answer.assumed, answer.references)
    return Report(_asked(answer), answer.answer, made, link, tuple(parts))


def _asked(answer: Recommendation) -> str:
    """Return model and work, e.g. ``Llama 3.1 8B: fine-tune with LoRA on …``."""
    model = answer.case.model
    preset = find_preset(model.preset) if model.preset else None
    name = model_title(preset) if preset else model.hub or "Your model"
    if model.parameters:
        name = f"A model of {in_letters(model.parameters)} parameters"
    shown = answer.plans[0].estimate if answer.plans else answer.nearest
    asked = answer.case.workload
    method = METHOD_WORDS[asked.method] if isinstance(asked, FineTuning) else ""
    work = shown.workload if shown else f"{asked.kind.replace('_', '-')}{method}"
    return f"{name}: {work}"


def _one(answer: Estimate, made: str, link: str | None) -> Report:
    title = f"{answer.model} on {answer.count}x {answer.accelerator_name}: {answer.workload}"
    ways = tuple(way_out_sentence(way, answer) for way in answer.ways_out)
    terms = tuple(
        Section(part.name, columns=("Term", "Value", "Formula"), rows=_term_rows(part.terms))
        for part in term_sections(answer)
    )
    sure = " ".join((fit_sentence(answer), *answer.missed_limits))
    parts = (
        _numbers(answer, sure),
        *_hosted(answer),
        Section("What would make it fit", items=ways),
        *terms,
        *_rests_on(answer.assumptions, answer.references),
    )
    return Report(title, "", made, link, parts)


def _hosted(estimate: Estimate) -> tuple[Section, ...]:
    """Return the section on hosted models; none if no price is known."""
    found = estimate.api
    if found is None:
        return ()
    columns = (
        *("Hosted model", "In, per million", "Out, per million"),
        *("The same requests, a month", "Price of"),
    )
    rows = tuple(tuple(cells[name] for name in columns) for cells in hosted_cells(found))[:HOSTED]
    return (Section("Beside an API", (found.sentence,), columns, rows),)


def _numbers(estimate: Estimate, *said: str) -> Section:
    return Section(
        "The numbers",
        (*said, f"{arrangement(estimate)}.", RANGES),
        ("Number", "Value", "Evidence"),
        tuple(numbers(estimate)),
    )


def _memory(estimate: Estimate) -> Section:
    held = next(term_sections(estimate))
    usable = estimate.memory.usable_bytes
    bars = [Bar(term.title, term_value(term), term.value / usable) for term in held.terms]
    whole = Bar("Usable", memory(usable), 1.0)
    shown = (whole, *(item for item in bars if item.share > 0))
    columns = ("Term", "Value", "Formula")
    return Section(held.name, columns=columns, rows=_term_rows(held.terms), bars=shown)


def _term_rows(terms: Iterable[Term]) -> tuple[tuple[str, ...], ...]:
    return tuple((term.title, term_value(term), term.formula) for term in terms if term.value > 0)


def _rests_on(assumptions: Sequence[str], references: Sequence[str]) -> list[Section]:
    return [
        Section("Assumed", items=tuple(assumptions)),
        Section("Sources", items=tuple(f"[{key}] {citation(key)}" for key in references)),
    ]


def _filled(report: Report) -> Iterator[Section]:
    """Yield the sections that are not empty, without options of the command line."""
    for part in report.sections:
        if part.rows or part.items:
            yield replace(
                part,
                paragraphs=_plain(part.paragraphs),
                rows=tuple(map(_plain, part.rows)),
                items=_plain(part.items),
            )


def _plain(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(without_options, texts))


def _markdown(report: Report) -> str:
    opens = f" {OPENS} {markdown_link(report.link)}" if report.link else ""
    lines = [f"# {markdown_text(report.title)}", "", markdown_text(report.made) + opens, ""]
    if report.answer:
        lines += [f"**{markdown_text(report.answer)}**", ""]
    for part in _filled(report):
        lines += [f"## {part.title}", ""]
        for text in part.paragraphs:
            lines += [markdown_text(text), ""]
        if part.rows:
            lines += [_row(part.columns), "| " + " | ".join(["---"] * len(part.columns)) + " |"]
            lines += [*(_row(row) for row in part.rows), ""]
        if part.items:
            lines += [*(f"- {markdown_text(item)}" for item in part.items), ""]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(markdown_text, cells)) + " |"


def _html(report: Report) -> str:
    title = html_text(report.title)
    opens = f" {OPENS} {report.link}" if report.link else ""
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{read_text(data_path(STYLE))}</style></head><body>",
        f'<h1>{title}</h1>\n<p class="made">{html_text(report.made + opens)}</p>',
    ]
    if report.answer:
        parts.append(f"<p><strong>{html_text(report.answer)}</strong></p>")
    for part in _filled(report):
        parts.append(f"<h2>{html_text(part.title)}</h2>")
        parts += [f"<p>{html_text(text)}</p>" for text in part.paragraphs]
        parts += _bars(part.bars)
        if part.rows:
            parts.append(f"<table><thead>{_cells('th', part.columns)}</thead><tbody>")
            parts += [_cells("td", row) for row in part.rows]
            parts.append("</tbody></table>")
        if part.items:
            kind = ' class="source"' if part.title == "Sources" else ""
            items = "".join(f"<li{kind}>{html_text(item)}</li>" for item in part.items)
            parts.append(f"<ul>{items}</ul>")
    return "\n".join((*parts, "</body></html>", ""))


def _bars(bars: Sequence[Bar]) -> Iterator[str]:
    """Yield a bar chart that prints, in words for who cannot see it."""
    if len(bars) < 2:
        return
    said = "; ".join(f"{item.label}: {item.value}" for item in bars)
    yield f'<div class="bars" role="img" aria-label="{html_text(said)}">'
    for item in bars:
        width = LONGEST_BAR * min(1.0, item.share)
        yield (
            f"<span>{html_text(item.label)}</span><span>"
            f'<i style="width:{width:.1f}%"></i>{html_text(item.value)}</span>'
        )
    yield "</div>"


def _cells(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _csv(answer: Recommendation | Estimate) -> str:
    """Return the candidates of a recommendation, or the terms of an estimate, as numbers."""
    if isinstance(answer, Estimate):
        columns = ("number", "term", "value", "unit", "formula", "source")
        rows = (
            (part.name, term.title, term.value, term.unit, term.formula, term.reference or "")
            for part in term_sections(answer)
            for term in part.terms
        )
        return _table_text(columns, rows)
    names = ("hours", "tpot_ms", "cost_usd")
    bounds = [f"{name}_{bound}" for name in names for bound in ("low", "expected", "high")]
    head = ("label", "accelerator", "count", "provider", "instance_type", "on_frontier")
    candidates = (
        (
            *(getattr(item, name) for name in head),
            *(figure for name in names for figure in _bounds(getattr(item, name))),
        )
        for item in answer.candidates
    )
    return _table_text((*head, *bounds), candidates)


def offers_csv(found: OfferList) -> str:
    """Return a table with a row for each offer; SI units, as the column names say."""
    columns = tuple(OfferLine.model_fields)
    return _table_text(columns, ([getattr(line, name) for name in columns] for line in found.lines))


def _table_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV; several figures in one cell are parted by blanks."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = (" ".join(map(str, cell)) if isinstance(cell, tuple) else cell for cell in row)
        writer.writerow(map(csv_cell, cells))
    return stream.getvalue()


def _bounds(value: Range | None) -> tuple[float | str, ...]:
    return ("",) * 3 if value is None else (value.low, value.expected, value.high)
