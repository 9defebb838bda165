"""Writes the set-up steps of a plan as a Markdown checklist."""

from __future__ import annotations

import re
from collections.abc import Iterable

from advisor.export.checks.steps import TITLES, Platform, Stage, Step
from advisor.export.quoting import markdown_text, shell_word
from advisor.export.setup import Setup


def checklist(
    setup: Setup, platform: Platform, steps: Iterable[Step], run: tuple[str, str] | None
) -> str:
    """Return the checklist.

    Parameters
    ----------
    run : tuple of str, optional
        Command and content of the file that starts the plan.
    """
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
            items += _start(*run)
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


def _start(command: str, content: str) -> list[str]:
    """Return the item that starts the plan."""
    return [
        f"- [ ] **Start.** Save this file and start it with `{command}`.",
        _indented(_block(content.rstrip("\n"))),
    ]


def _item(step: Step) -> str:
    lines = [f"- [ ] **{markdown_text(step.name)}.** {markdown_text(step.do)}"]
    if step.command:
        lines.append(_indented(_block(step.command)))
    watched = step.stage is Stage.MONITOR
    if step.check:
        lines.append("  Watch with:" if watched else "  Check with:")
        lines.append(_indented(_block(" ".join(map(shell_word, step.check)))))
    if step.expect:
        word = "Good" if watched else "Expect"
        lines.append(f"  {word}: {markdown_text(step.expect)}.")
    return "\n\n".join(lines)


def _block(text: str) -> str:
    """Return a code block whose fence the text does not hold."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}bash\n{text}\n{fence}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
