"""Terms of an estimate, with title, formula in symbols and source."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.noun import Noun, read_mapping
from advisor.foundation.quantities import Evidence, Term

EMPTY: Final[Mapping[str, str]] = MappingProxyType({})

ASSUMED_SHAPE_WIDENING: Final = 1.1
"""A parameter count alone gives weights and FLOPs, but not the shape: the bounds widen by this
factor. Llama, Mistral, Qwen and Gemma models of 7 to 9 billion parameters differ by about
this factor in activation bytes per token."""


def shape_widening(architecture: ModelArchitecture) -> float:
    """Factor by which bounds widen if the shape is assumed."""
    return ASSUMED_SHAPE_WIDENING if architecture.evidence is Evidence.ASSUMED else 1.0


class TermText(Noun):
    """Static text of one term."""

    title: str
    formula: str
    reference: str | None = None


@cache
def term_texts() -> Mapping[str, Mapping[str, TermText]]:
    """Return the texts of ``data/terms.yaml``, by kind of estimate and name of the term."""
    return read_mapping("terms.yaml", dict[str, dict[str, TermText]])


def term(kind: str, name: str, value: float, unit: str, substituted: str = "") -> Term:
    """Return the term ``name`` of a kind of estimate with a value."""
    text = term_texts()[kind][name]
    return Term(
        name=name,
        title=text.title,
        value=value,
        unit=unit,
        formula=text.formula,
        substituted=substituted,
        reference=text.reference,
    )


def time_terms(
    kind: str, shares: Mapping[str, float], substituted: Mapping[str, str] = EMPTY
) -> tuple[Term, ...]:
    """Return the terms of a time that are not zero. [s]"""
    return tuple(
        term(kind, name, value, "s", substituted.get(name, ""))
        for name, value in shares.items()
        if value > 0
    )


def memory_terms(
    kind: str, parts: Mapping[str, float], substituted: Mapping[str, str] = EMPTY
) -> tuple[Term, ...]:
    """Return the terms of a memory, of zero too. [bytes]"""
    return tuple(
        term(kind, name, value, "bytes", substituted.get(name, "")) for name, value in parts.items()
    )
