"""Terms of an estimate, with title, formula in symbols, values of the case and source."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.noun import Noun, read_mapping
from advisor.foundation.quantities import Evidence, Term

ASSUMED_SHAPE_WIDENING: Final = 1.1
"""A parameter count alone gives weights and FLOPs, but not the shape: the bounds widen by this
factor. Llama, Mistral, Qwen and Gemma models of 7 to 9 billion parameters differ by about
this factor in activation bytes per token."""


def shape_widening(architecture: ModelArchitecture) -> float:
    """Factor by which bounds widen if the shape is assumed."""
    return ASSUMED_SHAPE_WIDENING if architecture.evidence is Evidence.ASSUMED else 1.0


class TermText(Noun):
    """Text of one term."""

    title: str
    formula: str
    values: str = ""
    """The formula with the values of a case, whose facts are names in braces."""
    reference: str | None = None


@cache
def term_texts() -> Mapping[str, Mapping[str, TermText]]:
    """Return the texts of ``data/terms.yaml``, by kind of estimate and name of the term."""
    return read_mapping("terms.yaml", dict[str, dict[str, TermText]])


def term(
    kind: str, name: str, value: float, unit: str, substituted: str = "", /, **facts: object
) -> Term:
    """Return the term ``name`` of a kind of estimate with a value, and the facts of its text."""
    text = term_texts()[kind][name]
    return Term(
        name=name,
        title=text.title.format(**facts),
        value=value,
        unit=unit,
        formula=text.formula.format(**facts),
        substituted=substituted or text.values.format(**facts),
        reference=text.reference,
    )


def time_terms(kind: str, shares: Mapping[str, float], /, **facts: object) -> tuple[Term, ...]:
    """Return the terms of a time that are not zero. [s]"""
    return tuple(
        term(kind, name, value, "s", **facts) for name, value in shares.items() if value > 0
    )


def memory_terms(kind: str, parts: Mapping[str, float], /, **facts: object) -> tuple[Term, ...]:
    """Return the terms of a memory, of zero too. [bytes]"""
    return tuple(term(kind, name, value, "bytes", **facts) for name, value in parts.items())
