"""What a lesson holds: a question, its answer in sentences, and bars to draw."""

from typing import Self

from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range


class Bar(Noun):
    """One bar of a lesson's chart."""

    label: str
    value: Range
    """In the unit of the chart."""
    text: str
    """The value in words, with its unit."""
    chosen: bool = False
    """It is the plan that the case gets."""

    @classmethod
    def of(
        cls,
        label: str,
        value: Range | float,
        text: str,
        *,
        scale: float = 1.0,
        chosen: bool = False,
    ) -> Self:
        """Return a bar; ``scale`` divides the value into the chart's unit."""
        span = value if isinstance(value, Range) else Range.exact(value)
        return cls(label=label, value=span.scaled(1 / scale), text=text, chosen=chosen)


class Figures(Noun):
    """What a case shows of a lesson."""

    sentences: tuple[str, ...]
    """With figures of the case, the answer first."""
    axis: str = ""
    """What the bars show, with its unit."""
    bars: tuple[Bar, ...] = ()
    limit: float | None = None
    """A bound to draw across the bars, in their unit."""
    limit_words: str = ""


class Lesson(Noun):
    """A question, answered with figures of a case."""

    topic: str
    question: str
    belief: str
    """What many people believe instead."""
    figures: Figures
    teaches: tuple[str, ...]
    """Why it is so: sentences that hold for every case of this work."""
    references: tuple[str, ...]
    """Keys of the registry of sources."""


class Lessons(Noun):
    """Several lessons about one case."""

    lessons: tuple[Lesson, ...]
