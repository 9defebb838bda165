"""The commands that take long: many cases, tables of measurements, probes of this machine."""

import json
from argparse import Namespace
from pathlib import Path

from advisor import ProbeReport, api
from advisor.commands.answering import answered, content_of
from advisor.errors import TransferError, refusal
from advisor.foundation.files.writing import write_whole
from advisor.foundation.parsing import parse_amount, parse_count, parse_duration
from advisor.terminal.streams import print_content


def fleet(arguments: Namespace) -> None:
    """Plan what to buy and rent for a portfolio."""
    if arguments.machines:
        from advisor.terminal.console import new_console
        from advisor.terminal.fleet import show_machines

        if arguments.json:
            print_content(json.dumps([item.facts for item in api.list_machines()], indent=2))
        else:
            show_machines(new_console(), api.list_machines())
        return
    portfolio = _portfolio(arguments)
    if arguments.owned:
        stated = portfolio.model_dump(mode="json", exclude_unset=True)
        more = {"owned": [*stated.get("owned", ()), *arguments.owned]}
        portfolio = api.load_portfolio(stated | more)
    from advisor.terminal.prices import progress_bar

    with progress_bar() as tell:
        plan = api.plan_fleet(portfolio, regret=arguments.regret, queue=arguments.queue, tell=tell)
    if arguments.report is not None:
        path = Path(arguments.report)
        to = "markdown" if path.suffix == ".md" else "html"
        write_whole(path, api.fleet_report(plan, to).content)
    answered(arguments, plan)


def _portfolio(arguments: Namespace) -> api.Portfolio:
    """Return the portfolio of a file, or of a common question."""
    if arguments.ask is not None:
        budget, people = arguments.budget, arguments.people
        return api.quick_portfolio(
            arguments.ask,
            budget_usd=None if budget is None else parse_amount(budget, field="--budget"),
            people=None if people is None else parse_count(people, field="--people"),
            tune=arguments.tune,
            serve=arguments.serve,
        )
    options = ("budget", "people", "tune", "serve")
    unused = [f"--{name}" for name in options if getattr(arguments, name) is not None]
    if unused:
        raise refusal("needs_ask", value=unused[0], option=unused[0])
    if arguments.portfolio is None:
        raise refusal("no_portfolio")
    return api.load_portfolio(content_of(arguments.portfolio) or {})


def sweep(arguments: Namespace) -> None:
    """Answer a grid or a table of cases."""
    given = arguments.workers
    workers = None if given is None else parse_count(given, field="--workers")
    from advisor.sweeps.sweep import sweep_to
    from advisor.terminal.fleet import progress

    with progress() as told:
        summary = sweep_to(
            arguments.source,
            Path(arguments.output),
            workers=workers,
            on=arguments.on,
            progress=told,
        )
    answered(arguments, summary)


def validate(arguments: Namespace) -> None:
    """Score the engine on a table of measurements."""
    answered(arguments, api.validate(arguments.table, arguments.configs))


def probe(arguments: Namespace) -> None:
    """Measure this machine, or show a report."""
    if arguments.report is None:
        report = _measured(arguments)
    else:
        from advisor.probe.report import read_report

        report = read_report(arguments.report)
    if arguments.output is not None:
        try:
            write_whole(Path(arguments.output), report.to_json() + "\n")
        except TransferError:
            print_content(report.to_json())  # minutes of measuring are not lost
            raise
    answered(arguments, report, catalog=api.load_catalog())


def _measured(arguments: Namespace) -> ProbeReport:
    time_limit, memory_limit = arguments.time_limit, arguments.memory_limit
    seconds = parse_duration(time_limit, field="--time-limit") if time_limit else None
    most = parse_amount(memory_limit, field="--memory-limit") if memory_limit else None
    from advisor.terminal.probe import probe_with_progress

    return probe_with_progress(
        mode=arguments.mode,
        library=arguments.library,
        time_limit_s=seconds,
        memory_limit_bytes=most,
        check=arguments.check,
    )
