"""The base class of every noun: frozen, without unknown fields, written as JSON."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo


class Noun(BaseModel):
    """A frozen value that refuses unknown fields.

    Its validator is built on first use, because a short command needs only a few.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), defer_build=True
    )

    def changed(self, **fields: Any) -> Self:
        """Return a copy with other values in some fields, which are not validated again."""
        return self.model_copy(update=fields)

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the value as JSON text."""
        return self.model_dump_json(indent=indent)


def annotated(field: FieldInfo) -> Iterator[object]:
    """Yield every type in the annotation of a field, and every check beside one."""
    yield from _flat(field.annotation)
    yield from field.metadata


def _flat(annotation: Any) -> Iterator[object]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *checks = get_args(annotation)
        yield from _flat(inner)
        for check in checks:
            yield from check.metadata if isinstance(check, FieldInfo) else (check,)
    elif origin is None or origin is Literal:
        yield annotation
    else:
        yield origin
        for part in get_args(annotation):
            yield from _flat(part)
