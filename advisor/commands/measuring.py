"""The commands that measure this machine, or score the engine on measurements."""

from argparse import Namespace
from pathlib import Path

from advisor import ProbeReport, api
from advisor.commands.answering import answered
from advisor.errors import TransferError
from advisor.foundation.files.writing import write_whole
from advisor.foundation.parsing import parse_amount, parse_duration
from advisor.terminal.streams import print_content


def validate(arguments: Namespace) -> None:
    """Score the engine on a table of measurements."""
    answered(arguments, api.validate(arguments.table, arguments.configs))


def probe(arguments: Namespace) -> None:
    """Measure this machine, or show a report."""
    report = _measured(arguments) if arguments.report is None else _read(arguments.report)
    if arguments.output is not None:
        try:
            write_whole(Path(arguments.output), report.to_json() + "\n")
        except TransferError:
            print_content(report.to_json())  # minutes of measuring are not lost
            raise
    answered(arguments, report, catalog=api.load_catalog())


def _read(path: str) -> ProbeReport:
    from advisor.probe.report import read_report

    return read_report(path)


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
