"""Memory and speed against one quantity that a person can change."""

from dataclasses import dataclass
from typing import Final, Literal

from advisor.architecture.table.sample import Unit
from advisor.foundation.formatting import memory
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range

Variable = Literal["micro_batch", "concurrency", "sequence_length", "context"]


@dataclass(frozen=True, slots=True)
class _Words:
    """The name of a curve and where its memory ends, with ``{size}`` and ``{usable}`` open."""

    title: str
    none_fits: str
    all_fit: str
    some_fit: str
    larger: str = ""
    """What a value above the knee is; empty where the knee says nothing."""


_WORDS: Final = {
    "micro_batch": _Words(
        title="Micro-batch",
        none_fits="No micro-batch that was tried fits in {usable}.",
        all_fit="Every micro-batch that was tried fits, up to {size}.",
        some_fit="The largest micro-batch that fits is about {size}.",
        larger="a larger one adds",
    ),
    "concurrency": _Words(
        title="Requests at a time",
        none_fits="No number of requests that was tried fits in {usable}.",
        all_fit="Every number of requests that was tried fits, up to {size} at a time.",
        some_fit="About {size} requests fit at a time.",
        larger="more requests add",
    ),
    "sequence_length": _Words(
        title="Sequence length (tokens)",
        none_fits="No sequence length that was tried fits in {usable}.",
        all_fit="Every sequence length that was tried fits, up to {size} tokens.",
        some_fit="The longest sequence that fits has about {size} tokens.",
    ),
    "context": _Words(
        title="Context (tokens)",
        none_fits="No context that was tried fits in {usable}.",
        all_fit="Every context that was tried fits, up to {size} tokens.",
        some_fit="The longest context that fits has about {size} tokens.",
    ),
}


class CurvePoint(Noun):
    """One configuration of a curve."""

    value: int
    memory_bytes: Range
    """On the fullest accelerator. [bytes]"""
    usable_bytes: float
    speed_per_s: Range
    """Units of the whole job; generated tokens for text. [1/s]"""
    unit: Unit = Unit.TOKEN
    """Unit of the speed."""
    fits: bool
    """The high end of the range fits."""


class Curve(Noun):
    """Memory and speed against one quantity, with all else unchanged."""

    variable: Variable
    chosen: int
    """Its value in the case."""
    points: tuple[CurvePoint, ...]
    """Smallest value first."""
    usable_bytes: float
    limit: int
    """Largest value that fits, within 2 %; 0 if none fits."""
    open_ended: bool
    """Every tried value fits, and the limit is the largest of them."""
    knee: int | None
    """Smallest value tried that reaches 95 % of the best speed that fits."""

    @property
    def title(self) -> str:
        """What changes along the curve."""
        return _WORDS[self.variable].title

    @property
    def sentence(self) -> str:
        """The largest value that fits and where the speed flattens."""
        words = _WORDS[self.variable]
        if not self.limit:
            return words.none_fits.format(usable=memory(self.usable_bytes))
        text = words.all_fit if self.open_ended else words.some_fit
        text = text.format(size=f"{self.limit:,}")
        if self.knee is not None and words.larger:
            text += f" From {self.knee:,} on, {words.larger} less than 5 % of speed."
        return f"{text} Chosen: {self.chosen:,}."
