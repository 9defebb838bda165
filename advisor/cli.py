"""The command ``gpu-advisor``: arguments in, one call of the engine, text or JSON out.

The engine is imported by the command that needs it, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from advisor import __version__
from advisor.arguments.parser import bounded, build_parser
from advisor.errors import (
    MAX_PART,
    AdvisorError,
    CatalogError,
    InputError,
    RefreshError,
    ResourceError,
    TransferError,
    shortened,
)
from advisor.foundation.parsing import parse_amount, parse_count, parse_duration, parse_length
from advisor.foundation.writing import write_whole
from advisor.terminal.streams import (
    complain,
    drop_output,
    prepare_streams,
    print_content,
    read_input,
)

if TYPE_CHECKING:
    from advisor.api import Portfolio

SHOWN_OFFERS: Final = 25
"""Offers that a list prints unless all are asked for."""
SERVERS: Final = frozenset({"web", "serve-api", "mcp"})
"""They name catalog files to their processes and threads by the environment."""

DEBUG: Final = "GPU_ADVISOR_DEBUG"
"""Environment variable that lets unforeseen errors show their traceback."""

OK: Final = 0
BROKEN: Final = 1
"""The installation or the program is at fault."""
MISTAKE: Final = 2
"""The caller is."""
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; None takes the process's.

    Returns
    -------
    int
        0; 2 after a caller's mistake; 1 where a data file is missing or broken, live prices cannot
        be had, input or output fails (no room, no right, closed) or the program has a defect; 130
        after an interrupt; 141 where the reader of the output went away.
    """
    try:
        prepare_streams()
        code = _run(argv)
        sys.stdout.flush()
    except (CatalogError, RefreshError, ResourceError, TransferError) as error:
        return _complain(error, BROKEN)
    except AdvisorError as error:
        return _complain(error, MISTAKE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        return _unexpected(error) if error.filename else _no_more_output(error)
    except Exception as error:  # noqa: BLE001 - the last door: no traceback reaches a user
        return _unexpected(error)
    return code


def _unexpected(error: Exception) -> int:
    """Turn what nobody foresaw into a sentence; the traceback is for those who ask for it."""
    if os.environ.get(DEBUG):
        raise error
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        from advisor.api import input_error

        return _complain(input_error(error), MISTAKE)
    what = shortened(f"{type(error).__name__}: {error}", MAX_PART)
    complain(
        f"gpu-advisor: a defect of the program, not your mistake: {what}. "
        f"Set {DEBUG}=1 and run it again for the traceback to report."
    )
    return BROKEN


def _no_more_output(error: OSError) -> int:
    """Tell that the answer was cut short; files have names, so this is standard output."""
    drop_output()
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    cut = TransferError(
        f"the answer cannot be written to standard output ({error.strerror})",
        remedy="What was printed is not whole. Make room, or send it elsewhere.",
    )
    return _complain(cut, BROKEN)


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = build_parser(__version__).parse_args(bounded(argv))
    except SystemExit as end:  # after --help, --version or a mistake
        return end.code if isinstance(end.code, int) else MISTAKE
    files = getattr(arguments, "catalog", None) or ()
    discounts = getattr(arguments, "discount", None) or ()
    if arguments.command in SERVERS or (not files and not discounts):
        _COMMANDS[arguments.command](arguments)
        return OK
    from advisor import api

    with api.using_catalog(files, discounts=discounts):
        _COMMANDS[arguments.command](arguments)
    return OK


def _complain(error: AdvisorError, code: int) -> int:
    complain(f"gpu-advisor: error: {error}")
    return code


def _recommend(arguments: Namespace) -> None:
    top = parse_count(arguments.top, field="--top")
    mapping = _mapping(arguments)
    from advisor import api

    _read_owned(mapping)
    result = api.recommend(api.load_case(mapping))
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.recommendation import show_recommendation

    show_recommendation(new_console(), result, top=top, everything=arguments.all)


def _read_owned(mapping: dict[str, object]) -> None:
    """Put what the reports of probes hold in place of their paths."""
    limits = mapping.get("limits")
    owned = limits.get("owned") if isinstance(limits, dict) else None
    if not isinstance(limits, dict) or not isinstance(owned, list):
        return
    import advisor

    machines: list[object] = []
    for item in owned:
        path = item.get("report") if isinstance(item, dict) else None
        machines += advisor.owned_from_report(path) if isinstance(path, str) else (item,)
    mapping["limits"] = limits | {"owned": machines}


def _estimate(arguments: Namespace) -> None:
    mapping = _mapping(arguments)
    from advisor import api

    _read_owned(mapping)
    result = api.estimate(api.load_case(mapping), curves=True)
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.estimate import show_estimate

    show_estimate(new_console(), result, explain=arguments.explain)


def _export(arguments: Namespace) -> None:
    mapping = _mapping(arguments)
    from advisor import api

    _read_owned(mapping)
    result = api.export(
        mapping,
        arguments.to,
        checkpoint=arguments.checkpoint,
        log_to=arguments.log_to,
        platform=arguments.platform,
    )
    output: str | None = arguments.output
    if output is not None:
        write_whole(Path(output), result.content.removesuffix("\n") + "\n")
    if arguments.json:
        print_content(result.to_json())
    elif output is None:
        print_content(result.content.rstrip("\n"))
    else:
        print(f"Wrote {shortened(output, MAX_PART)}.")


def _own(arguments: Namespace) -> None:
    mapping = _mapping(arguments)
    from advisor import api

    result = api.own(api.load_case(mapping))
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.ownership import show_ownership

    show_ownership(new_console(), result, explain=arguments.explain)


def _fleet(arguments: Namespace) -> None:
    from advisor import api
    from advisor.terminal.console import new_console
    from advisor.terminal.fleet import show_fleet, show_machines

    if arguments.machines:
        show_machines(new_console(), api.list_machines())
        return
    result = api.plan_fleet(_portfolio(arguments), regret=arguments.regret, queue=arguments.queue)
    if arguments.json:
        print_content(result.to_json())
        return
    show_fleet(new_console(), result, everything=arguments.all)


def _learn(arguments: Namespace) -> None:
    mapping = _mapping(arguments)
    from advisor import api
    from advisor.lessons.results import Lessons
    from advisor.lessons.topics import lesson, lesson_texts

    _read_owned(mapping)
    case = api.load_case(mapping)
    answer = api.recommend(case)
    topics = [arguments.topic] if arguments.topic else [*lesson_texts()]
    found = [lesson(case, topic, recommendation=answer) for topic in topics]
    if arguments.json:
        print_content(Lessons(lessons=tuple(found)).to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.lessons import show_lessons

    show_lessons(new_console(), found)


def _portfolio(arguments: Namespace) -> Portfolio:
    """Return the portfolio of a file, or of a common question."""
    from advisor import api

    options = ("budget", "people", "tune", "serve")
    if arguments.ask is not None:
        budget, people = arguments.budget, arguments.people
        return api.quick_portfolio(
            arguments.ask,
            budget_usd=None if budget is None else parse_amount(budget, field="--budget"),
            people=None if people is None else parse_count(people, field="--people"),
            tune=arguments.tune,
            serve=arguments.serve,
        )
    unused = [f"--{name}" for name in options if getattr(arguments, name) is not None]
    if arguments.portfolio is None or unused:
        raise InputError(
            f"{unused[0]} does nothing without --ask" if unused else "the portfolio is missing",
            value=unused[0] if unused else None,
            allowed="a file with workloads, as docs/fleet.md shows; --ask or --machines",
            remedy="Give it: gpu-advisor fleet portfolio.yaml, or --ask home.",
            field="portfolio",
        )
    return api.load_portfolio(_base(arguments.portfolio) or {})


def _fits(arguments: Namespace) -> None:
    if arguments.accelerator is None:
        raise InputError(
            "the accelerator is missing",
            value=None,
            allowed="--accelerator with a key of the catalog",
            remedy="Add --accelerator rtx-4090.",
            field="--accelerator",
        )
    count = parse_count(arguments.count or "1", field="--count")
    context = parse_length(arguments.context, field="--context")
    concurrency = parse_count(arguments.concurrency, field="--concurrency")
    from advisor import api

    result = api.fits(
        arguments.accelerator,
        count=count,
        context_tokens=context,
        concurrency=concurrency,
        everything=arguments.all,
    )
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.fits import show_fits

    show_fits(new_console(), result, everything=arguments.all)


def _compare(arguments: Namespace) -> None:
    from advisor import api
    from advisor.compare import Differences, compare_cards

    result = compare_cards(arguments.accelerators, api.load_catalog())
    if arguments.json and arguments.differences:
        print_content(Differences.of(result).to_json())
        return
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.comparison import show_comparison
    from advisor.terminal.console import new_console

    show_comparison(
        new_console(),
        result,
        differences=arguments.differences,
        everything=arguments.all,
    )


def _sweep(arguments: Namespace) -> None:
    workers = None
    if arguments.workers is not None:
        workers = parse_count(arguments.workers, field="--workers")
    from advisor.sweeps.sweep import sweep_to
    from advisor.terminal import sweep
    from advisor.terminal.console import new_console

    with sweep.progress() as progress:
        result = sweep_to(
            arguments.source,
            Path(arguments.output),
            workers=workers,
            on=arguments.on,
            progress=progress,
        )
    if arguments.json:
        print_content(result.to_json())
        return
    sweep.show_sweep(new_console(), result)


def _prices(arguments: Namespace) -> None:
    if arguments.action == "refresh":
        _refresh(arguments)
        return
    if arguments.action == "list":
        _list_offers(arguments)
        return
    from advisor import api

    catalog = api.load_catalog()
    if arguments.usd_per_eur is not None:
        rate = parse_amount(arguments.usd_per_eur, field="--usd-per-eur")
        catalog = catalog.at_rate("EUR", rate)
    result = api.price_overview(catalog)
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.prices import show_prices

    show_prices(new_console(), result)


def _list_offers(arguments: Namespace) -> None:
    from advisor import api

    result = api.list_offers(
        api.load_catalog(),
        arguments.accelerators,
        providers=arguments.provider,
        regions=arguments.region,
        count=parse_count(arguments.count, field="--count") if arguments.count else None,
        spot=arguments.spot,
        order=arguments.sort,
    )
    if arguments.csv is not None:
        write_whole(Path(arguments.csv), api.offers_csv(result))
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.prices import show_offers

    show_offers(new_console(), result, limit=len(result.lines) if arguments.all else SHOWN_OFFERS)


def _refresh(arguments: Namespace) -> None:
    least = arguments.if_older_than
    young_s = None if least is None else parse_duration(least, field="--if-older-than")
    from advisor import api
    from advisor.terminal.prices import progress_bar, show_refresh

    if young_s is not None and (age_s := api.prices_age_s()) <= young_s:
        if arguments.json:
            print(api.load_catalog().prices.to_json())
            return
        from advisor.foundation.formatting import duration

        print(f"The live prices are {duration(age_s)} old, so they stay.")
        return
    with progress_bar() as progress:
        result = api.refresh_prices(progress=progress, online=arguments.online)
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console

    show_refresh(new_console(), result)


def _validate(arguments: Namespace) -> None:
    from advisor import api

    result = api.validate(arguments.table, arguments.configs)
    if arguments.json:
        print_content(result.to_json())
        return
    from advisor.terminal.console import new_console
    from advisor.terminal.validation import show_validation

    show_validation(new_console(), result)


def _probe(arguments: Namespace) -> None:
    time_limit, memory_limit = arguments.time_limit, arguments.memory_limit
    seconds = parse_duration(time_limit, field="--time-limit") if time_limit else None
    most = parse_amount(memory_limit, field="--memory-limit") if memory_limit else None
    from advisor import api
    from advisor.terminal.console import new_console
    from advisor.terminal.probe import probe_with_progress, show_probe

    if arguments.report is not None:
        from advisor.probe.report import read_report

        report = read_report(arguments.report)
    else:
        report = probe_with_progress(
            new_console(sys.stderr),
            mode=arguments.mode,
            library=arguments.library,
            time_limit_s=seconds,
            memory_limit_bytes=most,
            check=arguments.check,
        )
    if arguments.output is not None:
        try:
            write_whole(Path(arguments.output), report.to_json() + "\n")
        except TransferError:
            print_content(report.to_json())  # minutes of measuring are not lost
            raise
    if arguments.json:
        print_content(report.to_json())
        return
    show_probe(new_console(), report, api.load_catalog())


def _presets(arguments: Namespace) -> None:
    from advisor.architecture.presets import list_presets
    from advisor.architecture.table.sample import Unit

    presets = list_presets(Unit(arguments.takes) if arguments.takes else None)
    if arguments.json:
        import json

        print_content(json.dumps(list(presets), indent=2))
        return
    print("\n".join(presets))


def _software(arguments: Namespace) -> None:
    from advisor.nouns.software.tools import known_tools, spelled, tool_choice, tool_named, tools_on

    catalog = card = None
    if arguments.accelerator:
        from advisor import load_catalog

        catalog = load_catalog()
        card = catalog.accelerator(arguments.accelerator)
    name = arguments.name
    term = tool_choice().terms.get(spelled(name)) if name else None
    if arguments.json:
        import json

        tools = known_tools().values() if card is None else tools_on(card)
        one = term or (tool_named(name) if name else None)
        shown = [tool.model_dump(mode="json") for tool in tools]
        print_content(json.dumps(one.model_dump(mode="json") if one else shown, indent=2))
        return
    from advisor.terminal import software
    from advisor.terminal.console import new_console

    console = new_console()
    if term is not None:
        software.show_term(console, term)
    elif name:
        software.show_tool(console, tool_named(name))
    if card is not None and catalog is not None:
        software.show_on_card(console, card, catalog.software_for(card))
    elif not name:
        software.show_software(console)


def _schema(arguments: Namespace) -> None:
    import json

    from advisor.nouns.case import Case

    print_content(json.dumps(Case.model_json_schema(), indent=2))


def _mapping(arguments: Namespace) -> dict[str, object]:
    """Return the case that options and file spell."""
    from advisor.arguments.mapping import case_mapping

    return case_mapping(arguments, _base(arguments.case))


def _base(source: str | None) -> Mapping[str, object] | None:
    """Return the content of a case file as it is; ``-`` is standard input."""
    if source is None:
        return None
    from advisor.nouns.case_files import MAX_CASE_BYTES, case_text, parse_case, read_case

    if source != "-":
        return read_case(Path(source))
    content = read_input(MAX_CASE_BYTES + 1)
    return parse_case(case_text(content, name="the case on standard input"))


def _server(name: str) -> Callable[[Namespace], None]:
    """Return a command of `advisor.servers`, which is imported when it runs."""

    def command(arguments: Namespace) -> None:
        from advisor import servers

        getattr(servers, name)(arguments)

    return command


_COMMANDS: Final = {
    "recommend": _recommend,
    "estimate": _estimate,
    "export": _export,
    "own": _own,
    "fleet": _fleet,
    "fits": _fits,
    "compare": _compare,
    "learn": _learn,
    "sweep": _sweep,
    "prices": _prices,
    "validate": _validate,
    "probe": _probe,
    "web": _server("web"),
    "serve-api": _server("serve_api"),
    "mcp": _server("mcp"),
    "presets": _presets,
    "software": _software,
    "schema": _schema,
}
