"""The command ``gpu-advisor``: it runs one command and turns every failure into a sentence.

A command is imported when it is chosen, so that ``--help`` answers at once.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

from advisor import __version__
from advisor.arguments.parser import bounded, build_parser
from advisor.errors import (
    MAX_PART,
    AdvisorError,
    CatalogError,
    ResourceError,
    TransferError,
    shortened,
)
from advisor.terminal.streams import complain, drop_output, keep_output, prepare_streams

TYPE_CHECKING = False  # its module takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

SERVERS: Final = "servers"
"""Its commands name catalog files to their processes and threads by the environment."""
COMMANDS: Final = {
    command: module
    for module, commands in {
        "cases": "recommend estimate export own learn",
        "cards": "fits compare presets software schema prices",
        "many": "fleet sweep validate probe",
        SERVERS: "web serve-api mcp",
    }.items()
    for command in commands.split()
}
"""Module of `advisor.commands` with the function of each command."""

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

    ``argv``: arguments without the program's name; None takes the process's.

    Returns 0; 2 after a caller's mistake; 1 where a data file is missing or broken, live prices
    cannot be had, input or output fails (no room, no right, closed) or the program has a defect;
    130 after an interrupt; 141 where the reader of the output went away.
    """
    try:
        prepare_streams()
        code = _run(argv)
        sys.stdout.flush()
    except (CatalogError, ResourceError, TransferError) as error:
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
    if argv is None:  # One answer leaves too little garbage for the search of it.
        gc.disable()
    try:
        arguments = build_parser(__version__).parse_args(bounded(argv))
    except SystemExit as end:  # after --help, --version or a mistake
        return end.code if isinstance(end.code, int) else MISTAKE
    module = COMMANDS[arguments.command]
    name = arguments.command.replace("-", "_")
    if argv is None and name != "web":  # Streamlit prints its address
        keep_output()
    if module != "cases":
        gc.enable()
    run = getattr(import_module(f"advisor.commands.{module}"), name)
    files = getattr(arguments, "catalog", None) or ()
    discounts = getattr(arguments, "discount", None) or ()
    if module == SERVERS or (not files and not discounts):
        run(arguments)
        return OK
    from advisor import api

    with api.using_catalog(files, discounts=discounts):
        run(arguments)
    return OK


def _complain(error: AdvisorError, code: int) -> int:
    complain(f"gpu-advisor: error: {error}")
    return code
