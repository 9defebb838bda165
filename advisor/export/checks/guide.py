"""Writes a plan's set-up: the checklist, or the script that checks a machine."""

from __future__ import annotations

from typing import Final, NamedTuple

from advisor.catalog import Catalog
from advisor.export.checks.checklist import checklist
from advisor.export.checks.facts import facts_of, situation_of, tool_of
from advisor.export.checks.script import check_script
from advisor.export.checks.steps import Platform, steps_for
from advisor.export.formats import KINDS, Format
from advisor.export.script import Launch
from advisor.export.setup import Setup

STARTS: Final = {Format.SLURM: "sbatch", Format.KUBERNETES: "kubectl apply -f"}
"""Commands that start a file; others are scripts."""


class Run(NamedTuple):
    """The file that starts a plan."""

    form: Format
    content: str
    launch: Launch

    @property
    def command(self) -> str:
        """The command that starts it."""
        return f"{STARTS.get(self.form, 'bash')} {KINDS[self.form].file_name}"


def guide(
    setup: Setup, to: Format, catalog: Catalog, platform: Platform, run: Run | None = None
) -> str:
    """Return the set-up of a plan as a file.

    Parameters
    ----------
    to : Format
        ``checklist`` or ``check-script``.
    run : Run, optional
        None if no file starts the plan.
    """
    tool = tool_of(setup)
    launch = run.launch if run else None
    situation = situation_of(setup, platform, launch, tool)
    steps = steps_for(situation, facts_of(setup, catalog, launch, tool))
    if to is Format.CHECK_SCRIPT:
        return check_script(setup, platform, steps)
    return checklist(setup, platform, steps, run and (run.command, run.content))
