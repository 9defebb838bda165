"""The base of every noun: frozen, closed, and able to print itself as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Noun(BaseModel):
    """A frozen value that refuses unknown fields.

    Its validator is built when it is first needed: a short command needs few of them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), defer_build=True
    )

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the value as JSON text."""
        return self.model_dump_json(indent=indent)
