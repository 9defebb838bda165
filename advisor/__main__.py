"""``python -m advisor`` and ``gpu-advisor``: the command as a process, fast to start and to end."""

from __future__ import annotations

import gc
import os
import sys

from advisor.cli import main

TYPE_CHECKING = False  # its module takes long to import
if TYPE_CHECKING:
    from typing import Final, NoReturn

COLLECT_AFTER: Final = 100_000
"""New objects between two rounds of the collector, which otherwise takes a tenth of a short command
and finds nothing."""

NO_PLUGINS: Final = "PYDANTIC_DISABLE_PLUGINS"
"""Looking for plugins of pydantic reads the metadata of every installed package."""
THREADS: Final = "OPENBLAS_NUM_THREADS"
"""NumPy starts one for each core, which only the probe uses; the web server is NumPy's as usual."""
THREADED: Final = ("probe", "web")


def run() -> NoReturn:
    """Run one command and leave the process with its code."""
    gc.set_threshold(COLLECT_AFTER)
    os.environ.setdefault(NO_PLUGINS, "__all__")
    if not set(THREADED) & set(sys.argv[1:]):
        os.environ.setdefault(THREADS, "1")
    code = main()
    # The interpreter ends with a full round over all that is left, which the system frees anyway.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    run()
