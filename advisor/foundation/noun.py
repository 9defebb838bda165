"""The base class of every noun: frozen, without unknown fields, written as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Noun(BaseModel):
    """A frozen value that refuses unknown fields.

    Its validator is built on first use, because a short command needs only a few.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), defer_build=True
    )

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the value as JSON text."""
        return self.model_dump_json(indent=indent)
