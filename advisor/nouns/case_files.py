"""Reads and checks cases in YAML or JSON, and describes each mistake in one sentence.

What strangers send to a server may name none of its files, and no model to download.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from advisor.errors import InputError, refusal
from advisor.foundation.files.reading import read_file, too_large
from advisor.foundation.files.structured import NotPlainError, read_yaml
from advisor.foundation.names import Reaches, holds_content
from advisor.foundation.noun import Noun, annotated
from advisor.nouns.case import Case

T = TypeVar("T", bound=Noun)

MAX_CASE_BYTES: Final = 1_000_000
MAX_VALUES: Final = 10_000
WITH_OWN_BOUNDS: Final = ("config", "stack")
KINDS: Final = ("pretraining", "fine_tuning", "serving")
BOUNDS: Final = {
    "less_than_equal": "at most {le:,.15g}",
    "less_than": "less than {lt:,.15g}",
    "greater_than_equal": "at least {ge:,.15g}",
    "greater_than": "more than {gt:,.15g}",
}
"""Pydantic's kinds of a bound, in words."""
REMEDY: Final = "Give only the case, in YAML or JSON, as docs/cli.md shows."


def load_case(source: str | Path | Mapping[str, Any]) -> Case:
    """Read a case from a file (YAML or JSON) or a mapping.

    ``source``: path of a file, or the content itself.

    Raises InputError if ``source`` is neither path nor mapping, the file cannot be read, or a field
    is missing, unknown or out of bounds. The message names the field.
    """
    return load_as(Case, source)


def load_as(kind: type[T], source: str | Path | Mapping[str, Any]) -> T:
    """Read a noun that people write like a case, with the same bounds and messages."""
    if isinstance(source, str | Path):
        source = read_case(Path(source))
    elif not isinstance(source, Mapping):
        raise refusal("no_mapping", value=source)
    _refuse_many(source)
    try:
        found = kind.model_validate(source)
    except ValidationError as error:
        raise input_error(error) from None
    _refuse_booleans(source, found, "")
    return found


def load_sent(kind: type[T], content: Mapping[str, Any]) -> T:
    """Read a noun that a page, a link, HTTP or an assistant sends to a server.

    Raises InputError as for a case, or if it names a file of the server or a model to download.
    """
    found = load_as(kind, content)
    refuse_reach(found)
    return found


def _refuse_booleans(given: object, taken: object, field: str) -> None:
    """Refuse yes and no where a number belongs: pydantic would take them as 1 and 0."""
    if isinstance(given, bool) and isinstance(taken, int | float) and not isinstance(taken, bool):
        raise refusal("no_number_here", value=given, field=field)
    if isinstance(given, Mapping) and isinstance(taken, Noun):
        for name, value in given.items():
            _refuse_booleans(value, getattr(taken, str(name), None), f"{field}.{name}".lstrip("."))
    elif isinstance(given, list | tuple) and isinstance(taken, tuple):
        for one, other in zip(given, taken, strict=False):
            _refuse_booleans(one, other, field)


def _refuse_many(source: Mapping[str, Any]) -> None:
    """Refuse more values than a case has fields, because each could cause its own error message.

    Configurations and stacks have their own bounds, so their values do not count.
    """
    count = 0
    pending: list[Any] = [source]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            count += len(value)
            own = [value[name] for name in WITH_OWN_BOUNDS if name in value]
            count += sum(len(item) for item in own if isinstance(item, Mapping))
            pending.extend(item for name, item in value.items() if name not in WITH_OWN_BOUNDS)
        elif isinstance(value, list | tuple):
            count += len(value)
            pending.extend(value)
        if count > MAX_VALUES:
            raise refusal("too_many_values", remedy=REMEDY, most=MAX_VALUES)


def read_case(path: Path) -> Mapping[str, Any]:
    """Read the content of a case file without checking its fields.

    Raises ``InputError`` if it cannot be read or holds no mapping.
    """
    content = read_file(
        path,
        most=MAX_CASE_BYTES,
        name="the case file",
        allowed="a readable UTF-8 file",
        remedy=REMEDY,
    )
    return parse_case(case_text(content, name="the case file"))


def case_text(content: bytes, *, name: str) -> str:
    """Decode the bytes of a case, of which the caller read at most ``MAX_CASE_BYTES + 1``.

    Raises InputError if there are more than ``MAX_CASE_BYTES``, or they are not UTF-8.
    """
    if len(content) > MAX_CASE_BYTES:
        raise too_large(name, MAX_CASE_BYTES, remedy=REMEDY)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refusal("not_utf8", value=content[error.start : error.start + 8], name=name) from None


def parse_case(text: str) -> Mapping[str, Any]:
    """Parse the text of a case file, YAML or JSON.

    Raises ``InputError`` if it is none or not a mapping.
    """
    try:
        content = read_yaml(text)
    except NotPlainError as error:
        raise error.as_input_error(
            "the case",
            form="YAML or JSON",
            value=text[:60],
            allowed="a mapping with model and workload",
        ) from None
    if not isinstance(content, Mapping):
        raise refusal("no_mapping", value=text[:60])
    return content


def input_error(error: ValidationError) -> InputError:
    """Return pydantic's first error as an ``InputError``."""
    first = error.errors(include_url=False)[0]
    # pydantic names the kind of a union as if it were a field: workload.fine_tuning.tokens.
    field = ".".join(str(part) for part in first["loc"] if part not in KINDS)
    own = first.get("ctx", {}).get("error")
    if isinstance(own, InputError):  # a validator with a complete message
        own.field = own.field or field
        return own
    others = error.error_count() - 1
    more = f" ({others} more problem{'s' if others > 1 else ''})" if others else ""
    kind, value = first["type"], first["input"]
    bound, message = BOUNDS.get(kind), first["msg"].removeprefix("Value error, ")
    what = "is not usable"
    remedy = "Correct this field; 'gpu-advisor schema' prints what is allowed."
    allowed = bound.format(**first["ctx"]) if bound else message[:1].lower() + message[1:]
    if kind == "value_error" and isinstance(value, Mapping):
        value = ", ".join(map(str, value))  # several fields contradict each other: their names
    if kind == "missing":
        what, value, allowed = "is missing", None, "a value"
    elif kind == "extra_forbidden":
        what, allowed = "is not a known field", "only the documented fields"
    elif kind == "too_long":
        what, value = "has too many entries", len(value)
        allowed, remedy = f"up to {first['ctx']['max_length']}", "Keep the ones that matter."
    return InputError(
        f"{field or 'the case'} {what}{more}",
        value=value,
        allowed=allowed,
        remedy=remedy,
        field=field,
    )


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
            raise refusal("hub_out_of_reach", value=text, field=field)
        where = "its place" if mark is Reaches.FILE_UNLESS_CONTENT else "the fields beside it"
        raise refusal("file_out_of_reach", value=text, field=field, where=where)


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
