"""Runs commands under observation; a process of its own, since memory is measured from its start.

Reads a JSON list of argument lists from standard input. Each command runs in a fork of a process
that has answered before, so that what it takes is its own. Prints one line of JSON for each: exit
code, seconds of CPU, megabytes more than before, what it said.
"""

import io
import json
import os
import resource
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from advisor import cli
from advisor.sweeps import sweep  # noqa: F401  its libraries' pages are no input's

ROOM = 1 << 30
"""Address space that a command may take beyond what there is: more is a failure, not a wait."""
KIB_PER_MB = 1e6 / 1024


def observe(arguments: list[str]) -> dict[str, object]:
    """Run one command in a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF)
        said, shown = io.StringIO(), io.StringIO()
        with redirect_stdout(shown), redirect_stderr(said):
            code = cli.main(arguments)
        after = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "code": code,
            "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "grown_mb": (after.ru_maxrss - before.ru_maxrss) / KIB_PER_MB,
            "said": said.getvalue()[:2000],
        }
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(child, 0)
    return json.loads(content) if content else {"code": -status, "said": "killed"}


def main() -> None:
    """Observe every command of standard input."""
    commands = json.load(sys.stdin)
    for model in (["--model", "7B"], ["--model", "resnet-50"]):
        with redirect_stdout(io.StringIO()):
            cli.main(["estimate", *model, "--task", "finetune", "--accelerator", "h100-sxm"])
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    for command in commands:
        print(json.dumps(observe(command)))


if __name__ == "__main__":
    main()
