"""Writes the files that start a program on the machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from advisor.export.engines.launches import server_launch
from advisor.export.engines.servers import Servers
from advisor.export.formats import Format
from advisor.export.hosts import containers, kubernetes, shell
from advisor.export.script import Launch
from advisor.export.setup import Setup, check_startable
from advisor.export.training import clusters, starts
from advisor.export.training.tools import tool_for
from advisor.export.training.written import written
from advisor.nouns.workload import Serving


def launch_file(setup: Setup, to: Format) -> str:
    """Return the content of a launch configuration."""
    return started(setup, to).content


class Started(NamedTuple):
    """A plan with the file that starts it."""

    setup: Setup
    """The plan as the file states it."""
    to: Format
    content: str
    launch: Launch


def started(setup: Setup, to: Format) -> Started:
    """Return a plan with the launch configuration that starts it."""
    check_startable(setup, to)
    if isinstance(setup.workload, Serving):
        content = _SERVES.get(to, shell.shell_file)(setup)
        return Started(setup, to, content, server_launch(Servers(setup)))
    tool = tool_for(setup, to)
    setup = written(setup, tool)
    return Started(setup, to, _TRAINS[to](setup), tool.launch(setup))


_SERVES: Final[dict[Format, Callable[[Setup], str]]] = {
    Format.SLURM: shell.slurm_file,
    Format.KUBERNETES: kubernetes.kubernetes_file,
    Format.COMPOSE: containers.compose_file,
    Format.SKYPILOT: containers.skypilot_file,
    Format.DSTACK: containers.dstack_file,
}
_TRAINS: Final[dict[Format, Callable[[Setup], str]]] = {
    Format.TORCHRUN: starts.shell_file,
    Format.ACCELERATE: starts.accelerate_file,
    Format.DEEPSPEED: starts.deepspeed_file,
    Format.UNSLOTH: starts.config_file,
    Format.AXOLOTL: starts.config_file,
    Format.LLAMA_FACTORY: starts.config_file,
    Format.TORCHTUNE: starts.config_file,
    Format.TORCHTITAN: starts.shell_file,
    Format.GAUDI: starts.shell_file,
    Format.MAXTEXT: starts.shell_file,
    Format.SLURM: starts.slurm_file,
    Format.KUBERNETES: clusters.kubernetes_file,
    Format.SKYPILOT: clusters.skypilot_file,
    Format.DSTACK: clusters.dstack_file,
    Format.COMPOSE: clusters.compose_file,
}
