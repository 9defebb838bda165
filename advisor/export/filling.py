"""Fills the names in a description of a program with the values of a plan."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.export.script import Options, Variable, Word

NAME: Final = re.compile(r"(?<!\$)\{([a-z][\w.]*)\}")
"""A value of the plan in a text."""
VARIABLE: Final = re.compile(r"(.*?)\$([A-Z_]+|@)(\??)")
"""A word that is a shell variable, perhaps after a text."""
Line = str | tuple[str, ...]
"""A text, or the words of one option."""
Lines = tuple[Line | dict[str, tuple[Line, ...]], ...]
"""Lines; a mapping holds those under a condition."""


def at_path(value: Any, path: Iterable[str]) -> Any:
    """Return the value at the end of a path of fields and keys."""
    for name in path:
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


def spelled(value: object) -> str:
    """Return a value as a word; a switch as command lines read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Filler:
    """A plan, whose values a program's description names."""

    value: Callable[[str], Any]
    """Returns the value with a name; None if the plan has none."""

    def filled(self, template: Any) -> Any:
        """Return a text, a list or a mapping with the values that it names."""
        if isinstance(template, str):
            whole = NAME.fullmatch(template)
            if whole:
                return self.value(whole[1])
            return NAME.sub(lambda found: spelled(self.value(found[1])), template)
        if isinstance(template, Mapping):
            return {name: self.filled(item) for name, item in template.items()}
        if isinstance(template, list | tuple):
            return [self.filled(item) for item in template]
        return template

    def content(self, template: Any) -> Any:
        """Return a template without what is missing or does not apply; None if nothing is left.

        A mapping applies if the condition in its field ``when`` is met.
        """
        if isinstance(template, Mapping):
            if not self.holds(template.get("when", "")):
                return None
            pairs = ((name, part) for name, part in template.items() if name != "when")
            whole = {self.filled(name): self.content(part) for name, part in pairs}
            found = {name: part for name, part in whole.items() if name and part is not None}
            return found if found or not template else None
        if isinstance(template, list):
            parts = [part for part in map(self.content, template) if part is not None]
            return parts if parts or not template else None
        return self.filled(template)

    def holds(self, condition: str) -> bool:
        """Whether a condition is met, or several that `` and `` joins; an empty one always is."""
        if not condition:
            return True
        if " and " in condition:
            return all(map(self.holds, condition.split(" and ")))
        if condition.startswith("not "):
            return not self.holds(condition.removeprefix("not "))
        path, stated, wanted = condition.partition("=")
        if stated:
            return str(self.value(path)) in wanted.split("|")
        path, more, least = condition.partition(">")
        return bool(self.value(path) > float(least)) if more else bool(self.value(path))

    def lines(self, lines: Lines) -> Iterator[Line]:
        """Yield the lines whose conditions are met."""
        for line in lines:
            if not isinstance(line, dict):
                yield line
            else:
                yield from (one for when, each in line.items() if self.holds(when) for one in each)

    def texts(self, lines: Lines) -> tuple[str, ...]:
        """Return lines as texts, without those whose value is missing; a value may be several."""
        found: list[object] = []
        for line in self.lines(lines):
            value = self.filled(line)
            found += value if isinstance(value, tuple) else () if value is None else (value,)
        return tuple(spelled(text) for text in found)

    def options(self, lines: Lines) -> Options:
        """Return lines as options; a value of several options adds them all."""
        found: list[tuple[Word, ...]] = []
        for line in self.lines(lines):
            value = self.filled(line) if isinstance(line, str) and NAME.fullmatch(line) else None
            if isinstance(value, tuple):
                found += value
            elif option := self.words(line.split() if isinstance(line, str) else line):
                found.append(option)
        return tuple(found)

    def words(self, templates: Iterable[str]) -> tuple[Word, ...]:
        """Return the words of one option or command; none if a value is missing."""
        result: list[Word] = []
        for template in templates:
            variable = VARIABLE.fullmatch(template)
            if variable:
                result.append(Variable(variable[2], variable[1], optional=bool(variable[3])))
                continue
            value = self.filled(template)
            if value is None:
                return ()
            result += value if isinstance(value, tuple) else (spelled(value),)
        return tuple(result)
