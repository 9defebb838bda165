"""Each format that serves with the function that writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from advisor.export.formats import Format
from advisor.export.hosts.containers import compose_file, dstack_file, skypilot_file
from advisor.export.hosts.kubernetes import kubernetes_file
from advisor.export.hosts.shell import shell_file, slurm_file
from advisor.export.setup import Setup

_WRITERS: Final[dict[Format, Callable[[Setup], str]]] = {
    Format.SLURM: slurm_file,
    Format.KUBERNETES: kubernetes_file,
    Format.COMPOSE: compose_file,
    Format.SKYPILOT: skypilot_file,
    Format.DSTACK: dstack_file,
}


def server_file(setup: Setup, to: Format) -> str:
    """Return the content of a file that starts a plan's servers.

    Raises
    ------
    InputError
        If it would not start. The message says why, and what would start.
    """
    return _WRITERS.get(to, shell_file)(setup)
