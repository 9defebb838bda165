"""Writes a plan's set-up: a Markdown checklist, or a script that checks a machine."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from advisor.catalog import Catalog
from advisor.export.checks.facts import facts_of, situation_of, tool_of
from advisor.export.checks.steps import TITLES, Platform, Stage, Step, steps_for
from advisor.export.formats import KINDS, Format
from advisor.export.quoting import comments, markdown_text, shell_word
from advisor.export.script import START, Launch, text_of
from advisor.export.setup import Setup
from advisor.foundation.data_files import read_text
from advisor.foundation.names import visible
from advisor.foundation.resources import data_path

STARTS: Final = {Format.SLURM: "sbatch", Format.KUBERNETES: "kubectl apply -f"}
"""Commands that start a file; others are scripts."""
FUNCTIONS: Final = "check_functions.sh"
"""Data file of shell functions that run a check and compare what it prints."""


class Run(NamedTuple):
    """The file that starts a plan."""

    form: Format
    content: str
    launch: Launch

    @property
    def command(self) -> str:
        """The command that starts it, in Markdown."""
        in_image = self.launch.image and not self.launch.install and self.form not in STARTS
        where = ", in the image as its head says" if in_image else ""
        return f"`{STARTS.get(self.form, 'bash')} {KINDS[self.form].file_name}`{where}"


def guide(
    setup: Setup, to: Format, catalog: Catalog, platform: Platform, run: Run | None = None
) -> str:
    """Return the set-up of a plan as a checklist or a script that checks.

    ``run`` starts it, if any.
    """
    tool = tool_of(setup)
    launch = run.launch if run else None
    situation = situation_of(setup, platform, launch, tool)
    steps = steps_for(situation, facts_of(setup, catalog, launch, tool))
    if to is Format.CHECK_SCRIPT:
        return _check_script(setup, platform, steps)
    return _checklist(setup, platform, steps, run)


def _checklist(setup: Setup, platform: Platform, steps: Iterable[Step], run: Run | None) -> str:
    head, *others = setup.header
    parts = [
        f"# Set-up: {markdown_text(head)}",
        *(markdown_text(line) for line in others),
        f"Platform: {platform.value}; `--platform` takes {', '.join(Platform)}.",
        "`--to check-script` checks a machine for all of this and installs nothing.",
    ]
    found = list(steps)
    for stage in Stage:
        items = [_item(step) for step in found if step.stage is stage]
        if stage is Stage.RUN and run:
            items += [
                f"- [ ] **Start.** Save this file and start it with {run.command}.",
                _block(run.content.rstrip("\n")),
            ]
        if items:
            parts += [f"## {TITLES[stage]}", *items]
    parts += ["## Sources", "\n".join(_sources(found))]
    return "\n\n".join(parts) + "\n"


def _sources(steps: list[Step]) -> list[str]:
    """Return one line for each source, with the steps that it holds for."""
    by_source: dict[str, list[str]] = {}
    for step in steps:
        names = by_source.setdefault(f"{step.source} ({step.date})", [])
        if step.name not in names:
            names.append(step.name)
    return [
        f"- {markdown_text(', '.join(names))}: {markdown_text(source)}"
        for source, names in by_source.items()
    ]


def _item(step: Step) -> str:
    lines = [f"- [ ] **{markdown_text(step.name)}.** {markdown_text(step.do)}"]
    if step.command:
        lines.append(_block(step.command))
    watched = step.stage is Stage.MONITOR
    if step.check:
        lines.append("  Watch with:" if watched else "  Check with:")
        lines.append(_block(" ".join(map(shell_word, step.check))))
    if step.expect:
        word = "Good" if watched else "Expect"
        lines.append(f"  {word}: {markdown_text(step.expect)}.")
    return "\n\n".join(lines)


def _block(text: str) -> str:
    """Return an indented code block whose fence the text does not hold."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    block = f"{fence}bash\n{text}\n{fence}"
    return "\n".join(f"  {line}" if line else "" for line in block.split("\n"))


def _check_script(setup: Setup, platform: Platform, steps: Iterable[Step]) -> str:
    """Return a script that checks a machine, says what is missing and then exits with 1."""
    head = (
        *setup.header,
        f"Checks a machine for this plan on the platform {platform.value}. It installs nothing.",
    )
    lines = [
        " ".join(map(shell_word, _words(step)))
        for step in steps
        if step.check and step.stage is not Stage.MONITOR
    ]
    return text_of(
        START,
        comments(head),
        ("set -u",),
        read_text(data_path(FUNCTIONS)).rstrip("\n").split("\n"),
        ("",),
        lines,
        (
            "",
            "if ((missing)); then",
            "  printf '%s missing\\n' \"$missing\"",
            "  exit 1",
            "fi",
            "echo 'nothing missing'",
        ),
    )


def _words(step: Step) -> tuple[str, ...]:
    pattern = step.reads or "(.+)"
    texts = (step.name, pattern, step.least, step.equals, step.expect, step.do)
    return ("check", *map(visible, texts), *step.check)
