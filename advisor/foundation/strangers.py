"""What the question of a stranger may not make a server do: open its files, or download."""

import functools
from collections.abc import Iterator, Mapping

from advisor.errors import InputError
from advisor.foundation.names import Reaches, holds_content
from advisor.foundation.noun import Noun, annotated


def refuse_reach(noun: Noun) -> None:
    """Refuse a question that names a file of this machine or a model to download.

    Every door that strangers use calls it: pages, their links, HTTP and MCP. It checks every field
    whose type carries a mark of `Reaches`, also in nouns and lists inside. Raises InputError if
    such a field is set.
    """
    _walk(noun, "")


def _walk(value: object, path: str) -> None:
    if isinstance(value, Noun):
        marks = reaching(type(value))
        for name in type(value).model_fields:
            here, inner = f"{path}.{name}".lstrip("."), getattr(value, name)
            if name in marks:
                _check(marks[name], inner, here)
            _walk(inner, here)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _walk(item, f"{path}.{key}")
    elif isinstance(value, list | tuple | set | frozenset):
        for place, item in enumerate(value):
            _walk(item, f"{path}.{place}")


@functools.cache
def reaching(kind: type[Noun]) -> Mapping[str, Reaches]:
    """Return the fields of a noun that reach outside the question, not those of nouns inside."""
    found = {
        name: next((mark for mark in annotated(field) if isinstance(mark, Reaches)), None)
        for name, field in kind.model_fields.items()
    }
    return {name: mark for name, mark in found.items() if mark is not None}


def _check(mark: Reaches, value: object, field: str) -> None:
    for text in _texts(value, content=mark is Reaches.FILE_UNLESS_CONTENT):
        if mark is Reaches.HUB:
            raise InputError(
                f"{field} would be downloaded, and this server fetches nothing",
                value=text,
                allowed="a model by its preset, size or content",
                remedy="Send the content of its config.json as model.config.",
                field=field,
            )
        where = "its place" if mark is Reaches.FILE_UNLESS_CONTENT else "the fields beside it"
        raise InputError(
            f"{field} names a file, and this server opens none",
            value=text,
            allowed=f"the content of the file, in {where}",
            remedy="Send the content instead, or ask on the command line.",
            field=field,
        )


def _texts(value: object, *, content: bool) -> Iterator[str]:
    """Yield the texts of a field, in lists and mappings too, unless they are ``content``."""
    if isinstance(value, str):
        if not content or not holds_content(value):
            yield value
    elif isinstance(value, Mapping) and not content:
        for item in value.values():
            yield from _texts(item, content=content)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts(item, content=content)
